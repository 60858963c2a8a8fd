"""Where to look for a jump among many different losses of one family: what one of them makes of delta, and what all make without rare
outcomes. Nothing here is a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.integral import Losses
from dpcli.numerics.logspace import log_ndtr_array
from dpcli.numerics.quadrature import TAIL
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.shifted import LEAST as ROWS
from dpcli.numerics.shifted import Shifted, ShiftedRemove, row_of, table_of

NODES = 160  # over the outcomes of a step
LEAST, MOST = -36.0, 6.0  # logarithms of the epsilons that are looked at
ROUGH = 1e-4  # relative
FARTHEST = 700.0  # epsilon, beyond which e^epsilon is no number: this only says where to look


@dataclass(frozen=True, slots=True, eq=False)
class LoneRows:
    """Losses of the remove direction, row i `counts[i]` times."""

    table: Shifted
    counts: Array
    losses: Losses

    def log_delta(self, epsilon: float) -> float:
        """log SUM n_i delta_i(epsilon): in closed form, as r_i passes e^epsilon at x_i."""
        mu, q = self.table.shifts, self.table.weights
        level = math.expm1(min(epsilon, FARTHEST)) + q
        x = np.log(level / q) / mu + 0.5 * mu
        here, there = log_ndtr_array(np.stack((mu - x, -x)))
        found = float(self.counts @ (np.exp(here) * q * -np.expm1(np.minimum(there - here + np.log(level / q), 0.0))))
        return math.log(found) if found > 0.0 else -math.inf

    def epsilon(self, log_delta: float) -> float:
        """Where that is e^log_delta, about; 0 where it never is."""
        if self.log_delta(math.exp(LEAST)) <= log_delta:
            return 0.0
        found = bracket_root(lambda at: self.log_delta(math.exp(at)) - log_delta, LEAST, MOST, rtol=ROUGH)[0]
        return math.exp(found)

    def core(self, log_mass: float) -> tuple[float, float]:
        """Sums of E_P[L] and E_P[L^2] without outcomes that are beyond with a probability of e^log_mass in all."""
        mu, q = self.table.shifts, self.table.weights
        rest = math.log(float(self.counts.sum())) - log_mass
        x = np.linspace(-TAIL, math.sqrt(2.0 * rest) + float(mu.max()), NODES)[None, :].repeat(len(mu), axis=0)
        base, ratio = self.table.line(x)
        weights = np.exp(base + ratio) * (x[0, 1] - x[0, 0])
        log_tail = np.logaddexp(np.log1p(-q)[:, None] + log_ndtr_array(-x), np.log(q)[:, None] + log_ndtr_array(mu[:, None] - x))
        weights[log_tail < -rest] = 0.0
        return float(self.counts @ (weights * ratio).sum(axis=1)), float(self.counts @ (weights * ratio**2).sum(axis=1))


def in_rows(losses: Losses) -> tuple[LoneRows | None, Losses]:
    """(rows, the losses that are in none); no rows where they are few."""
    if len(losses) < ROWS:
        return None, losses
    found = [row_of(loss) for loss, _ in losses]
    inside = [row is not None and row.family is ShiftedRemove for row in found]
    if sum(inside) < ROWS:
        return None, losses
    chosen = tuple(part for part, into in zip(losses, inside, strict=True) if into)
    table = table_of([row for row, into in zip(found, inside, strict=True) if row is not None and into])
    others = tuple(part for part, into in zip(losses, inside, strict=True) if not into)
    return LoneRows(table, np.array([float(n) for _, n in chosen]), chosen), others
