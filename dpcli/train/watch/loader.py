"""Statistical tests of whether the batches of a loader may come from the declared sampling scheme, for `dpcli.watch` (watch/watch.py).

A *loader* is the object that yields the batches of a training loop. `report_batches` makes it report the indices of its batches, and
`batches_of` returns the test of a scheme. `DrawnBatches.add` gives a batch to the test. It returns a description of how the batches so far
contradict the scheme, or None if they do not.

The tests refuse a correct sampler with probability at most 10^-9, however long the run is. The *level* of a test bounds the probability
with which it refuses a correct sampler. It is in proportion to 1 / (n (n + 1)) for batch n, and these add up to 1. A test bounds from above
the probability that a correct sampler draws such batches (`log_chance`), and refuses if the bound is below its level. Passing the tests
does not prove that a loader is correct.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from dpcli.base.rounding import up
from dpcli.mechanisms.sampling.schemes import BallsInBins, FixedSize, OncePerEpoch, Poisson, Scheme, Unsampled
from dpcli.numerics.arrays import np
from dpcli.train.sampling.batch_samplers import pass_length

if TYPE_CHECKING:
    from dpcli.random.subsets import Indices


# Samplers of torch that go through the data in passes, or draw with replacement. None of them is Poisson or fixed-size sampling.
TORCH_SAMPLERS = (RandomSampler, SequentialSampler, SubsetRandomSampler, DistributedSampler, WeightedRandomSampler)

# Largest probability that a correct sampler, or correct noise, is refused in a run. A choice: a smaller one finds faults later.
ALARM = 1e-9
# A count of records exceeds its mean less this many standard deviations with probability at least 90 %. For a normal count 1.28 is enough.
DEVIATIONS = 1.4
TESTS = 5  # number of tests that PoissonBatches makes of one batch, the most of any scheme; they share the level of the batch
LEAST_PROBABILITY = 1e-300  # replaces a probability of zero, which has no logarithm


@dataclass(slots=True)
class ReportingSampler:
    """A wrapper of a batch sampler that reports the indices of each batch before it yields the batch.

    A single index in place of a batch is reported as a batch of one record. Other attributes are those of the wrapped sampler.
    """

    wrapped: Any
    report: Callable[[Indices], None]

    def __iter__(self) -> Iterator[Any]:
        for batch in self.wrapped:
            indices = list(batch) if hasattr(batch, "__iter__") else [batch]
            self.report(np.asarray(indices, np.int64))
            yield batch

    def __len__(self) -> int:
        return len(self.wrapped)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def report_batches(loader: Any, report: Callable[[Indices], None]) -> bool:
    """Make a loader call `report` with the indices of each batch that it draws. An earlier report function is replaced.

    Return False, without changing the loader, if it is not a DataLoader of torch or has no batch sampler that draws indices.
    """
    loader = base_loader(loader)
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return False
    owner, attribute, sampler = batch_sampler_of(loader)
    if isinstance(sampler, ReportingSampler):
        sampler.report = report
    else:
        # The __setattr__ of a DataLoader refuses to replace its batch sampler.
        object.__setattr__(owner, attribute, ReportingSampler(sampler, report))
    return True


class StoredSampler(NamedTuple):
    """A batch sampler, and the place where it is stored: the object that owns it, and the name of the attribute."""

    owner: Any
    attribute: str
    sampler: Any


def batch_sampler_of(loader: Any) -> StoredSampler:
    """Return the sampler that draws a loader's batches. It is None if the loader has no batch sampler.

    Opacus' BatchMemoryManager wraps this sampler in a BatchSplittingSampler, which splits batches to save memory. The wrapped sampler is
    returned.
    """
    sampler: Any = getattr(loader, "batch_sampler", None)
    owner, attribute = loader, "batch_sampler"
    while type(sampler).__name__ == "BatchSplittingSampler":
        owner, attribute, sampler = sampler, "sampler", sampler.sampler
    return StoredSampler(owner, attribute, sampler)


def base_loader(loader: Any) -> Any:
    """Return the loader that a loader of accelerate wraps. Any other loader is returned unchanged."""
    return getattr(loader, "__dict__", {}).get("base_dataloader", loader)


def torch_sampler_name(loader: Any) -> str | None:
    """Return the class name of the sampler of single records if it is one of TORCH_SAMPLERS; None otherwise."""
    sampler = getattr(batch_sampler_of(base_loader(loader)).sampler, "sampler", None)
    return type(sampler).__name__ if isinstance(sampler, TORCH_SAMPLERS) else None


def opacus_rate(loader: Any) -> float | None:
    """Return the sampling rate that Opacus stores as `sample_rate` of its batch sampler; None if there is no such number."""
    rate = getattr(batch_sampler_of(base_loader(loader)).sampler, "sample_rate", None)
    return float(rate) if isinstance(rate, float | int) else None


@dataclass(slots=True)
class DrawnBatches(ABC):
    """A test of the batches of a loader against a sampling scheme.

    Attributes:
        allows_passes: Whether a sampler that goes through the data in passes may be correct.
        records: Number of records of the loader.
        rate: Declared probability with which a record is in a batch.
        count: Number of batches so far.
        size: Number of records in the last batch.
        times: Number of draws of each record, shape (records,). PassBatches counts the draws in the current pass only.
        may_be_passes: Whether the numbers of draws have never differed by more than one between records, as in passes over the data. Only
            `find_passes` updates it.
        digests: Hashes of the earlier batches, which only `find_repetition` adds.
    """

    allows_passes: ClassVar[bool] = False
    records: int
    rate: float
    count: int = 0
    size: int = 0
    times: Indices = field(init=False)
    may_be_passes: bool = True
    digests: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.times = np.zeros(self.records, np.int64)

    def add(self, batch: Indices) -> str | None:
        """Add a batch to the test. Return a description of how the batches contradict the scheme; None if they do not.

        Args:
            batch: Indices of the records of the batch, shape (B,). No scheme draws a record twice in one batch.
        """
        self.count += 1
        self.size = len(batch)
        if len(batch) and (batch.min() < 0 or batch.max() >= self.records):
            return "a record that the dataset does not have"
        if len(np.unique(batch)) < len(batch):
            return "a record twice in one batch"
        self.times[batch] += 1
        return self.contradiction(batch)

    @abstractmethod
    def contradiction(self, batch: Indices) -> str | None:
        """Return a description of how this batch, after the earlier ones, contradicts the scheme; None if it does not."""

    def power(self) -> str | None:
        """Return in words the smallest excess of records that would have been found with probability 90 %; None if it is not known."""
        return None

    @property
    def log_level(self) -> float:
        """Return the logarithm of the significance level of one test of the latest batch.

        The levels of all tests of all batches add up to ALARM at most, because sum_n 1 / (n (n + 1)) = 1.
        """
        return math.log(ALARM / (TESTS * self.count * (self.count + 1)))

    def find_repetition(self, batch: Indices, log_chance_of_equality: float) -> str | None:
        """Return a message if an earlier batch had the same records; None otherwise.

        Args:
            log_chance_of_equality: Logarithm of the probability that two independent batches are equal, or of an upper bound on it.
        """
        digest = hashlib.blake2b(np.sort(batch).tobytes(), digest_size=16).digest()
        is_repeated = digest in self.digests
        self.digests.add(digest)
        log_chance = math.log(max(1, self.count - 1)) + log_chance_of_equality  # a union bound over the earlier batches
        return "the records of an earlier batch again" if is_repeated and log_chance < self.log_level else None

    def find_passes(self, batch: Indices) -> str | None:
        """Return a message if the records are drawn too evenly for independent draws, as in passes over the data; None otherwise."""
        least, most = int(self.times.min()), int(self.times.max())
        self.may_be_passes = self.may_be_passes and most - least <= 1
        if not self.may_be_passes:
            return None
        # In passes, all numbers of draws are k or k + 1 for some k. A union bound over the count + 1 values of k gives the probability.
        log_chance = math.log(self.count + 1.0) + self.records * math.log(max(self._largest_pair_probability(), LEAST_PROBABILITY))
        if log_chance < self.log_level:
            return f"every record {least} or {least + 1} times in {self.count} batches, as in passes over shuffled data"
        return None

    def find_frequent(self) -> str | None:
        """Return a message if a record is drawn more often than the rate allows; None otherwise.

        Such a record would lose more privacy than the file states.
        """
        most = int(self.times.max())
        share = most / self.count
        if share <= self.rate:
            return None
        # The Chernoff bound: the divergence of Bernoulli(share) from Bernoulli(rate), with a union bound over the records.
        divergence = share * math.log(share / self.rate)
        if share < 1.0:
            divergence += (1.0 - share) * math.log((1.0 - share) / (1.0 - self.rate))
        log_chance = math.log(self.records) - self.count * divergence
        if log_chance < self.log_level:
            return f"one record {most} times in {self.count} batches of rate {self.rate:.4g}"
        return None

    def _largest_pair_probability(self) -> float:
        """Return the largest probability with which a record's number of draws is one of two consecutive numbers."""
        # Binomial probabilities fall on both sides of the mode, so the likeliest pair is near it.
        mode = int((self.count + 1) * self.rate)
        near_mode = range(max(0, mode - 2), min(self.count, mode + 2) + 1)
        chances = [math.exp(log_binomial(self.count, self.rate, k)) for k in near_mode]
        pair_chances = (first + second for first, second in zip(chances, [*chances[1:], 0.0], strict=True))
        return min(1.0, max(pair_chances, default=1.0))


@dataclass(slots=True)
class PoissonBatches(DrawnBatches):
    """A test of Poisson sampling, in which each record joins each batch independently with the declared rate.

    Attributes:
        total: Number of records in all batches so far.
        sizes: Batch sizes that have occurred.
    """

    total: int = 0
    sizes: set[int] = field(default_factory=set)

    def contradiction(self, batch: Indices) -> str | None:
        self.total += len(batch)
        self.sizes.add(len(batch))
        mean = self.records * self.rate
        if self._log_chance_of_total(mean) < self.log_level:
            return f"{self.total / self.count:.4g} records in a batch on average, where the rate makes it {mean:.4g}"
        # Each batch after the first has the size of the first with at most the probability of the likeliest size.
        likeliest_size = int((self.records + 1) * self.rate)
        log_chance = (self.count - 1) * log_binomial(self.records, self.rate, likeliest_size)
        if len(self.sizes) == 1 and log_chance < self.log_level:
            return f"{self.count} batches of exactly {len(batch)} records, although sizes vary in Poisson sampling"
        # Two batches are equal if each record is in both or in neither.
        log_chance_of_equality = self.records * math.log1p(-2.0 * self.rate * (1.0 - self.rate))
        return self.find_repetition(batch, log_chance_of_equality) or self.find_frequent() or self.find_passes(batch)

    def power(self) -> str | None:
        mean, log_ratio = self.count * self.records * self.rate, math.log(2.0) - self.log_level
        variance = mean * (1.0 - self.rate)
        # The distance at which Bernstein's bound equals the level.
        distance = log_ratio / 3.0 + math.sqrt(log_ratio**2 / 9.0 + 2.0 * log_ratio * variance)
        times = 1.0 + (distance + DEVIATIONS * math.sqrt(variance)) / mean
        # A record cannot be drawn more often than in every batch, which is 1 / rate times the declared number.
        return f"records drawn {up(times, 2)} times as often" if times < 1.0 / self.rate else None

    def _log_chance_of_total(self, mean: float) -> float:
        """Return the logarithm of Bernstein's bound on the probability that `total` is so far from its expectation."""
        distance = abs(self.total - self.count * mean)
        if not distance > 0.0:
            return 0.0
        variance = self.count * mean * (1.0 - self.rate)
        return math.log(2.0) - distance * distance / (2.0 * (variance + distance / 3.0))


@dataclass(slots=True)
class FixedSizeBatches(DrawnBatches):
    """A test of fixed-size sampling, in which each batch is an independent subset of one size.

    Attributes:
        largest_size: Largest whole number of records that is at most the declared share of the loader's records.
    """

    largest_size: int = field(kw_only=True)

    def contradiction(self, batch: Indices) -> str | None:
        if len(batch) > self.largest_size:
            return f"a batch of {len(batch)} records, more than the declared share"
        repetition = self.find_repetition(batch, -log_ways(self.records, len(batch)))
        if repetition:
            return repetition
        if self.times.max() > 1:  # some record was drawn twice, so the batches are not a pass
            return self.find_frequent()
        # The probability that one record is drawn at most once.
        at_most_once = (1.0 - self.rate) ** self.count + self.count * self.rate * (1.0 - self.rate) ** (self.count - 1)
        # The counts of the records are negatively associated, so their joint probability is at most the product.
        if self.records * math.log(max(at_most_once, LEAST_PROBABILITY)) < self.log_level:
            return f"no record twice in {self.count} batches, as in a pass over shuffled data"
        return None


@dataclass(slots=True)
class PassBatches(DrawnBatches):
    """A test of sampling in passes, in which each record is in at most one batch of a pass.

    Attributes:
        length: Number of batches of a pass.
    """

    allows_passes: ClassVar[bool] = True
    length: int = field(kw_only=True)

    def contradiction(self, batch: Indices) -> str | None:
        if (self.count - 1) % self.length == 0:  # the batch begins a pass, and `add` has counted it with the last pass
            self.times[:] = 0
            self.times[batch] = 1
        if len(batch) and self.times[batch].max() > 1:
            return f"a record twice in a pass of {self.length} batches"
        return None


@dataclass(slots=True)
class WholeBatches(DrawnBatches):
    """A test of an entry that claims no amplification by sampling. Any batch passes that has no record twice and no unknown index."""

    allows_passes: ClassVar[bool] = True

    def contradiction(self, batch: Indices) -> str | None:
        return None


def log_binomial(count: int, rate: float, k: int) -> float:
    """Return the logarithm of the probability of k successes in `count` trials of probability `rate`, which may be 0 or 1."""
    if not 0.0 < rate < 1.0:
        only_value = count if rate >= 1.0 else 0
        return 0.0 if k == only_value else -math.inf
    return log_ways(count, k) + k * math.log(rate) + (count - k) * math.log1p(-rate)


def log_ways(count: int, k: int) -> float:
    """Return the logarithm of the number of subsets of k out of `count`."""
    return math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)


def batches_of(scheme: Scheme | None, dataset_size: int, records: int) -> DrawnBatches | None:
    """Return the test of a sampling scheme; None for a scheme that has no test, such as Poisson sampling with a largest batch size.

    Args:
        scheme: Declared scheme; None if batches are not sampled.
        dataset_size: Declared number of records.
    """
    stated_rate = None if scheme is None else scheme.exact_rate(dataset_size)
    exact_rate = Fraction(1) if stated_rate is None else stated_rate
    if isinstance(scheme, Unsampled | None) or (stated_rate is not None and stated_rate >= 1):
        return WholeBatches(records, 1.0)
    rate = float(exact_rate)
    if isinstance(scheme, Poisson) and scheme.max_batch_size is None:
        return PoissonBatches(records, rate)
    if isinstance(scheme, FixedSize):
        # In floating point, 0.29 * 100 is below 29.
        return FixedSizeBatches(records, rate, largest_size=math.floor(exact_rate * records))
    if isinstance(scheme, OncePerEpoch) and not isinstance(scheme, BallsInBins):
        return PassBatches(records, rate, length=pass_length(scheme, dataset_size))
    return None
