"""Replay of a program on two neighbouring datasets with equal randomness. The sums before noise are compared step by step.

A *step* is a clipped sum over a batch of records, such as the gradients of DP-SGD, and the noise added to it. Between the two datasets the
sums may differ by at most the declared sensitivity, the batches by the differing record, and the noise not at all; the noise itself is
tested in noise_statistics.py. `checks` returns the results for audit_run.py. `observed_checks` makes those that need no second dataset, of
a real run with gradient canaries (train/replay/step_claims.py).

A program under test is dpcli's own training (train/replay/program.py) or a user's function `(dataset, rng) -> iterable of Step`, which is
called with equal generators on both datasets. Its draws must not depend on the differing record. A program that draws record by record
therefore needs a placeholder (a mask) for the missing record.

Source: Cebere et al. 2026, arXiv:2602.17454 (the method of replays; the checks of the noise are not in that paper).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.audit.audit_result import ReplayCheck
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import binomial_tail
from dpcli.audit.noise_draws import Step, noise_draws
from dpcli.audit.noise_statistics import DETECTION_PROBABILITY, Statistic, detectable_factor, statistics
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

# Both allow for rounding in single precision. Smaller faults are not found.
SAME_NOISE = 1e-4  # two draws of noise are equal if they differ by at most this share of the standard deviation
ROUNDING = 1e-6  # share by which sums may exceed the bound, and by which equal draws may differ
# Draws of at least this many numbers are compared up to SAME_NOISE: independent ones are practically never so close. Shorter draws are
# compared exactly.
TOLERANT_LENGTH = 8


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
        with_record, without: Steps on the dataset with the record, and on the dataset without it.
        restarted: True if each step without the record begins with the values that the run with the record released. Otherwise each run
            continues with its own releases, and what depends on these (weights, a clipping norm, the stopping time) may differ in a
            correct program.
    """

    with_record: tuple[Step, ...]
    without: tuple[Step, ...]
    restarted: bool = True

    @property
    def comparable_count(self) -> int:
        """The number of steps that begin with equal releases on both datasets.

        Without a restart, they end with the first step in which the differing record takes part.
        """
        shorter = min(len(self.with_record), len(self.without))
        if self.restarted:
            return shorter
        for number, (left, right) in enumerate(zip(self.with_record, self.without, strict=False), 1):
            if _takes_part(left, right):
                return number
        return shorter


def steps_of(program: str, steps: Any) -> tuple[Step, ...]:
    """Return copies of the steps that a program, named `program` in messages, returned.

    Raises InputError if the program raised an error, returned no step, or returned a value that is not a Step.
    """
    try:
        copies = tuple(Step(_copy_arrays(step.sums), tuple(step.batch), _copy_arrays(step.noise)) for step in steps)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{program}: expected steps with sums, batch and noise (dpcli.audit.replay.Step): {error}") from None
    except FAILURES as error:  # any exception, and sys.exit(): a generator runs user code while it is iterated
        raise InputError(f"{program}: raised {error_text(error)}") from error
    if not copies:
        raise InputError(f"{program}: expected at least one step")
    return copies


def _copy_arrays(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of arrays by name, because the program may overwrite its arrays in later steps."""
    return {name: np.array(value, dtype=float) for name, value in table.items()}


def checks(pairs: Sequence[Pair], declared: Declared) -> tuple[ReplayCheck, ...]:
    """Return the results of all checks over all replays.

    Checks without a p-value are exact: a single counterexample refutes the program. The statistical checks share `declared.significance`
    equally (Bonferroni). A correct program fails with at most this probability, up to the error of approximate p-values
    (`noise_statistics`).

    Raises InputError if the names or shapes of the noise change from step to step.
    """
    exact = (
        _check_step_counts(pairs),
        _check_shapes(pairs),
        _check_batches(pairs, declared),
        _check_finite(pairs),
        _check_sensitivity(pairs, declared),
    )
    return (*exact, *_noise_checks(pairs, declared), *statistical_checks([pair.with_record for pair in pairs], declared))


def statistical_checks(runs: Sequence[Sequence[Step]], declared: Declared) -> tuple[ReplayCheck, ...]:
    """Return the results of the statistical checks of the noise and the batches of runs. They share `declared.significance` equally."""
    steps = [step for run in runs for step in run]
    tests = [*_noise_tests(runs, declared), *_batch_size_tests(steps, declared), *_draw_count_tests(steps, declared)]
    return tuple(_statistical_check(test, declared.significance / len(tests)) for test in tests)


def _statistical_check(test: Statistic, level: float) -> ReplayCheck:
    """Return the check that fails if the p-value of a test is at most `level`."""
    message = f"{test.message} (p = {test.p:.2g}, refuted below {level:.2g})"
    return ReplayCheck(test.name, test.p > level, message, statistical=True, power=test.power(level))


def _check_step_counts(pairs: Sequence[Pair]) -> ReplayCheck:
    """Check that both sides of a replay have the same number of steps, if all their steps can be compared."""
    for pair in pairs:
        left_count, right_count = len(pair.with_record), len(pair.without)
        if left_count != right_count and pair.comparable_count == min(left_count, right_count):
            return ReplayCheck("number of steps", passed=False, message=f"{left_count} with the record, {right_count} without")
    return ReplayCheck("number of steps", passed=True, message=f"{len(pairs[0].with_record)} on both datasets")


class PairedStep(NamedTuple):
    """A step on both datasets, and its number from 1."""

    number: int
    with_record: Step
    without: Step


def _paired_steps(pair: Pair) -> Iterator[PairedStep]:
    """Yield the steps of a replay that exist on both datasets."""
    for number, (left, right) in enumerate(zip(pair.with_record, pair.without, strict=False), 1):
        yield PairedStep(number, left, right)


def _all_steps(pairs: Sequence[Pair]) -> Iterator[PairedStep]:
    """Yield the steps of all replays that exist on both datasets."""
    for pair in pairs:
        yield from _paired_steps(pair)


def _comparable_steps(pairs: Sequence[Pair]) -> Iterator[PairedStep]:
    """Yield each step that begins with equal releases on both datasets."""
    for pair in pairs:
        yield from islice(_paired_steps(pair), pair.comparable_count)


def _takes_part(left: Step, right: Step) -> bool:
    """Return whether the differing record takes part in a step, judged by the batches or, if there are none, by the sums."""
    if left.batch or right.batch:
        return set(left.batch) != set(right.batch)
    return distance(left, right) != 0.0


def _check_shapes(pairs: Sequence[Pair]) -> ReplayCheck:
    """Check that both sides of each step have sums of the same names and shapes."""
    name = "names and shapes of the sums"
    for step in _all_steps(pairs):
        left, right = _shapes_of(step.with_record), _shapes_of(step.without)
        if left != right:
            return ReplayCheck(name, passed=False, message=f"step {step.number}: {left} with the record, {right} without")
    return ReplayCheck(name, passed=True, message="equal")


def _shapes_of(step: Step) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the sums of a step, by name."""
    return {name: np.shape(value) for name, value in step.sums.items()}


def _check_batches(pairs: Sequence[Pair], declared: Declared) -> ReplayCheck:
    """Check that the batches differ only in the ids of the differing record, which must be the same in every step."""
    name = "members of the batches"
    for pair in pairs:
        differ: set[Any] = set()
        for step in _paired_steps(pair):
            differ |= set(step.with_record.batch) ^ set(step.without.batch)
            if len(differ) > declared.exchanged:
                difference = f"{len(differ)} records differ up to this step, at most {declared.exchanged} may"
                return ReplayCheck(name, passed=False, message=f"step {step.number}: {difference}")
    return ReplayCheck(name, passed=True, message="equal, except for the record")


def _check_finite(pairs: Sequence[Pair]) -> ReplayCheck:
    """Check that sums and noise have only finite numbers."""
    for number, left, right in _all_steps(pairs):
        for quantity, left_table, right_table in (("sums", left.sums, right.sums), ("noise", left.noise, right.noise)):
            for name in {**left_table, **right_table}:  # a name may be in one of them only
                if not all(np.all(np.isfinite(_array(table, name))) for table in (left_table, right_table)):
                    message = f"step {number}: {name} holds NaN or inf in the {quantity}, which noise does not hide"
                    return ReplayCheck("finite sums", passed=False, message=message)
    return ReplayCheck("finite sums", passed=True, message="finite in all steps")


def _array(table: Mapping[str, Any], name: str) -> Array:
    """Return an array of a table; the number 0 if the table lacks the name."""
    return np.asarray(table.get(name, 0.0), dtype=float)


def distance(left: Step, right: Step) -> float:
    """Return the L2 distance between the concatenated sums of two steps; inf if shapes differ or the distance is not finite."""
    total = 0.0
    for name in {**left.sums, **right.sums}:
        left_sum, right_sum = _array(left.sums, name), _array(right.sums, name)
        if left_sum.shape != right_sum.shape:
            return math.inf
        total += float(np.square(left_sum - right_sum).sum())
    return math.sqrt(total) if math.isfinite(total) else math.inf


def _check_sensitivity(pairs: Sequence[Pair], declared: Declared) -> ReplayCheck:
    """Check the measured sensitivity. It is a lower bound on the true sensitivity, because other records may change the sums more."""
    worst, number = max((distance(step.with_record, step.without), step.number) for step in _comparable_steps(pairs))
    message = f"measured {worst:.6g} in step {number}, declared {declared.sensitivity:.6g}"
    return ReplayCheck("sensitivity of the sums", worst <= declared.sensitivity * (1.0 + ROUNDING), message, worst)


def _reports_noise(runs: Sequence[Sequence[Step]]) -> bool:
    return any(step.noise for run in runs for step in run)


def _flat_noise(step: Step) -> Array:
    """Return all noise of a step as one vector, in the order of the names."""
    return np.concatenate([np.ravel(_array(step.noise, name)) for name in sorted(step.noise)] or [np.empty(0)])


def _noise_checks(pairs: Sequence[Pair], declared: Declared) -> Iterator[ReplayCheck]:
    """Check that the noise is equal on both datasets, and that it differs between successive steps and successive replays."""
    if declared.noise is None:
        return
    if not _reports_noise([pair.with_record for pair in pairs]):
        message = "a standard deviation is declared, but the program reports no noise"
        yield ReplayCheck("noise", passed=False, message=message)
        return
    drawn = [[_flat_noise(step) for step in pair.with_record] for pair in pairs]
    yield _check_same_noise(pairs, declared.noise)
    if declared.fresh:
        yield _check_new_noise(drawn, declared.noise)
    if len(drawn) > 1:
        first_draws = [run[0] for run in drawn]  # a generator that starts again in each run repeats its first step
        repeated = _has_repeated_draws(first_draws, declared.noise)
        message = "two successive runs have the same noise" if repeated else "different in successive runs"
        yield ReplayCheck("new noise in every run", not repeated, message)


def _check_new_noise(runs: Sequence[Sequence[Array]], std: float) -> ReplayCheck:
    """Check that the noise differs between successive steps of each run. The noise of a step is one vector."""
    repeated = any(_has_repeated_draws(run, std) for run in runs)
    message = "two successive steps have the same noise" if repeated else "different in successive steps"
    return ReplayCheck("new noise in every step", not repeated, message)


def observed_checks(runs: Sequence[Sequence[Step]], declared: Declared) -> tuple[ReplayCheck, ...]:
    """Return the results of the checks of runs that were observed once. Only their noise and their batches are compared with the claims.

    Raises InputError if the names or shapes of the noise change from step to step.
    """
    noises = [[_flat_noise(step) for step in run] for run in runs]
    finite = all(np.isfinite(noise).all() for run in noises for noise in run)
    exact = [ReplayCheck("finite noise", finite, "finite in all steps" if finite else "a step holds NaN or inf in the noise")]
    if declared.fresh and declared.noise is not None:
        exact.append(_check_new_noise(noises, declared.noise))
    return (*exact, *statistical_checks(runs, declared))


def _noise_tests(runs: Sequence[Sequence[Step]], declared: Declared) -> Iterator[Statistic]:
    """Test that the noise is as large as declared, Gaussian and independent.

    If the noise of different steps is correlated, only the first step of each run is used.
    """
    if declared.noise is None or not _reports_noise(runs):
        return
    draws = noise_draws(runs, declared.noise, declared.fresh)
    if draws is not None:
        yield from statistics(draws)
    # The steps have no common shape, or none has finite numbers only. Another check reports NaN and inf.
    elif all(np.isfinite(values).all() for run in runs for step in run for values in step.arrays()):
        raise InputError("replay: the names or shapes of the noise change from step to step")


def _check_same_noise(pairs: Sequence[Pair], std: float) -> ReplayCheck:
    """Check that both datasets get the same draws of noise."""
    name = "noise does not depend on the record"
    for step in _comparable_steps(pairs):
        left, right = _flat_noise(step.with_record), _flat_noise(step.without)
        if left.shape != right.shape or not np.allclose(left, right, rtol=ROUNDING, atol=SAME_NOISE * std, equal_nan=True):
            message = f"step {step.number}: different draws with and without the record"
            return ReplayCheck(name, passed=False, message=message)
    return ReplayCheck(name, passed=True, message="equal draws on both datasets")


def _has_repeated_draws(draws: Sequence[Array], std: float) -> bool:
    """Return whether two successive draws are equal, long ones up to rounding errors of single precision."""
    for first, second in pairwise(draws):
        tolerance = SAME_NOISE * std if len(first) >= TOLERANT_LENGTH else 0.0
        if len(first) and first.shape == second.shape and np.allclose(first, second, rtol=0.0, atol=tolerance):
            return True
    return False


def _batch_size_tests(steps: Sequence[Step], declared: Declared) -> Iterator[Statistic]:
    """Test that batch sizes vary at least as much as under Poisson sampling. The sizes of shuffled batches vary less."""
    sizes = np.array([len(step.batch) for step in steps], dtype=float)
    if declared.rate is None or declared.rate >= 1.0 or len(sizes) < 2 or not sizes.sum():
        return
    mean, degrees = float(sizes.mean()), len(sizes) - 1
    spread = float(np.square(sizes - mean).sum()) / (mean * (1.0 - declared.rate))  # chi-square under Poisson sampling
    message = f"sizes of {len(sizes):,} batches vary {spread / degrees:.3g} times as much as under Poisson sampling"

    yield Statistic(
        "batches drawn by Poisson sampling", float(special.chdtr(degrees, spread)), message, partial(size_spread_power, len(sizes))
    )


def size_spread_power(batches: int, level: float) -> str:
    """Return in words how much less than under Poisson sampling batch sizes must vary for a test at this level to detect it."""
    return f"sizes that vary {1.0 / detectable_factor(batches - 1, level) ** 2:.2g} times as much"


def _draw_count_tests(steps: Sequence[Step], declared: Declared) -> Iterator[Statistic]:
    """Test that no more records are drawn than the declared rate permits."""
    rate = declared.rate or 0.0
    trials, drawn = len(steps) * (declared.records or 0), sum(len(step.batch) for step in steps)
    if not 0.0 < rate < 1.0 or not trials:
        return

    message = (
        f"{drawn:,} records drawn in {len(steps):,} steps, {rate * trials:,.6g} expected of {declared.records:,} at rate {rate:.4g}"
    )
    p_value = _excess_probability(trials, rate, drawn)
    yield Statistic("records drawn as often as declared", p_value, message, partial(draw_count_power, trials, rate))


def _excess_probability(trials: int, rate: float, drawn: int) -> float:
    """Return the probability that at least `drawn` records are drawn in `trials` trials with this rate."""
    return float(binomial_tail(trials, rate, np.array([drawn]))[0])


def draw_count_power(trials: int, rate: float, level: float) -> str:
    """Return in words how much too often records must be drawn for a test at this level to detect it. trials: steps times records."""
    threshold = least_count(trials, lambda count: count > 0 and _excess_probability(trials, rate, count) <= level)
    if threshold > trials:  # even if every record were drawn in every step, the test would not refute the rate
        return "nothing"
    # The rate at which a binomial count reaches the threshold with probability DETECTION_PROBABILITY, over the declared rate.
    times = float(special.betaincinv(threshold, trials - threshold + 1, DETECTION_PROBABILITY)) / rate
    return f"records drawn {up(times, 2)} times as often" if times < 1.0 / rate else "nothing"


def declaration(settings: AuditSettings, pipeline: Pipeline | None, varied: Adjacency) -> Declared:
    """Return the claims of the settings and the file about each step of a user's function.

    The sensitivity is C, or 2 C if a record is replaced. If the settings state no noise, the noise of the only mechanism with a noise
    multiplier is used.

    Raises InputError if no sensitivity is stated.
    """
    if settings.sensitivity is None:
        raise InputError("a replay needs audit.sensitivity (or --sensitivity), the bound on one record's contribution")
    changed_records = 2 if varied is Adjacency.REPLACE_ONE else 1
    entry = _noisy_entry(pipeline)
    noise = settings.noise
    if noise is None and entry is not None:
        noise = entry.spec.noise_multiplier * settings.sensitivity  # type: ignore[attr-defined]
    return Declared(
        sensitivity=changed_records * settings.sensitivity,
        noise=noise,
        exchanged=changed_records,
        rate=_poisson_rate(entry, pipeline),
        records=None if pipeline is None else pipeline.privacy.dataset_size,
        # Mechanisms with iterations add correlated noise (correlated.py), or release the last step alone (last_iterate.py).
        fresh=entry is None or not hasattr(entry.spec, "iterations"),
        significance=1.0 - settings.confidence,
    )


def _noisy_entry(pipeline: Pipeline | None) -> Entry | None:
    """Return the only mechanism with a noise multiplier; None if there is none, or more than one."""
    entries = [entry for entry in pipeline.mechanisms if getattr(entry.spec, "noise_multiplier", None)] if pipeline else []
    return entries[0] if len(entries) == 1 else None


def _poisson_rate(entry: Entry | None, pipeline: Pipeline | None) -> float | None:
    """Return the rate of Poisson sampling without a bound on the batch size; None for other schemes."""
    if entry is None or pipeline is None or not isinstance(entry.sampling, Poisson) or entry.sampling.max_batch_size is not None:
        return None
    if entry.spec.takes_turns:  # the batches of a run are from groups, and not from all records
        return None
    rate = entry.sampling.exact_rate(pipeline.privacy.dataset_size)
    return None if rate is None else float(rate)
