"""Rough tables of privacy losses, from which a grid is planned: the survey of a loss, and what a composition looks like by its surveys.

A survey reduces a loss L = log dP/dQ to a few hundred outcomes on a logarithmic scale, computed from its tails (numerics/tails.py). The
accountant pld (accountants/pld.py) makes one for each different loss. From the surveys it estimates

* the tilt t: masses are multiplied by e^{t L}, so that the losses near epsilon become the likely ones (`best_tilt`, `tilt_for`),
* the window: the interval of losses of the composition outside of which little of the tilted mass lies (`tilted_window`),
* the range of losses of one step that matter (`Survey.range`), and the unit of losses that lie on a lattice (`common_unit`).

K is the cumulant generating function, K(z) = log E_P[e^{z L}]. Chernoff's bounds on tails, on epsilon and on delta follow from it. The
numbers of this file are estimates, so a bad one makes a grid coarse or slow, but no bound false. The exception is `log_infinite`, from
which a lower bound on delta is made (composed_losses.py). It is computed as accurately as the loss's tails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.products import product
from dpcli.numerics.tails import HasTails
from dpcli.numerics.work import shared, spend  # a cache, and a limit on work

# Soundness: larger losses count as infinite in `log_infinite`, from which a lower bound on delta is made. No epsilon is as large.
INFINITE = 1e300
# Accuracy of the estimates.
TILTS = (1e-3, 1e12)  # range of tilts that are tried
LEAST_LOSS, LARGEST_LOSS = 1e-13, 1e6  # the edges of a survey lie between these losses, on either side of 0, and at 0
EDGES = 400  # number of edges on either side
LOG_NOTHING = -760.0  # log delta below every float; the first tilt that reaches it is taken
NEARLY_BEST = 0.1  # an end of a window may be this share of the window farther out than the best end
LARGE = 600.0  # exponents beyond which a CGF is summed from logarithms, because e^exponent would overflow soon
COARSE, FINE = 46, 17  # numbers of tilts of the two passes of a search; the first has three for each factor of 10
RARE_ORDERS = (1e-2, 1e4, 61)  # ends and number of the orders of Chernoff's bound on a rare loss
DISTANCES = (1e-3, 1e3, 49)  # least, largest and number of the distances from t, in units of t, at which windows are bounded
LEAST_UNIT = 1e-2  # unit of these distances if t is less than this
# Where a lattice of losses is recognised.
WHOLE = 1e-12  # relative distance at which a ratio counts as a whole number, and two losses as equal
LEAST_SIZE = 1e-12  # smallest loss that may be the unit of a lattice
OUTSTANDING = 20.0  # a cell with more than this times the mass of its neighbours counts as an atom
LEAST_ATOM, LEAST_ATOMS = 0.01, 0.5  # least mass of an atom that is considered, and of the one or two of them together
# An atom is located by dividing its cell this many times into this many parts; the digits of a float are used up well before.
DIVISIONS, PARTS = 24, 32
# Speed, at the cost of rougher estimates.
FEW_LOSSES = 4  # largest number of different losses for which common atoms are searched
# More than MANY_LOSSES different losses are represented by the HEAVIEST ones and about SAMPLE others.
MANY_LOSSES, HEAVIEST, SAMPLE = 32, 8, 12


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The survey of a loss: log P-masses of the cells between increasing `edges`, and a typical loss of each cell.

    log_infinite: logarithm of the P-mass of an infinite loss.
    """

    edges: Array
    log_mass: Array
    loss: Array
    log_infinite: float

    def cgf(self, z: Array) -> Array:
        """Return about log E[e^{z L}; L < inf], for any real z."""
        spend(0.3 * len(z) * len(self.loss))
        exponents = np.outer(z, self.loss)
        with np.errstate(over="ignore"):
            result = np.log1p(np.maximum(product(np.expm1(np.minimum(exponents, LARGE)), np.exp(self.log_mass)), -1.0))
        large = exponents[:, -1] > LARGE  # at the largest loss
        if large.any():
            result[large] = log_sum(self.log_mass + exponents[large])
        return np.asarray(result)

    def unit(self) -> float:
        """Return the smallest absolute loss other than 0 if the loss seems to lie on a lattice, else 0.

        It seems so if no absolute loss is between 1.01 and 1.9 times the smallest one, because the next multiple is twice it.
        """
        sizes = np.sort(np.abs(self.loss[self.loss != 0.0]))
        alone = len(sizes) > 0 and sizes[0] > LEAST_SIZE and ((sizes > 1.01 * sizes[0]) & (sizes < 1.9 * sizes[0])).sum() == 0
        return float(sizes[0]) if alone else 0.0

    def rare_order(self, copies: int, log_rare: float) -> float:
        """Return the order z at which Chernoff's bound is best for the loss that `copies` steps exceed with probability e^log_rare."""
        orders, values = _rare_cgfs(self)
        with np.errstate(all="ignore"):
            rare_losses = (copies * values - log_rare) / orders
        return float(orders[int(np.argmin(np.where(np.isfinite(rare_losses), rare_losses, np.inf)))])

    def cut(self, log_rare: float) -> Survey:
        """Return the survey without the largest losses, of total P-mass e^log_rare, which hardly matter but would determine a tilt."""
        above = np.logaddexp.accumulate(self.log_mass[::-1])[::-1]
        size = max(int(np.searchsorted(-above, -log_rare)), 1)
        if size == len(self.loss):
            return self
        return Survey(self.edges[: size + 1], self.log_mass[:size], self.loss[:size], self.log_infinite)

    def range(self, log_rare: float, tilt: float, log_tilted_rare: float) -> tuple[float, float]:
        """Return a range of losses outside of which little lies.

        The P-mass above is at most about e^log_rare. The mass below, moved up to the lower end, is about a share e^log_tilted_rare of the
        tilted mass.
        """
        above = np.logaddexp.accumulate(self.log_mass[::-1])[::-1]
        tilted = self.log_mass + tilt * self.loss
        # For each cell, the mass up to it, moved to its upper edge, as a share of the tilted mass.
        below = np.logaddexp.accumulate(self.log_mass) + tilt * self.edges[1:] - np.logaddexp.reduce(tilted)
        high = int(np.searchsorted(-above, -log_rare))
        low = int(np.argmax(below > log_tilted_rare))
        return float(self.edges[min(low, len(self.edges) - 2)]), float(self.edges[min(high, len(self.edges) - 1)])


def survey(loss: HasTails) -> Survey:
    """Return the survey of a loss, from about 800 values of its tails. Raises NotRepresentable if all mass is beyond LARGEST_LOSS."""
    side = np.geomspace(LEAST_LOSS, LARGEST_LOSS, EDGES)
    edges = np.concatenate((-side[::-1], [0.0], side))
    with np.errstate(all="ignore"):
        tails = loss.tails(edges)
        log_p, log_q = _cells(tails.p_above, tails.p_below), _cells(tails.q_above, tails.q_below)
        typical = np.clip(log_p - log_q, edges[:-1], edges[1:])  # the loss of the cell as one outcome
    occupied = ~np.isneginf(log_p) & ~np.isnan(typical)
    if not occupied.any():
        raise NotRepresentable(f"all losses are beyond {LARGEST_LOSS:g}, the largest loss that a grid covers")
    with np.errstate(all="ignore"):
        log_infinite = float(loss.tails(np.array([INFINITE])).p_above[0])
    lower, upper = edges[:-1][occupied], edges[1:][occupied]
    return Survey(np.append(lower, upper[-1:]), log_p[occupied], typical[occupied], log_infinite)


def _atom(loss: HasTails, view: Survey) -> float:
    """Return the common absolute loss of the one or two atoms that have most of the mass, or 0 if there are none.

    An atom is a cell with far more mass than its neighbours. An atom at 0 is not considered, because 0 is on every grid.
    """
    mass = np.exp(view.log_mass)
    neighbours = np.maximum(np.append(0.0, mass[:-1]), np.append(mass[1:], 0.0))
    heavy = np.flatnonzero((mass > LEAST_ATOM) & (mass > OUTSTANDING * neighbours))
    if not 1 <= len(heavy) <= 2 or float(mass[heavy].sum()) < LEAST_ATOMS:
        return 0.0
    cells = [(float(view.edges[k]), float(view.edges[k + 1])) for k in heavy.tolist()]
    sizes = [abs(_jump(loss, low, high)) for low, high in cells if low * high > 0.0]  # a cell that ends at 0 has the product 0
    if not sizes or min(sizes) <= LEAST_SIZE:
        return 0.0
    return sizes[0] if max(sizes) - min(sizes) <= WHOLE * max(sizes) else 0.0


def _jump(loss: HasTails, low: float, high: float) -> float:
    """Return the loss between `low` and `high` at which the distribution function rises most, accurate to the last digits."""
    for _ in range(DIVISIONS):
        at = np.unique(np.linspace(low, high, PARTS + 1))
        if len(at) < 3:
            break
        with np.errstate(all="ignore"):
            k = int(np.argmax(np.diff(np.exp(loss.tails(at).p_below))))
        low, high = float(at[k]), float(at[k + 1])
    return high


def _cells(above: Array, below: Array) -> Array:
    """Return the logarithms of the masses between neighbouring losses, as differences of the smaller tail. An empty cell has -inf."""
    use_below = below[1:] < above[1:]
    outer, inner = np.where(use_below, below[1:], above[:-1]), np.where(use_below, below[:-1], above[1:])
    return np.where(outer > inner, outer + np.log(-np.expm1(inner - outer)), -np.inf)


class GridPart(NamedTuple):
    """A loss with its survey, and how many steps have it."""

    loss: HasTails
    survey: Survey
    copies: int


Surveys = Sequence[tuple[Survey, float]]  # the survey of each different loss, and how many steps have it


def common_unit(parts: Sequence[GridPart]) -> float:
    """Return the unit of which the lattices, or the atoms of a few losses, seem to be whole multiples; 0 if there is none."""
    units = [view.unit() or (_atom(loss, view) if len(parts) <= FEW_LOSSES else 0.0) for loss, view, _ in parts]
    least = min(units)
    if not least > 0.0:
        return 0.0
    return least if all(abs(unit / least - round(unit / least)) <= WHOLE * unit / least for unit in units) else 0.0


def representatives(surveys: Surveys) -> Surveys:
    """Return a few surveys that represent all of them.

    The heaviest ones, by count times K(1), are included. Of the others, a few evenly spaced ones are included, with their counts increased
    so that the total weight stays.
    """
    if len(surveys) <= MANY_LOSSES:
        return surveys
    one = np.array([1.0])
    weights = [abs(count * float(view.cgf(one)[0])) for view, count in surveys]
    order = sorted(range(len(surveys)), key=lambda i: (-weights[i], i))
    lighter = order[HEAVIEST:]
    chosen = lighter[:: max(len(lighter) // SAMPLE, 1)]
    chosen_weight = sum(weights[i] for i in chosen)
    if 0.0 < chosen_weight < np.inf:
        scale = sum(weights[i] for i in lighter) / chosen_weight
    else:
        scale = len(lighter) / len(chosen)
    scaled = [(view, scale * count) for view, count in (surveys[i] for i in chosen)]
    return [surveys[i] for i in order[:HEAVIEST]] + scaled


def total_cgf(surveys: Surveys, z: Array) -> Array:
    """Return about K(z) of the composition, in the shape of `z`."""
    result: Array = np.zeros_like(z)
    for view, count in surveys:
        result = result + count * view.cgf(z)
    return result


@shared(64)
def best_tilt(surveys: tuple[tuple[Survey, int], ...], log_delta: float) -> tuple[float, float]:
    """Return the tilt at which Chernoff's bound on epsilon at e^log_delta is least, and that epsilon."""
    sample = representatives(surveys)

    def bound(z: Array) -> Array:
        """Return about Chernoff's bound. It has 1 / (z (1 + z)) in place of z^z / (1 + z)^{1 + z}, like the integrand of a contour."""
        return (total_cgf(sample, z) - log_delta - np.log(z) - np.log1p(z)) / z

    return _smallest(bound)


@shared(64)
def tilt_for(surveys: tuple[tuple[Survey, int], ...], epsilon: float) -> tuple[float, float]:
    """Return the tilt at which Chernoff's bound on delta(epsilon) is least, and the logarithm of that bound."""
    sample = representatives(surveys)
    return _smallest(
        lambda z: np.maximum(total_cgf(sample, z) - z * epsilon + z * np.log(z) - (z + 1.0) * np.log1p(z), LOG_NOTHING)
    )


def _smallest(function: Callable[[Array], Array]) -> tuple[float, float]:
    """Return about (z, value) of the least value of a function of z within TILTS: the best of a coarse grid, then of a finer one."""
    z = np.geomspace(*TILTS, COARSE)
    for _ in range(2):
        with np.errstate(all="ignore"):
            values = function(z)
        k = int(np.nanargmin(np.where(np.isnan(values), np.inf, values)))
        best = float(z[k]), float(values[k])
        z = np.geomspace(z[max(k - 1, 0)], z[min(k + 1, len(z) - 1)], FINE)
    return best


@shared(4096)
def _rare_cgfs(view: Survey) -> tuple[Array, Array]:
    """Return orders and K at them. They are cached, because `rare_order` needs them for every number of copies."""
    orders = np.geomspace(*RARE_ORDERS)
    return orders, view.cgf(orders)


@shared(4096)
def _cgfs_around(view: Survey, tilt: float) -> tuple[float, Array, Array]:
    """Return K at the tilt, at tilts above it and at tilts below it, by the distances of `_distances`."""
    s = _distances(tilt)
    return float(view.cgf(np.array([tilt]))[0]), view.cgf(tilt + s), view.cgf(tilt - s)


def _distances(tilt: float) -> Array:
    """Return the distances from a tilt at which Chernoff's bound is tried."""
    return np.asarray(np.geomspace(*DISTANCES) * max(tilt, LEAST_UNIT))


class Window(NamedTuple):
    """The losses of a tilted composition that matter, by Chernoff's bounds at the tilts t - below and t + above.

    low, high: ends of the window. below, above: the distances from the tilt t at which the bounds limit the mass below and above it.
    """

    low: float
    high: float
    below: float
    above: float


def tilted_window(surveys: Surveys, tilt: float, log_rare: float) -> Window:
    """Return the window of the tilted composition outside of which the probability is about e^log_rare on either side."""
    s = _distances(tilt)
    with np.errstate(all="ignore"):
        parts = [(_cgfs_around(view, tilt), count) for view, count in representatives(surveys)]
        at_tilt, above, below = (sum(count * values[k] for values, count in parts) for k in (0, 1, 2))
        high, low = (above - at_tilt - log_rare) / s, (at_tilt - below + log_rare) / s
    low, high = np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)
    margin = NEARLY_BEST * float(high.min() - low.max()) + 1e-12
    # The smallest distances are taken that are nearly the best, because the moments of a grid and of a survey differ much at larger ones.
    down, up = int(np.argmax(low >= low.max() - margin)), int(np.argmax(high <= high.min() + margin))
    return Window(float(low[down]), float(high[up]) + 1e-12, float(s[down]), float(s[up]))
