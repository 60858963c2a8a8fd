"""Replay of a program on two neighbouring datasets with equal randomness. The sums before noise are compared step by step.

A program under test is a function `(dataset, rng) -> iterable of Step`. It is called with equal generators on both datasets, and its draws
must not depend on the differing record. If batches are drawn record by record, the smaller dataset must have a placeholder for the missing
record (a mask), so that all other draws are equal.

Source: Cebere et al. 2026, arXiv:2602.17454 (the method of replays; the checks of the noise are not in that paper).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import binomial_tail
from dpcli.audit.decide import ReplayCheck
from dpcli.audit.noise_statistics import DETECTION_PROBABILITY, Statistic, detectable_factor, draws_of, statistics
from dpcli.audit.own_code import FAILURES, error_text
from dpcli.audit.power import least_count
from dpcli.base.errors import InputError
from dpcli.base.lazy import lazy
from dpcli.base.rounding import up
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

SAME_NOISE = 1e-4  # two draws of noise are equal if they differ by at most this share of the standard deviation
ROUNDING = 1e-6  # relative amount by which sums in single precision may exceed the bound


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step of a program under test.

    Attributes:
        sums: The clipped sums before noise, by name.
        batch: Ids of the records in the batch, in any order.
        noise: The noise that is added to the sums, by name; empty if only the sums are checked.
    """

    sums: Mapping[str, Any]
    batch: Sequence[Any] = ()
    noise: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declared:
    """Claims of a program about each step.

    Attributes:
        sensitivity: Largest L2 distance between the sums of neighbouring datasets.
        noise: Standard deviation of the noise; None if the noise is not checked.
        exchanged: Number of record ids in which the batches on the two datasets may differ.
        rate: Rate of Poisson sampling; None for other sampling schemes.
        records: Largest number of records that are sampled at this rate.
        fresh: Whether the noise of different steps is independent.
        significance: Significance of the statistical checks.
    """

    sensitivity: float
    noise: float | None
    exchanged: int = 1
    rate: float | None = None
    records: int | None = None
    fresh: bool = True
    significance: float = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A replay, which consists of the steps on both datasets with equal randomness.

    Attributes:
        left: Steps on the dataset with the record.
        right: Steps on the dataset without the record.
        restarted: True if each step on the right begins with the values that the steps on the left have released. Otherwise each side
            continues with its own releases. Values that are computed from releases, such as weights, an adaptive clipping norm, or the
            stopping time, may then differ in a correct program too.
    """

    left: tuple[Step, ...]
    right: tuple[Step, ...]
    restarted: bool = True

    @property
    def comparable(self) -> int:
        """The number of steps that begin with equal releases on both datasets.

        The last of these steps is the first in which the differing record takes part.
        """
        shorter = min(len(self.left), len(self.right))
        if self.restarted:
            return shorter
        for number, (left, right) in enumerate(zip(self.left, self.right, strict=False), 1):
            if _takes_part(left, right):
                return number
        return shorter


def steps_of(program: str, steps: Any) -> tuple[Step, ...]:
    """Return copies of the steps of a program.

    Args:
        program: Name of the program, for messages.
        steps: Value that the program returned.

    Raises:
        InputError: The program raised an error, returned no step, or returned a value that is not a Step.
    """
    try:
        copies = tuple(Step(_copy_arrays(step.sums), tuple(step.batch), _copy_arrays(step.noise)) for step in steps)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{program}: expected steps with sums, batch and noise (dpcli.audit.replay.Step): {error}") from None
    except FAILURES as error:  # a generator runs while it is iterated
        raise InputError(f"{program}: raised {error_text(error)}") from error
    if not copies:
        raise InputError(f"{program}: expected at least one step")
    return copies


def _copy_arrays(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of arrays by name, because the program may overwrite its arrays in later steps."""
    return {name: np.array(value, dtype=float) for name, value in table.items()}


def checks(pairs: Sequence[Pair], declared: Declared) -> tuple[ReplayCheck, ...]:
    """Return the results of all checks over all replays.

    Checks without a p-value are exact, so a single counterexample refutes the program. The statistical checks share `declared.significance`
    equally, and each divides its share among its comparisons (Bonferroni). The probability that a correct program fails any check is
    therefore at most `declared.significance`.
    """
    exact = (_steps(pairs), _shapes(pairs), _batches(pairs, declared), _finite(pairs), _sensitivity(pairs, declared))
    tests = [*_statistics(pairs, declared), *_batch_sizes(pairs, declared), *_draw_counts(pairs, declared)]
    return (*exact, *_noise_checks(pairs, declared), *(_as_check(test, declared.significance / len(tests)) for test in tests))


def _as_check(one: Statistic, level: float) -> ReplayCheck:
    message = f"{one.message} (p = {one.p:.2g}, refuted below {level:.2g})"
    return ReplayCheck(one.name, one.p > level, message, statistical=True, power=one.power(level))


def _steps(pairs: Sequence[Pair]) -> ReplayCheck:
    """Check that both sides of a replay have the same number of steps, if all their steps can be compared."""
    compared = [pair for pair in pairs if pair.comparable == min(len(pair.left), len(pair.right))]
    unequal = [(len(pair.left), len(pair.right)) for pair in compared if len(pair.left) != len(pair.right)]
    message = f"{unequal[0][0]} with the record, {unequal[0][1]} without" if unequal else f"{len(pairs[0].left)} on both datasets"
    return ReplayCheck("number of steps", not unequal, message)


def _paired_steps(pairs: Sequence[Pair]) -> Iterator[tuple[int, Step, Step]]:
    for pair in pairs:
        yield from ((i, left, right) for i, (left, right) in enumerate(zip(pair.left, pair.right, strict=False), 1))


def _comparable_steps(pairs: Sequence[Pair]) -> Iterator[tuple[int, Step, Step]]:
    """Yield the number and both sides of each step that begins with equal releases on both datasets."""
    for pair in pairs:
        yield from ((i, left, right) for i, left, right in _paired_steps([pair]) if i <= pair.comparable)


def _takes_part(left: Step, right: Step) -> bool:
    """Return whether the differing record takes part in a step, judged by the batches or, if there are none, by the sums."""
    return set(left.batch) != set(right.batch) if left.batch or right.batch else distance(left, right) != 0.0


def _shapes(pairs: Sequence[Pair]) -> ReplayCheck:
    """Check that both sides of each step have sums of the same names and shapes."""
    for i, left, right in _paired_steps(pairs):
        shapes = [{name: np.shape(value) for name, value in step.sums.items()} for step in (left, right)]
        if shapes[0] != shapes[1]:
            return ReplayCheck("names and shapes of the sums", False, f"step {i}: {shapes[0]} with the record, {shapes[1]} without")
    return ReplayCheck("names and shapes of the sums", True, "equal")


def _batches(pairs: Sequence[Pair], declared: Declared) -> ReplayCheck:
    """Check that the batches differ only in the ids of the differing record, which must be the same in every step."""
    for pair in pairs:
        differ: set[Any] = set()
        for i, left, right in _paired_steps([pair]):
            differ |= set(left.batch) ^ set(right.batch)
            if len(differ) > declared.exchanged:
                return ReplayCheck(
                    "members of the batches",
                    False,
                    f"step {i}: {len(differ)} records differ up to this step, at most {declared.exchanged} may",
                )
    return ReplayCheck("members of the batches", True, "equal, except for the record")


def _finite(pairs: Sequence[Pair]) -> ReplayCheck:
    """Check that sums and noise have only finite numbers."""
    for i, left, right in _paired_steps(pairs):
        for quantity, tables in (("sums", (left.sums, right.sums)), ("noise", (left.noise, right.noise))):
            for name in {**tables[0], **tables[1]}:
                if not all(np.all(np.isfinite(_array(table, name))) for table in tables):
                    return ReplayCheck(
                        "finite sums", False, f"step {i}: {name} holds NaN or inf in the {quantity}, which noise does not hide"
                    )
    return ReplayCheck("finite sums", True, "finite in all steps")


def _array(table: Mapping[str, Any], name: str) -> Array:
    return np.asarray(table.get(name, 0.0), dtype=float)


def distance(left: Step, right: Step) -> float:
    """Return the L2 distance between the concatenated sums of two steps; inf if shapes differ or the distance is not finite."""
    total = 0.0
    for name in {**left.sums, **right.sums}:
        one, other = _array(left.sums, name), _array(right.sums, name)
        if one.shape != other.shape:
            return math.inf
        total += float(np.square(one - other).sum())
    return math.sqrt(total) if math.isfinite(total) else math.inf


def _sensitivity(pairs: Sequence[Pair], declared: Declared) -> ReplayCheck:
    """Check the measured sensitivity. It is a lower bound on the true sensitivity, because other records may change the sums more."""
    worst, step = max((distance(left, right), i) for i, left, right in _comparable_steps(pairs))
    message = f"measured {worst:.6g} in step {step}, declared {declared.sensitivity:.6g}"
    return ReplayCheck("sensitivity of the sums", worst <= declared.sensitivity * (1.0 + ROUNDING), message, worst)


def _flat_noise(step: Step) -> Array:
    return np.concatenate([np.ravel(_array(step.noise, name)) for name in sorted(step.noise)] or [np.empty(0)])


def _noise_checks(pairs: Sequence[Pair], declared: Declared) -> Iterator[ReplayCheck]:
    """Check that the noise is equal on both datasets, and that it differs between steps and between replays."""
    if declared.noise is None:
        return
    if not any(step.noise for pair in pairs for step in pair.left):
        yield ReplayCheck("noise", False, "a standard deviation is declared, but the program reports no noise")
        return
    drawn = [[_flat_noise(step) for step in pair.left] for pair in pairs]
    yield _same_noise(pairs, declared.noise)
    if declared.fresh:
        repeated = any(_same_draws(one, other, declared.noise) for run in drawn for one, other in pairwise(run))
        message = "two successive steps have the same noise" if repeated else "different in successive steps"
        yield ReplayCheck("new noise in every step", not repeated, message)
    if len(drawn) > 1:
        repeated = any(_same_draws(one[0], other[0], declared.noise) for one, other in pairwise(drawn))
        message = "two successive runs have the same noise" if repeated else "different in successive runs"
        yield ReplayCheck("new noise in every run", not repeated, message)


def _statistics(pairs: Sequence[Pair], declared: Declared) -> Iterator[Statistic]:
    """Test that the noise is as large as declared, Gaussian and independent.

    If the noise of different steps is correlated, only the first step of each run is used.
    """
    if declared.noise is None or not any(step.noise for pair in pairs for step in pair.left):
        return
    runs = [[(step.sums, step.noise) for step in pair.left] for pair in pairs]
    draws = draws_of(runs, declared.noise, declared.fresh)
    if draws is not None:
        yield from statistics(draws)
    elif _finite(pairs).passed:
        raise InputError("replay: the names or shapes of the noise change from step to step")


def _same_noise(pairs: Sequence[Pair], std: float) -> ReplayCheck:
    """Check that both datasets get the same draws of noise."""
    for i, left, right in _comparable_steps(pairs):
        one, other = _flat_noise(left), _flat_noise(right)
        if one.shape != other.shape or not np.allclose(one, other, rtol=1e-6, atol=SAME_NOISE * std, equal_nan=True):
            return ReplayCheck(
                "noise does not depend on the record", False, f"step {i}: different draws with and without the record"
            )
    return ReplayCheck("noise does not depend on the record", True, "equal draws on both datasets")


def _same_draws(one: Array, other: Array, std: float) -> bool:
    """Return whether two draws are equal. Draws of 8 or more numbers may differ by rounding errors of single precision."""
    close = SAME_NOISE * std if len(one) >= 8 else 0.0
    return bool(len(one) and one.shape == other.shape and np.allclose(one, other, rtol=0.0, atol=close))


def _batch_sizes(pairs: Sequence[Pair], declared: Declared) -> Iterator[Statistic]:
    """Test that batch sizes vary at least as much as under Poisson sampling. The sizes of shuffled batches vary less."""
    sizes = np.array([len(step.batch) for pair in pairs for step in pair.left], dtype=float)
    if declared.rate is None or declared.rate >= 1.0 or len(sizes) < 2 or not sizes.sum():
        return
    mean = float(sizes.mean())
    spread = float(np.square(sizes - mean).sum()) / (mean * (1.0 - declared.rate))
    message = f"sizes of {len(sizes):,} batches vary {spread / (len(sizes) - 1):.3g} times as much as under Poisson sampling"
    p = float(special.chdtr(len(sizes) - 1, spread))
    yield Statistic(
        "batches drawn by Poisson sampling",
        p,
        message,
        lambda level: f"sizes that vary {1.0 / detectable_factor(len(sizes) - 1, level) ** 2:.2g} times as much",
    )


def _draw_counts(pairs: Sequence[Pair], declared: Declared) -> Iterator[Statistic]:
    """Test that no more records are drawn than the declared rate permits."""
    rate = declared.rate or 0.0
    steps = [step for pair in pairs for step in pair.left]
    trials, count = len(steps) * (declared.records or 0), sum(len(step.batch) for step in steps)
    if not 0.0 < rate < 1.0 or not trials:
        return

    def power(level: float) -> str:
        threshold = least_count(
            trials, lambda drawn: drawn > 0 and float(binomial_tail(trials, rate, np.array([drawn]))[0]) <= level
        )
        least = (
            float(special.betaincinv(threshold, trials - threshold + 1, DETECTION_PROBABILITY)) / rate
            if threshold <= trials
            else math.inf
        )
        return f"records drawn {up(least, 2)} times as often" if least < 1.0 / rate else "nothing"

    message = (
        f"{count:,} records drawn in {len(steps):,} steps, {rate * trials:,.6g} expected of {declared.records:,} at rate {rate:.4g}"
    )
    yield Statistic("records drawn as often as declared", float(binomial_tail(trials, rate, np.array([count]))[0]), message, power)


def declaration(settings: AuditSettings, pipeline: Pipeline | None, varied: Adjacency) -> Declared:
    """Return the claims of the settings and the file about each step.

    The sensitivity is C, or 2 C if a record is replaced. If the settings state no noise, the noise of the only mechanism with a noise
    multiplier is used.

    Raises:
        InputError: No sensitivity is stated.
    """
    if settings.sensitivity is None:
        raise InputError("a replay needs audit.sensitivity (or --sensitivity), the bound on one record's contribution")
    times = 2 if varied is Adjacency.REPLACE_ONE else 1
    entry = _noisy_entry(pipeline)
    noise = settings.noise
    if noise is None and entry is not None:
        noise = entry.spec.noise_multiplier * settings.sensitivity  # type: ignore[attr-defined]
    return Declared(
        sensitivity=times * settings.sensitivity,
        noise=noise,
        exchanged=times,
        rate=_rate(entry, pipeline),
        records=None if pipeline is None else pipeline.privacy.dataset_size,
        fresh=entry is None or not hasattr(entry.spec, "iterations"),
        significance=1.0 - settings.confidence,
    )


def _noisy_entry(pipeline: Pipeline | None) -> Entry | None:
    """Return the only mechanism with a noise multiplier; None if there is none, or more than one."""
    entries = [entry for entry in pipeline.mechanisms if getattr(entry.spec, "noise_multiplier", None)] if pipeline else []
    return entries[0] if len(entries) == 1 else None


def _rate(entry: Entry | None, pipeline: Pipeline | None) -> float | None:
    """Return the rate of Poisson sampling without a bound on the batch size; None for other schemes."""
    if entry is None or pipeline is None or not isinstance(entry.sampling, Poisson) or entry.sampling.max_batch_size is not None:
        return None
    rate = entry.sampling.exact_rate(pipeline.privacy.dataset_size)
    return None if rate is None else float(rate)
