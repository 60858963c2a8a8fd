"""The stages of a training run. A stage is a sequence of steps of one *entry*, a mechanism of the file with its sampling and its steps.

plan.py calls `stages` for each entry that training performs. Several entries form a *schedule*, in which each entry has its own noise,
sampling and steps. What the accountant counts decides where a stage ends. If it counts steps, for example with independent noise on Poisson
samples, a stage may stop after any step, and costs the steps that it took. Other stages have their full cost as soon as one step was taken:
a pass over shuffled data, a run of correlated noise, or a run of which only the last model is released (`last-iterate`).

`judge_entries` checks train.mechanism against the other tables of the file when a file is read (plugin.py names it). A *finding* is a
problem of the file with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, sqrt
from typing import Any, Literal

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.model import Entry
from dpcli.file.toml.findings import Findings, Path
from dpcli.file.toml.shown import first_names, quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, Cyclic, FixedSize, OncePerEpoch, Poisson, Unsampled
from dpcli.mechanisms.spec import Spec
from dpcli.train.plan.descent import divisor_of
from dpcli.train.plan.settings import Train
from dpcli.train.sampling.batch_samplers import batch_count, pass_length

TRAINABLE = (GaussianSpec, CorrelatedSpec, LastIterateSpec)  # mechanisms whose noise training can add
STEPWISE = (Poisson, FixedSize, Unsampled, type(None))  # sampling schemes that are charged step by step


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive steps of one entry.

    Attributes:
        entry: Entry of the file that the steps perform.
        start: Number of steps of the run before the stage.
        expected_batch: Public number by which a noisy sum is divided. It is never the number of records drawn.
        charged_by: Unit that the accountant counts. A run of correlated noise or of last-iterate, or an epoch, counts as one, however many
            of its steps are taken.
    """

    entry: Entry
    start: int
    steps: int
    expected_batch: float
    charged_by: Literal["step", "run", "epoch"] = "step"

    @property
    def stop(self) -> int:
        """Return the number of steps of the run up to the end of the stage."""
        return self.start + self.steps

    @property
    def spec(self) -> Spec:
        """Return the mechanism of the entry."""
        return self.entry.spec

    @property
    def noise_multiplier(self) -> float:
        """Return the standard deviation of the noise in units of the clipping norm."""
        return float(self.spec.noise_multiplier)  # type: ignore[attr-defined]

    @property
    def largest_likely_batch(self) -> int:
        """Return a size that a batch exceeds in fewer than 1 of 10,000 steps. A rehearsal tries whether this size fits in memory."""
        if not isinstance(self.entry.sampling, Poisson | BallsInBins):
            return ceil(self.expected_batch)
        # At least four standard deviations above the mean, and 4 more for the longer tail of small batches.
        size = ceil(self.expected_batch + 4.0 * sqrt(self.expected_batch) + 4.0)
        cut_at = getattr(self.entry.sampling, "max_batch_size", None)
        return size if cut_at is None else min(size, cut_at)

    @property
    def indivisible(self) -> bool:
        """Return whether the stage costs the same however many of its steps are taken."""
        return self.charged_by != "step"

    def charged_amount(self, steps: int) -> int:
        """Return the number of units (steps, runs or epochs) that the accountant counts after `steps` steps of the stage."""
        return min(steps, 1) if self.indivisible else steps

    def entry_with(self, entry: Entry, amount: int) -> Entry:
        """Return an entry that is charged for `amount` steps, runs or epochs only.

        Args:
            entry: Entry of this stage, or an entry that shares its sample.
        """
        if self.charged_by == "epoch":
            return replace(entry, steps=1, epochs=float(amount))
        return replace(entry, steps=amount, epochs=None)  # the `steps` of an entry are its runs if it is charged by runs


def stages(entry: Entry, dataset_size: int, start: int) -> Iterator[Stage]:
    """Yield the stages of one entry. Raises InputError for sampling that training does not perform."""
    if isinstance(entry.spec, CorrelatedSpec):
        yield from _runs(entry, entry.spec, dataset_size, start)
    elif isinstance(entry.spec, LastIterateSpec):
        yield from _same_runs(entry, entry.spec.iterations, divisor_of(entry.spec, dataset_size), start)
    elif isinstance(entry.sampling, STEPWISE):
        yield _stepwise(entry, dataset_size, start)
    elif isinstance(entry.sampling, OncePerEpoch) and not isinstance(entry.sampling, Cyclic):
        yield from _epochs(entry, entry.sampling, dataset_size, start)
    else:
        raise InputError(
            f'mechanism["{entry.name}"].sampling: expected a scheme that training performs (any but cyclic; shuffle costs the same), '
            f"found {entry.sampling.scheme}"
        )


def _stepwise(entry: Entry, dataset_size: int, start: int) -> Stage:
    """Return the single stage of an entry that is charged step by step."""
    rate = None if entry.sampling is None else entry.sampling.exact_rate(dataset_size)
    steps = entry.runs(dataset_size).steps_at(rate)  # the stated steps, or the stated epochs of 1 / rate steps each, rounded up
    share = Fraction(1) if rate is None else rate  # without sampling, a step uses every record
    return Stage(entry, start, steps, float(share * dataset_size))


def _runs(entry: Entry, spec: CorrelatedSpec, dataset_size: int, start: int) -> Iterator[Stage]:
    """Yield a stage for each run of correlated noise."""
    rate = entry.sampling.exact_rate(dataset_size) if isinstance(entry.sampling, Poisson) else None
    expected_batch = dataset_size / batch_count(spec) if rate is None else float(rate * dataset_size)
    yield from _same_runs(entry, spec.iterations, expected_batch, start)


def _same_runs(entry: Entry, iterations: int, expected_batch: float, start: int) -> Iterator[Stage]:
    """Yield a stage of `iterations` steps for each run of an entry. The accountant counts runs, so their number is `entry.steps`."""
    for run in range(entry.steps):
        yield Stage(entry, start + run * iterations, iterations, expected_batch, "run")


def _epochs(entry: Entry, scheme: OncePerEpoch, dataset_size: int, start: int) -> Iterator[Stage]:
    """Yield a stage for each pass over the data. The last pass may be incomplete."""
    rate = scheme.exact_rate(dataset_size)
    if rate is None:
        raise InputError(f'mechanism["{entry.name}"].sampling: expected a rate or a batch_size, found neither')
    if isinstance(scheme, BallsInBins):
        participations, length = scheme.participations, int(scheme.participations / rate)  # rounded down, like the accountant's
    else:
        participations, length = 1, pass_length(scheme, dataset_size)
    # Stated epochs are rounded up, because an incomplete pass costs as much as a complete one.
    total = entry.steps if entry.epochs is None else ceil(entry.epochs) * length
    expected_batch = participations * dataset_size / length
    for begin in range(0, total, length):
        yield Stage(entry, start + begin, min(length, total - begin), expected_batch, "epoch")


def is_trainable(spec: Spec) -> bool:
    """Return whether training can add the noise of a mechanism."""
    return isinstance(spec, TRAINABLE)


def judge_entries(train: Train, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each name in train.mechanism that is not the name of an entry that training can perform.

    Args:
        tables: Tables of the file, which passed all other checks.
    """
    types = {table["name"]: table["type"] for table in tables["mechanism"]}
    trainable = tuple(name for name, type_name in types.items() if issubclass(load(MECHANISMS[type_name]), TRAINABLE))
    place: Path = ("train", "mechanism")
    if isinstance(train.mechanism, str):
        _judge_name(train.mechanism, place, types, trainable, findings)
        return
    names = train.mechanism or ()
    if train.mechanism == ():
        findings.add("DP005", place, "the name of an entry, or several names in order", "an empty list")
    for index, name in enumerate(names):
        if name in names[:index]:
            findings.add("DP005", (*place, index), "each entry once", f"{quoted(name)} again")
        else:
            _judge_name(name, (*place, index), types, trainable, findings)


def _judge_name(name: str, place: Path, types: Mapping[str, str], trainable: tuple[str, ...], findings: Findings) -> None:
    """Add a finding if a name is not the name of an entry that training can perform."""
    if name in trainable:
        return
    names = first_names(map(quoted, trainable), "the file has none")
    actual = f"{quoted(name)} of type {quoted(types[name])}" if name in types else quoted(name)
    findings.add("DP005", place, f"an entry with Gaussian noise ({names})", actual, did_you_mean(name, trainable))
