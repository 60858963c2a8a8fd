"""Rules about delta: too large for the dataset, impossible to check, or impossible to reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import expm1, isfinite, log1p

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import named
from dpcli.file.toml.findings import Diagnostic, Path, Severity
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries

CODE, UNKNOWN = "DP105", "DP306"
MISSING = "missing, so nothing checks whether delta is small enough"
NO_SIZE = f"dataset_size is {MISSING}"
SMALLEST = 1e-300  # above the smallest floats, where formulas lose digits


def judged_deltas(given: Mapping[str, float | None], dataset_size: int | None, path: str) -> tuple[Diagnostic, ...]:
    """Return the findings of DP105 about deltas from outside of the file: of flags, a policy, a ledger, a sum.

    given: each by its name in messages. dataset_size: the largest of several files, which needs the smallest delta.
    Without a size, the first delta above 0 is reported once, by DP306.
    """
    if dataset_size is None:
        unchecked = [name for name, delta in given.items() if delta is not None and delta > 0][:1]
        return tuple(Diagnostic(UNKNOWN, "warning", NO_SIZE, path, name) for name in unchecked)
    judged = ((name, size_problem(delta, dataset_size)) for name, delta in given.items() if delta is not None)
    return tuple(Diagnostic(CODE, problem[1], problem[0], path, name) for name, problem in judged if problem is not None)


def size_problem(delta: float, dataset_size: int | None) -> tuple[str, Severity] | None:
    """Return the fault of a delta for this many records, and its severity; None for a small one, or an unknown number of records."""
    if dataset_size is None or not isfinite(delta):  # the reader refuses other deltas
        return None
    expected_victims = Fraction(repr(delta)) * dataset_size  # exact: at delta = 1/size the rule must not depend on rounding
    if expected_victims >= 1:
        return f"expected a delta below 1/dataset_size = {1 / dataset_size:.7g}, found {delta:g}", "error"
    if expected_victims > Fraction(1, 10):
        return f"expected a delta of at most 1/(10 dataset_size) = {0.1 / dataset_size:.7g}, found {delta:g}", "warning"
    return None


def delta_mark(delta: float | None, dataset_size: int | None) -> str:
    """Return ` (error DP105)` or ` (warning DP105)` for a line without room for more, "" for a small delta."""
    problem = None if delta is None else size_problem(delta, dataset_size)
    return "" if problem is None else f" ({problem[1]} {CODE})"


def _stated(pipeline: Pipeline) -> Iterator[tuple[Path, float]]:
    """Yield every delta that the file itself sets as a target."""
    for table, values in (("privacy", pipeline.privacy), ("budget", pipeline.budget)):
        if values is not None and values.delta is not None:
            yield (table, "delta"), values.delta


def large_deltas(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, delta in _stated(pipeline):
        problem = size_problem(delta, pipeline.privacy.dataset_size)
        if problem is not None:
            yield RuleFinding(path, *problem)


def _unknown_size(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.dataset_size is None and any(delta > 0 for _, delta in _stated(pipeline)):
        yield RuleFinding(("privacy", "dataset_size"), MISSING)


def _unreachable_delta(pipeline: Pipeline) -> Iterator[RuleFinding]:
    stated = dict(_stated(pipeline))
    for path, delta in stated.items():
        if 0.0 < delta < SMALLEST:
            yield RuleFinding(path, f"expected a delta of at least {SMALLEST:g}, where floating point ends, found {delta:g}")
    for path, entry in entries(pipeline):
        if 0.0 in stated.values() and entry.spec.needs_delta and not _free(entry, pipeline.privacy.dataset_size):
            yield RuleFinding(
                (*path, "type"), f'"{entry.type}" has no finite epsilon at delta = 0: state a delta > 0, or use a pure mechanism'
            )
    spent = _spent(pipeline)
    for path, delta in stated.items():
        if 0.0 < delta < spent * (1.0 - 1e-9):
            message = (
                f"expected more than the deltas that the mechanisms need, {spent:.7g}, found {delta:g}: no epsilon is finite there"
            )
            yield RuleFinding(path, message)


def _free(entry: Entry, dataset_size: int | None) -> bool:
    """Return whether an entry costs nothing although its type does: it never samples a record, or states 0."""
    never = entry.sampling is not None and entry.sampling.exact_rate(dataset_size) == 0
    return never or getattr(entry.spec, "rho", None) == 0 or set(getattr(entry.spec, "values", ())) == {0.0}


def _spent(pipeline: Pipeline) -> float:
    """Return a delta that the entries need for certain, whatever the accountant; 0 for what sampling or parallel parts may lower."""
    parts = {name for entry in pipeline.mechanisms for name in named(entry.spec)}
    log_kept = 0.0
    for entry in pipeline.mechanisms:
        if entry.sampling is None and entry.partition is None and entry.name not in parts:
            log_kept += entry.steps * log1p(-min(entry.spec.delta_spent, 1.0 - 1e-9))
    return -expm1(log_kept)


LARGE_DELTA = RuleInfo(
    code=CODE,
    severity="error",
    title="delta too large for the dataset",
    what="A delta at which something is judged or printed is at least 1/dataset_size (an error), or above a tenth of that (a "
    "warning): privacy.delta, budget.delta, --delta, a policy's, a ledger's, that of a sum over files (whose largest dataset counts).",
    why="A mechanism that publishes one record, drawn at random, in full has epsilon = 0 and delta = 1/dataset_size. A "
    "delta of that size therefore promises nothing to the one whose record is drawn.",
    fix="Choose a delta well below 1/dataset_size, at most a tenth of it.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 2.3; Ponomareva et al. "
    "2023, arXiv:2303.00654",
    bad=edited(HEAD, "1e-6", "1e-4") + TRAIN,
    good=HEAD + TRAIN,
    check=large_deltas,
)

UNKNOWN_SIZE = RuleInfo(
    code=UNKNOWN,
    title="delta without a dataset size",
    what="A delta above 0 is stated, in the file or outside of it, and privacy.dataset_size is not, so that rule DP105 cannot be "
    "checked.",
    why="Whether a delta is harmless depends on the number of records: 1e-6 is small for ten thousand, and useless for "
    "ten million.",
    fix="State privacy.dataset_size, a number declared public (an upper bound will do where no batch_size depends on it).",
    source="Ponomareva et al. 2023, arXiv:2303.00654",
    bad=edited(HEAD, "dataset_size = 60_000\n", "") + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    good=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    check=_unknown_size,
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
    what="privacy.delta or budget.delta is 0 with Gaussian noise or another mechanism that is never pure; or it is below"
    " the sum of the deltas that approx-dp mechanisms state; or below 1e-300, where floating point ends.",
    why="Below its numerical floor an accountant answers with inf, an error, or a number that is only rounding: grid "
    "accountants have their floor at about 1e-15. dpcli says inf, and the file will pass no gate.",
    fix="State a delta above the mechanisms' own, or use mechanisms with pure epsilon (laplace, exponential, ...) for delta = 0.",
    source="prv_accountant issue 17, https://github.com/microsoft/prv_accountant/issues/17; Dwork & Roth 2014, section 3.5",
    bad=HEAD + SPENT,
    good=HEAD + edited(SPENT, "steps = 20", "steps = 5"),
    check=_unreachable_delta,
)
