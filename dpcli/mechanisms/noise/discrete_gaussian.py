"""Discrete Gaussian noise on integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from dpcli.errors import NotRepresentable
from dpcli.fields import COUNT, POSITIVE, Key
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.work import spend
from dpcli.values import dataclass

SMOOTH = 3.0  # from here on the lattice sums equal their integrals to e^-170
MAX_SUM = 2000.0  # largest sigma whose (epsilon, delta) curve is summed


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLoss:
    """K(z) = z(z+1) s^2/(2 sigma^2) + log(theta(z s) / theta(0)), theta(c) = sum_y e^{-(y-c)^2/(2 sigma^2)} <= theta(0)."""

    decays: ClassVar[bool] = False

    sigma: float
    sensitivity: int

    def cgf(self, z: Array) -> Array:
        """Exact up to rounding; the second term is at most 0 and is dropped where it is below e^-170."""
        ratio = self.sensitivity / self.sigma
        bound = 0.5 * ratio * ratio * z * (z + 1.0)
        if self.sigma >= SMOOTH:
            return bound
        shift = z * self.sensitivity
        shift = shift - np.round(shift)
        y = np.arange(-math.ceil(40.0 * self.sigma) - 2, math.ceil(40.0 * self.sigma) + 3)
        scale = 2.0 * self.sigma * self.sigma
        log_theta = np.logaddexp.reduce(-((y[None, :] - shift[:, None]) ** 2) / scale, axis=1)
        log_top = float(np.logaddexp.reduce(-(y**2) / scale))
        return np.asarray(np.maximum(bound + np.minimum(log_theta - log_top, 0.0) + 1e-15 * (1.0 + bound), 0.0))

    def tilted(self, t: float) -> TiltedAtoms:
        """The lattice within forty sigma; the rest weighs less than e^-800."""
        s, scale = self.sensitivity, 2.0 * self.sigma * self.sigma
        if self.sigma > MAX_SUM:
            raise NotRepresentable("a discrete Gaussian of sigma above 2000 has too many outcomes")
        x = np.arange(-math.ceil(40.0 * self.sigma) - 2.0, math.ceil(40.0 * self.sigma) + 3.0) + s + round(t * s)
        spend(3.0 * len(x))
        loss = (2.0 * x * s - s * s) / scale
        return TiltedAtoms(-((x - s) ** 2) / scale + t * loss, loss, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """The lattice within forty sigma of both centres; what is left out weighs less than e^-800 and counts as infinite loss."""
        if self.sigma > MAX_SUM or self.sensitivity > 100.0 * max(self.sigma, 1.0):
            raise NotRepresentable("a discrete Gaussian of sigma above 2000 has too many outcomes")
        s, scale, reach = self.sensitivity, 2.0 * self.sigma * self.sigma, math.ceil(40.0 * self.sigma) + 2
        x = np.arange(-reach, s + reach + 1, dtype=float)
        log_total = float(np.logaddexp.reduce(-((x - round(0.5 * s)) ** 2) / scale))
        log_p, log_q = -((x - s) ** 2) / scale - log_total, -(x**2) / scale - log_total
        return atom_tails(at, (2.0 * x * s - s * s) / scale, log_p, log_q)


@lru_cache(maxsize=64)
def _outcomes(sigma: float, sensitivity: int) -> tuple[Array, Array]:
    """(masses rounded up, losses), increasing in the loss, where the mass under P or Q is above e^-800."""
    scale = 2.0 * sigma * sigma
    x = np.arange(sensitivity - math.ceil(40.0 * sigma) - 2, sensitivity + math.ceil(40.0 * sigma) + 3, dtype=float)
    mass = np.exp(-((x - sensitivity) ** 2) / scale)
    return mass / mass.sum() * (1.0 + 1e-13), (2.0 * x * sensitivity - sensitivity * sensitivity) / scale


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on the integers; s = integer sensitivity.

    rho = s^2/(2 sigma^2), as for the continuous one: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 4.
    Attained: by an integer that moves by s.
    """

    sigma: float
    sensitivity: int

    def approx_dp(self, delta: float) -> float:
        """Exact sum of P - e^eps Q where the loss exceeds eps; above sigma = 2000 the zCDP conversion, an upper bound."""
        if delta <= 0.0:
            return math.inf
        bound = zcdp_epsilon(self.zcdp(), delta)
        if self.sigma > MAX_SUM or self.sensitivity > 100.0 * max(self.sigma, 1.0):
            return bound
        excess = self._excess(delta)
        return 0.0 if excess(0.0) <= 0.0 else min(bound, bracket_root(excess, 0.0, bound)[1])

    def _excess(self, delta: float) -> Callable[[float], float]:
        """delta(eps) / delta - 1, rounded up, as a function of eps."""
        mass, loss = _outcomes(self.sigma, self.sensitivity)

        def excess(epsilon: float) -> float:
            first = int(np.searchsorted(loss, epsilon, side="right"))
            spend(0.2 * (len(loss) - first))
            return float((mass[first:] * -np.expm1(epsilon - loss[first:])).sum()) / delta - 1.0

        return excess

    def zcdp(self) -> float:
        return 0.5 * (self.sensitivity / self.sigma) ** 2

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[DiscreteGaussianLoss]:
        return (DiscreteGaussianLoss(self.sigma, self.sensitivity),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianSpec(Spec):
    """Whole numbers plus discrete Gaussian noise: one integer (sensitivity), or every entry of a vector of integers (l2_sensitivity).

    The noise has probability proportional to e^{-x^2 / (2 sigma^2)} on the integers; sigma is in units of the query and is not quite its
    standard deviation. Sensitivities are taken as stated, under the file's adjacency and unit; only a group multiplies them.

    A vector is not priced as one integer: where a shift of norm 2 is (1, 1, 1, 1), delta can be several times that of 2. It is priced on
    its Renyi curve, D_a <= a l2_sensitivity^2 / (2 sigma^2), coordinate by coordinate, since nothing sharper is proven for every shift; so
    is a sensitivity above 1 that dimension does not say to be that of one integer. A shift of norm 1 is one integer that moves by 1.

    Neighbours: all three adjacencies; no Poisson sampling under replace-one or zero-out, for want of a bound on one contribution.

    Bounds: exact for one integer (upper above sigma = 2000), upper for vectors. No finite epsilon at delta = 0.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 4.
    """

    example: ClassVar[Mapping[str, Any]] = {"sigma": 40.0, "sensitivity": 1}
    evidence: ClassVar[int] = 2
    needs_delta: ClassVar[bool] = True

    sigma: Annotated[float, Key("sigma of the noise e^{-x^2/(2 sigma^2)}", POSITIVE)]
    sensitivity: Annotated[
        int | None,
        Key(
            "sensitivity of one integer under the file's adjacency, taken as stated; a vector states l2_sensitivity",
            COUNT,
            claim=True,
        ),
    ] = None
    l2_sensitivity: Annotated[
        float | None,
        Key("L2 sensitivity of a vector of integers under the file's adjacency, instead of sensitivity", POSITIVE, claim=True),
    ] = None
    dimension: Annotated[
        int | None, Key("how many integers are released; 1 says that sensitivity is that of one integer", COUNT, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.sensitivity is None) == (self.l2_sensitivity is None):
            found = "neither" if self.sensitivity is None else "both"
            yield "sensitivity", "either sensitivity (one integer) or l2_sensitivity (a vector of integers)", found
            return
        if self.sensitivity is not None and (self.dimension or 1) > 1:
            yield "dimension", "1 with sensitivity, or l2_sensitivity for a vector", str(self.dimension)
        if self.sigma < 0.05 * self.moved:
            yield "sigma", f"at least sensitivity / 20 = {self.moved / 20.0:g} (less is no privacy)", repr(self.sigma)

    @property
    def moved(self) -> float:
        """The stated sensitivity, of either kind."""
        stated = self.l2_sensitivity if self.sensitivity is None else self.sensitivity
        assert stated is not None
        return stated

    def priced_as_vector(self, group: int) -> bool:
        """Whether the shift may have several coordinates; an integer vector of norm 1 has one."""
        return self.l2_sensitivity is not None or (self.dimension != 1 and group * self.moved > 1.0)

    @property
    def taken_for_vector(self) -> int | None:
        return self.sensitivity if self.priced_as_vector(1) else None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        if self.sensitivity is None or self.priced_as_vector(neighbours.group):
            return Zcdp(0.5 * (neighbours.group * self.moved / self.sigma) ** 2)
        return DiscreteGaussian(self.sigma, self.sensitivity * neighbours.group)
