"""Rules about delta: too large for the dataset, impossible to check, or impossible to reach.

A mechanism may publish one record in 1/delta outright and still be (0, delta)-private, so a delta of 1 / dataset_size or more is an error
wherever it comes from. run.py applies the rules to a file. `judged_deltas` applies them to deltas from elsewhere: a flag, a policy of the
gate, a ledger or a sum of files. Commands that check no other rule call `delta_errors`. Without a number of records nothing can be checked,
which is a finding of its own if delta is above 0. A rule is a `RuleInfo` (rule_info.py), a *diagnostic* its finding with a place in the
file, and an *entry* a [[mechanism]] table. Examples are built from HEAD and TRAIN, which together are a file with one run of DP-SGD;
`edited` replaces a part of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import expm1, isfinite, log1p
from typing import NamedTuple

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import part_names
from dpcli.file.toml.findings import Diagnostic, Path, Severity
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries

LARGE_DELTA_CODE, UNKNOWN_SIZE_CODE = "DP105", "DP306"
MISSING = "missing, so nothing checks whether delta is small enough"
NO_SIZE = f"dataset_size is {MISSING}"
SMALLEST_DELTA = 1e-300  # near the smallest floats, at about 1e-308, formulas lose digits
ROUNDED_DOWN = 1.0 - 1e-9  # factor that keeps the rounding errors of a lower bound from raising a finding
LARGEST_SPENT = 1.0 - 1e-9  # largest delta of one step that is counted, so that the logarithm of its complement is finite


def judged_deltas(deltas: Mapping[str, float | None], dataset_size: int | None, path: str) -> tuple[Diagnostic, ...]:
    """Return the findings of DP105 about deltas from outside of the file, such as those of flags, a policy, a ledger or a sum of files.

    Without a dataset size, the result is a finding of DP306 about the first delta above 0, if there is one. The findings have no line.

    Args:
        deltas: The deltas by their names in messages; None for a delta that is not given.
        dataset_size: Number of records; None if it is unknown. For several files it is the largest of their numbers, whose limit on delta
            is the smallest, so that it implies the limits of the others.
    """
    if dataset_size is None:
        unchecked = [name for name, delta in deltas.items() if delta is not None and delta > 0][:1]
        return tuple(Diagnostic(UNKNOWN_SIZE_CODE, "warning", NO_SIZE, path, name) for name in unchecked)
    diagnostics = []
    for name, delta in deltas.items():
        problem = None if delta is None else size_problem(delta, dataset_size)
        if problem is not None:
            diagnostics.append(Diagnostic(LARGE_DELTA_CODE, problem.severity, problem.message, path, name))
    return tuple(diagnostics)


def delta_errors(pipeline: Pipeline, delta: float | None) -> tuple[Diagnostic, ...]:
    """Return the error of DP105 about the delta of a number, for commands that check no other rule; an empty tuple if there is none."""
    judged = judged_deltas({"privacy.delta": delta}, pipeline.privacy.dataset_size, pipeline.path or "<file>")
    return tuple(diagnostic for diagnostic in judged if diagnostic.severity == "error")


class DeltaProblem(NamedTuple):
    """A message about a delta that is too large for the number of records, and its severity."""

    message: str
    severity: Severity


def size_problem(delta: float, dataset_size: int | None) -> DeltaProblem | None:
    """Return the problem of a delta that is too large for the number of records.

    It is an error from 1/dataset_size on, and a warning above a tenth of that. The result is None for other deltas, for an unknown number
    of records, and for an infinite or NaN delta, which is refused elsewhere.
    """
    if dataset_size is None or not isfinite(delta):
        return None
    # A mechanism that publishes each record with probability delta publishes this number on average. The product is exact, so that rounding
    # does not decide at delta = 1/dataset_size.
    expected_victims = Fraction(repr(delta)) * dataset_size
    if expected_victims >= 1:
        return DeltaProblem(f"expected a delta below 1/dataset_size = {1 / dataset_size:.7g}, found {delta:g}", "error")
    if expected_victims > Fraction(1, 10):  # this limit decides about a warning alone
        limit = f"1/(10 dataset_size) = {0.1 / dataset_size:.7g}"
        return DeltaProblem(f"expected a delta of at most {limit}, found {delta:g}", "warning")
    return None


def delta_mark(delta: float | None, dataset_size: int | None) -> str:
    """Return " (error DP105)" or " (warning DP105)", a short form of the problem of a delta; "" if there is none."""
    problem = None if delta is None else size_problem(delta, dataset_size)
    return "" if problem is None else f" ({problem.severity} {LARGE_DELTA_CODE})"


def _stated_deltas(pipeline: Pipeline) -> Iterator[tuple[Path, float]]:
    """Yield privacy.delta and budget.delta with their paths, as far as the file states them."""
    for table, values in (("privacy", pipeline.privacy), ("budget", pipeline.budget)):
        if values is not None and values.delta is not None:
            yield (table, "delta"), values.delta


def _large_deltas(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, delta in _stated_deltas(pipeline):
        problem = size_problem(delta, pipeline.privacy.dataset_size)
        if problem is not None:
            yield RuleFinding(path, problem.message, problem.severity)


def _unknown_sizes(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.dataset_size is None and any(delta > 0 for _, delta in _stated_deltas(pipeline)):
        yield RuleFinding(("privacy", "dataset_size"), MISSING)


def _unreachable_deltas(pipeline: Pipeline) -> Iterator[RuleFinding]:
    stated = dict(_stated_deltas(pipeline))
    for path, delta in stated.items():
        if 0.0 < delta < SMALLEST_DELTA:
            yield RuleFinding(
                path, f"expected a delta of at least {SMALLEST_DELTA:g}, the limit of floating point, found {delta:g}"
            )
    is_pure = 0.0 in stated.values()  # the file states delta = 0, at which a type with `needs_delta` has no finite epsilon
    for path, entry in entries(pipeline):
        if is_pure and entry.spec.needs_delta and not _costs_nothing(entry, pipeline.privacy.dataset_size):
            message = f'"{entry.type}" has no finite epsilon at delta = 0: state a delta > 0, or use a pure mechanism'
            yield RuleFinding((*path, "type"), message)
    needed = _least_delta(pipeline)
    for path, delta in stated.items():
        if 0.0 < delta < needed * ROUNDED_DOWN:
            message = (
                f"expected more than the deltas that the mechanisms need, {needed:.7g}, found {delta:g}: no epsilon is finite there"
            )
            yield RuleFinding(path, message)


def _costs_nothing(entry: Entry, dataset_size: int | None) -> bool:
    """Return whether an entry costs nothing because it never samples a record, or because its stated cost is 0.

    A stated cost is read by the names of the keys "rho" and "values", the Renyi divergences (mechanisms/stated/renyi.py). A type without
    such a key states no cost of this kind.
    """
    is_never_sampled = entry.sampling is not None and entry.sampling.exact_rate(dataset_size) == 0
    has_no_rho = getattr(entry.spec, "rho", None) == 0
    has_no_renyi_divergence = set(getattr(entry.spec, "values", ())) == {0.0}
    return is_never_sampled or has_no_rho or has_no_renyi_divergence


def _least_delta(pipeline: Pipeline) -> float:
    """Return a lower bound on the deltas at which an accountant can give a finite epsilon: 1 - product of (1 - delta) over all runs.

    Entries with sampling or a partition, and parts of other entries, are left out, because they may need less than their own delta.
    """
    parts = {name for entry in pipeline.mechanisms for name in part_names(entry.spec)}
    log_complement = 0.0  # logarithm of the product; log1p and expm1 keep the digits of small deltas
    for entry in pipeline.mechanisms:
        if entry.sampling is None and entry.partition is None and entry.name not in parts:
            log_complement += entry.steps * log1p(-min(entry.spec.delta_spent, LARGEST_SPENT))
    return -expm1(log_complement)


LARGE_DELTA = RuleInfo(
    code=LARGE_DELTA_CODE,
    severity="error",
    title="delta too large for the dataset",
    what="A delta at which an epsilon is judged or printed is at least 1/dataset_size (an error), or above a tenth of that (a "
    "warning). The rule applies to privacy.delta, budget.delta, --delta, and the delta of a policy, a ledger or a sum over files. For a "
    "sum over files the largest dataset counts.",
    why="A mechanism that publishes one random record in full has epsilon = 0 and delta = 1/dataset_size. A "
    "delta of this size therefore promises nothing to the person whose record is drawn.",
    fix="Choose a delta well below 1/dataset_size, at most a tenth of it.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 2.3; Ponomareva et al. "
    "2023, arXiv:2303.00654",
    bad=edited(HEAD, "1e-6", "1e-4") + TRAIN,
    good=HEAD + TRAIN,
    check=_large_deltas,
)

UNKNOWN_SIZE = RuleInfo(
    code=UNKNOWN_SIZE_CODE,
    title="delta without a dataset size",
    what="The file, a flag, a policy or a ledger states a delta above 0, and the file does not state privacy.dataset_size. Rule DP105 "
    "then cannot be checked.",
    why="Whether a delta is harmless depends on the number of records: 1e-6 is small for ten thousand, and useless for "
    "ten million.",
    fix="State privacy.dataset_size, a number that is declared public. An upper bound suffices if no batch_size depends on it.",
    source="Ponomareva et al. 2023, arXiv:2303.00654",
    bad=edited(HEAD, "dataset_size = 60_000\n", "") + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    good=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    check=_unknown_sizes,
)

SPENT = """
[[mechanism]]
name = "answers"
type = "approx-dp"
epsilon = 0.05
delta = 1e-7
steps = 20
"""

UNREACHABLE_DELTA = RuleInfo(
    code="DP109",
    title="a delta at which no epsilon can be finite",
    what="privacy.delta or budget.delta is 0, and the file has Gaussian noise or another mechanism without a pure epsilon. Or it is below"
    " the sum of the deltas that approx-dp mechanisms state. Or it is below 1e-300, the limit of floating point.",
    why="Below its numerical limit an accountant returns inf, an error, or a number that consists of rounding errors. For accountants "
    "on a grid the limit is about 1e-15. dpcli prints inf, and the file passes no gate.",
    fix="State a delta above those of the mechanisms. For delta = 0, use mechanisms with pure epsilon (laplace, exponential, ...).",
    source="prv_accountant issue 17, https://github.com/microsoft/prv_accountant/issues/17; Dwork & Roth 2014, section 3.5",
    bad=HEAD + SPENT,
    good=HEAD + edited(SPENT, "steps = 20", "steps = 5"),
    check=_unreachable_deltas,
)
