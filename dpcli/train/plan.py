"""What a training run will do, settled before any data is read: the mechanism, its noise, its steps, and what they cost."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcli.audit.settings import read_settings
from dpcli.errors import CannotCertify, InputError
from dpcli.mechanisms.gaussian import GaussianSpec
from dpcli.mechanisms.sampling import Poisson, Runs, Unsampled
from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.limits import read_bytes
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.pipeline.read import parse, targets
from dpcli.train.settings import Train, read_training

if TYPE_CHECKING:
    from dpcli.accounting import Account

SCHEMES = (Poisson, Unsampled)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, as it is accounted and as it is done.

    pipeline: with every number in place of "calibrate". entry: what a step performs. steps: how many; expected_batch: what the noisy sum
    is divided by, a public number and never the number of records drawn.
    """

    path: str
    pipeline: Pipeline
    train: Train
    entry: Entry
    noise_multiplier: float
    steps: int
    expected_batch: float
    account: Account
    canaries: int = 0  # records of [audit] that do not exist, each inserted by a fair coin

    def fingerprint(self) -> str:
        """SHA-256 of everything that a resumed run must not have changed."""
        content = {"pipeline": tables_of(self.pipeline), "train": asdict(self.train), "canaries": self.canaries}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def partial(self, steps: int) -> Pipeline:
        """The pipeline with so many of the steps: what a run has cost so far, or what it repeats."""
        changed = replace(self.entry, steps=steps, epochs=None)
        return replace(
            self.pipeline, mechanisms=tuple(changed if e.name == self.entry.name else e for e in self.pipeline.mechanisms)
        )


def plan_of(path: str) -> Plan:
    """The plan of a file, its noise solved for where it says "calibrate".

    Raises:
        InputError: the file cannot be read, or asks for what the engine cannot honour. CannotCertify: nobody can say what it costs.
    """
    from dpcli.accounting import account

    _, train = read_training(path)
    pipeline = _solved(path)
    entry = _entry(pipeline, train, path)
    if pipeline.privacy.dataset_size is None:
        raise InputError(
            f"{path}: privacy.dataset_size: expected the declared number of records, which the sum is divided by, found none"
        )
    assert isinstance(entry.spec, GaussianSpec) and entry.spec.noise_multiplier is not None
    found = account(pipeline)
    if found.winner is None:
        raise CannotCertify(f"{path}: no finite epsilon can be certified for this run")
    rate = _rate(entry, pipeline.privacy.dataset_size)
    runs = Runs(None if entry.epochs is not None else entry.steps, entry.epochs, pipeline.privacy.dataset_size)
    steps = runs.steps_at(rate if rate != 1 else None)
    expected = float(rate * pipeline.privacy.dataset_size)
    canaries = read_settings(read_bytes(path), path).canaries or 0
    return Plan(path, pipeline, train, entry, entry.spec.noise_multiplier, steps, expected, found, canaries)


def _solved(path: str) -> Pipeline:
    from dpcli.calibration_file import calibrate_file

    data = read_bytes(path)
    if not targets(data, path):
        return parse(data, path)
    return calibrate_file(path, "noise", None, None, (), None, 1).pipeline


def _entry(pipeline: Pipeline, train: Train, path: str) -> Entry:
    """The entry that a step performs. Raises InputError where there is none, several, or one that the engine cannot perform."""
    named = [e for e in pipeline.mechanisms if e.name == train.mechanism] if train.mechanism else list(pipeline.mechanisms)
    fitting = [e for e in named if isinstance(e.spec, GaussianSpec)]
    if len(fitting) != 1:
        names = ", ".join(e.name for e in fitting) or "none"
        raise InputError(f"{path}: train.mechanism: expected the name of the gaussian entry that a step performs, found {names}")
    entry = fitting[0]
    place = f'{path}: mechanism["{entry.name}"]'
    if entry.spec.noise_multiplier is None:  # type: ignore[attr-defined]
        raise InputError(
            f"{place}: expected noise_multiplier, noise over the clipping norm, found sigma with a sensitivity of its own"
        )
    if entry.partition is not None:
        raise InputError(f"{place}: expected no partition, found one: training runs on all of the data")
    if not isinstance(entry.sampling, (*SCHEMES, type(None))) or getattr(entry.sampling, "max_batch_size", None) is not None:
        raise InputError(f"{place}: sampling: expected poisson or none, which training performs, found {entry.sampling}")
    if pipeline.privacy.max_contributions not in (None, 1):
        raise InputError(f"{path}: privacy.max_contributions: expected 1, found more: training by units is not implemented")
    return entry


def _rate(entry: Entry, dataset_size: int) -> Fraction:
    if entry.sampling is None or isinstance(entry.sampling, Unsampled):
        return Fraction(1)
    rate = entry.sampling.exact_rate(dataset_size)
    assert rate is not None
    return rate
