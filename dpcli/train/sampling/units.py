"""The sampling of units of privacy that own several records, such as users.

The number of records of each unit is bounded, because the accountant prices a bounded number only. The records of a unit are sampled and
clipped either together (`by_unit`, with the key records_per_unit of [train]) or separately (`with_bounded_units`, with
privacy.max_contributions). step/prepare.py applies one of the two to the learning problem of the task when train.units names the owners.

Source: user-level and example-level sampling, Charles et al. 2024, arXiv:2407.07737.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dpcli.random.streams import Stream
from dpcli.train.engine.batches import Batch, take
from dpcli.train.engine.method import Loss
from dpcli.train.run.ranks import Ranks
from dpcli.train.tasks.learning import Learning
from dpcli.train.torch_internals import tree_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.subsets import Indices


def selected_records(units: NDArray[np.generic], most: int, stream: Stream) -> Indices:
    """Return the increasing indices of the records that the run uses. They are at most `most` random records of each unit.

    Each record has a random number of its own, and a unit keeps the records with its smallest numbers. So the distribution of the records
    that a unit keeps depends on no other unit. The number of omitted records is private, and is not reported.

    Args:
        most: Largest number of records of a unit.
    """
    ordered = np.lexsort((stream.words(len(units)), units))  # by unit, and by random number within a unit
    return np.sort(ordered[_rank_in_unit(units[ordered]) < most])


class UnitRows(NamedTuple):
    """The records of U units, in a table with the same number of places for each unit.

    Attributes:
        records: Record indices, of shape (U, most). Unused places repeat the unit's first record.
        real: Whether each place is used, of shape (U, most).
    """

    records: Indices
    real: NDArray[np.bool_]


def unit_rows(units: NDArray[np.generic], most: int, stream: Stream) -> UnitRows:
    """Return at most `most` records of each unit, selected as in `selected_records`."""
    chosen = selected_records(units, most, stream)
    ordered = chosen[np.argsort(units[chosen], kind="stable")]
    rank = _rank_in_unit(units[ordered])
    starts = np.flatnonzero(rank == 0)
    sizes = np.diff(np.append(starts, len(ordered)))
    places = np.arange(most)
    real = places < sizes[:, None]
    return UnitRows(ordered[starts[:, None] + np.where(real, places, 0)], real)


def _rank_in_unit(ordered: NDArray[np.generic]) -> Indices:
    """Return the position of each value within its run of equal values, from 0: [7, 7, 9, 9, 9] gives [0, 1, 0, 1, 2]."""
    positions = np.arange(len(ordered))
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)]  # empty if there are no values
    return np.asarray(positions - np.maximum.accumulate(np.where(begins, positions, 0)))


def with_bounded_units(problem: Learning, units: NDArray[np.generic], most: int, stream: Stream, ranks: Ranks) -> Learning:
    """Return the problem with at most `most` records of each unit. The records are sampled and clipped separately."""
    chosen = torch.from_numpy(ranks.broadcast(selected_records(units, most, stream)))
    return replace(problem, records=take(problem.records, chosen), units=None)


def by_unit(problem: Learning, units: NDArray[np.generic], most: int, stream: Stream, ranks: Ranks) -> Learning:
    """Return the problem with units in place of records.

    The loss of a unit is the mean over at most `most` of its records, and the gradient of this loss is clipped. For the accounting, the
    units are the records of the dataset: dataset_size counts units, and max_contributions is 1.
    """
    rows, real = ranks.broadcast(unit_rows(units, most, stream))
    records = tree_map(lambda leaf: leaf[torch.from_numpy(rows)], problem.records)
    return replace(problem, records=(records, torch.from_numpy(real)), loss=mean_over_units(problem.loss), units=None, draw=None)


def mean_over_units(loss: Loss) -> Loss:
    """Return a loss of units, which is the mean of the given loss over the records of each unit.

    A batch of units is a pair. It consists of records of shape (U, most, ...), and of whether each record is used, of shape (U, most).
    """

    def unit_losses(model: nn.Module, batch: Batch) -> Tensor:
        records, real = batch
        assert isinstance(real, Tensor)
        flat = tree_map(lambda leaf: leaf.flatten(0, 1), records)
        losses = loss(model, flat).view(real.shape)
        return torch.where(real, losses, 0.0).sum(1) / real.sum(1)

    return unit_losses
