"""Bounds on delta(epsilon) of two or three Gaussian steps on Poisson samples, by quadrature over the boundary of {loss > epsilon}.

certified.py tries these bounds before any other method. L = log dP/dQ is the privacy loss.

Notation. P, Q and L are the pair and the loss of n steps together. For x in R^n, P = sum_s w_s N(s, 1) and Q = sum_s w_s N(-s, 1), where
each s_i is 0 or mu_i. Under add-remove only one of P and Q moves, and the other one is N(0, 1). Signs are such that L increases in every
x_i. phi is the normal density, and R = (1 - Phi) / phi is Mills' ratio. Coordinates: x = u e + B v with e_i = kappa / mu_i, |e| = 1, and
B orthonormal.

Statement. L increases with u, so {L > eps} = {u > b(v)} for a function b. With x_b = b e + B v and s_u = s e,

    delta(eps) = INT sum_s w_s phi_n(x_b - s) [R(b - s_u) - R(b)] + e^eps sum_s w_s phi_n(x_b + s) [R(b) - R(b + s_u)] dv.

No term is negative, so a small delta keeps its digits.

Proof. delta(eps) = P(L > eps) - e^eps Q(L > eps). The integral over u > b of phi_n(x - s) is phi_n(x_b - s) R(b - s_u); likewise for -s.
At the boundary the densities of P and e^eps Q agree. Their product with R(b) is subtracted from both.

Error of the quadrature. The integral over each coordinate v_j is a trapezoidal sum with node distance h.

1. If the integrand f is analytic for |Im v_j| <= a, the sum errs by at most 2 M / (e^{2 pi a / h} - 1). M bounds INT |f| on every line in
   this strip (Trefethen and Weideman 2014, The Exponentially Convergent Trapezoidal Rule, Theorem 5.1).
2. b is analytic in the strip if 2 r a < pi / 2, where 2 r is the range of mu_i B_ij over the steps i:
   * Let z_i = mu_i x_i. At Im v_j = a, Im z_i = kappa Im b + mu_i B_ij a.
   * For |Im z_i| < pi / 2, the argument of the step's e^loss has the sign of Im z_i, and the step's loss has a derivative with positive
     real part.
   * The sum of the arguments is 0, because eps is real. So the Im z_i do not all have one sign, and |Im z_i| <= 2 r a.
   * So dL/du is not 0, and b can be continued. Also |Im b| <= a max_i |mu_i B_ij| / kappa.
3. Re b moves by at most eta = -2 log(cos(c r a / 2)) / (c kappa), with c = 2 if only one of P and Q moves, and else c = 4:
   * db/dv_j is minus the mean of mu_i B_ij / kappa, with the steps' derivatives as weights.
   * The arguments of the weights differ by at most c r a, so the imaginary part of the mean is at most tan(c r a / 2) r / kappa. Integrate
     over a.
4. |phi(x + iy)| = phi(x) e^{y^2 / 2} and |1 - Phi(x + iy)| <= e^{y^2 / 2} (1 - Phi(x)). So M is at most e^{(a^2 + (Im b)^2) / 2} times the
   sum of P and e^eps Q of {u > b(v) - eta}. This sum is computed on the same nodes and doubled: its integrand is positive and of the same
   kind, and the rule errs on it by far less than a factor of 2.
5. Outside of the nodes' range, the integrand is at most the density of P there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.epsilon_search import proved_end
from dpcli.numerics.contour.tilted import Losses
from dpcli.numerics.logspace import scaled_mills_ratio
from dpcli.numerics.mixture import unmix
from dpcli.numerics.roots import increasing_root
from dpcli.numerics.work import spend

# Soundness.
TURN = 0.45 * math.pi  # largest range of Im z_i; proved up to pi / 2, but there Re b moves too far
ULP = 1e-15  # several times the relative rounding error of a term
NEARLY_ZERO = 1e-200  # the epsilon at which delta(0) is bounded; twice this is added to delta(0), and doubles still have all digits
# Accuracy.
DIGITS = 28.0  # the quadrature may err by about e^-DIGITS of delta, far less than what `certified.NARROW` asks for
LARGE_EXPONENT = 30.0  # with larger exponents u, log m is summed from logarithms, which cannot overflow
ROUNDS = 40  # most steps of Newton's method for epsilon
FARTHEST_MOVE = 4.0  # largest factor by which one step of Newton's method changes epsilon
CLOSE = 1e-7  # Newton's method ends after so small a relative step, because the next one would be about its square
# First distance of an end from the estimate: a share of epsilon, plus a multiple of what the error of delta moves epsilon by.
LEAST_MARGIN, FIRST_MARGIN = 1e-14, 1.5
# Speed; `spend` (numerics/work.py) limits the work.
MOST_STEPS = 3  # with more steps the sum over nodes has three or more dimensions, and a contour is cheaper
MOST_NODES = 4_000  # with more nodes, a contour is faster
MANY_NODES = 400  # with more nodes, every second one in each direction gives the first estimates
WORK = 20.0  # units of work for each node and shift


class SampledStep(NamedTuple):
    """A Gaussian step on a Poisson sample.

    mu: contribution over noise. rate: sampling rate, in (0, 1). moves_p, moves_q: whether a sampled record moves the outcome under P and Q.
    """

    mu: float
    rate: float
    moves_p: bool
    moves_q: bool


def few_steps(losses: Losses, log_delta: float, spread: float = 1.0) -> FewSteps | None:
    """Return the bounds for these losses, or None if they are not two or three steps of one kind, or would need too many nodes.

    spread: factor of the node distance (`FewSteps`).
    """
    steps: list[SampledStep] = []
    for loss, count in sorted(losses, key=lambda part: -part[1]):  # equal steps first, because their nodes are symmetric
        method: Callable[[], SampledStep | None] | None = getattr(loss, "sampled_step", None)
        step = None if method is None or count > MOST_STEPS else method()
        if step is None:
            return None
        steps.extend([step] * count)
    if not 2 <= len(steps) <= MOST_STEPS or len({(step.moves_p, step.moves_q) for step in steps}) > 1:
        return None
    bounds = FewSteps(steps, log_delta, spread)
    return bounds if bounds.affordable else None


class NodeSums(NamedTuple):
    """Sums over the nodes, each divided by e^log_scale.

    delta: the trapezoidal sum. error: a bound on its error on both sides, without the mass outside of the nodes.
    reference: e^eps Q(L > eps), which is minus the derivative of delta.
    """

    delta: float
    error: float
    reference: float
    log_scale: float


class FewSteps:
    """Bounds on delta of two or three steps, narrow where log delta is about `log_delta`. All steps move the same ones of P and Q.

    spread: factor of the node distance. At 1 the error of the quadrature is negligible. The bounds hold for any factor.
    affordable: whether there are nodes. If it is false, no method may be called.
    """

    def __init__(self, steps: Sequence[SampledStep], log_delta: float, spread: float = 1.0) -> None:
        self._mu = np.array([step.mu for step in steps])[:, None]
        self._rate = np.array([step.rate for step in steps])[:, None]
        self._log_rest = np.log1p(-self._rate)  # log(1 - q)
        self._moves_p, self._moves_q = steps[0].moves_p, steps[0].moves_q
        self._log_delta = log_delta
        self._kappa = 1.0 / math.sqrt(float((self._mu**-2.0).sum()))
        self._along = self._kappa / self._mu[:, 0]  # e
        self._across = _complement(self._along)  # B
        # A step is sampled or not, so n steps have 2^n shifts s, each with its weight w_s.
        choices = [((step.rate, step.mu), (1.0 - step.rate, 0.0)) for step in steps]
        chosen = list(product(*choices))
        self._log_weights = np.array([sum(math.log(weight) for weight, _ in choice) for choice in chosen])
        shifts = np.array([[shift for _, shift in choice] for choice in chosen])
        self._shift_along, self._shift_across = shifts @ self._along, shifts @ self._across
        self._largest = math.inf if self._moves_p else -float(self._log_rest.sum())  # the largest loss, at log m = log(1 - q)
        self._last_boundary = np.zeros(0)  # b at the last epsilon, from which the next search for b starts
        self.affordable = self._choose_distances(spread) and self._place_nodes()

    def _choose_distances(self, spread: float) -> bool:
        """Choose the strip and the node distances, so that the quadrature errs by about e^-DIGITS of delta if `spread` is 1.

        Return False if no loss of about the probability delta is a positive double.
        """
        estimate = self._first_estimate()
        if not estimate > 0.0:
            return False
        slopes = self._mu * self._across  # mu_i B_ij
        r = 0.5 * (slopes.max(axis=0) - slopes.min(axis=0))
        im_b_slope = np.abs(slopes).max(axis=0) / self._kappa  # |Im b| is at most this times a
        # P(L > eps) is delta times 1 plus the slope of -log delta, which is about -2 log delta / epsilon.
        wanted = DIGITS + math.log1p(-2.0 * self._log_delta / estimate)
        growth = 0.5 * (1.0 + im_b_slope**2)  # (a^2 + (Im b)^2) / 2 is this times a^2
        # The first height is best without a limit, and the second one the largest allowed.
        a = np.minimum(np.sqrt(wanted / growth), 0.5 * TURN / r)
        half_c = 2.0 if self._moves_p and self._moves_q else 1.0
        self._boundary_shift = -np.log(np.cos(half_c * r * a)) / (half_c * self._kappa)  # eta
        farthest = math.sqrt(-2.0 * self._log_delta)  # about the largest b that matters
        self._log_growth = growth * a**2
        self._distance = 2.0 * math.pi * spread * a / (wanted + self._log_growth + self._boundary_shift * (farthest + 1.0))
        self._log_decay = 2.0 * math.pi * a / self._distance  # 2 pi a / h
        return True

    def _place_nodes(self) -> bool:
        """Place the fine and the coarse nodes. Return False, and place none, if there would be more than MOST_NODES."""
        reach = math.sqrt(2.0 * (DIGITS - self._log_delta))
        radius = reach + float(np.sqrt((self._shift_across**2).sum(axis=1)).max()) + math.sqrt(float((self._distance**2).sum()))
        counts = np.ceil(radius / self._distance)
        if not (math.isfinite(radius) and np.prod(2.0 * counts + 1.0) <= MOST_NODES):
            return False
        # If steps 1 and 2 are equal, exchanging them turns v_1 into -v_1. Then v_1 >= 0 suffices.
        symmetric = bool(self._mu[0] == self._mu[1] and self._rate[0] == self._rate[1])
        ends = counts.astype(int).tolist()
        starts = [-end for end in ends]
        if symmetric:
            starts[0] = 0
        distances = self._distance.tolist()
        axes = [distance * np.arange(start, end + 1) for distance, start, end in zip(distances, starts, ends, strict=True)]
        places = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
        places = places[:, (places**2).sum(axis=0) <= radius * radius]
        copies = np.where(places[0] == 0.0, 1.0, 2.0) if symmetric else np.ones(places.shape[1])
        weights = copies * float(np.prod(self._distance)) * (2.0 * math.pi) ** (-0.5 * len(self._mu))
        self._fine = self._coarse = Nodes(places, weights)
        if places.shape[1] > MANY_NODES:
            even = (np.round(places / self._distance[:, None]) % 2.0 == 0.0).all(axis=0)
            self._coarse = Nodes(places[:, even], weights[even] * 2.0 ** len(axes))
        return True

    def _log_mixture(self, x: Array) -> tuple[Array, Array]:
        """Return log m and its derivative at outcomes x, of shape (steps, nodes), with m = 1 - q + q e^{mu x - mu^2 / 2} of each step."""
        exponent = self._mu * x - 0.5 * self._mu**2
        change = self._rate * np.expm1(np.minimum(exponent, LARGE_EXPONENT))
        log_m = np.log1p(np.maximum(change, -0.5))
        far = (exponent > LARGE_EXPONENT) | (change < -0.5)  # below -1/2, 1 + change would lose the digits of 1 - q
        if far.any():
            log_m = np.where(far, np.logaddexp(self._log_rest, np.log(self._rate) + exponent), log_m)
        return log_m, self._mu * self._rate * np.exp(exponent - log_m)

    def _losses(self, x: Array) -> tuple[Array, Array]:
        """Return each step's loss and its derivative at outcomes x, of shape (steps, nodes)."""
        value, slope = np.zeros_like(x), np.zeros_like(x)
        if self._moves_p:
            value, slope = self._log_mixture(x)
        if self._moves_q:
            less, falling = self._log_mixture(-x)
            value, slope = value - less, slope + falling
        return value, slope

    def _bracket(self, epsilon: float, offset: Array) -> tuple[Array, Array]:
        """Return u at which every step's loss is at most, and at least, its share of epsilon, so that b lies between them.

        offset: B v at the nodes, of shape (steps, nodes).
        """
        if self._moves_p and self._moves_q:
            # log m(x) - log m(-x) is at most 2 mu x, and at least log m(x) - log m(0), for x >= 0.
            share = np.full_like(self._mu, epsilon / len(self._mu))
            low = 0.5 * share / self._mu
            high = self._outcome(share + self._log_mixture(np.zeros_like(self._mu))[0])
        elif self._moves_p:
            low = high = self._outcome(np.full_like(self._mu, epsilon / len(self._mu)))
        else:  # the loss of a step is at most -log(1 - q), so epsilon is divided in proportion to these
            low = high = -self._outcome(-epsilon * self._log_rest / self._log_rest.sum())
        along = self._along[:, None]
        return ((low - offset) / along).min(axis=0), ((high - offset) / along).max(axis=0)

    def _outcome(self, log_m: Array) -> Array:
        """Return the outcome of each step at which log m has a given value."""
        logs = [
            unmix(at, log_rest, rate)
            for at, log_rest, rate in zip(log_m, self._log_rest[:, 0].tolist(), self._rate[:, 0].tolist(), strict=True)
        ]
        return np.asarray(np.stack(logs) / self._mu + 0.5 * self._mu)

    def _boundary(self, epsilon: float, nodes: Nodes) -> tuple[Array, Array]:
        """Return b at the nodes, and a bound on the error of the loss there."""
        offset, along = self._across @ nodes.places, self._along[:, None]

        def relative_loss(u: Array) -> tuple[Array, Array]:
            value, slope = self._losses(offset + along * u)
            return value.sum(axis=0) / epsilon, (along * slope).sum(axis=0) / epsilon

        low, high = self._bracket(epsilon, offset)
        start = self._last_boundary if len(self._last_boundary) == len(low) else None
        self._last_boundary = b = increasing_root(relative_loss, np.ones_like(low), low, high, start)
        x = offset + along * b
        value, slope = self._losses(x)
        # Rounding of a loss, of its outcome, and, where m may be below 1/2, of the sum of logarithms that is near 0.
        sizes = (np.abs(value) + slope * (np.abs(x) + self._mu) + (self._rate > 0.5)).sum(axis=0) + epsilon
        return b, np.abs(value.sum(axis=0) - epsilon) + ULP * sizes

    def values(self, epsilon: float, nodes: Nodes) -> NodeSums:
        """Return the sums over the nodes at epsilon > 0."""
        spend(WORK * len(nodes.weights) * len(self._log_weights))
        b, loss_error = self._boundary(epsilon, nodes)
        side_p = self._side(b, 1.0, self._moves_p, 0.0, nodes.places)
        side_q = self._side(b, -1.0, self._moves_q, epsilon, nodes.places)
        log_scale = max(float(side.exponents.max()) for side in (side_p, side_q))
        weight_p, weight_q = (nodes.weights * np.exp(side.exponents - log_scale) for side in (side_p, side_q))
        delta, rounding, shifted_mass = 0.0, 0.0, 0.0
        shift = float(self._boundary_shift.max())
        for side, weight in ((side_p, weight_p), (side_q, weight_q)):
            delta += float((weight * side.difference).sum())
            # 4 ULP times the ratios bound the absolute errors of the two Mills' ratios (`scaled_mills_ratio`), one of which is at `least`.
            rounding += ULP * float((weight * (4.0 * side.ratios + (10.0 + side.sizes) * side.difference)).sum())
            # The mass beyond b - eta: 1 - Phi(x - eta) is at most (1 - Phi(x)) e^{eta (max(x, 0) + 1)}.
            shifted_mass += float((weight * side.mass * np.exp(shift * (np.maximum(side.at, 0.0) + 1.0))).sum())
        # At b the densities of P and e^eps Q agree up to the error of the loss there. It is counted twice.
        from_boundary = 2.0 * float((weight_p * side_p.mass * loss_error).sum())
        # Item 4 of the docstring: 2 M / (e^{2 pi a / h} - 1), with the sum doubled.
        aliases = 4.0 * shifted_mass * float((np.exp(self._log_growth) / np.expm1(self._log_decay)).sum())
        return NodeSums(delta, rounding + from_boundary + aliases, float((weight_q * side_q.mass).sum()), log_scale)

    def _side(self, b: Array, sign: float, moves: bool, log_factor: float, places: Array) -> Side:
        """Return the terms of P (sign 1) or of e^eps Q (sign -1; log_factor is eps)."""
        log_weights, along, across = self._log_weights, self._shift_along, self._shift_across
        if not moves:
            log_weights, along, across = np.zeros(1), np.zeros(1), np.zeros((1, len(places)))
        at = b - sign * along[:, None]
        distance = ((places[None] - sign * across[:, :, None]) ** 2).sum(axis=1)
        least = np.minimum(np.minimum(at, b), 0.0)
        exponents = log_weights[:, None] - 0.5 * (distance + at * at - least * least) + log_factor
        sizes = np.abs(log_weights[:, None]) + 0.5 * (distance + at * at + least * least) + log_factor
        # R(b - s_u), or R(b + s_u), and R(b), both times e^{-least^2 / 2}.
        mass, at_boundary = scaled_mills_ratio(at, least), scaled_mills_ratio(np.broadcast_to(b, at.shape), least)
        ratios = np.where(along[:, None] > 0.0, mass + at_boundary, 0.0)  # without a shift the difference is exactly 0
        return Side(exponents, sizes, at, mass, ratios, np.maximum(sign * (mass - at_boundary), 0.0))

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds on log delta(epsilon); (-inf, inf) unless 0 <= epsilon < the largest loss.

        The lower bound is also -inf, or the upper one inf, where the sums prove nothing.

        delta(0) is bounded by delta(d) <= delta(0) <= delta(d) + 2 d, for 0 < d <= 1, because delta falls at a rate of at most e^eps.
        """
        log_missing = self._log_delta - DIGITS
        if epsilon == 0.0:
            epsilon = NEARLY_ZERO
            log_missing = float(np.logaddexp(log_missing, math.log(2.0 * NEARLY_ZERO)))
        if not 0.0 < epsilon < self._largest:
            return -math.inf, math.inf
        values = self.values(epsilon, self._fine)
        low, high = values.delta - values.error, values.delta + values.error
        upper = float(np.logaddexp(values.log_scale + math.log(high), log_missing)) if 0.0 < high < math.inf else math.inf
        return (values.log_scale + math.log(low) if low > 0.0 else -math.inf), upper

    def epsilon(self) -> tuple[float, float, float]:
        """Return (lower, upper) bounds on the epsilon at which log delta is `log_delta`, and the slope -d log delta / d epsilon there.

        They are (0, inf, NaN) if nothing can be proved. The slope is about the tilt at which a contour would lie. Newton's method on log
        delta gives an estimate, from which `proved_end` finds the bounds.
        """
        epsilon, slope, nodes = self._first_estimate(), math.nan, self._coarse
        for _ in range(ROUNDS):
            values = self.values(epsilon, nodes)
            if not (values.delta > 0.0 and 0.0 < values.reference < math.inf):
                return 0.0, math.inf, math.nan
            slope = values.reference / values.delta
            move = (values.log_scale + math.log(values.delta) - self._log_delta) / slope
            last, epsilon = epsilon, min(max(epsilon + move, epsilon / FARTHEST_MOVE), FARTHEST_MOVE * epsilon)
            if not epsilon < self._largest:
                epsilon = 0.5 * (last + self._largest)
            elif abs(move) <= CLOSE * epsilon:
                if nodes is self._fine:
                    break
                nodes = self._fine  # the estimate from the coarse nodes is now as good as they allow
        if not values.delta > values.error:
            return 0.0, math.inf, math.nan
        gap = values.error / values.delta
        margin = LEAST_MARGIN * epsilon + FIRST_MARGIN * gap / slope
        low, high = (proved_end(self, self._log_delta, epsilon, sign * margin) for sign in (-1.0, 1.0))
        return max(low, 0.0), high, slope

    def _first_estimate(self) -> float:
        """Return an estimate of epsilon: the larger of two losses of outcomes of about the probability delta.

        One has a single large outcome, and the other one equally large outcomes.
        """
        reach = math.sqrt(-2.0 * self._log_delta)
        alone = np.full_like(self._mu, reach) + self._mu
        together = alone - reach + reach / math.sqrt(len(self._mu))
        estimate = float(max(self._losses(alone)[0].max(), self._losses(together)[0].sum()))
        return min(estimate, 0.5 * self._largest)


class Nodes(NamedTuple):
    """Nodes of the quadrature. places: v, of shape (steps - 1, nodes). weights: weights of the trapezoidal sum, times (2 pi)^{-n/2}."""

    places: Array
    weights: Array


class Side(NamedTuple):
    """The terms of P, or of e^eps Q, in the sum over shifts (first axis) and nodes.

    sizes: sums of the absolute values of the terms of an exponent, which tell its rounding.
    at: b - s_u, or b + s_u.
    mass, difference, ratios: factors of e^exponents: R(at), the difference of Mills' ratios in the module's statement, and their sum. The
        sum is 0 without a shift.
    """

    exponents: Array
    sizes: Array
    at: Array
    mass: Array
    ratios: Array
    difference: Array


def _complement(e: Array) -> Array:
    """Return the columns of an orthonormal basis of the vectors orthogonal to the unit vector e, of shape (n, n - 1), for n = 2 or 3."""
    first = np.zeros_like(e)
    first[:2] = np.array([e[1], -e[0]]) / math.hypot(e[0], e[1])
    return first[:, None] if len(e) == 2 else np.stack([first, np.cross(e, first)], axis=1)
