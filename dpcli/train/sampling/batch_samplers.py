"""Samplers of batches, one for each scheme: exactly what the accountant was told, drawn from a stream that nobody can predict.

Rates come from what the file declares, never from the number of records: a rate of batch_size / len(data) would itself depend on
the record whose absence is to be hidden. Nothing here is saved; a resumed run draws afresh, and a pass that was cut short counts as one.
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
from dpcli.mechanisms.sampling.schemes import BallsInBins, Batched, FixedSize, Poisson, Scheme, Unsampled
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream
from dpcli.random.subsets import Binomial, different, order, subset

if TYPE_CHECKING:
    from dpcli.random.subsets import Indices


LARGEST_ORDER = 2**31  # records of an order, which is held in memory


@dataclass(frozen=True, slots=True)
class Population:
    """The private number of records that there are, and the public number that privacy.dataset_size declares, if any."""

    records: int
    declared: int | None


def sampler(scheme: Scheme, dataset_size: int | None, stream: Stream, records: int | None = None) -> Iterator[Indices]:
    """Yield the batch of each step, as increasing record indices, without end; an empty batch is a step all the same.

    Args:
        scheme: The `sampling` table of the entry.
        dataset_size: privacy.dataset_size as declared; rates and batch boundaries come from it.
        stream: Source of the draws; separate from the noise's.
        records: How many records there are; `dataset_size` if absent.

    Raises:
        InputError: The scheme is not proven private for these records: more than declared, or another number under fixed-size.
    """
    return SAMPLERS[scheme.scheme](scheme, _population(dataset_size, records), stream)


def pass_length(scheme: Scheme, dataset_size: int | None) -> int:
    """Return the steps of one pass under shuffle and cyclic, in which each record takes part once: 1 / rate, rounded up.

    The accountant assumes floor(1 / rate), never more than that. One if no rate is stated.
    """
    rate = scheme.exact_rate(dataset_size)
    return 1 if rate is None else ceil(1 / rate)


def correlated_sampler(
    spec: CorrelatedSpec, dataset_size: int | None, stream: Stream, records: int | None = None
) -> Iterator[Indices]:
    """Yield the batches for correlated noise: each record takes part in as few steps, and as far apart, as the entry says.

    A run cycles through `batch_count(spec)` batches of nearly equal size, in an order that is drawn for the run.

    Raises:
        InputError: No privacy.dataset_size, or more records than that: absent records leave their place empty.
    """
    population = _population(dataset_size, records)
    size = _declared_size(population, "correlated noise")
    runs = (cycle(_shuffled(population, size, batch_count(spec), stream)) for _ in repeat(None))
    return chain.from_iterable(islice(run, spec.iterations) for run in runs)


def batch_count(spec: CorrelatedSpec) -> int:
    """Return how many batches a run of correlated noise cycles through.

    At least `min_separation`, and so many that none comes round more than `max_participations` times; with as many participations as
    steps, one batch of all records.
    """
    return min(max(spec.min_separation, ceil(Fraction(spec.iterations, spec.max_participations))), spec.iterations)


def _poisson(scheme: Poisson, population: Population, stream: Stream) -> Iterator[Indices]:
    """Draw a binomial size, and then a uniform subset of that size; a sample that is cut at random is a smaller such subset."""
    rate = _rate(scheme, population)
    if scheme.max_batch_size is not None and population.records > (population.declared or 0):
        raise InputError(
            "expected at most privacy.dataset_size records with max_batch_size, found more: how often a sample is cut is accounted for "
            "with that number"
        )
    most = population.records if scheme.max_batch_size is None else scheme.max_batch_size
    size = Binomial(population.records, rate)
    return (subset(stream, population.records, min(size.draw(stream), most)) for _ in repeat(None))


def _fixed_size(scheme: FixedSize, population: Population, stream: Stream) -> Iterator[Indices]:
    """Draw a subset of the stated size, or of the stated share rounded down: no record is drawn more often than accounted for."""
    rate = _rate(scheme, population)
    size = int(rate * population.records) if scheme.batch_size is None else scheme.batch_size
    if not 0 < size <= rate * population.records:
        raise InputError(
            f"expected a fixed size from 1 to the accounted share of the records, found {size}: replace-one makes the number of records "
            "public, and privacy.dataset_size must be that number"
        )
    return (subset(stream, population.records, size) for _ in repeat(None))


def _balls_in_bins(scheme: BallsInBins, population: Population, stream: Stream) -> Iterator[Indices]:
    """Draw the steps of each record by itself, in each pass anew."""
    steps = int(scheme.participations / _rate(scheme, population))  # rounded down, as the accountant does
    passes = (different(stream, steps, scheme.participations, population.records) for _ in repeat(None))
    return chain.from_iterable(_batches(bins.reshape(-1), scheme.participations, steps) for bins in passes)


def _shuffle(scheme: Batched, population: Population, stream: Stream) -> Iterator[Indices]:
    """Draw a fresh order in each pass."""
    size, length = _declared_size(population, "scheme = shuffle"), pass_length(scheme, population.declared)
    return chain.from_iterable(_shuffled(population, size, length, stream) for _ in repeat(None))


def _cyclic(scheme: Batched, population: Population, stream: Stream) -> Iterator[Indices]:
    """Draw one order for all passes: in the order of a file, an absent record would move all records after it up by a place."""
    size, length = _declared_size(population, "scheme = cyclic"), pass_length(scheme, population.declared)
    return cycle(_shuffled(population, size, length, stream))


def _none(scheme: Unsampled, population: Population, stream: Stream) -> Iterator[Indices]:
    return (np.arange(population.records) for _ in repeat(None))


def _population(dataset_size: int | None, records: int | None) -> Population:
    count = dataset_size if records is None else records
    if count is None:
        raise InputError("expected a number of records, or privacy.dataset_size, found neither")
    return Population(count, dataset_size)


def _shuffled(population: Population, size: int, count: int, stream: Stream) -> Iterator[Indices]:
    """Cut a random order of `size` places into `count` batches.

    A record that is absent leaves its place empty, which is what counting a pass as one unsampled run rests on: no other record's
    batch depends on how many records there are.
    """
    place_of_record = order(stream, size)[: population.records]
    return _batches(place_of_record * count // size, 1, count)


def _declared_size(population: Population, scheme: str) -> int:
    """Return privacy.dataset_size. Raises InputError if there is none, or more records than that."""
    if population.declared is None or population.records > population.declared:
        raise InputError(
            f"expected privacy.dataset_size, and at most as many records, with {scheme}: each record has a place in the order, which "
            "stays empty where it is absent"
        )
    if population.declared > LARGEST_ORDER:
        raise InputError(f"expected privacy.dataset_size of at most {LARGEST_ORDER:,} with {scheme}, found {population.declared:,}")
    return population.declared


def _batches(bins: Indices, repeats: int, steps: int) -> Iterator[Indices]:
    """Yield the records of each step.

    Args:
        bins: The steps of record 0, of record 1, ..., `repeats` for each.
    """
    by_step = np.argsort(bins, kind="stable")
    ends = np.cumsum(np.bincount(bins, minlength=steps))
    return iter(np.split(by_step // repeats, ends[:-1]))


def _rate(scheme: Batched, population: Population) -> Fraction:
    """Return the rate that is accounted for."""
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
    "none": _none,
}
