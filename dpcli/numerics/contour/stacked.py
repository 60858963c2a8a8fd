"""Many different losses of one family as one loss: their sum, evaluated as rows of arrays (`Shifted`) instead of one after the other.

Every row's values are those of a `TiltedQuadrature` of its own, found by the same rules; a row that would need finer nodes, or other
lines, is left to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.tilted import FAR, REACH, Loss, Losses
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.mixture import LEAST, Shifted, TableRow, cgfs, nodes_of_rows, row_groups, row_of, table_of
from dpcli.numerics.products import turned_less_one_rows
from dpcli.numerics.quadrature import MAX_NODES
from dpcli.numerics.work import spend

SHARES = (0.003, 0.02, 0.09, 0.3, 0.7)  # of `reach`: heights of the lines
LONGEST = 4096  # frequencies that are made for all rows at once


def in_stacks(losses: Losses) -> Losses:
    """The losses, those that are rows of one family's table put together in one that stands for all of their steps."""
    groups: dict[type[Shifted], list[tuple[TableRow, Loss, int]]] = {}
    stacks: list[tuple[Loss, int]] = []
    for loss, count in losses:
        row = row_of(loss)
        if row is None:
            stacks.append((loss, count))
        else:
            groups.setdefault(row.family, []).append((row, loss, count))
    for members in groups.values():
        if len(members) < LEAST:
            stacks.extend((loss, count) for _, loss, count in members)
        else:
            counts = np.array([float(count) for _, _, count in members])
            stacks.append((StackedLoss(table_of([row for row, _, _ in members]), counts, tuple(loss for _, loss, _ in members)), 1))
    return tuple(stacks)


@dataclass(frozen=True, slots=True, eq=False)
class StackedLoss:
    """The sum of independent losses, row i `counts[i]` times."""

    rows: Shifted
    counts: Array
    losses: Sequence[Loss]

    def cgf(self, z: Array) -> Array:
        return np.asarray(self.counts @ cgfs(self.rows, z))

    def tilted(self, t: float) -> StackedTilted:
        return StackedTilted(self, t)


class Lines(NamedTuple):
    """Lines of rows: log |Q r^{t+1}| over the norm and |arg r|, of shape (rows, heights, nodes), on lines at `heights` (rows, heights)."""

    heights: Array
    log_density: Array
    turn: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some rows whose tables are of about the same length; every array is of shape (rows,)."""

    index: IndexArray
    low: Array
    high: Array
    step: Array
    log_norm: Array
    mean: Array
    variance: Array
    lines: Callable[[], Lines]


def _reach(rows: Shifted) -> Array:
    return np.minimum(0.5 * math.pi / rows.shifts, REACH)


class StackedTilted:
    """The rows' losses under e^{t L - K(t)} dP, added up."""

    def __init__(self, stack: StackedLoss, t: float) -> None:
        self._stack, self._t = stack, t
        rows, order = stack.rows, np.full(len(stack.counts), t)
        low, high = rows.windows(order)
        step = rows.steps(order)
        count = (high - low) / step
        wide_low, wide_high = rows.cgf_windows(order)
        self.sharp = bool((((wide_high - wide_low) / step) < MAX_NODES).all())
        self._blocks = [self._block(i, low[i], high[i], step[i]) for i in row_groups(np.arange(len(count)), count, len(SHARES))]
        counts = stack.counts
        self.cumulant, self.mean, self.variance = (
            math.fsum(float(counts[block.index] @ getattr(block, name)) for block in self._blocks)
            for name in ("log_norm", "mean", "variance")
        )

    def _block(self, index: IndexArray, low: Array, high: Array, step: Array) -> _Block:
        weights, loss, log_norm = self._weighed(index, low, high, step)
        mean = np.einsum("ij,ij->i", weights, loss)
        variance = np.einsum("ij,ij->i", weights, (loss - mean[:, None]) ** 2)
        return _Block(index, low, high, step, log_norm, mean, variance, self._lines(index, low, high, step, log_norm))

    def _lines(self, index: IndexArray, low: Array, high: Array, step: Array, log_norm: Array) -> Callable[[], Lines]:
        """The lines above the real one, made when first asked for."""
        kept: list[Lines] = []

        def lines() -> Lines:
            if not kept:
                rows, x = self._stack.rows.at(index), nodes_of_rows(low, high, step)
                spend(float(x.size) * len(SHARES))
                heights = _reach(rows)[:, None] * np.array(SHARES)
                base, ratio, turn = rows.lines(x, heights)
                density = base + (self._t + 1.0) * ratio + (np.log(step) - log_norm)[:, None, None]
                kept.append(Lines(heights, density, turn))
            return kept[0]

        return lines

    def decay(self, y: Array) -> Array:
        total = np.zeros(len(y))
        for block in self._blocks:
            _, log_density, turn = block.lines()
            spend(0.2 * log_density.size * len(y))
            result = np.stack([np.exp(log_density - one * turn).sum(axis=2).min(axis=1) for one in y.tolist()], axis=1)
            total += self._stack.counts[block.index] @ np.minimum.accumulate(np.log(np.fmin(result, 1.0)), axis=1)
        return total

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """The sum of the rows' logarithms; a row that needs a line above the real one is left to a quadrature of its own."""
        total = np.zeros(count, dtype=complex)
        for block in self._blocks:
            near = (FAR / np.maximum(np.sqrt(block.variance) * step, 1e-12)).astype(int) + 1 >= count
            near &= count <= LONGEST
            fine = np.minimum(_fine_steps(block, step * (count - 1), log_error), block.step)
            for rows in row_groups(np.flatnonzero(near), (block.high - block.low) / fine, math.isqrt(count) + 1):
                total += self._on_the_line(block, rows, fine[rows], step, count)
            for row in np.flatnonzero(~near).tolist():
                own = self._stack.losses[int(block.index[row])].tilted(self._t)
                moved = 1j * step * np.arange(count) * (own.mean - float(block.mean[row]))
                total += self._stack.counts[block.index[row]] * (own.centred(step, count, log_error) + moved)
        return total

    def _on_the_line(self, block: _Block, rows: IndexArray, fine: Array, step: float, count: int) -> ComplexArray:
        """The sum of some rows' logarithms, at `count` frequencies, on nodes at distances `fine`."""
        index = block.index[rows]
        weights, loss, _ = self._weighed(index, block.low[rows], block.high[rows], fine)
        result = turned_less_one_rows(weights, loss - block.mean[rows, None], step, count)
        return np.asarray(self._stack.counts[index] @ log1p_complex(result))

    def _weighed(self, index: IndexArray, low: Array, high: Array, step: Array) -> tuple[Array, Array, Array]:
        """(weights that add up to 1, losses, log norms) of some rows on nodes at distances `step`."""
        x = nodes_of_rows(low, high, step)
        spend(float(x.size))
        base, loss = self._stack.rows.at(index).line(x)
        log_density = base + (self._t + 1.0) * loss + np.log(step)[:, None]
        top = log_density.max(axis=1)
        weights = np.exp(log_density - top[:, None])
        total = weights.sum(axis=1)
        return weights / total[:, None], loss, top + np.log(total)


def _fine_steps(block: _Block, y: float, log_error: float) -> Array:
    """Per row the node distance whose error at frequencies up to y is below e^log_error: `TiltedQuadrature._fine_step`."""
    heights, log_density, turn = block.lines()
    spend(float(log_density.size))
    growth = np.log(np.fmax(np.exp(log_density + y * turn).sum(axis=2), 1.0))
    steps = 2.0 * math.pi * heights / (growth + 1.0 - log_error)
    return np.asarray(np.fmax.reduce(steps, axis=1))
