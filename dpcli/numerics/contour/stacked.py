"""Sums of many different losses of one family, evaluated as rows of arrays (`Shifted`) instead of one loss after the other.

A loss is L = log r with r = dP/dQ. Those of a family are sampled Gaussians that differ in noise and rate (numerics/mixture.py).

A schedule of noise or rates gives thousands of different sampled Gaussians, for which calls of array functions cost more than the
arithmetic. `in_stacks` replaces them by one loss, so that a contour (integral.py) sees few losses. Each row follows the rules of
`TiltedQuadrature` (tilted.py) and gets the same values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.tilted import FAR, REACH, Loss, Losses
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.mixture import FEWEST_IN_TABLE, Shifted, TableRow, cgfs, nodes_of_rows, row_groups, row_of, table_of
from dpcli.numerics.products import characteristic_less_one_rows
from dpcli.numerics.quadrature import MAX_NODES
from dpcli.numerics.work import spend

# Accuracy: heights of the lines above the real axis, as shares of a row's `_reach`. Every height gives a bound.
SHARES = (0.003, 0.02, 0.09, 0.3, 0.7)
MOST_FREQUENCIES = 4096  # with more, each row is computed alone; it affects speed, and results by rounding alone


def in_stacks(losses: Losses) -> Losses:
    """Return the losses with each group of one family, of at least FEWEST_IN_TABLE members, replaced by one `StackedLoss` for its steps."""
    groups: dict[type[Shifted], list[tuple[TableRow, Loss, int]]] = {}
    stacks: list[tuple[Loss, int]] = []
    for loss, count in losses:
        row = row_of(loss)
        if row is None:
            stacks.append((loss, count))
        else:
            groups.setdefault(row.family, []).append((row, loss, count))
    for members in groups.values():
        if len(members) < FEWEST_IN_TABLE:
            stacks.extend((loss, count) for _, loss, count in members)
        else:
            counts = np.array([float(count) for _, _, count in members])
            stacks.append((StackedLoss(table_of([row for row, _, _ in members]), counts, tuple(loss for _, loss, _ in members)), 1))
    return tuple(stacks)


@dataclass(frozen=True, slots=True, eq=False)
class StackedLoss:
    """The sum of independent losses, with the loss of row i added `counts[i]` times."""

    rows: Shifted
    counts: Array
    losses: Sequence[Loss]

    def cgf(self, z: Array) -> Array:
        return np.asarray(self.counts @ cgfs(self.rows, z))

    def tilted(self, t: float) -> StackedTilted:
        return StackedTilted(self, t)


class Lines(NamedTuple):
    """The integrand of several rows on lines above the real axis.

    heights: heights of the lines, shape (rows, heights). log_density: log |Q r^{t+1}| over its norm, with the node distance as a factor.
    turn: |arg r|. Both have shape (rows, heights, nodes).
    """

    heights: Array
    log_density: Array
    turn: Array


@dataclass(slots=True, eq=False)
class _Block:
    """Rows that need about the same number of nodes. Every array has shape (rows,).

    index: indices of the rows. low, high, step: ends and distances of the nodes. log_norm, mean, variance: moments of the tilted losses.
    lines: the lines above the real axis, once they are computed.
    """

    index: IndexArray
    low: Array
    high: Array
    step: Array
    log_norm: Array
    mean: Array
    variance: Array
    lines: Lines | None = None


def _reach(rows: Shifted) -> Array:
    """Return for each row the height above the real axis up to which its integrand is used."""
    return np.minimum(0.5 * math.pi / rows.shifts, REACH)


class StackedTilted:
    """The sum of the rows' losses under the measure e^{t L - K(t)} dP.

    exact_cgf: whether every row's CGF at t takes fewer than MAX_NODES nodes. With more it would be only a bound.
    """

    def __init__(self, stack: StackedLoss, t: float) -> None:
        self._stack, self._t = stack, t
        rows, tilts = stack.rows, np.full(len(stack.counts), t)
        low, high = rows.windows(tilts)
        step = rows.steps(tilts)
        count = (high - low) / step
        wide_low, wide_high = rows.cgf_windows(tilts)
        self.exact_cgf = bool((((wide_high - wide_low) / step) < MAX_NODES).all())
        # Each group of rows needs about the same number of nodes. A block later holds arrays for len(SHARES) lines.
        self._blocks = [self._block(i, low[i], high[i], step[i]) for i in row_groups(np.arange(len(count)), count, len(SHARES))]
        counts = stack.counts
        self.cumulant, self.mean, self.variance = (
            math.fsum(float(counts[block.index] @ getattr(block, name)) for block in self._blocks)
            for name in ("log_norm", "mean", "variance")
        )

    def _block(self, index: IndexArray, low: Array, high: Array, step: Array) -> _Block:
        """Return the block of the rows with these indices and nodes."""
        weights, loss, log_norm = self._weights_and_losses(index, low, high, step)
        mean = np.einsum("ij,ij->i", weights, loss)
        variance = np.einsum("ij,ij->i", weights, (loss - mean[:, None]) ** 2)
        return _Block(index, low, high, step, log_norm, mean, variance)

    def _lines(self, block: _Block) -> Lines:
        """Return the lines of a block above the real axis, which are computed at the first call."""
        if block.lines is None:
            rows, x = self._stack.rows.at(block.index), nodes_of_rows(block.low, block.high, block.step)
            spend(float(x.size) * len(SHARES))
            heights = _reach(rows)[:, None] * np.array(SHARES)
            base, ratio, turn = rows.lines(x, heights)
            density = base + (self._t + 1.0) * ratio + (np.log(block.step) - block.log_norm)[:, None, None]
            block.lines = Lines(heights, density, turn)
        return block.lines

    def decay(self, y: Array) -> Array:
        total = np.zeros(len(y))
        for block in self._blocks:
            _, log_density, turn = self._lines(block)
            spend(0.2 * log_density.size * len(y))
            moduli = [np.exp(log_density - frequency * turn).sum(axis=2).min(axis=1) for frequency in y.tolist()]
            log_bounds = np.log(np.fmin(np.stack(moduli, axis=1), 1.0))
            # A bound for a smaller frequency holds for a larger one too.
            total += self._stack.counts[block.index] @ np.minimum.accumulate(log_bounds, axis=1)
        return total

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """Return the sum of the rows' log characteristic functions, as `Tilted.centred` describes it for one loss.

        A row whose last frequency, times its standard deviation, is beyond FAR needs a line above the real axis. It is computed by its own
        quadrature. So are all rows beyond MOST_FREQUENCIES.
        """
        total = np.zeros(count, dtype=complex)
        for block in self._blocks:
            near = (FAR / np.maximum(np.sqrt(block.variance) * step, 1e-12)).astype(int) + 1 >= count
            near &= count <= MOST_FREQUENCIES
            fine = np.minimum(_fine_steps(self._lines(block), step * (count - 1), log_error), block.step)
            for rows in row_groups(np.flatnonzero(near), (block.high - block.low) / fine, math.isqrt(count) + 1):
                total += self._on_the_line(block, rows, fine[rows], step, count)
            for row in np.flatnonzero(~near).tolist():
                own = self._stack.losses[int(block.index[row])].tilted(self._t)
                # `own` is centred at its own mean, which may differ from the mean of the row by rounding.
                moved = 1j * step * np.arange(count) * (own.mean - float(block.mean[row]))
                total += self._stack.counts[block.index[row]] * (own.centred(step, count, log_error) + moved)
        return total

    def _on_the_line(self, block: _Block, rows: IndexArray, fine: Array, step: float, count: int) -> ComplexArray:
        """Return the sum of the log characteristic functions of some rows at `count` frequencies, on real nodes at distances `fine`."""
        index = block.index[rows]
        weights, loss, _ = self._weights_and_losses(index, block.low[rows], block.high[rows], fine)
        result = characteristic_less_one_rows(weights, loss - block.mean[rows, None], step, count)
        return np.asarray(self._stack.counts[index] @ log1p_complex(result))

    def _weights_and_losses(self, index: IndexArray, low: Array, high: Array, step: Array) -> tuple[Array, Array, Array]:
        """Return (weights that add up to 1, losses, log norms) of some rows on real nodes at distances `step`.

        index, low, high, step: shape (rows,). The weights and losses have the shape (rows, nodes), and the norms (rows,).
        """
        x = nodes_of_rows(low, high, step)
        spend(float(x.size))
        base, loss = self._stack.rows.at(index).line(x)
        log_density = base + (self._t + 1.0) * loss + np.log(step)[:, None]
        top = log_density.max(axis=1)
        weights = np.exp(log_density - top[:, None])
        total = weights.sum(axis=1)
        return weights / total[:, None], loss, top + np.log(total)


def _fine_steps(lines: Lines, y: float, log_error: float) -> Array:
    """Return for each row a node distance whose error is below e^log_error at frequencies up to y.

    The error is e^{-2 pi b / distance} times the integrals of the modulus on the lines at heights b and -b, of which the latter is larger.
    """
    heights, log_density, turn = lines
    spend(float(log_density.size))
    growth = np.log(np.fmax(np.exp(log_density + y * turn).sum(axis=2), 1.0))  # on the line at -b
    # The 1 exceeds log 2, for two lines.
    steps = 2.0 * math.pi * heights / (growth + 1.0 - log_error)
    return np.asarray(np.fmax.reduce(steps, axis=1))
