"""Rules about delta."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpcli.lint.rule import HEAD, TRAIN, Finding, RuleInfo, edited
from dpcli.pipeline.findings import Path
from dpcli.pipeline.model import Pipeline


def _stated(pipeline: Pipeline) -> Iterator[tuple[Path, float]]:
    """Every delta that the file itself sets as a target."""
    for table, values in (("privacy", pipeline.privacy), ("budget", pipeline.budget)):
        if values is not None and values.delta is not None:
            yield (table, "delta"), values.delta


def _large_delta(pipeline: Pipeline) -> Iterator[Finding]:
    size = pipeline.privacy.dataset_size
    if size is None:
        return
    for path, delta in _stated(pipeline):
        expected_victims = Fraction(repr(delta)) * size  # exact: at delta = 1/size the rule must not depend on rounding
        if expected_victims >= 1:
            yield Finding(path, f"expected a delta below 1/dataset_size = {1 / size:.7g}, found {delta:g}", "error")
        elif expected_victims > Fraction(1, 10):
            yield Finding(path, f"expected a delta of at most 1/(10 dataset_size) = {0.1 / size:.7g}, found {delta:g}", "warning")


def _unknown_size(pipeline: Pipeline) -> Iterator[Finding]:
    if pipeline.privacy.dataset_size is None and any(delta > 0 for _, delta in _stated(pipeline)):
        yield Finding(("privacy", "dataset_size"), "without dataset_size nothing can say whether delta is small enough")


LARGE_DELTA = RuleInfo(
    code="DP105",
    severity="error",
    waivable=True,
    title="delta too large for the dataset",
    what="privacy.delta or budget.delta is at least 1/dataset_size (an error), or above a tenth of that (a warning).",
    why="A mechanism that publishes one record, drawn at random, in full has epsilon = 0 and delta = 1/dataset_size. A "
    "delta of that size therefore promises nothing to the one whose record is drawn.",
    fix="Choose a delta well below 1/dataset_size, at most a tenth of it.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 2.3; Ponomareva et al. "
    "2023, arXiv:2303.00654",
    bad=edited(HEAD, "1e-6", "1e-4") + TRAIN,
    good=HEAD + TRAIN,
    check=_large_delta,
)

UNKNOWN_SIZE = RuleInfo(
    code="DP306",
    severity="warning",
    waivable=True,
    title="delta without a dataset size",
    what="A delta is stated and privacy.dataset_size is not, so that rule DP105 cannot be checked.",
    why="Whether a delta is harmless depends on the number of records: 1e-6 is small for ten thousand, and useless for "
    "ten million.",
    fix="State privacy.dataset_size, a number declared public (an upper bound will do where no batch_size depends on it).",
    source="Ponomareva et al. 2023, arXiv:2303.00654",
    bad=edited(HEAD, "dataset_size = 60_000\n", "") + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    good=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    check=_unknown_size,
)
