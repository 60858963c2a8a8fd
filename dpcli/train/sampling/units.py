"""Records that belong to units of privacy (users, say): bounded, and either drawn together and clipped as one, or each for itself.

Source: user-level and example-level sampling, Charles et al. 2024, arXiv:2407.07737.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpcli.random.streams import Stream
from dpcli.train.engine.batches import Batch, take
from dpcli.train.engine.method import Loss
from dpcli.train.run.ranks import Ranks
from dpcli.train.sampling.unit_samples import grouped, kept
from dpcli.train.tasks.learning import Learning

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    found = grouped(units, most, stream)
    sizes = np.diff(found.starts)
    places = np.arange(most)
    real = places < sizes[:, None]
    return found.records[found.starts[:-1, None] + np.where(real, places, 0)], real


def mean_over_units(loss: Loss) -> Loss:
    """From a loss of records to a loss of units, whose batches are (records (U, most, ...), which are real (U, most))."""

    def of_units(model: nn.Module, batch: Batch) -> Tensor:
        records, real = batch
        assert isinstance(real, Tensor)
        flat = tree_map(lambda leaf: leaf.flatten(0, 1), records)
        losses = loss(model, flat).view(real.shape)
        return torch.where(real, losses, 0.0).sum(1) / real.sum(1)

    return of_units
