"""A tail probability that is NaN ends the run with an InternalError.

Comparisons with NaN are false, so that searches and sums would otherwise take it for a small number and claim too little loss.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array
from dpcli.numerics.grid.lattice import discretise, edges
from dpcli.numerics.tails import Tails, log_deltas, normal_tails, single_epsilon, single_log_delta, total_variation


class Torn:
    """A Gaussian's loss, one tail of which is NaN."""

    def __init__(self, torn: str) -> None:
        self.torn = torn

    def tails(self, at: Array) -> Tails:
        sound = normal_tails(at - 0.5, 1.0, 0.0)
        return sound._replace(**{self.torn: np.full(at.shape, math.nan)}) if self.torn else sound


@pytest.mark.parametrize("torn", ["p_above", "q_above"])
def test_a_tail_that_is_no_number_is_no_epsilon(torn: str) -> None:
    for ask in (
        lambda loss: single_log_delta(loss, 1.0),
        lambda loss: log_deltas(loss, np.array([0.5, 1.0])),
        lambda loss: single_epsilon(loss, math.log(1e-6)),
        total_variation,
    ):
        ask(Torn(""))
        with pytest.raises(InternalError, match="NaN"):
            ask(Torn(torn))


def test_a_cell_at_a_tail_that_is_no_number_is_not_empty() -> None:
    """Such cells were left out, also of upper bounds."""
    at = edges(-40, 80, 0.1)
    discretise(Torn("").tails(at), -40, 0.1, 1.0)
    for torn in Tails._fields:
        with pytest.raises(InternalError, match="NaN"):
            discretise(Torn(torn).tails(at), -40, 0.1, 1.0)
