"""Records that belong to units of privacy (users, say): bounded, and either drawn together and clipped as one, or each for itself.

Source: user-level and example-level sampling, Charles et al. 2024, arXiv:2407.07737.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpcli.base.errors import InputError
from dpcli.mechanisms.sampling.schemes import Scheme
from dpcli.random.streams import Stream
from dpcli.train.engine.batches import Batch, take
from dpcli.train.engine.method import Loss
from dpcli.train.run.ranks import Ranks
from dpcli.train.sampling.batch_samplers import sampler
from dpcli.train.tasks.learning import Learning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.subsets import Indices


def kept(units: NDArray[np.generic], most: int, stream: Stream) -> Indices:
    """Increasing indices of the records that are used: all of a unit's, or `most` of them drawn at random, once and for all steps.

    Which of its records a unit keeps depends on no other unit. How many are left out is private, and not reported.

    Args:
        units: the unit of each record.
        most: privacy.max_contributions.
    """
    ordered = np.lexsort((stream.words(len(units)), units))
    return np.sort(ordered[_rank(units[ordered]) < most])


def require_bounded(units: NDArray[np.generic], most: int) -> None:
    """Refuse data of which some unit has more than `most` records. The message does not say which, nor how many."""
    if len(units) and int(np.unique(units, return_counts=True)[1].max()) > most:
        raise InputError(f"expected at most privacy.max_contributions = {most} records of each unit, found more")


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Units in place of records: `count` of them, each with its records next to each other.

    records: indices of the kept records, unit by unit. starts: where each unit's begin, and the end.
    """

    records: Indices
    starts: Indices

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    def members(self, chosen: Indices) -> Indices:
        """All kept records of some units, unit by unit."""
        sizes = self.sizes(chosen)
        shift = np.repeat(self.starts[chosen] - np.cumsum(sizes) + sizes, sizes)
        return np.asarray(self.records[np.arange(len(shift)) + shift])

    def sizes(self, chosen: Indices) -> Indices:
        """Return how many records each of some units has: where `members` passes from one to the next."""
        return np.asarray(self.starts[chosen + 1] - self.starts[chosen])

    def batches(self, scheme: Scheme, dataset_size: int | None, stream: Stream) -> Iterator[Indices]:
        """Samples of units (not of records), step after step; `members` gives their records.

        The accounting is that of a dataset whose records are the units: the sum of a unit's records must be clipped as one,
        dataset_size counts units, and max_contributions is 1. Where records are clipped one by one and max_contributions counts
        them, the accountant takes every record to be sampled for itself, and `sampler` on the `kept` records is what it means:
        units that come as a whole are further apart than that.
        """
        return sampler(scheme, dataset_size, stream, self.count)


def grouped(units: NDArray[np.generic], most: int, stream: Stream) -> Units:
    """The units of the records, with at most `most` records each, chosen as in `kept`."""
    chosen = kept(units, most, stream)
    ordered = chosen[np.argsort(units[chosen], kind="stable")]
    first = _rank(units[ordered]) == 0
    return Units(ordered, np.append(np.flatnonzero(first), len(ordered)))


def _rank(ordered: NDArray[np.generic]) -> Indices:
    """0, 1, 2, ... within each run of equal values."""
    positions = np.arange(len(ordered))
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)]
    return np.asarray(positions - np.maximum.accumulate(np.where(begins, positions, 0)))


def fewer(problem: Learning, units: NDArray[np.generic], most: int, stream: Stream, ranks: Ranks) -> Learning:
    """At most `most` records of each unit, each of them sampled and clipped for itself: what max_contributions = most accounts for."""
    chosen = torch.from_numpy(ranks.same(kept(units, most, stream)))
    return replace(problem, records=take(problem.records, chosen), units=None)


def by_unit(problem: Learning, units: NDArray[np.generic], most: int, stream: Stream, ranks: Ranks) -> Learning:
    """Units in place of records: each has the mean loss over at most `most` of its records, which is clipped as one.

    A unit with fewer records is filled up with copies of its own first one, which count nothing.
    """
    rows, real = ranks.same(padded(units, most, stream))
    records = tree_map(lambda leaf: leaf[torch.from_numpy(rows)], problem.records)
    return replace(problem, records=(records, torch.from_numpy(real)), loss=mean_over_units(problem.loss), units=None, draw=None)


def padded(units: NDArray[np.generic], most: int, stream: Stream) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Record indices (U, most), unit by unit, and which of them are not copies."""
    units_of = grouped(units, most, stream)
    sizes = np.diff(units_of.starts)
    places = np.arange(most)
    real = places < sizes[:, None]
    return units_of.records[units_of.starts[:-1, None] + np.where(real, places, 0)], real


def mean_over_units(loss: Loss) -> Loss:
    """From a loss of records to a loss of units, whose batches are (records (U, most, ...), which are real (U, most))."""

    def of_units(model: nn.Module, batch: Batch) -> Tensor:
        records, real = batch
        assert isinstance(real, Tensor)
        flat = tree_map(lambda leaf: leaf.flatten(0, 1), records)
        losses = loss(model, flat).view(real.shape)
        return torch.where(real, losses, 0.0).sum(1) / real.sum(1)

    return of_units
