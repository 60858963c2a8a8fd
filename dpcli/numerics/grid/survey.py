"""A rough look at privacy losses, to plan a grid: nothing that is proven rests on it.

Each loss is reduced to a few hundred outcomes on a logarithmic scale, from its tails alone. That is enough to find the tilt, the
spread of the composition and the range that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.products import product
from dpcli.numerics.tails import HasTails
from dpcli.numerics.work import shared, spend

TILTS = (1e-3, 1e12)
FARTHEST = 1e6
FEW = 4  # different losses, of which common atoms are looked for
WHOLE = 1e-12  # relative distance from a whole multiple
LEAST_SIZE = 1e-12  # of a loss that a lattice may be made of: an atom at 0 has none
OUTSTANDING = 20.0  # times the mass of the cells beside it: an atom
LOG_NOTHING = -760.0  # logarithm of a delta that no number holds: the first tilt that shows it will do
MANY, HEAVIEST, SAMPLE = 32, 8, 12  # more different losses than the first are looked at by these two numbers of them


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Rough form of a loss: log masses of the cells between increasing `edges`, and each cell's typical loss."""

    edges: Array
    log_mass: Array
    loss: Array
    log_infinite: float

    def cgf(self, z: Array) -> Array:
        """About log E[e^{z L}; L < inf], for any real z."""
        spend(0.3 * len(z) * len(self.loss))
        turn = np.outer(z, self.loss)
        with np.errstate(over="ignore"):
            small = np.log1p(np.maximum(product(np.expm1(np.minimum(turn, 600.0)), np.exp(self.log_mass)), -1.0 + 1e-300))
        large = turn[:, -1] > 600.0
        if large.any():
            small[large] = log_sum(self.log_mass + turn[large])
        return np.asarray(small)

    def unit(self) -> float:
        """The smallest loss other than 0 where it stands alone, as in a loss on a lattice; 0 for continuous ones."""
        sizes = np.sort(np.abs(self.loss[self.loss != 0.0]))
        alone = len(sizes) > 0 and sizes[0] > LEAST_SIZE and ((sizes > 1.01 * sizes[0]) & (sizes < 1.9 * sizes[0])).sum() == 0
        return float(sizes[0]) if alone else 0.0

    def rare_order(self, copies: int, log_rare: float) -> float:
        """The order at which Chernoff's bound best shows what loss `copies` steps exceed with a P-mass of e^log_rare."""
        s, values = _rare_cgfs(self)
        with np.errstate(all="ignore"):
            above = (copies * values - log_rare) / s
        return float(s[int(np.argmin(np.where(np.isfinite(above), above, np.inf)))])

    def cut(self, log_rare: float) -> Survey:
        """Without the largest losses, of a P-mass of e^log_rare together: how often they happen hardly counts, and would rule a tilt."""
        above = np.logaddexp.accumulate(self.log_mass[::-1])[::-1]
        kept = max(int(np.searchsorted(-above, -log_rare)), 1)
        return (
            self
            if kept == len(self.loss)
            else Survey(self.edges[: kept + 1], self.log_mass[:kept], self.loss[:kept], self.log_infinite)
        )

    def range(self, log_rare: float, tilt: float, log_tilted_rare: float) -> tuple[float, float]:
        """Return the range of the loss but for P-mass e^log_rare above, and what below it would, moved up to its end, be a share
        e^log_tilted_rare of the tilted mass."""
        above = np.logaddexp.accumulate(self.log_mass[::-1])[::-1]
        tilted = self.log_mass + tilt * self.loss
        below = np.logaddexp.accumulate(self.log_mass) + tilt * self.edges[1:] - np.logaddexp.reduce(tilted)
        high = int(np.searchsorted(-above, -log_rare))
        low = int(np.argmax(below > log_tilted_rare))
        return float(self.edges[min(low, len(self.edges) - 2)]), float(self.edges[min(high, len(self.edges) - 1)])


def survey(loss: HasTails) -> Survey:
    """About 800 evaluations of the tails. Raises NotRepresentable where they show nothing within reach."""
    side = np.geomspace(1e-13, FARTHEST, 400)
    edges = np.concatenate((-side[::-1], [0.0], side))
    with np.errstate(all="ignore"):
        tails = loss.tails(edges)
        p, q = _cells(tails.p_above, tails.p_below), _cells(tails.q_above, tails.q_below)
        typical = np.clip(p - q, edges[:-1], edges[1:])
    kept = ~np.isneginf(p) & ~np.isnan(typical)
    if not kept.any():
        raise NotRepresentable(f"all of the loss lies beyond {FARTHEST:g}, where no grid is laid")
    with np.errstate(all="ignore"):
        infinite = float(loss.tails(np.array([1e300])).p_above[0])
    return Survey(np.append(edges[:-1][kept], edges[1:][kept][-1:]), p[kept], typical[kept], infinite)


def _atom(loss: HasTails, view: Survey) -> float:
    """The common size of the losses whose cells have most of the mass, each far more than its neighbours; 0 where there is none. A loss
    of 0 is on every grid, and says nothing."""
    mass = np.exp(view.log_mass)
    neighbours = np.maximum(np.append(0.0, mass[:-1]), np.append(mass[1:], 0.0))
    heavy = np.flatnonzero((mass > 0.01) & (mass > OUTSTANDING * neighbours))
    if not 1 <= len(heavy) <= 2 or float(mass[heavy].sum()) < 0.5:
        return 0.0
    cells = [(float(view.edges[k]), float(view.edges[k + 1])) for k in heavy.tolist()]
    sizes = [abs(_jump(loss, low, high)) for low, high in cells if low * high > 0.0]
    if not sizes or min(sizes) <= LEAST_SIZE:
        return 0.0
    return sizes[0] if max(sizes) - min(sizes) <= 1e-12 * max(sizes) else 0.0


def _jump(loss: HasTails, low: float, high: float) -> float:
    """Return the loss between two others at which the distribution function rises most, to the last digits."""
    for _ in range(24):
        at = np.unique(np.linspace(low, high, 33))
        if len(at) < 3:
            break
        with np.errstate(all="ignore"):
            k = int(np.argmax(np.diff(np.exp(loss.tails(at).p_below))))
        low, high = float(at[k]), float(at[k + 1])
    return high


def _cells(above: Array, below: Array) -> Array:
    rising = below[1:] < above[1:]
    outer, inner = np.where(rising, below[1:], above[:-1]), np.where(rising, below[:-1], above[1:])
    return np.where(outer > inner, outer + np.log(-np.expm1(inner - outer)), -np.inf)


Surveys = Sequence[tuple[Survey, float]]


def common_unit(parts: Sequence[tuple[HasTails, Survey, int]]) -> float:
    """The unit of which all losses are whole multiples, or the size of the atoms that each of a few has; 0 where there is none."""
    units = [view.unit() or (_atom(loss, view) if len(parts) <= FEW else 0.0) for loss, view, _ in parts]
    least = min(units)
    if not least > 0.0:
        return 0.0
    return least if all(abs(unit / least - round(unit / least)) <= WHOLE * unit / least for unit in units) else 0.0


def some(surveys: Surveys) -> Surveys:
    """A few that stand for many: those that weigh most, by count times K(1), and of the others every so many, their counts raised to
    the weight of all."""
    if len(surveys) <= MANY:
        return surveys
    one = np.array([1.0])
    weights = [abs(count * float(view.cgf(one)[0])) for view, count in surveys]
    order = sorted(range(len(surveys)), key=lambda i: (-weights[i], i))
    rest = order[HEAVIEST:]
    chosen = rest[:: max(len(rest) // SAMPLE, 1)]
    light = sum(weights[i] for i in chosen)
    scale = sum(weights[i] for i in rest) / light if 0.0 < light < np.inf else len(rest) / len(chosen)
    return [surveys[i] for i in order[:HEAVIEST]] + [(surveys[i][0], scale * surveys[i][1]) for i in chosen]


def total(surveys: Surveys, z: Array) -> Array:
    """About the composition's K."""
    result: Array = np.zeros_like(z)
    for view, count in surveys:
        result = result + count * view.cgf(z)
    return result


@shared(64)
def best_tilt(surveys: tuple[tuple[Survey, int], ...], log_delta: float) -> tuple[float, float]:
    """(t, epsilon by Chernoff's bound) near log delta."""

    few = some(surveys)

    def bound(z: Array) -> Array:
        return (total(few, z) - log_delta - np.log(z) - np.log1p(z)) / z

    return _smallest(bound)


@shared(64)
def tilt_for(surveys: tuple[tuple[Survey, int], ...], epsilon: float) -> tuple[float, float]:
    """(t, log delta) at which Chernoff's bound of delta(epsilon) is least."""
    few = some(surveys)
    return _smallest(lambda z: np.maximum(total(few, z) - z * epsilon + z * np.log(z) - (z + 1.0) * np.log1p(z), LOG_NOTHING))


def _smallest(function: Callable[[Array], Array]) -> tuple[float, float]:
    low, high = TILTS
    z = np.geomspace(low, high, 46)
    for _ in range(2):
        with np.errstate(all="ignore"):
            values = function(z)
        k = int(np.nanargmin(np.where(np.isnan(values), np.inf, values)))
        best = float(z[k]), float(values[k])
        z = np.geomspace(z[max(k - 1, 0)], z[min(k + 1, len(z) - 1)], 17)
    return best


@shared(4096)
def _rare_cgfs(view: Survey) -> tuple[Array, Array]:
    """Orders, and K there: what is asked anew for every number of copies."""
    s = np.geomspace(1e-2, 1e4, 61)
    return s, view.cgf(s)


@shared(4096)
def _cgfs_around(view: Survey, tilt: float) -> tuple[float, Array, Array]:
    """K at a tilt, at those above it, and at those below it."""
    s = _distances(tilt)
    return float(view.cgf(np.array([tilt]))[0]), view.cgf(tilt + s), view.cgf(tilt - s)


def _distances(tilt: float) -> Array:
    return np.asarray(np.geomspace(1e-3, 1e3, 49) * max(tilt, 1e-2))


def spread(surveys: Surveys, tilt: float, log_rare: float) -> tuple[float, float, float, float]:
    """(A, B, a, b): the tilted composition lies outside of [A, B] with a probability of about e^log_rare at either side, by
    Chernoff's bound at the tilts t - a and t + b."""
    s = _distances(tilt)
    with np.errstate(all="ignore"):
        parts = [(_cgfs_around(view, tilt), count) for view, count in some(surveys)]
        at_tilt, above, below = (sum(count * values[k] for values, count in parts) for k in (0, 1, 2))
        high, low = (above - at_tilt - log_rare) / s, (at_tilt - below + log_rare) / s
    low, high = np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)
    margin = 0.1 * float(high.min() - low.max()) + 1e-12
    # The smallest order that does nearly as well: a grid's own moments of a larger one are far from the survey's.
    down, up = int(np.argmax(low >= low.max() - margin)), int(np.argmax(high <= high.min() + margin))
    return float(low[down]), float(high[up]) + 1e-12, float(s[down]), float(s[up])
