"""The privacy profile of a selection, which releases the best of a random number of runs, from the profile of one run.

The *profile* of a mechanism, also called its curve, is delta as a function of epsilon; its values are *heights*. `RepeatAndSelect`
(repeat_and_select.py) passes the privacy losses of one run and the distribution of the number of runs to `SelectionLoss`. It gets upper
bounds on the selection's profile. For accountants that compose pairs, it also gets a pair (P, Q) of distributions with these bounds as its
profile. All bounds are rounded up.

Let K be the number of runs, and f its generating function. Let Q and Q' be the laws of one run on neighbouring data. The best output has at
y the density Q(y) f'(X), where X is uniform between Q(< y) and Q(<= y). Ties are broken by a uniform number with the same law for both
datasets. f' increases to f'(1) = E[K].

Let A be the set of pairs (q, q') of probabilities that one event can have under one run on neighbouring data. Then, point by point,

    (Q f'(q) - e^eps Q' f'(q'))+ <= E[K] Q G(e^eps Q'/Q),  where  G(y) = max over A of (f'(q) - y f'(q'))+ / E[K].

G is a maximum of lines, so it is convex, and it falls from 1 to 0. Every chord lies above it, so that G(y) <= sum_j w_j (1 - y / y_j)+ with
weights w_j >= 0. The integral of each term is the delta of one run at another epsilon. At eps >= 0, the delta of the selection is at most

    E[K] sum_j w_j delta(eps - log y_j).

If K = 0, nothing is released. This has the same probability for both datasets, and adds nothing to delta.

The bound is nearly attained if delta is small. Order the outcomes of one run from the largest ratio Q/Q' to the smallest, so that all pairs
(q, q') below an outcome are at the edge of A. Then move each outcome with a large ratio to the place at which its term is largest. Only
these outcomes add to delta, and few of them are moved. A user may prefer outcomes in this order (costly_selection.py).

A second bound is sharper for many selections that cost little, where epsilon is small and delta is large. The selection is a function of
the outputs of all runs. K has the same law for both datasets and may be revealed. So delta(eps) is at most the mean of the deltas of k
runs, with the weights P(K = k). The delta of k runs follows from k times the Renyi divergences of one run; k Gaussian runs are one
Gaussian.

Koskela, Redberg, Wang 2024, arXiv:2402.06701, use one term, with y_1 = max f'(q) / f'(q') and weight 1. Their bound is never smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.noise.additive import SMALLEST_RATIO  # the smallest sensitivity over noise
from dpcli.mechanisms.noise.gaussian import GaussianLoss
from dpcli.mechanisms.stated.renyi import RenyiPairLoss, log_heights_of_copies, renyi_log_heights
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair, symmetric_pair  # FURTHEST: the largest loss on a grid
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails, log_deltas
from dpcli.numerics.work import allowance, shared  # a limit on work, and a cache

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted

# Soundness: what these add must exceed the rounding errors.
ROUNDING = 1e-12  # bounds are raised by this relative error, and their logarithms by this absolute error
ROUNDING_OF_CHANCES = 1e-9  # more than the relative error of P(K = k), the exponential of a sum of MOST_RUNS logarithms
ROUNDING_OF_RATIO = 1e-15  # more than the error of P(K = k + 1) / P(K = k) near 1
LEAST_G = 1e-300  # least value of G before its end, in place of one that underflows; a larger G is a bound too

# Accuracy and speed: every grid gives an upper bound, and a finer one a sharper bound in more time.
POINTS = 2048  # points of the grid of losses
LOG_LEAST = -180.0  # logarithm of the height of the curve at the last point, which becomes mass at an infinite loss
REACHES = 200  # number of epsilons that are tried as the last point of the grid of losses
EPSILONS = 1600  # number of epsilons at which the profile of one run is evaluated; each gives two lines of `_edge_of_events`
EVENTS = 400  # number of probabilities q', and again of q, at which the edge of A is evaluated; twice as many change epsilon by about 1e-5
NEAR_DEPTH = 16.0  # depth up to which the events are equally spaced; beyond it, f' is less than 1e-6 of E[K]
TANGENT_REACH = 0.25  # largest change of depth over half a cell for which f'(q') is replaced by a tangent
SHIFTS = 160  # number of log y_j up to FAR_SHIFT; four times as many lower epsilon by less than 3 parts in 10,000
# Where G ends near y = 1, it differs from a line only around there. So log y_j are equally spaced from -near on, where near is
# the log y at which G ends, from LEAST_NEAR to MOST_NEAR. Below -near, SHIFTS_BELOW of them are spaced geometrically.
LEAST_NEAR, MOST_NEAR, SHIFTS_BELOW = 1e-6, 1.0, 32
LOG_LEAST_SHIFT = -8.0  # least log y_j; below it G differs from 1 by less than 1e-3
FAR_SHIFT = 32.0  # beyond this log y_j, they are spaced geometrically
# The second bound is evaluated at every SPACED-th point of the grid. Numbers of runs up to MOST_RUNS, each about GROWTH times the one
# before, stand for those below them.
SPACED, MOST_RUNS, GROWTH = 16, 4096, 1.04
NEGLIGIBLE_CHANCE = 1e-15  # the numbers of runs end at a k with P(K > k) below this, which is added to delta
WORK_OF_RUN = 4e6  # units of work (numerics/work.py) that the pair of one run may take; a run that takes more gets a coarser pair
MAX_EPSILON = 1e9  # the search for epsilon ends at about this value, which means no privacy


class TrialCounts(Protocol):
    """A distribution of the number of trials.

    The *depth* at a probability w is log(f'(1) / f'(1 - w)), which rises from 0 with w. f'(1 - w) is convex.
    """

    @property
    def mean(self) -> float:
        """An upper bound on E[K]."""
        ...

    def depth(self, w: Array) -> Array:
        """Return the depth at w."""
        ...

    def depth_slope(self, w: Array) -> Array:
        """Return the derivative of the depth at w."""
        ...

    def at_depth(self, depth: Array) -> Array:
        """Return the w at which the depth has this value."""
        ...

    def next_ratio(self, k: Array) -> Array:
        """Return P(K = k + 1) / P(K = k), which is monotone in k >= 1 and may be negative where both are 0."""
        ...


@dataclass(frozen=True, slots=True)
class SelectionLoss:
    """The loss of a pair on a grid whose curve is the least of four bounds on the selection.

    The bounds are the two of the module's docstring, and those from the selection's Renyi curve and from its pure epsilon.

    run: losses of pairs that dominate one run, one for each direction; they may be of a coarser pair than `inner.losses`.
    trials: the distribution of K.
    selection: the mechanism of the whole selection, for its Renyi curve.
    pure: the selection's pure epsilon, or inf.
    inner: the mechanism of one run, for the bound from all runs.
    """

    run: tuple[PrivacyLoss, ...]
    trials: TrialCounts
    selection: Mechanism
    pure: float
    inner: Mechanism

    def cgf(self, z: Array) -> Array:
        """Return the CGF of the pair, log E_P[e^{z L}]. Raises NotRepresentable if the pure epsilon exceeds FURTHEST."""
        return self._finite().cgf(z)

    def tilted(self, t: float) -> Tilted:
        """Return the loss under P times e^{t L}, normalised (numerics/contour/tilted.py).

        Raises NotRepresentable if the pure epsilon exceeds FURTHEST.
        """
        return self._finite().tilted(t)

    def tails(self, at: Array) -> Tails:
        return _pair(self).tails(at)

    def _finite(self) -> ChordPair:
        """Return the pair. Raises NotRepresentable if the pure epsilon exceeds FURTHEST, because losses may then be infinite."""
        if not self.pure <= FURTHEST:
            raise NotRepresentable("only the tails of a selection's worst pair are known, and its CGF is not")
        return _pair(self)

    def log_heights(self, x: Array) -> Array:
        """Return upper bounds on log delta at increasing epsilons x >= 0, from the run's profile and the pure epsilon."""
        shifts, log_weights = _chord_terms(self.run, self.trials)
        epsilons, places = np.unique(x[:, None] - shifts, return_inverse=True)  # each is evaluated once
        log_terms = log_run_profile(self.run, epsilons)[places.reshape(len(x), len(shifts))] + log_weights
        result = np.asarray(log_sum(log_terms)) + math.log(self.trials.mean) + ROUNDING
        if self.pure < math.inf:
            with np.errstate(divide="ignore"):
                pure_heights = np.log(-np.expm1(np.minimum(x - self.pure, 0.0))) - math.log1p(math.exp(-self.pure))
            result = np.minimum(result, pure_heights + ROUNDING)
        return np.minimum(result, 0.0)

    def epsilon(self, log_delta: float) -> float:
        """Return the epsilon at which the bound of `log_heights` falls to `log_delta`; inf if it does not."""

        def excess(x: float) -> float:
            return float(self.log_heights(np.array([x]))[0]) - log_delta

        if excess(0.0) <= 0.0:
            return 0.0
        high = 1.0
        while excess(high) > 0.0:
            high *= 2.0
            if high > MAX_EPSILON:
                return math.inf
        _, upper = bracket_root(excess, 0.0, high, rtol=1e-12)
        return upper


def own_pair_losses(inner: Mechanism) -> tuple[PrivacyLoss, ...]:
    """Return the losses of the run's own pairs if they take at most WORK_OF_RUN units of work; otherwise `quick_pair_losses`.

    The same work is allowed whatever was spent before, so that the answer does not depend on earlier questions.
    """
    with suppress(NotRepresentable), allowance(WORK_OF_RUN, WORK_OF_RUN):
        losses = inner.losses()
        log_run_profile(losses, np.zeros(1))  # raises TooMuchWork, a NotRepresentable, if the pair takes too long
        return losses
    return quick_pair_losses(inner)


def quick_pair_losses(inner: Mechanism) -> tuple[PrivacyLoss, ...]:
    """Return losses of pairs that dominate one run. A composition, whose own pair needs a grid, gets the pair of its Renyi curve.

    Raises NotRepresentable if the Renyi curve is needed and there is none.
    """
    if not inner.is_composition:
        with suppress(NotRepresentable):
            return inner.losses()
    inner.rdp(np.array([2.0]))  # raises if there is no Renyi curve
    return (RenyiPairLoss(((inner, 1),)),)


def log_run_profile(run: tuple[PrivacyLoss, ...], x: Array) -> Array:
    """Return upper bounds on log delta of one run at increasing epsilons x, in the worse direction at each."""
    return np.asarray(np.maximum.reduce([log_deltas(loss, x) for loss in run]))


@shared(16)
def _chord_terms(run: tuple[PrivacyLoss, ...], trials: TrialCounts) -> tuple[Array, Array]:
    """Return log y_j, increasing, and log w_j of the module's docstring.

    w_j is y_j times the change of slope at y_j of the chords between the points (y_j, G(y_j)), as for any piecewise linear function.
    """
    log_rates, log_ratios = _edge_of_events(run, trials)
    largest_shift = float(log_ratios.max()) * (1.0 + ROUNDING) + ROUNDING  # where G ends
    near = min(max(largest_shift, LEAST_NEAR), MOST_NEAR)  # the log y_j are equally spaced from minus this on
    below = -np.geomspace(-LOG_LEAST_SHIFT, near, SHIFTS_BELOW, endpoint=False)
    shifts = np.append(below, np.linspace(-near, min(largest_shift, FAR_SHIFT), SHIFTS - SHIFTS_BELOW))
    if largest_shift > FAR_SHIFT:
        shifts = np.append(shifts, np.geomspace(FAR_SHIFT, largest_shift, SHIFTS)[1:])
    lines = [_largest_line(log_rates, log_ratios, shift) for shift in shifts[:-1].tolist()]
    values = np.append(np.maximum(lines, LEAST_G), 0.0)  # G at y_j
    with np.errstate(over="ignore", divide="ignore"):
        steps = np.diff(shifts)
        falls = np.append(1.0, values[:-1]) - values
        ending_falls = falls / np.append(1.0, -np.expm1(-steps))  # minus y_j times the slope of the chord that ends at y_j
        beginning_falls = np.append(falls[1:] / np.expm1(steps), 0.0)  # minus y_j times the slope of the chord that begins there
        log_weights = np.log(np.maximum(ending_falls - beginning_falls, 0.0)) + ROUNDING
    is_positive = log_weights > -math.inf
    return shifts[is_positive], log_weights[is_positive]


def _largest_line(log_rates: Array, log_ratios: Array, shift: float) -> float:
    """Return the largest of the lines rate (1 - y / ratio)+ at y = e^shift."""
    return float((np.exp(log_rates) * -np.expm1(np.minimum(shift - log_ratios, 0.0))).max())


def _edge_of_events(run: tuple[PrivacyLoss, ...], trials: TrialCounts) -> tuple[Array, Array]:
    """Return log(f'(q) / E[K]) and log(f'(q) / f'(q')) at points whose lines together bound G from above.

    Let w = 1 - q and z = 1 - q'. The profile of a run bounds z by lines in w: e^eps w + delta, and 1 - e^-eps (1 - w - delta). In a cell of
    w, z is at most one of the lines, f'(q) is at most its chord, and f'(q') is at least its tangent at the line's middle. Their difference
    is then linear in w, and largest at an end of the cell. In a cell that is too long for a tangent, f'(q) is that of one end and f'(q')
    that of the other.
    """
    epsilons = np.append(0.0, np.geomspace(1e-6, FURTHEST, EPSILONS))
    deltas = np.minimum(np.exp(log_run_profile(run, epsilons)), 1.0)
    # Lines z = slope w + height; the last one is z = 1.
    slopes = np.concatenate((np.exp(epsilons), np.exp(-epsilons), [0.0]))
    heights = np.concatenate((deltas, -np.expm1(-epsilons) + deltas * np.exp(-epsilons), [1.0]))
    if np.isnan(heights).any():
        raise NotRepresentable("the bound on how a choice's probability changes between neighbours is not a number")
    w = _probabilities(epsilons, deltas, trials)
    left, right = w[:-1], w[1:]
    middle = 0.5 * (left + right)
    lowest = np.array([int(np.argmin(slopes * w_middle + heights)) for w_middle in middle.tolist()])  # the line in each cell
    z_left, z_middle, z_right = (slopes[lowest] * ends + heights[lowest] for ends in (left, middle, right))
    # The tangent of f'(1 - z) at z_middle, divided by its value there, is 1 + rise at z_left and 1 - fall at z_right.
    depth_slope = trials.depth_slope(z_middle)
    has_tangent = depth_slope * (z_right - z_middle) < TANGENT_REACH
    rise, fall = (np.where(has_tangent, depth_slope * np.abs(z - z_middle), 0.0) for z in (z_left, z_right))
    depth_left, depth_right = trials.depth(left), trials.depth(right)
    z_depth_middle, z_depth_right = trials.depth(z_middle), trials.depth(np.minimum(z_right, 1.0))
    ratio_left = np.where(has_tangent, z_depth_middle - np.log1p(rise), z_depth_right) - depth_left
    ratio_right = np.where(has_tangent, z_depth_middle - np.log1p(-fall) - depth_right, ratio_left)
    log_rates = -np.concatenate((depth_left, np.where(has_tangent, depth_right, depth_left)))
    log_ratios = np.concatenate((ratio_left, ratio_right))
    return log_rates + ROUNDING * (1.0 - log_rates), np.maximum(log_ratios, 0.0) + ROUNDING * (1.0 - log_rates)


def _probabilities(epsilons: Array, deltas: Array, trials: TrialCounts) -> Array:
    """Return increasing probabilities w from 0 to 1, between which neither f'(q) nor f'(q') at the edge of A changes much."""
    deepest = float(trials.depth(np.ones(1))[0])
    depths = np.linspace(0.0, min(deepest, NEAR_DEPTH), EVENTS)
    if deepest > NEAR_DEPTH:
        depths = np.append(depths, np.geomspace(NEAR_DEPTH, deepest, EVENTS)[1:])
    events = np.clip(trials.at_depth(depths), 0.0, 1.0)
    # The least w for each z by the two kinds of lines of `_edge_of_events`.
    by_steep_lines = [((z - deltas) * np.exp(-epsilons)).max() for z in events.tolist()]
    by_flat_lines = [(1.0 - deltas - (1.0 - z) * np.exp(epsilons)).max() for z in events.tolist()]
    least = np.maximum(by_steep_lines, by_flat_lines)
    return np.unique(np.clip(np.concatenate((events, least, [0.0, 1.0])), 0.0, 1.0))


def log_all_runs(run: Mechanism, trials: TrialCounts, x: Array) -> Array:
    """Return upper bounds on log delta at x >= 0 of a release of all runs: the second bound of the module's docstring.

    Raises NotRepresentable if one run has no Renyi curve.
    """
    k = np.arange(1.0, MOST_RUNS + 1.0)
    with np.errstate(divide="ignore"):
        log_ratios = np.log(np.maximum(trials.next_ratio(k), 0.0))
    log_first = math.log(trials.mean) - float(trials.depth(np.ones(1))[0])  # log of P(K = 1) = f'(0) = E[K] f'(0) / f'(1)
    chances = np.exp(np.minimum(log_first + np.append(0.0, np.cumsum(log_ratios[:-1])), 0.0)) * (1.0 + ROUNDING_OF_CHANCES)
    # P(K > MOST_RUNS) is at most a geometric series, because the ratio is monotone, and so largest at MOST_RUNS or at infinity (1e300).
    # It is added to delta.
    largest_ratio = float(np.maximum(trials.next_ratio(np.array([MOST_RUNS, 1e300])), 0.0).max())
    least_fall = 1.0 - largest_ratio - ROUNDING_OF_RATIO
    chance_beyond = float(chances[-1]) * largest_ratio / least_fall if least_fall > 0.0 else 1.0
    counts = [1]
    while counts[-1] < MOST_RUNS and float(chances[counts[-1] :].sum()) > NEGLIGIBLE_CHANCE:
        counts.append(min(max(counts[-1] + 1, int(counts[-1] * GROWTH)), MOST_RUNS))
    chance_beyond += float(chances[counts[-1] :].sum())
    weights = np.diff(np.append(0.0, np.cumsum(chances)[np.array(counts) - 1]))
    with np.errstate(divide="ignore"):
        log_terms = np.array(list(_log_heights_of_runs(run, counts, x))) + np.log(weights)[:, None]
        return np.logaddexp(log_sum(log_terms.T), math.log(chance_beyond) if chance_beyond > 0.0 else -math.inf)


def _log_heights_of_runs(run: Mechanism, counts: list[int], x: Array) -> Iterator[Array]:
    """Yield, for each count, upper bounds on log delta at x >= 0 of this many runs."""
    try:
        mu = max(run.gdp(), SMALLEST_RATIO)
    except NotRepresentable:
        yield from log_heights_of_copies(run, counts, x)
        return
    for count in counts:
        yield log_deltas(GaussianLoss(mu * math.sqrt(count) * (1.0 + 1e-15)), x)


@shared(16)
def _pair(loss: SelectionLoss) -> ChordPair:
    """Return the pair, cached. Its grid ends where the curve is below e^LOG_LEAST or no longer falls, or at the pure epsilon."""
    epsilons = np.geomspace(1e-6, FURTHEST, REACHES)
    log_heights = loss.log_heights(epsilons)
    end = int(np.argmax(log_heights <= max(LOG_LEAST, float(log_heights[-1]))))  # the first point that is low enough
    reach = min(float(epsilons[end]), loss.pure * (1.0 + ROUNDING))
    x = reach / POINTS * np.arange(POINTS + 1, dtype=float)
    heights = loss.log_heights(x)
    with suppress(NotRepresentable):
        heights = np.minimum(heights, renyi_log_heights(RenyiPairLoss(((loss.selection, 1),)), x))
        heights[::SPACED] = np.minimum(heights[::SPACED], log_all_runs(loss.inner, loss.trials, x[::SPACED]))
    return symmetric_pair(float(x[1]), np.exp(heights))
