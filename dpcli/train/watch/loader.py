"""Statistical tests of a loader's batches: whether the records that it draws may come from the declared sampling scheme.

The tests refuse a right sampler once in 10^9 runs, however long. Each returns words where the batches contradict the scheme, and "" if
they do not: a loader that passes is not proven right.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from dpcli.mechanisms.sampling.schemes import BallsInBins, FixedSize, OncePerEpoch, Poisson, Scheme, Unsampled
from dpcli.numerics.arrays import np
from dpcli.train.sampling.batch_samplers import pass_length

if TYPE_CHECKING:
    from dpcli.random.subsets import Indices


IN_PASSES = (RandomSampler, SequentialSampler, SubsetRandomSampler, DistributedSampler, WeightedRandomSampler)


@dataclass(slots=True)
class Recording:
    """A sampler of batches that reports each batch."""

    recorded: Any
    report: Callable[[Indices], None]

    def __iter__(self) -> Iterator[Any]:
        for batch in self.recorded:
            self.report(np.asarray(list(batch) if hasattr(batch, "__iter__") else [batch], np.int64))
            yield batch

    def __len__(self) -> int:
        return len(self.recorded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorded, name)


def record(loader: Any, report: Callable[[Indices], None]) -> bool:
    """Have a loader report each batch as it is drawn; return False for a loader that draws no indices."""
    loader = inside(loader)
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return False
    holder, name, sampler = batch_sampler(loader)
    if isinstance(sampler, Recording):
        sampler.report = report
    else:
        object.__setattr__(holder, name, Recording(sampler, report))  # a DataLoader's own __setattr__ refuses it
    return True


class BatchSampler(NamedTuple):
    """The sampler of a loader's batches, and the attribute that holds it."""

    holder: Any
    name: str
    sampler: Any


def batch_sampler(loader: Any) -> BatchSampler:
    """Return what draws a loader's batches: inside of what cuts them for memory, as Opacus' BatchMemoryManager does."""
    sampler: Any = getattr(loader, "batch_sampler", None)
    holder, name = loader, "batch_sampler"
    while type(sampler).__name__ == "BatchSplittingSampler":
        holder, name, sampler = sampler, "sampler", sampler.sampler
    return BatchSampler(holder, name, sampler)


def inside(loader: Any) -> Any:
    """Return the loader that draws: accelerate's loaders have one inside."""
    return getattr(loader, "__dict__", {}).get("base_dataloader", loader)


def order_of(loader: Any) -> str:
    """Return the sampler's name where, by torch's documentation, it goes through the data in passes or draws with replacement; else ""."""
    sampler = getattr(batch_sampler(inside(loader)).sampler, "sampler", None)
    return type(sampler).__name__ if isinstance(sampler, IN_PASSES) else ""


def rate_of(loader: Any) -> float | None:
    """Return the rate that a loader's sampler states, as Opacus' does; None if it states none."""
    rate = getattr(batch_sampler(inside(loader)).sampler, "sample_rate", None)
    return float(rate) if isinstance(rate, float | int) else None


ALARM = 1e-9  # chance that a right sampler, or right noise, is refused


@dataclass(slots=True)
class DrawnBatches(ABC):
    """The batches of a loader so far, tested against a scheme.

    Attributes:
        records: How many the loader has.
        rate: As declared.
        seen: Number of batches.
        times: How often each record was drawn.
        may_be_passes: No record was ever drawn two times more often than another.
    """

    records: int
    rate: float
    seen: int = 0
    times: Indices = field(init=False)
    may_be_passes: bool = True

    def __post_init__(self) -> None:
        self.times = np.zeros(self.records, np.int64)

    def see(self, batch: Indices) -> str:
        """Take one more batch, and return in words what is wrong with it; "" if nothing is."""
        self.seen += 1
        if len(batch) and (batch.min() < 0 or batch.max() >= self.records):
            return "a record that the dataset does not have"
        if len(np.unique(batch)) < len(batch):
            return "a record twice in one batch"
        self.times[batch] += 1
        return self.contradiction(batch)

    @abstractmethod
    def contradiction(self, batch: Indices) -> str:
        """Return in words what contradicts the scheme, after the batches before; "" if nothing does."""

    @property
    def alarm(self) -> float:
        """Return the log of the level of the test on this batch: the levels of all batches add up to ALARM."""
        return math.log(ALARM / (self.seen * (self.seen + 1)))

    def evenly(self, batch: Indices) -> str:
        """Return words where records are drawn too evenly: as in passes over the data, where each should be drawn by itself."""
        least, most = int(self.times.min()), int(self.times.max())
        self.may_be_passes = self.may_be_passes and most - least <= 1
        if not self.may_be_passes:
            return ""
        # The two counts are one of seen + 1 pairs of neighbours.
        if math.log(self.seen + 1.0) + self.records * math.log(max(self._likeliest(), 1e-300)) < self.alarm:
            return f"every record {least} or {least + 1} times in {self.seen} batches, as in passes over shuffled data"
        return ""

    def often(self) -> str:
        """Return words if a record is drawn too often: its privacy costs what its own rate does."""
        most = int(self.times.max())
        share = most / self.seen
        if share <= self.rate:
            return ""
        beyond = 0.0 if share >= 1.0 else (1.0 - share) * math.log((1.0 - share) / (1.0 - self.rate))
        chance = math.log(self.records) - self.seen * (share * math.log(share / self.rate) + beyond)  # Chernoff, of any record
        return f"one record {most} times in {self.seen} batches of rate {self.rate:.4g}" if chance < self.alarm else ""

    def _likeliest(self) -> float:
        """Return the largest chance that a binomial count is one of two neighbours."""
        mode = int((self.seen + 1) * self.rate)
        chances = [math.exp(log_binomial(self.seen, self.rate, k)) for k in range(max(0, mode - 2), min(self.seen, mode + 2) + 1)]
        return min(1.0, max((a + b for a, b in zip(chances, [*chances[1:], 0.0], strict=True)), default=1.0))


@dataclass(slots=True)
class PoissonBatches(DrawnBatches):
    """Batches of Poisson sampling: every record is in every batch with the declared rate, by itself."""

    total: int = 0
    sizes: set[int] = field(default_factory=set)

    def contradiction(self, batch: Indices) -> str:
        self.total += len(batch)
        self.sizes.add(len(batch))
        n, mean = self.records, self.records * self.rate
        variance, off = self.seen * mean * (1.0 - self.rate), abs(self.total - self.seen * mean)
        if off > 0.0 and math.log(2.0) - off * off / (2.0 * (variance + off / 3.0)) < self.alarm:  # Bernstein
            return f"{self.total / self.seen:.4g} records in a batch on average, where the rate makes it {mean:.4g}"
        highest = log_binomial(n, self.rate, int((n + 1) * self.rate))
        if len(self.sizes) == 1 and (self.seen - 1) * highest < self.alarm:
            return f"{self.seen} batches of exactly {len(batch)} records, where their sizes should vary"
        return self.often() or self.evenly(batch)


@dataclass(slots=True)
class FixedSizeBatches(DrawnBatches):
    """Batches of fixed-size sampling: each is a fresh subset of one size."""

    def contradiction(self, batch: Indices) -> str:
        if len(batch) > math.floor(self.rate * self.records):
            return f"a batch of {len(batch)} records, more than the declared share"
        if self.times.max() > 1:
            return self.often()
        once = (1.0 - self.rate) ** self.seen + self.seen * self.rate * (1.0 - self.rate) ** (self.seen - 1)
        if self.records * math.log(max(once, 1e-300)) < self.alarm:  # negatively associated: at most the product
            return f"no record twice in {self.seen} batches, as in a pass over shuffled data"
        return ""


@dataclass(slots=True)
class PassBatches(DrawnBatches):
    """Batches in passes: every record is at most once in `length` batches."""

    length: int = 1

    def contradiction(self, batch: Indices) -> str:
        if (self.seen - 1) % self.length == 0:
            self.times[:] = 0
            self.times[batch] = 1
        return f"a record twice in a pass of {self.length} batches" if len(batch) and self.times[batch].max() > 1 else ""


@dataclass(slots=True)
class WholeBatches(DrawnBatches):
    """Batches without sampling: as no amplification is claimed, any batch is right."""

    def contradiction(self, batch: Indices) -> str:
        return ""


def log_binomial(count: int, rate: float, k: int) -> float:
    """Return the logarithm of the binomial probability of k among `count`."""
    if not 0.0 < rate < 1.0:
        return 0.0 if k == (count if rate >= 1.0 else 0) else -math.inf
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return ways + k * math.log(rate) + (count - k) * math.log1p(-rate)


def batches_of(scheme: Scheme | None, dataset_size: int, records: int) -> DrawnBatches | None:
    """Return what tests the batches of a scheme; None if there is no test."""
    exact = None if scheme is None else scheme.exact_rate(dataset_size)
    if isinstance(scheme, Unsampled | None) or (exact is not None and exact >= 1):
        return WholeBatches(records, 1.0)
    rate = 1.0 if exact is None else float(exact)
    if isinstance(scheme, Poisson) and scheme.max_batch_size is None:
        return PoissonBatches(records, rate)
    if isinstance(scheme, FixedSize):
        return FixedSizeBatches(records, rate)
    if isinstance(scheme, OncePerEpoch) and not isinstance(scheme, BallsInBins):
        return PassBatches(records, rate, length=pass_length(scheme, dataset_size))
    return None
