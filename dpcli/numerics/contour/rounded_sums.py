"""Bounds on delta(epsilon) of not too many steps of any losses, by sums of products of masses on a grid.

Losses are L = log dP/dQ of pairs (P, Q), given by their tails (numerics/tails.py). contour/certified.py asks for `rounded_sums`.

At a tiny delta one loss far out may decide, or a few of them, and then no tilt suits all cases: a contour or a transform at one tilt
gives a wide interval. So certified.py tries these sums after its contours, for at most its MOST_SUMMED steps. Here all terms are positive
and none is transformed, so every mass keeps its relative accuracy.

1. delta(eps) = E_P[(1 - e^{eps - L})+] for the sum L of the losses. It rises if a loss or a mass under P is raised, and falls if a mass is
   left out. An infinite loss adds its P-mass.
2. The upper bound. The mass of each cell is split between its ends so that its P-mass and Q-mass stay (lattice.py). Mass below the grid is
   raised to it.
3. The lower bound. Outcomes are merged, which is post-processing. Half of each cell is offered to its lower end and half to its upper end.
   At a grid point x, the half from above is merged with as much of the half from below as keeps P/Q >= e^x. What is left of the latter
   goes to the lower end of its cell. So no loss is below its grid point, and all losses are lowered to these.
4. Both bounds err by about h^2 for each smooth loss on a grid of spacing h. For an atom between two points the lower bound errs by up to h.
5. Far losses, which are above the grid of their step, need no sums. If one of them and the lowest losses of all other steps reach eps, then
   outcomes with a far loss add P - e^eps Q of this event. Its two probabilities are 1 - PROD (1 - mass), because steps are independent.
   Since (1 - x)+ >= 1 - x, this is a lower bound in any case. Where another loss is below its grid, the upper bound gets e^eps Q of both.
   Of far losses that may not reach eps, the upper bound gets the P-mass, and the lower bound nothing.
6. The steps are divided into two halves with masses a_i and b_j at the losses x_i and y_j. With A_j the sum of b from j on, and
   D_j = (1 - e^-h) SUM_{m >= 1} e^{-(m-1) h} A_{j+m}, which is SUM_{l >= j} b_l (1 - e^{-(l-j) h}),

       delta(eps) = SUM_i a_i [(1 - e^-r) A_j + e^-r D_j],   r = x_i + y_j - eps > 0,   j the first such index.

   No term is negative. So the relative error is that of sums of products: a rounding for each term of the longest chain.
7. Underflow. A mass of one step has the factor e^{c/n}, c = -log delta, so that what matters for delta is about 1 in the end. Numbers below
   LEAST_MASS become 0. Each is later multiplied by masses that add up to at most e^{c (n-1)/n}, and is added to the upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted import Losses
from dpcli.numerics.grid.lattice import cell_masses, chords, edge_share
from dpcli.numerics.work import hold, remaining, spend

# Soundness: bounds on rounding errors, and ranges in which no number overflows.
LEAST_LOG_DELTA = -660.0  # the factors of item 7 might overflow below this
LARGEST_LOSS = 600.0  # largest loss of one step on a grid; the least one is its negative
LEAST_MASS = 1e-306  # least number that is kept
ULP = 2.0**-52  # twice the unit roundoff
ROUNDING = 1e-12  # relative rounding error of a mass of one step beyond that of its tails, generously
FAR_ROUNDING = 1e-11  # relative rounding error of the mass of far losses, generously
SHIFT = 1e-14  # relative rounding error of epsilon minus a loss
# Accuracy: the bounds hold for any grid and any range of it.
FIRST_CELLS = 400.0  # spacings of the first grid in epsilon; it shows how many products a finer grid takes
FINEST = 1e-6  # least spacing, relative to epsilon
LEFT_OUT = -40.0  # logarithm of the P-mass that may count as infinite in one sum, relative to delta
LOG_FEW = -15.0  # logarithm of the P-mass of far losses, relative to delta, that hardly matters
LOG_BELOW = -60.0  # logarithm of the P-mass that is raised to the lowest loss
FAR_RATIO = 1.25  # far losses are above this multiple of epsilon, and more if some losses are negative
HALVINGS = 28  # number of halvings of the interval for epsilon
# Least and largest size, and number on either side of 0, of the losses that are tried as ends of a grid.
SURVEYED = (1e-9, LARGEST_LOSS, 500)
# Speed and memory, which `spend` and `hold` (numerics/work.py) limit. MOST_CELLS and PRODUCTS also decide how fine the grid is.
MOST_CELLS = 1 << 16  # most cells of one loss
PRODUCTS = 5e8  # most products of masses for one bound
PRODUCT = 0.005  # work of a product, in cells; it takes about a quarter of a nanosecond
PRODUCTS_SHARE = 0.15  # share of the work left that the products of one bound are planned to take; they may take twice as much
BLOCK = 8192  # most products of one sum; more would be divided among threads, which is slower


def rounded_sums(losses: Losses, log_delta: float, epsilon: float) -> RoundedSums | None:
    """Return bounds for these losses that are narrow near `epsilon` and e^log_delta.

    It is None if there is one step, or if epsilon or delta is out of range. Raises NotRepresentable if the sums would be too long.
    """
    if sum(n for _, n in losses) < 2 or not LEAST_LOG_DELTA <= log_delta < 0.0 or not 0.0 < epsilon < math.inf:
        return None
    ranges = [_range(loss, log_delta) for loss, _ in losses]
    # A loss above `far` reaches epsilon even if all other losses are at the lowest point of their grids.
    far = FAR_RATIO * epsilon - sum(n * min(low, 0.0) for (low, _), (_, n) in zip(ranges, losses, strict=True))
    ranges = [(low, max(low, min(high, far))) for low, high in ranges]
    least_spacing = max(high - low for low, high in ranges) / MOST_CELLS
    spacing = max(epsilon / FIRST_CELLS, least_spacing)
    products = min(PRODUCTS, PRODUCTS_SHARE * remaining() / PRODUCT)
    # The number of products grows with the inverse square of the spacing, so the first grid tells which spacing takes `products`.
    first = Halves(losses, ranges, log_delta, spacing, products, upward=True)
    spacing = max(spacing * math.sqrt(first.products / products), FINEST * epsilon, least_spacing)
    return RoundedSums(*(Halves(losses, ranges, log_delta, spacing, 2.0 * products, upward=upward) for upward in (False, True)))


def _range(loss: object, log_delta: float) -> tuple[float, float]:
    """Return the lower and the upper end of the grid of one step. Raises NotRepresentable if the loss has no tails or is too large."""
    if not hasattr(loss, "tails"):
        raise NotRepresentable("a loss has no tails")
    at = np.geomspace(*SURVEYED)
    at = np.concatenate((-at[::-1], [0.0], at))
    spend(20.0 * len(at))
    tails = loss.tails(at)
    above, below = np.flatnonzero(tails.p_above <= log_delta + LEFT_OUT), np.flatnonzero(tails.p_below <= LOG_BELOW)
    if not len(above):
        raise NotRepresentable("a loss is too large for a grid of sums")
    return float(at[below[-1]]) if len(below) else float(at[0]), float(at[above[0]])


class FarLosses(NamedTuple):
    """The ends of the grid of one step, the P-mass and the Q-mass of larger (far) losses, and the Q-mass of smaller ones."""

    bottom: float
    top: float
    p_above: float
    q_above: float
    q_below: float


class Masses(NamedTuple):
    """Masses at the losses (start + k) spacing for k = 0, 1, ..., each with a factor e^log_scale.

    lost: logarithm of the P-mass, without that factor, that counts as infinite. error: a bound on the relative error.
    """

    weights: Array
    start: int
    log_scale: float
    lost: float
    error: float


def _step(
    loss: object, ends: tuple[float, float], spacing: float, log_scale: float, *, upward: bool
) -> tuple[Masses, FarLosses, float]:
    """Return the masses of one step, rounded upward or downward, its far losses, and how far below its grid point a loss may be.

    ends: the least and the largest loss of the grid. log_scale: logarithm of the factor of the masses (item 7).
    """
    start = math.floor(ends[0] / spacing) - 1
    size = math.ceil(ends[1] / spacing) + 2 - start
    hold(8.0 * size)
    offset = edge_share(start, size) * spacing  # cells begin so far below grid points, so that atoms on these lie within
    at = spacing * (start + np.arange(size)) - offset
    with np.errstate(all="ignore"):  # masses of 0 have the logarithm -inf
        tails = loss.tails(at)  # type: ignore[attr-defined]
        log_p, slip_p = cell_masses(tails.p_above, tails.p_below)
        log_q, slip_q = cell_masses(tails.q_above, tails.q_below)
        slip = np.minimum(2.0 * (slip_p + slip_q), 1.0)  # a bound on the error of rho, and on the relative error of a mass
        rho = np.where(np.isneginf(log_p), 0.0, log_p - log_q - at[:-1])  # how far log P/Q of a cell is above its lower end
        mass = np.exp(log_p + log_scale)
        far = FarLosses(
            bottom=float(at[0]),
            top=float(at[-1]),
            p_above=math.exp(float(tails.p_above[-1])),
            q_above=math.exp(float(tails.q_above[-1])),
            q_below=math.exp(float(tails.q_below[0])),
        )
        if upward:
            raised = np.clip(rho + slip, 0.0, spacing)
            weights = chords(0.0, spacing, np.zeros(size), mass * (1.0 + slip), raised)  # item 2
            weights[0] += math.exp(float(tails.p_below[0]) + log_scale)
            return Masses(weights, start, log_scale, -math.inf, ROUNDING), far, 0.0
        lowered = np.clip(rho - slip, 0.0, spacing)
        least, most = mass * (1.0 - slip), mass * (1.0 + slip)
        # Item 3: the share of the half from below that may be merged with the half from above, so that P/Q >= e^x at the grid point x.
        share = least[1:] * -np.expm1(-lowered[1:]) / (most[:-1] * np.expm1(spacing - lowered[:-1]))
        share = np.append(np.where(share >= 0.0, np.minimum(share * (1.0 - ROUNDING), 1.0), 0.0), 0.0)  # NaN is 0 / 0
        weights = np.zeros(size)
        weights[:-1] += 0.5 * least * (2.0 - share)
        weights[1:] += 0.5 * least * share
        return Masses(weights, start, log_scale, -math.inf, ROUNDING), far, offset + SHIFT * max(map(abs, ends))


class Halves:
    """The two halves of the composition (item 6), with losses rounded upward or downward to multiples of the spacing.

    The copies of a loss are divided between both halves, as equally as possible.

    Args:
        losses, ranges: the losses with their counts, and the ends of the grid of each.
        log_delta: the factors of item 7 are chosen for it.
        most: the largest number of products. Raises NotRepresentable if there would be more.

    Attributes:
        products: the number of products that were added up.
        largest: the largest loss on the grid.
        reach: the epsilon up to which the bounds are narrow, because every far loss reaches it.
        log_lost: logarithm of the P-mass that counts as infinite.
    """

    def __init__(
        self, losses: Losses, ranges: Sequence[tuple[float, float]], log_delta: float, spacing: float, most: float, *, upward: bool
    ) -> None:
        count = sum(n for _, n in losses)
        self._spacing, self._upward, self._log_target, self._most, self.products = spacing, upward, log_delta, most, 0.0
        self._shift, self._underflows = 0.0, 0.0
        self._far: list[tuple[int, FarLosses]] = []
        halves: list[Masses | None] = [None, None]
        for k, ((loss, n), ends) in enumerate(zip(losses, ranges, strict=True)):
            step, far, shift = _step(loss, ends, spacing, -log_delta / count, upward=upward)
            self._shift += n * shift
            self._far.append((n, far))
            for half, copies in ((k % 2, n - n // 2), (1 - k % 2, n // 2)):  # an odd copy goes to either half in turn
                if copies:
                    power = self._power(step, copies)
                    before = halves[half]
                    halves[half] = power if before is None else self._sum(before, power)
        first, second = halves
        assert first is not None
        assert second is not None
        size = len(second.weights)
        spend(8.0 * (size + len(first.weights)))
        self._first = first.weights
        self._losses = spacing * (first.start + second.start + np.arange(len(first.weights)))
        self._above = np.append(np.cumsum(second.weights[::-1])[::-1], 0.0)  # A_j of item 6
        self._beyond = -math.expm1(-spacing) * np.append(_discounted(self._above, spacing)[1:], 0.0)  # D_j
        self.largest = float(self._losses[-1]) + spacing * size
        self._lowest = sum(n * min(far.bottom, 0.0) for n, far in self._far) * (1.0 + ROUNDING)
        tops = [far.top for _, far in self._far if far.p_above > math.exp(log_delta + LOG_FEW)]
        self.reach = min(tops, default=math.inf) + self._lowest
        self.log_lost = float(np.logaddexp(first.lost, second.lost))
        self._error = (
            first.error + second.error + 4.0 * (size + len(first.weights) + 100.0) * ULP
        )  # errors of both halves and, generously, of the sums of item 6
        log_later = -log_delta * (count - 1) / count  # log of the factor e^{c (n-1)/n} of item 7
        self._underflow = (self._underflows + 2.0 * size) * LEAST_MASS * math.exp(log_later)

    def log_delta(self, epsilon: float) -> float:
        """Return the upper or the lower bound on log delta(epsilon)."""
        spend(float(len(self._first)))
        shift = SHIFT * (abs(epsilon) + self.largest)
        at = epsilon - shift if self._upward else epsilon + shift + self._shift  # on the safe side of the errors of the losses
        index = np.clip(np.floor((at - self._losses) / self._spacing) + 1.0, 0.0, len(self._above) - 1.0).astype(np.int64)
        r = np.maximum(self._losses + self._spacing * index - at, 0.0)  # in the notation of item 6
        terms = -np.expm1(-r) * self._above[index] + np.exp(-r) * self._beyond[index]
        total = float((self._first * terms).sum())  # a long dot product would be divided among threads
        far = self._far_delta(epsilon) * math.exp(-self._log_target)
        if not self._upward:
            least = total * (1.0 - 2.0 * self._error) + max(far, 0.0)
            return math.log(least) + self._log_target - ROUNDING if least > 0.0 else -math.inf
        most = total * (1.0 + 2.0 * self._error) + self._underflow + far
        return float(np.logaddexp(math.log(most) + self._log_target, self.log_lost)) + ROUNDING

    def _far_delta(self, epsilon: float) -> float:
        """Return the upper or the lower bound on what outcomes with a far loss add to delta(epsilon), by item 5."""
        reaching = [(n, far) for n, far in self._far if far.top + self._lowest >= epsilon]
        p_mass = _any((n, far.p_above) for n, far in (self._far if self._upward else reaching))
        growth = math.exp(epsilon) if reaching else 0.0  # e^epsilon may overflow above all far losses
        q_mass = growth * _any((n, far.q_above) for n, far in reaching)
        error = FAR_ROUNDING * (p_mass + q_mass)
        if not self._upward:
            return p_mass - q_mass - error
        # e^eps Q of the outcomes in which one loss is far and another one below its grid.
        q_of_both = growth * sum(n * far.q_above for n, far in reaching) * sum(n * far.q_below for n, far in self._far)
        return max(p_mass - q_mass, 0.0) + error + q_of_both * (1.0 + FAR_ROUNDING) + LEAST_MASS

    def _power(self, one: Masses, count: int) -> Masses:
        """Return the sum of `count` copies, by repeated doubling."""
        result: Masses | None = None
        while True:
            if count % 2:
                result = one if result is None else self._sum(result, one)
            count //= 2
            if not count:
                break
            one = self._sum(one, one)
        assert result is not None
        return result

    def _sum(self, first: Masses, second: Masses) -> Masses:
        """Return the sum of two independent losses, without ends of negligible mass."""
        products = float(len(first.weights)) * len(second.weights)
        self.products += products
        if self.products > self._most:
            raise NotRepresentable("the sums of rounded losses would be too long")
        spend(PRODUCT * products)
        weights = _convolved(first.weights, second.weights)
        log_scale = first.log_scale + second.log_scale
        tiny = weights < LEAST_MASS
        self._underflows += float(np.count_nonzero(tiny)) + len(weights)
        weights[tiny] = 0.0
        above, below = np.cumsum(weights[::-1])[::-1], np.cumsum(weights)
        end = max(int(np.count_nonzero(above > math.exp(self._log_target + LEFT_OUT + log_scale))), 1)
        begin = min(int(np.count_nonzero(below <= math.exp(LOG_BELOW + log_scale))), end - 1)
        kept = weights[begin:end].copy()
        lost = float(np.logaddexp(first.lost, second.lost))
        if self._upward:  # for the lower bound, the mass at both ends is left out
            kept[0] += float(weights[:begin].sum())
            cut = float(weights[end:].sum())
            lost = float(np.logaddexp(lost, math.log(cut) - log_scale + ROUNDING)) if cut > 0.0 else lost
        error = first.error + second.error + (min(len(first.weights), len(second.weights)) + 10.0) * ULP
        return Masses(kept, first.start + second.start + begin, log_scale, lost, error)


def _convolved(first: Array, second: Array) -> Array:
    """Return the sums of products, in blocks of the shorter factor."""
    long, short = (first, second) if len(first) >= len(second) else (second, first)
    result = np.zeros(len(long) + len(short) - 1)
    for begin in range(0, len(short), BLOCK):
        block = short[begin : begin + BLOCK]
        result[begin : begin + len(long) + len(block) - 1] += np.convolve(long, block)
    return result


def _any(masses: Iterable[tuple[int, float]]) -> float:
    """Return the probability that some of independent events happens, given as pairs of a number of events and their probability."""
    return -math.expm1(math.fsum(n * math.log1p(-min(mass, 1.0 - 1e-16)) for n, mass in masses))


def _discounted(terms: Array, spacing: float) -> Array:
    """Return SUM_{m >= 0} e^{-m spacing} terms[j + m] for each j, in blocks whose factors neither overflow nor vanish."""
    result, carried = np.empty(len(terms)), 0.0
    size = max(int(30.0 / spacing), 1)  # a factor e^-30 over a block
    for begin in reversed(range(0, len(terms), size)):
        block = terms[begin : begin + size]
        decay = np.exp(-spacing * np.arange(len(block)))
        after = carried * math.exp(-spacing) * decay[::-1]
        result[begin : begin + size] = np.cumsum((block * decay)[::-1])[::-1] / decay + after
        carried = float(result[begin])
    return result


class RoundedSums(NamedTuple):
    """Bounds on delta: the sums of losses that are rounded downward, and upward."""

    downward: Halves
    upward: Halves

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon)."""
        return self.downward.log_delta(epsilon), self.upward.log_delta(epsilon)

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on the epsilon >= 0 at which delta is e^log_delta."""
        lower, _ = _change(lambda at: self.downward.log_delta(at) < log_delta, self.downward.largest)
        up, upper = self.upward, math.inf
        # Beyond `reach` far losses may not reach epsilon, and the upper bound is no longer narrow, so it is searched there last.
        if up.reach > 0.0:
            _, upper = _change(lambda at: up.log_delta(at) <= log_delta, min(up.reach, up.largest))
        if upper == math.inf:
            _, upper = _change(lambda at: up.log_delta(at) <= log_delta, up.largest)
        return lower, upper


def _change(is_above: Callable[[float], bool], high: float) -> tuple[float, float]:
    """Return an interval in which `is_above` changes from false to true, by halving.

    `is_above` is true at the upper end, which is inf if it is false at `high`. It is false at the lower end, unless that is 0.
    """
    low = 0.0
    if is_above(0.0):
        return 0.0, 0.0
    if not is_above(high):
        return 0.0, math.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low, high
