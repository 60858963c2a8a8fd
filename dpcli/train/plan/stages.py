"""The stages of a run, one after the other: entries of the file, each accounted for step by step or as a whole.

Several entries are a schedule: each has its noise, its sampling and its steps. A stage of independent noise may stop anywhere and costs
the steps that it took. One pass over shuffled data, or one run of correlated noise, costs the whole however far it went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.model import Entry
from dpcli.file.toml.findings import Findings, Path
from dpcli.file.toml.shown import first_names, quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, Cyclic, FixedSize, OncePerEpoch, Poisson, Scheme, Unsampled
from dpcli.mechanisms.spec import Spec
from dpcli.train.plan.settings import Train
from dpcli.train.sampling.batch_samplers import pass_length, slots

STEPWISE = (Poisson, FixedSize, Unsampled)


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive steps of one entry.

    start: number of steps before it. expected_batch: what a noisy sum is divided by: public, never the number of records drawn.
    indivisible: it counts as one (pass, run) however many of its steps are taken. epochs: and that one is an epoch of the entry.
    """

    entry: Entry
    start: int
    steps: int
    expected_batch: float
    indivisible: bool = False
    epochs: bool = False

    @property
    def stop(self) -> int:
        return self.start + self.steps

    @property
    def spec(self) -> Spec:
        return self.entry.spec

    @property
    def noise_multiplier(self) -> float:
        """Return the noise over the clipping norm."""
        return float(self.spec.noise_multiplier)  # type: ignore[attr-defined]

    def amount(self, steps: int) -> int:
        """Return what so many of its steps count as: steps, or one whole."""
        return min(steps, 1) if self.indivisible else steps


def stages(entry: Entry, dataset_size: int, start: int) -> Iterator[Stage]:
    """Yield the stages of one entry. Raises InputError for sampling that training does not perform."""
    if isinstance(entry.spec, CorrelatedSpec):
        yield from _runs(entry, entry.spec, dataset_size, start)
    elif isinstance(entry.sampling, (*STEPWISE, type(None))):
        rate = _rate(entry.sampling, dataset_size)
        yield Stage(entry, start, entry.runs(dataset_size).steps_at(rate if rate != 1 else None), float(rate * dataset_size))
    elif isinstance(entry.sampling, OncePerEpoch) and not isinstance(entry.sampling, Cyclic):
        yield from _passes(entry, entry.sampling, dataset_size, start)
    else:
        raise InputError(
            f'mechanism["{entry.name}"].sampling: expected a scheme that training performs (all but cyclic: shuffle costs the same), '
            f"found {entry.sampling.scheme}"
        )


def counted(entry: Entry, stages_: tuple[Stage, ...], amount: int) -> Entry:
    """Return the entry as it costs to do so much of it; amount: steps, runs or passes, whichever its stages count."""
    if stages_[0].epochs:
        return replace(entry, steps=1, epochs=float(amount))
    return replace(entry, steps=amount, epochs=None)


def _runs(entry: Entry, spec: CorrelatedSpec, dataset_size: int, start: int) -> Iterator[Stage]:
    """Yield a stage for each of the entry's `steps`, which is a run of correlated noise."""
    for run in range(entry.steps):
        yield Stage(entry, start + run * spec.iterations, spec.iterations, dataset_size / slots(spec), indivisible=True)


def _passes(entry: Entry, scheme: OncePerEpoch, dataset_size: int, start: int) -> Iterator[Stage]:
    rate = scheme.exact_rate(dataset_size)
    if rate is None:
        raise InputError(f'mechanism["{entry.name}"].sampling: expected a rate or a batch_size, found neither')
    times = scheme.participations if isinstance(scheme, BallsInBins) else 1
    length = int(times / rate) if isinstance(scheme, BallsInBins) else pass_length(scheme, dataset_size)
    total = entry.steps if entry.epochs is None else ceil(entry.epochs) * length
    for begin in range(0, total, length):
        yield Stage(entry, start + begin, min(length, total - begin), times * dataset_size / length, indivisible=True, epochs=True)


def _rate(scheme: Scheme | None, dataset_size: int) -> Fraction:
    rate = None if scheme is None else scheme.exact_rate(dataset_size)
    return Fraction(1) if rate is None else rate


PERFORMED = (GaussianSpec, CorrelatedSpec)  # whose noise training can add


def performed(spec: Spec) -> bool:
    """Return whether training can add this mechanism's noise."""
    return isinstance(spec, PERFORMED)


def judge_entries(train: Train, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each name in [train] that is of no entry which training performs; `tables` are those of a file valid otherwise."""
    types = {table["name"]: table["type"] for table in tables["mechanism"]}
    able = tuple(name for name, kind in types.items() if issubclass(load(MECHANISMS[kind]), PERFORMED))
    place: Path = ("train", "mechanism")
    if isinstance(train.mechanism, str):
        _judge_name(train.mechanism, place, types, able, findings)
        return
    if train.mechanism == ():
        findings.add("DP005", place, "the name of an entry, or several in their order", "an empty list")
    for index, name in enumerate(train.mechanism or ()):
        if name in (train.mechanism or ())[:index]:
            findings.add("DP005", (*place, index), "each entry once", f"{quoted(name)} again")
        else:
            _judge_name(name, (*place, index), types, able, findings)


def _judge_name(name: str, place: Path, types: Mapping[str, str], able: tuple[str, ...], findings: Findings) -> None:
    if name in able:
        return
    names = first_names(map(quoted, able), "the file has none")
    named = f"{quoted(name)} of type {quoted(types[name])}" if name in types else quoted(name)
    findings.add("DP005", place, f"an entry with Gaussian noise ({names})", named, did_you_mean(name, able))
