"""Which records a loader draws, seen where its indices are made: before workers, collation and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

from dpcli.numerics.arrays import np

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
    """What draws its batches, and which attribute of what it is: not what cuts them for memory, as Opacus' BatchMemoryManager does."""
    found: Any = getattr(loader, "batch_sampler", None)
    holder, name = loader, "batch_sampler"
    while type(found).__name__ == "BatchSplittingSampler":
        holder, name, found = found, "sampler", found.sampler
    return holder, name, found


def inside(loader: Any) -> Any:
    """The loader that is iterated over: accelerate's have one inside."""
    return getattr(loader, "__dict__", {}).get("base_dataloader", loader)


def order_of(loader: Any) -> str:
    """The sampler's name where torch documents that it goes through the data in passes, or draws with replacement; else ""."""
    sampler = getattr(drawn_by(inside(loader))[2], "sampler", None)
    return type(sampler).__name__ if isinstance(sampler, IN_PASSES) else ""


def rate_of(loader: Any) -> float | None:
    """The rate that its sampler says it draws with, as that of Opacus does; None where it says nothing."""
    rate = getattr(drawn_by(inside(loader))[2], "sample_rate", None)
    return float(rate) if isinstance(rate, float | int) else None
