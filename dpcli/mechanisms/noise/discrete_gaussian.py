"""Discrete Gaussian noise on one integer, or on every entry of a vector of integers.

`DiscreteGaussianSpec` has the keys. `DiscreteGaussian` is the cost of one integer, and `DiscreteGaussianVector` that of a vector. A change
of the data moves a vector by a *shift*, a vector of integers, of which the keys bound only norms. Shifts of one norm may differ in cost, so
the extreme ones are listed (numerics/closed/integer_vectors.py). The loss of a shift v depends on the output through v . X alone, where X
is the noise on the entries. If there are too many outcomes or shifts, only the norm is used (`NearlyGaussian`, nearly_gaussian.py). Numbers
are exact up to rounding, or rounded up.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these
pairs, and `unclaimed` drops this claim. `witness` returns a mechanism that the keys allow, whose cost is a lower bound. Of a loss L, `cgf`
bounds K(z) = log E_P[e^{z L}] from above, and `tails` returns log tail probabilities under P and Q. `tilted` returns the loss under P times
e^{t L}, normalised. `outcomes` returns the atoms and densities of the pair. `taken_for_vector` is a sensitivity of which no key says that
it is of one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import COUNT, POSITIVE, Key
from dpcli.base.premise import OWN_NOISE, SECRET, Premises, moves
from dpcli.base.stated import quotient, squared, stated  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours, any_sampled
from dpcli.mechanisms.noise.gaussian_spec import sampled_gaussian
from dpcli.mechanisms.noise.nearly_gaussian import NearlyGaussian, mechanism_of_norm, rho_of_squares
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.closed.integer_vectors import (
    TooManyShifts,
    is_discrete_gaussian,
    largest_shifts,
    lattice_cells,
    log_masses,
    reach_of,
)
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.work import spend  # counts work, which is limited

if TYPE_CHECKING:
    from dpcli.mechanisms.stated.atoms import AtomicLoss
    from dpcli.numerics.contour.outcomes import Outcomes


LEAST_SIGMA = 0.05  # least sigma that keys may state, in units of the sensitivity; less is no privacy
# Soundness.
SIGMAS = 40.0  # outcomes are summed within this many sigma of a centre; the mass beyond is below e^-800
SMOOTH_SIGMA = 3.0  # least sigma for which sums over the integers equal the integrals up to a factor of 1 + e^-170
# A squared norm that is at most this far below a whole number is rounded up to it, so that 1.41^2 counts as 2.
NORM_TOLERANCE = 0.05
# Speed and accuracy: limits beyond which outcomes are not summed, or the pair of a vector is not computed. Other bounds are used instead.
MOST_SUMMED_SIGMA = 700.0  # largest sigma of the noise on one integer for which outcomes are summed
MAX_MOVE = 100.0  # largest sensitivity, over the larger of sigma and 1, for which outcomes are summed
TOO_MANY_OUTCOMES = f"a discrete Gaussian that moves by more than {MAX_MOVE:g} sigma has too many outcomes"
MOST_CELLS = 3e6  # most work for the distributions of all shifts of a vector, in cells of `lattice_cells`
MOST_SHIFTS = 64  # largest number of different shifts of a vector for which a pair is computed
LARGEST_NORM = 300.0  # largest norm for which shifts are enumerated

Shift = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianSpec(Spec):
    """Whole numbers plus discrete Gaussian noise: one integer (sensitivity), or every entry of a vector of integers (l2_sensitivity).

    The noise has probability proportional to e^{-x^2 / (2 sigma^2)} on the integers. sigma is in units of the query, and is not exactly the
    standard deviation. Sensitivities are for the file's adjacency and unit. Only a group multiplies them.

    A vector is not priced as one integer, because a shift by (1, 1, 1, 1), of norm 2, can have several times the delta of a shift by 2. It
    is priced by all whole-number shifts that its norms allow. If l2_sensitivity is 1.41422, this is the shift (1, 1). If it is 3.16228,
    these are (3, 1), (2, 2, 1, 1) and others, of which linf_sensitivity = 1 leaves only the shift with ten ones. A squared norm that is at
    most 0.05 below a whole number counts as that number. A sensitivity above 1 is priced as that of a vector too, unless dimension = 1 is
    stated.

    Neighbours: all three adjacencies. There is no Poisson sampling under replace-one or zero-out, because the keys do not bound one
    record's contribution.

    Bounds: exact for one integer up to sigma = 700, and for vectors with a single worst shift. For several shifts, the pair whose curve is
    the largest of theirs. For a larger sigma, or too many shifts, the pair of a Gaussian of variance sigma^2 - 5, which the noise rounds
    at random, and the Renyi curve D_a <= a l2_sensitivity^2 / (2 sigma^2). If there are too many shifts and sigma is below 10, this curve
    alone. No finite epsilon at delta = 0.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorems 4 and 14.
    """

    example: ClassVar[Mapping[str, Any]] = {"sigma": 40.0, "sensitivity": 1}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    needs_delta: ClassVar[bool] = True
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No change moves the whole numbers by more than is stated, in any of the norms.", "release"),
        OWN_NOISE,
    )

    sigma: Annotated[float, Key("sigma of the noise e^{-x^2/(2 sigma^2)}", POSITIVE)]
    # claim=True: dpcli does not enforce what the key states.
    sensitivity: Annotated[
        int | None,
        Key("sensitivity of one integer under the file's adjacency; for a vector, state l2_sensitivity", COUNT, claim=True),
    ] = None
    l2_sensitivity: Annotated[
        float | None,
        Key("L2 sensitivity of a vector of integers under the file's adjacency, instead of sensitivity", POSITIVE, claim=True),
    ] = None
    linf_sensitivity: Annotated[
        int | None,
        Key(
            "largest move of one integer of the vector, together with l2_sensitivity, which limits it by default", COUNT, claim=True
        ),
    ] = None
    l1_sensitivity: Annotated[
        int | None,
        Key("largest sum of the integers' moves, together with l2_sensitivity, which limits it by default", COUNT, claim=True),
    ] = None
    dimension: Annotated[
        int | None, Key("number of integers that are released; 1 means that sensitivity is that of one integer", COUNT, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.sensitivity is None) == (self.l2_sensitivity is None):
            number = "neither" if self.sensitivity is None else "both"
            yield "sensitivity", "either sensitivity (one integer) or l2_sensitivity (a vector of integers)", number
            return
        if self.sensitivity is not None and (self.dimension or 1) > 1:
            yield "dimension", "1 with sensitivity, or l2_sensitivity for a vector", str(self.dimension)
        for key, bound in (("linf_sensitivity", self.linf_sensitivity), ("l1_sensitivity", self.l1_sensitivity)):
            if bound is not None and self.l2_sensitivity is None:
                yield key, "l2_sensitivity with it, since sensitivity is that of one integer", "sensitivity"
        if self.sigma < LEAST_SIGMA * self.moved:
            yield "sigma", f"at least sensitivity / 20 = {self.moved / 20.0:g} (less is no privacy)", repr(self.sigma)

    @property
    def moved(self) -> float:
        """The stated L2 sensitivity of the integer or the vector."""
        stated = self.l2_sensitivity if self.sensitivity is None else self.sensitivity
        assert stated is not None
        return stated

    def priced_as_vector(self, group: int) -> bool:
        """Return whether the shift may have several coordinates; an integer vector of norm 1 has one."""
        return self.l2_sensitivity is not None or (self.dimension != 1 and group * self.moved > 1.0)

    @property
    def taken_for_vector(self) -> int | None:
        return self.sensitivity if self.priced_as_vector(1) else None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        group = neighbours.group
        if self.sensitivity is not None and not self.priced_as_vector(group):
            return on_integer(self.sigma, self.sensitivity * group)
        no_shift_fits = self.moved < 1.0 and self.moved**2 + NORM_TOLERANCE < 1.0  # the least shift of integers has norm 1
        if self.moved * group > LARGEST_NORM or no_shift_fits:  # no shifts are listed, and the norm alone is priced
            square = stated(self.moved) ** 2
            norm_squared = max(square, Fraction(math.floor(square + Fraction(NORM_TOLERANCE)))) * group**2
            return mechanism_of_norm(self.sigma, norm_squared) or Zcdp(rho_of_squares(norm_squared, self.sigma))
        norms = Norms.stated(self.moved, self.linf_sensitivity, self.l1_sensitivity, self.dimension, group)
        mechanism = vector_of(self.sigma, norms)
        # Neither a norm that NORM_TOLERANCE raised nor the norms of a group need be attained.
        is_exact = group == 1 and norms.squared <= self.moved**2 * (1.0 + 1e-12)
        return mechanism if is_exact else mechanism.unclaimed()

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        try:
            mu = self.resolve(neighbours).gdp()
        except NotRepresentable:
            return Spec.poisson(self, rate, neighbours)
        self.require_contribution_form(neighbours)
        return sampled_gaussian(mu, any_sampled(rate, neighbours.records), 1).unclaimed()


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on the integers; s = integer sensitivity.

    rho = s^2/(2 sigma^2), as for the continuous Gaussian: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 4.
    An integer that moves by s attains the pair.
    """

    sigma: float
    sensitivity: int

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from the exact sum of P - e^eps Q over losses above eps.

        If the sensitivity exceeds a hundred sigma, it is the upper bound by conversion from zCDP.
        """
        if delta <= 0.0:
            return math.inf
        bound = zcdp_epsilon(self.zcdp(), delta)
        if _moves_far(self.sigma, self.sensitivity):
            return bound
        excess = self._excess(delta)
        if excess(0.0) <= 0.0:
            return 0.0
        _, upper = bracket_root(excess, 0.0, bound)
        return min(bound, upper)

    def _excess(self, delta: float) -> Callable[[float], float]:
        """Return the function eps -> delta(eps) / delta - 1, rounded up."""
        mass, loss = _outcomes(self.sigma, self.sensitivity)

        def excess(epsilon: float) -> float:
            start = int(np.searchsorted(loss, epsilon, side="right"))  # the first outcome whose loss exceeds epsilon
            spend(0.2 * (len(loss) - start))
            return float((mass[start:] * -np.expm1(epsilon - loss[start:])).sum()) / delta - 1.0

        return excess

    def zcdp(self) -> float:
        return squared(quotient(self.sensitivity, self.sigma), 2)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[DiscreteGaussianLoss]:
        return (DiscreteGaussianLoss(self.sigma, self.sensitivity),)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianVector(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on every entry of a vector that moves by one of `shifts`, or less.

    For a shift v, the loss under P is (|v|^2 + 2 v . X) / (2 sigma^2), where X is the noise. It is a whole number over 2 sigma^2, and
    closed/integer_vectors.py has the law of v . X. A further coordinate, or a larger one, costs at least as much. The reason is that noise
    on the integers is log-concave: the best tests are thresholds, whose power grows with the shift, and domination is preserved by
    products. The shifts that no other one exceeds therefore stand for all. If there are several, the pair is the largest of their pairs
    (grid/hockey_stick.py). A shift and its negative have reversed pairs, which are equal by the symmetry of the noise.

    rho = |v|^2/(2 sigma^2): Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 14. If there is one shift, it attains the pair.
    """

    sigma: float
    shifts: tuple[Shift, ...]

    def approx_dp(self, delta: float) -> float:
        return zcdp_epsilon(self.zcdp(), delta) if delta > 0.0 else math.inf

    def zcdp(self) -> float:
        return rho_of_squares(max(map(_squared, self.shifts)), self.sigma)

    def attained(self) -> bool:
        return len(self.shifts) == 1

    def witness(self, order: float) -> Mechanism:
        orders = np.array([order])
        worst_shift = max(self.shifts, key=lambda shift: float(_renyi(self.sigma, shift, orders)[0]))
        return DiscreteGaussianVector(self.sigma, (worst_shift,))

    def losses(self) -> tuple[PrivacyLoss]:
        return (_loss(self.sigma, self.shifts),)

    def rdp(self, orders: Array) -> Array:
        """Return the largest divergence over the shifts. The divergence of a shift is the sum over its coordinates."""
        return np.asarray(np.max([_renyi(self.sigma, shift, orders) for shift in self.shifts], axis=0))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLoss:
    """The privacy loss of discrete Gaussian noise on an integer that moves by s.

    K(z) = z(z+1) s^2/(2 sigma^2) + log(theta(z s) / theta(0)), where theta(c) = sum_y e^{-(y-c)^2/(2 sigma^2)} <= theta(0).
    """

    decays: ClassVar[bool] = False  # the characteristic function does not decay
    mirrored: ClassVar[bool] = True  # the loss of (Q, P) has the same law

    sigma: float
    sensitivity: int

    def cgf(self, z: Array) -> Array:
        """Return the CGF, exact up to rounding. Its second term is at most 0, and is dropped if it is smaller than e^-170."""
        ratio = self.sensitivity / self.sigma
        bound = 0.5 * ratio * ratio * z * (z + 1.0)
        if self.sigma >= SMOOTH_SIGMA:
            return bound
        shift = z * self.sensitivity
        shift = shift - np.round(shift)
        reach = _reach(self.sigma)
        y = np.arange(-reach, reach + 1)
        scale = 2.0 * self.sigma * self.sigma
        log_theta = np.logaddexp.reduce(-((y[None, :] - shift[:, None]) ** 2) / scale, axis=1)
        log_top = float(np.logaddexp.reduce(-(y**2) / scale))
        return np.asarray(np.maximum(bound + np.minimum(log_theta - log_top, 0.0) + 1e-15 * (1.0 + bound), 0.0))

    def tilted(self, t: float) -> TiltedAtoms:
        """Return the tilted loss over the outcomes within forty sigma of its centre. The other outcomes have mass below e^-800."""
        s, scale, reach = self.sensitivity, 2.0 * self.sigma * self.sigma, _reach(self.sigma)
        x = np.arange(-reach, reach + 1, dtype=float) + s + round(t * s)
        spend(3.0 * len(x))
        loss = (2.0 * x * s - s * s) / scale
        return TiltedAtoms(-((x - s) ** 2) / scale + t * loss, loss, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """Return the tails over the outcomes within forty sigma of either centre.

        The other outcomes have mass below e^-800, and count as infinite loss.
        """
        losses, log_p, log_q = self._lattice()
        return atom_tails(at, losses, log_p, log_q)

    def outcomes(self) -> Outcomes:
        """Return the outcomes within forty sigma of either centre. The other outcomes have mass below e^-800."""
        from dpcli.numerics.contour.outcomes import Outcomes

        losses, _, log_q = self._lattice()
        return Outcomes(log_q, losses)

    def _lattice(self) -> tuple[Array, Array, Array]:
        """Return losses, log P and log Q of the outcomes within forty sigma of either centre.

        Raises NotRepresentable if there are too many.
        """
        if _moves_far(self.sigma, self.sensitivity):
            raise NotRepresentable(TOO_MANY_OUTCOMES)
        s, scale, reach = self.sensitivity, 2.0 * self.sigma * self.sigma, _reach(self.sigma)
        spend(0.3 * (2 * reach + s))
        x = np.arange(-reach, s + reach + 1, dtype=float)
        log_total = float(np.logaddexp.reduce(-((x - round(0.5 * s)) ** 2) / scale))
        return (2.0 * x * s - s * s) / scale, -((x - s) ** 2) / scale - log_total, -(x**2) / scale - log_total


def _reach(sigma: float) -> int:
    """Return the distance from a centre within which outcomes are summed. The mass beyond it is below e^-800."""
    return math.ceil(SIGMAS * sigma) + 2


def _moves_far(sigma: float, sensitivity: int) -> bool:
    """Return whether the outcomes within forty sigma of either centre are too many to sum over, because the centres are too far apart."""
    return sensitivity > MAX_MOVE * max(sigma, 1.0)


@lru_cache(maxsize=64)
def _outcomes(sigma: float, sensitivity: int) -> tuple[Array, Array]:
    """Return masses under P, rounded up, and losses in increasing order, for the outcomes within forty sigma of the centre of P."""
    scale, reach = 2.0 * sigma * sigma, _reach(sigma)
    x = np.arange(sensitivity - reach, sensitivity + reach + 1, dtype=float)
    mass = np.exp(-((x - sensitivity) ** 2) / scale)
    return mass / mass.sum() * (1.0 + 1e-13), (2.0 * x * sensitivity - sensitivity * sensitivity) / scale


@dataclass(frozen=True, slots=True)
class Norms:
    """Bounds on the difference v of two integer vectors.

    squared: bound on |v|^2.
    most: bound on the absolute value of one coordinate.
    total: bound on the sum of absolute values.
    dimension: bound on the number of coordinates that differ.
    """

    squared: int
    most: int
    total: int
    dimension: int

    @classmethod
    def stated(cls, l2: float, linf: int | None, l1: int | None, dimension: int | None, group: int = 1) -> Norms:
        """Return the norms of the sum of `group` differences that are each within the stated norms; None for a norm that is not stated.

        The square of the L2 norm is a whole number, obtained by rounding down after NORM_TOLERANCE is added. It also bounds the sum of the
        absolute values, because these are whole numbers, and therefore the number of coordinates that differ.
        """
        squared = math.floor(l2 * l2 + NORM_TOLERANCE)
        most = min(linf or squared, math.isqrt(squared)) * group
        total = min(l1 or squared, squared) * group
        return cls(squared * group**2, most, total, min(dimension or total, total))


def _squared(shift: Shift) -> int:
    return sum(x * x for x in shift)


def _renyi(sigma: float, shift: Shift, orders: Array) -> Array:
    """Return the Renyi divergences of a shift: the sums over its coordinates."""
    z = orders - 1.0
    total = 0.0 * z
    for x in sorted(set(shift)):
        total = total + shift.count(x) * DiscreteGaussianLoss(sigma, x).cgf(z)
    return np.asarray(total / z)


@lru_cache(maxsize=16)
def _loss(sigma: float, shifts: tuple[Shift, ...]) -> AtomicLoss:
    """Return the loss of the pair of one shift, or of the largest of the pairs of several shifts."""
    from dpcli.mechanisms.stated.atoms import AtomicLoss
    from dpcli.numerics.grid.hockey_stick import largest_pair

    pairs = [_pair(sigma, shift) for shift in shifts]
    unit = 0.5 / sigma**2
    if len(pairs) == 1:
        ((losses, log_p),) = pairs
        is_possible = log_p > -np.inf
        losses, log_p = losses[is_possible] * unit, log_p[is_possible]
        log_q = log_p - losses
    else:
        log_q, losses = largest_pair(unit, pairs)
    return AtomicLoss(tuple(log_q.tolist()), tuple(losses.tolist()))


def _pair(sigma: float, shift: Shift) -> tuple[Array, Array]:
    """Return losses in units of 1 / (2 sigma^2), symmetric around 0, and their log masses under P.

    With v = g u and the greatest common divisor g, the loss is a function of m = u . X, the noise along u: g (g |u|^2 + 2 m).
    """
    divisor = math.gcd(*shift)
    direction = tuple(x // divisor for x in shift)  # u
    norm = _squared(direction)
    reach = reach_of(sigma, norm)
    log_mass = log_masses(sigma, direction, reach + divisor * norm)
    m = np.arange(-reach - divisor * norm, reach + 1.0)
    return divisor * (divisor * norm + 2 * m), log_mass[: len(m)]


def on_integer(sigma: float, sensitivity: int) -> Mechanism:
    """Return the mechanism for one integer that moves by `sensitivity`."""
    if sigma > MOST_SUMMED_SIGMA:
        return NearlyGaussian(sigma, Fraction(sensitivity) ** 2, is_possible=True)
    return DiscreteGaussian(sigma, sensitivity)


def vector_of(sigma: float, norms: Norms) -> Mechanism:
    """Return the mechanism that dominates every shift within the norms. If there are too many shifts or outcomes, only their norm is used.

    Shifts v with the same distribution of v . X (closed/integer_vectors.py) count once. If only one distribution is left, and it is a
    discrete Gaussian, the mechanism is that of one integer: with v = g u and g the common divisor, v . X / g is a discrete Gaussian of
    parameter sigma |u|, which moves by g |u|^2.
    """
    rho_only = Zcdp(rho_of_squares(norms.squared, sigma))
    try:
        shifts = largest_shifts(norms.squared, norms.most, norms.total, norms.dimension)
    except TooManyShifts:
        return mechanism_of_norm(sigma, Fraction(norms.squared)) or rho_only
    different = {_distribution(sigma, shift): shift for shift in shifts}  # one shift for each distribution of v . X
    by_norm = mechanism_of_norm(sigma, Fraction(max(map(_squared, shifts))), is_possible=True)
    divisor, norm = _norm_of(shifts[0])
    is_wide = by_norm is not None and sigma * math.sqrt(norm) > MOST_SUMMED_SIGMA
    if len(different) == 1 and not is_wide and is_discrete_gaussian(sigma, norm, len(shifts[0])):
        return DiscreteGaussian(sigma * math.sqrt(norm) * (1.0 - 4e-16), divisor * norm)  # less noise costs more
    if is_wide or len(different) > MOST_SHIFTS or sum(_cells(sigma, shift) for shift in different.values()) > MOST_CELLS:
        return by_norm or rho_only
    return DiscreteGaussianVector(sigma, tuple(sorted(different.values())))


def _norm_of(shift: Shift) -> tuple[int, int]:
    """Return (g, |u|^2) for a shift v = g u, where g is the greatest common divisor of its coordinates."""
    divisor = math.gcd(*shift)
    return divisor, _squared(shift) // divisor**2


def _distribution(sigma: float, shift: Shift) -> Shift:
    """Return a key that is equal for shifts v with the same distribution of v . X."""
    divisor, norm = _norm_of(shift)
    return (
        (divisor, norm) if is_discrete_gaussian(sigma, norm, len(shift)) else (0, *shift)
    )  # 0 tells the two kinds apart: no divisor is 0


def _cells(sigma: float, shift: Shift) -> float:
    """Return the work of a shift's pair, in lattice cells (`lattice_cells`)."""
    divisor, norm = _norm_of(shift)
    direction = tuple(x // divisor for x in shift)
    reach = reach_of(sigma, norm) + divisor * norm
    return lattice_cells(sigma, direction, reach) + 30.0 * reach
