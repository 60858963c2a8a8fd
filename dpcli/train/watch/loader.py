"""The batches of a loader: which records it draws, seen where indices are made, and whether they may come from the declared scheme.

The tests fail a right sampler once in 10^9 runs, however long. Each returns words where the batches contradict the scheme, and "" where
they do not: what passes is not proven.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    """A sampler of batches that tells of each."""

    recorded: Any
    tell: Callable[[Indices], None]

    def __iter__(self) -> Iterator[Any]:
        for batch in self.recorded:
            self.tell(np.asarray(list(batch) if hasattr(batch, "__iter__") else [batch], np.int64))
            yield batch

    def __len__(self) -> int:
        return len(self.recorded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorded, name)


def record(loader: Any, tell: Callable[[Indices], None]) -> bool:
    """Have a loader tell of each batch as it is drawn. Returns whether it does: not one that has no indices."""
    loader = inside(loader)
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return False
    holder, name, drawing = drawn_by(loader)
    if isinstance(drawing, Recording):
        drawing.tell = tell
    else:
        object.__setattr__(holder, name, Recording(drawing, tell))  # a DataLoader refuses it, for its own sake
    return True


def drawn_by(loader: Any) -> tuple[Any, str, Any]:
    """Return what draws its batches, and which attribute of what it is: not what cuts them for memory, as BatchMemoryManager does."""
    sampler: Any = getattr(loader, "batch_sampler", None)
    holder, name = loader, "batch_sampler"
    while type(sampler).__name__ == "BatchSplittingSampler":
        holder, name, sampler = sampler, "sampler", sampler.sampler
    return holder, name, sampler


def inside(loader: Any) -> Any:
    """Return the loader that is iterated over: accelerate's have one inside."""
    return getattr(loader, "__dict__", {}).get("base_dataloader", loader)


def order_of(loader: Any) -> str:
    """Return the sampler's name where torch documents that it goes through the data in passes, or draws with replacement; else ""."""
    sampler = getattr(drawn_by(inside(loader))[2], "sampler", None)
    return type(sampler).__name__ if isinstance(sampler, IN_PASSES) else ""


def rate_of(loader: Any) -> float | None:
    """Return the rate that its sampler says it draws with, as that of Opacus does; None where it says nothing."""
    rate = getattr(drawn_by(inside(loader))[2], "sample_rate", None)
    return float(rate) if isinstance(rate, float | int) else None


ALARM = 1e-9


@dataclass(slots=True)
class DrawnBatches(ABC):
    """records: how many the loader has. rate: as declared. seen: batches so far. times: how often each record came.

    unsettled: whether they may still be passes over the data, as far as is known.
    """

    records: int
    rate: float
    seen: int = 0
    times: Indices = field(init=False)
    unsettled: bool = True

    def __post_init__(self) -> None:
        self.times = np.zeros(self.records, np.int64)

    def see(self, batch: Indices) -> str:
        """Take one more batch."""
        self.seen += 1
        if len(batch) and (batch.min() < 0 or batch.max() >= self.records):
            return "a record that the dataset does not have"
        if len(np.unique(batch)) < len(batch):
            return "a record twice in one batch"
        self.times[batch] += 1
        return self.contradiction(batch)

    @abstractmethod
    def contradiction(self, batch: Indices) -> str:
        """Return what is wrong with it, after those before it."""

    @property
    def alarm(self) -> float:
        """Return the log of the chance at which this batch may be blamed: all of them together stay below ALARM."""
        return math.log(ALARM / (self.seen * (self.seen + 1)))

    def evenly(self, batch: Indices) -> str:
        """Counts that differ by one at most: passes over data in some order, where each record should come for itself."""
        least, most = int(self.times.min()), int(self.times.max())
        self.unsettled = self.unsettled and most - least <= 1  # else passes are excluded for good
        if not self.unsettled:
            return ""
        # Whichever two counts they are: one of seen + 1.
        if math.log(self.seen + 1.0) + self.records * math.log(max(self._likeliest(), 1e-300)) < self.alarm:
            return f"every record {least} or {least + 1} times in {self.seen} batches, as in passes over shuffled data"
        return ""

    def often(self) -> str:
        """A record that came far more often than the others: its own rate is what its privacy costs."""
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
    """Every record with the declared rate, for itself, in every batch."""

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
    """A fresh subset of one size in every batch."""

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
    """Every record at most once in a pass of so many batches."""

    length: int = 1

    def contradiction(self, batch: Indices) -> str:
        if (self.seen - 1) % self.length == 0:
            self.times[:] = 0
            self.times[batch] = 1
        return f"a record twice in a pass of {self.length} batches" if len(batch) and self.times[batch].max() > 1 else ""


@dataclass(slots=True)
class WholeBatches(DrawnBatches):
    """Every record in every batch: no amplification is claimed, and none may be lost."""

    def contradiction(self, batch: Indices) -> str:
        return ""


def log_binomial(count: int, rate: float, k: int) -> float:
    """Return the logarithm of the chance of k among `count`."""
    if not 0.0 < rate < 1.0:
        return 0.0 if k == (count if rate >= 1.0 else 0) else -math.inf
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
    return ways + k * math.log(rate) + (count - k) * math.log1p(-rate)


def batches_of(scheme: Scheme | None, dataset_size: int, records: int) -> DrawnBatches | None:
    """Return what tests the batches of a scheme; None where there is no test."""
    rate = None if scheme is None else scheme.exact_rate(dataset_size)
    chosen = next((make for kind, make in KINDS.items() if isinstance(scheme, kind)), None)
    if scheme is None or (rate is not None and rate >= 1):
        return WholeBatches(records, 1.0)
    return None if chosen is None else chosen(scheme, dataset_size, records, 1.0 if rate is None else float(rate))


def _poisson(scheme: Poisson, dataset_size: int, records: int, rate: float) -> DrawnBatches | None:
    return PoissonBatches(records, rate) if scheme.max_batch_size is None else None


KINDS: dict[type[Scheme], Callable[..., DrawnBatches | None]] = {
    Poisson: _poisson,
    FixedSize: lambda scheme, size, records, rate: FixedSizeBatches(records, rate),
    BallsInBins: lambda scheme, size, records, rate: None,
    OncePerEpoch: lambda scheme, size, records, rate: PassBatches(records, rate, length=pass_length(scheme, size)),
    Unsampled: lambda scheme, size, records, rate: WholeBatches(records, rate),
}
