"""The samplers that draw the batches of training. There is one for each sampling scheme (mechanisms/sampling/schemes.py).

They draw exactly as the accountant assumes. Rates come from the declarations in the file, never from the number of records: a rate of
batch_size / len(data) would depend on the record whose absence must be hidden. `Prepared.batches` in step/prepare.py chooses among
`sampler`, `correlated_sampler` and `descent_sampler` by the *entry*, a mechanism of the file with its sampling. `descent_sampler` is for
the entry type `last-iterate`, which prices a run of which only the last model is released. A batch is an array of increasing record
numbers. A *pass* goes through the data once.

The state of a sampler is not saved. A resumed run therefore draws new batches, and an interrupted pass costs as much as a complete one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, cycle, islice, repeat
from math import ceil
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, Batched, FixedSize, Poisson, Scheme
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream
from dpcli.random.subsets import Binomial, distinct_subsets, permutation, uniform_subset

if TYPE_CHECKING:
    from dpcli.random.subsets import Indices


LARGEST_ORDER = 2**31  # largest number of places in a random order, which is held in memory: 16 GiB of 64-bit integers


@dataclass(frozen=True, slots=True)
class Population:
    """The actual and the declared number of records.

    Attributes:
        records: Actual number of records, which is private if records may be added or removed.
        declared: Public number that privacy.dataset_size declares; None if the key is missing.
    """

    records: int
    declared: int | None


def sampler(scheme: Scheme, dataset_size: int | None, stream: Stream, records: int | None = None) -> Iterator[Indices]:
    """Yield batches without end. An empty batch also counts as a step.

    Args:
        scheme: The `sampling` table of the entry.
        dataset_size: Declared privacy.dataset_size, from which rates and batch boundaries are computed.
        stream: Source of the draws. It is separate from the source of the noise.
        records: Number of records; None if it is `dataset_size`.

    Raises:
        InputError: The proof for the scheme does not cover this number of records, or the scheme needs a rate or a dataset_size that is
            missing. The error is raised at the call, before the first batch.
    """
    return SAMPLERS[scheme.scheme](scheme, _population(dataset_size, records), stream)


def pass_length(scheme: Scheme, dataset_size: int | None) -> int:
    """Return the number of steps of one pass under shuffle or cyclic. Each record takes part in one step of a pass.

    The number is 1 / rate, rounded up: 4 for a rate of 0.3. It is 1 if there is no rate. The accountant assumes floor(1 / rate), which is
    never more.
    """
    rate = scheme.exact_rate(dataset_size)
    return 1 if rate is None else ceil(1 / rate)


def correlated_sampler(
    spec: CorrelatedSpec, dataset_size: int | None, stream: Stream, records: int | None = None, scheme: Scheme | None = None
) -> Iterator[Indices]:
    """Yield the batches for correlated noise, without end. After each `spec.iterations` batches, another run of the noise begins.

    A run cycles through `batch_count(spec)` batches of nearly equal size, among which the records are divided at random. In a run, each
    record therefore takes part in at most max_participations steps, which are at least min_separation steps apart. With Poisson sampling,
    the records are divided into min_separation groups instead. The groups take turns, and each turn draws a sample of its group.

    Args:
        dataset_size: Declared privacy.dataset_size, which is the number of places in a random order.
        records: Number of records; None if it is `dataset_size`.
        scheme: The `sampling` table of the entry; None if there is none.

    Raises:
        InputError: privacy.dataset_size is missing, is less than the number of records, or exceeds `LARGEST_ORDER`.
    """
    population = _population(dataset_size, records)
    size = _declared_size(population, "correlated noise")
    rate = scheme.exact_rate(dataset_size) if isinstance(scheme, Poisson) else None

    def batches_of_run() -> Iterator[Indices]:
        if rate is None:
            return islice(cycle(_shuffled(population, size, batch_count(spec), stream)), spec.iterations)
        groups = list(_shuffled(population, size, spec.min_separation, stream))
        # A group has its turn in one of min_separation steps, so its rate is higher by this factor.
        return islice(_samples_of(groups, rate * spec.min_separation, stream), spec.iterations)

    return chain.from_iterable(batches_of_run() for _ in repeat(None))


def descent_sampler(
    spec: LastIterateSpec, dataset_size: int | None, stream: Stream, records: int | None = None
) -> Iterator[Indices]:
    """Yield the batches of last-iterate, without end: samples, or batches in turn, in which each record has one place for the whole run.

    For the other arguments and the errors, see `correlated_sampler`.
    """
    if spec.drawn is not None:
        scheme_class = Poisson if spec.drawn == "poisson" else FixedSize
        return sampler(scheme_class(scheme=spec.drawn, rate=spec.inclusion), dataset_size, stream, records)
    population = _population(dataset_size, records)
    return cycle(_shuffled(population, _declared_size(population, "last-iterate"), spec.batches, stream))


def _samples_of(groups: list[Indices], rate: Fraction, stream: Stream) -> Iterator[Indices]:
    """Yield Poisson samples of the groups in turn, without end."""
    sizes = [Binomial(len(group), rate) for group in groups]
    return (group[uniform_subset(stream, len(group), size.draw(stream))] for group, size in cycle(zip(groups, sizes, strict=True)))


def batch_count(spec: CorrelatedSpec) -> int:
    """Return the number of batches through which a run of correlated noise cycles.

    The number is at least `min_separation`, and large enough that no batch occurs more than `max_participations` times: 50 for 100 steps
    and at most 2 participations. It is at most the number of steps. If a record may take part in every step, there is one batch.
    """
    for_participations = ceil(Fraction(spec.iterations, spec.max_participations))
    return min(max(spec.min_separation, for_participations), spec.iterations)


def _poisson(scheme: Poisson, population: Population, stream: Stream) -> Iterator[Indices]:
    """Yield Poisson samples. The size of a sample is binomial, and the sample is a uniform subset of this size.

    A sample of more than max_batch_size records is truncated at random, which gives a uniform subset of max_batch_size records.

    Raises:
        InputError: There is no rate. Or max_batch_size is set, and the number of records exceeds privacy.dataset_size.
    """
    rate = _rate(scheme, population)
    if scheme.max_batch_size is not None and population.records > (population.declared or 0):
        raise InputError(
            "expected at most privacy.dataset_size records with max_batch_size, found more: the accounting of truncated samples uses "
            "this number"
        )
    largest = population.records if scheme.max_batch_size is None else scheme.max_batch_size
    size = Binomial(population.records, rate)
    return (uniform_subset(stream, population.records, min(size.draw(stream), largest)) for _ in repeat(None))


def _fixed_size(scheme: FixedSize, population: Population, stream: Stream) -> Iterator[Indices]:
    """Yield uniform subsets of the declared size. If only a rate is declared, their size is that share of the records, rounded down.

    Raises InputError if there is no rate, or the size is 0 or exceeds the accounted share of the records.
    """
    rate = _rate(scheme, population)
    size = int(rate * population.records) if scheme.batch_size is None else scheme.batch_size
    if not 0 < size <= rate * population.records:
        raise InputError(
            f"expected a fixed size from 1 to the accounted share of the records, found {size}: replace-one makes the number of records "
            "public, and privacy.dataset_size must be that number"
        )
    return (uniform_subset(stream, population.records, size) for _ in repeat(None))


def _balls_in_bins(scheme: BallsInBins, population: Population, stream: Stream) -> Iterator[Indices]:
    """Yield the batches of passes. In a pass, each record takes part in `participations` steps.

    These steps are a uniform choice among the steps of the pass, independent of the choices of other records.
    """
    steps = int(scheme.participations / _rate(scheme, population))  # rounded down, like the accountant's count
    passes = (distinct_subsets(stream, steps, scheme.participations, population.records) for _ in repeat(None))
    return chain.from_iterable(_batches(step_numbers.reshape(-1), scheme.participations, steps) for step_numbers in passes)


def _shuffle(scheme: Batched, population: Population, stream: Stream) -> Iterator[Indices]:
    """Yield the batches of passes. Each pass has a new random order."""
    size, length = _declared_size(population, "scheme = shuffle"), pass_length(scheme, population.declared)
    return chain.from_iterable(_shuffled(population, size, length, stream) for _ in repeat(None))


def _cyclic(scheme: Batched, population: Population, stream: Stream) -> Iterator[Indices]:
    """Yield the batches of passes. All passes have the same random order.

    The order of the file is not used, because an absent record would move all records after it to other places. Only federated
    rounds use this function.
    """
    size, length = _declared_size(population, "scheme = cyclic"), pass_length(scheme, population.declared)
    return cycle(_shuffled(population, size, length, stream))


def _population(dataset_size: int | None, records: int | None) -> Population:
    """Return the population. `records` defaults to `dataset_size`. Raises InputError if neither number is given."""
    count = dataset_size if records is None else records
    if count is None:
        raise InputError("expected a number of records, or privacy.dataset_size, found neither")
    return Population(count, dataset_size)


def _shuffled(population: Population, size: int, count: int, stream: Stream) -> Iterator[Indices]:
    """Yield the batches of one pass. They divide the records at random, and each record is in one batch.

    There is a place for each of the declared records. Each record gets a random place, and consecutive places form a batch. If fewer
    records exist than are declared, the remaining places stay empty. The presence of a record thus changes its own batch and no other one.
    The accountant needs this, because it prices a pass like one step on all records.

    Args:
        size: Number of places, which is the declared number of records.
        count: Number of batches. Their numbers of places differ by at most one.
        stream: Source of the random order.
    """
    place_of_record = permutation(stream, size)[: population.records]
    batch_of_record = place_of_record * count // size  # places 0, 1, ... are cut into `count` nearly equal parts
    return _batches(batch_of_record, 1, count)


def _declared_size(population: Population, scheme: str) -> int:
    """Return privacy.dataset_size. Raises InputError if it is missing, too large, or less than the number of records."""
    if population.declared is None or population.records > population.declared:
        raise InputError(
            f"expected privacy.dataset_size, and at most this number of records, with {scheme}: each record has a place in the order, "
            "which stays empty if the record is absent"
        )
    if population.declared > LARGEST_ORDER:
        raise InputError(f"expected privacy.dataset_size of at most {LARGEST_ORDER:,} with {scheme}, found {population.declared:,}")
    return population.declared


def _batches(step_numbers: Indices, repeats: int, steps: int) -> Iterator[Indices]:
    """Yield the records of each step.

    Args:
        step_numbers: `repeats` step numbers for record 0, then for record 1, and so on. With repeats = 2 and steps = 3, [0, 2, 1, 2] gives
            the batches [0], [1], [0, 1].
        repeats: Number of steps of each record.
        steps: Total number of steps.
    """
    by_step = np.argsort(step_numbers, kind="stable")  # positions, sorted by step; position // repeats is the record
    ends = np.cumsum(np.bincount(step_numbers, minlength=steps))
    return iter(np.split(by_step // repeats, ends[:-1]))


def _rate(scheme: Batched, population: Population) -> Fraction:
    """Return the sampling rate that the accountant uses. Raises InputError if there is none."""
    rate = scheme.exact_rate(population.declared)
    if rate is None:
        raise InputError("expected a sampling rate, or batch_size with privacy.dataset_size, found neither")
    return rate


SAMPLERS: dict[str, Callable[..., Iterator[Indices]]] = {
    "poisson": _poisson,
    "fixed-size": _fixed_size,
    "balls-in-bins": _balls_in_bins,
    "shuffle": _shuffle,
    "cyclic": _cyclic,
    "none": lambda scheme, population, stream: (np.arange(population.records) for _ in repeat(None)),  # all records in each step
}
