"""Laws between the views of a mechanism, which find a wrong formula without knowing the right one.

A *view* is one representation of the privacy cost: epsilon at a delta, rho of zCDP, mu of Gaussian DP, the Renyi curve, and the *privacy
losses* L = log dP/dQ, with their CGF K(z) = log E_P[e^{z L}] and their *tails* P(L > l) and Q(L > l). P and Q are a *dominating pair*:
their delta is at least that of the mechanism, at every epsilon. A mechanism *attains* its pair if some data that its keys allow have
exactly this pair. Its views are then exact, so they must agree, and each law here compares two of them.

examine.py asks for the `contradictions` of each mechanism. It also asks whether the laws notice a planted bug that makes one view ten times
too small (`ReducedView`). Wider tolerances below make the laws weaker; too narrow ones would report correct mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array
from dpcli.numerics.closed.normal import gaussian_epsilon
from dpcli.numerics.contour.tilted import log_inverse_moment, uncut
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import allowance

Z = np.array([0.05, 0.5, 1.0, 4.0])  # arguments of the CGF, which are Renyi orders minus 1; arbitrary
DELTAS = (1e-6, 1e-2)  # deltas at which epsilon is compared; arbitrary
# Number of cells into which an integral over the tails divides the privacy losses. The integral is a lower bound with any number of cells,
# and more cells make it tighter.
CELLS = 2000
ROUNDING = 1e-8  # relative error allowed in a comparison of two views
# Relative and absolute error allowed of a delta from the tails. It is larger, because delta is a difference of two larger probabilities.
DELTA_ROUNDING, LEAST_DELTA_ERROR = 1e-6, 1e-12
LEAST_VIEW = 1e-3  # least value of a view in which a bug is planted: a tenth of less could be within the tolerances; arbitrary
LEAST_LOSS, LARGEST_LOSS = 1e-6, 600.0  # range of `reach_of`; e^loss is a finite float up to about 709
WORK = 3e6  # cells of work (dpcli/numerics/work.py) allowed for one law, which is skipped if it needs more; limits the time


def reach_of(loss: PrivacyLoss) -> float:
    """Return a number a with P(L > a) <= e^-40, by the Chernoff bound from the CGF. It is clipped to [LEAST_LOSS, LARGEST_LOSS].

    The cells of an integral reach to a. The mass beyond, e^-40 or about 4e-18, is below the rounding of a probability near 1. A larger a
    would make the cells wider, and the lower bounds looser.
    """
    with np.errstate(all="ignore"):
        reach = np.min((loss.cgf(Z) + 40.0) / Z)
    return float(min(max(reach, LEAST_LOSS), LARGEST_LOSS))


def from_tails(loss: PrivacyLoss, z: float) -> float:
    """Return a lower bound on log E[e^{z L}] under P.

    Every loss is rounded down to the edge of its cell. Losses beyond all cells are left out.
    """
    reach = reach_of(loss)
    edges = np.linspace(-reach, reach, CELLS + 1)
    above = np.exp(loss.tails(edges).p_above)  # `tails` returns logarithms of P(L > l) and of other tails
    mass = np.maximum(above[:-1] - above[1:], 0.0)
    return float(np.logaddexp.reduce(np.log(mass) + z * edges[:-1]))


def inverse_from_tails(loss: PrivacyLoss, z: float) -> float:
    """Return a lower bound on log E[e^{-z L}] under Q, as `from_tails` does; every loss is rounded up."""
    reach = reach_of(loss)
    edges = np.linspace(-reach, reach, CELLS + 1)
    above = np.exp(loss.tails(edges).q_above)
    mass = np.maximum(above[:-1] - above[1:], 0.0)
    return float(np.logaddexp.reduce(np.log(mass) - z * edges[1:]))


def cgf_covers_tails(mechanism: Mechanism) -> Iterator[str]:
    """The CGF is no less than its lower bound from an integral over the tails."""
    for loss in mechanism.losses():
        for z in Z:
            bound, by_tails = float(loss.cgf(np.array([z]))[0]), from_tails(loss, float(z))
            if by_tails > bound * (1.0 + ROUNDING) + ROUNDING:
                yield f"K({z}) = {bound}, but at least {by_tails} by the tails"


def epsilon_covers_tails(mechanism: Mechanism) -> Iterator[str]:
    """The delta at epsilon(delta), computed from the tails, is at most delta."""
    for above_floor in DELTAS:
        delta = above_floor + 2.0 * mechanism.delta_floor()  # at and below the floor, epsilon may be infinite
        epsilon = mechanism.approx_dp(delta) if delta < 1.0 else math.inf
        if not epsilon < LARGEST_LOSS:
            continue
        for loss in mechanism.losses():
            tails = loss.tails(np.array([epsilon]))
            by_tails = math.exp(tails.p_above[0]) - math.exp(min(epsilon + tails.q_above[0], 700.0))  # 700: no overflow
            if by_tails > delta * (1.0 + DELTA_ROUNDING) + LEAST_DELTA_ERROR:
                yield f"epsilon({delta}) = {epsilon}, where delta is {by_tails} by the tails"


def inverse_moment_covers_tails(mechanism: Mechanism) -> Iterator[str]:
    """log E_Q[e^{-z L}] of a loss that claims to know it (`uncut`) is no less than its lower bound from an integral over the tails."""
    for loss in filter(uncut, mechanism.losses()):
        for z in Z:
            known, by_tails = log_inverse_moment(loss, np.array([z]))[0], inverse_from_tails(loss, float(z))
            if by_tails > known + (abs(known) + 1.0) * ROUNDING:
                yield f"log E_Q[e^(-{z} L)] = {known}, but at least {by_tails} by the tails"


def rho_covers_cgf(mechanism: Mechanism) -> Iterator[str]:
    """K(z) <= rho z (z + 1): the Renyi divergence of order z + 1, which is K(z) / z, is at most rho times its order."""
    rho = mechanism.zcdp()
    for loss in mechanism.losses():
        values = loss.cgf(Z)
        if np.any(values > rho * Z * (Z + 1.0) * (1.0 + ROUNDING) + ROUNDING):
            yield f"rho = {rho}, and K = {values} at {Z}"


def rdp_covers_tails(mechanism: Mechanism) -> Iterator[str]:
    """The Renyi curve is no less than its lower bound from an integral over the tails."""
    curve = mechanism.rdp(Z + 1.0)
    for loss in mechanism.losses():
        if np.any(np.array([from_tails(loss, float(z)) for z in Z]) > Z * curve * (1.0 + ROUNDING) + ROUNDING):
            yield f"Renyi divergence {curve}, but larger by the tails"


def mu_is_epsilon(mechanism: Mechanism) -> Iterator[str]:
    """A mechanism that is mu-GDP has the epsilon of a Gaussian mechanism with that mu."""
    mu = mechanism.gdp()
    for delta in DELTAS:
        lower, _ = gaussian_epsilon(mu, delta)  # bounds that differ by rounding only
        if not abs(mechanism.approx_dp(delta) - lower) <= ROUNDING * max(lower, 1.0):
            yield f"mu = {mu}, and epsilon({delta}) = {mechanism.approx_dp(delta)} instead of {lower}"


LAWS_WITHOUT_TAILS = (rho_covers_cgf, mu_is_epsilon)
# Laws that do not apply to a composition of parts, because the tails of its pair are upper bounds from a grid, and not exact.
LAWS_WITH_TAILS = (cgf_covers_tails, epsilon_covers_tails, rdp_covers_tails, inverse_moment_covers_tails)


def contradictions(mechanism: Mechanism) -> Iterator[str]:
    """Yield each contradiction between two views of the mechanism.

    There are none for a mechanism that does not claim to attain its dominating pair. A law about a view that the mechanism does not have is
    skipped.
    """
    if not mechanism.attained():
        return
    for law in (*LAWS_WITHOUT_TAILS, *(() if mechanism.is_composition else LAWS_WITH_TAILS)):
        with suppress(NotRepresentable), allowance(WORK), np.errstate(all="ignore"):
            yield from (f"{law.__name__}: {fault}" for fault in law(mechanism))


@dataclass(frozen=True, slots=True)
class ScaledCgf:
    """A privacy loss that reports a tenth of its CGF."""

    inner: PrivacyLoss

    def cgf(self, z: Array) -> Array:
        return 0.1 * self.inner.cgf(z)

    def tails(self, at: Array) -> Tails:
        return self.inner.tails(at)


@dataclass(frozen=True, slots=True)
class ReducedView(Dominated):
    """A mechanism with a planted bug that makes one view ten times too small.

    Attributes:
        by: The mechanism without the bug (a field of `Dominated`).
        view: Name of that view; "losses" means the CGF.
    """

    view: str

    @property
    def is_composition(self) -> bool:  # type: ignore[override]
        return self.by.is_composition

    def attained(self) -> bool:
        return True

    def approx_dp(self, delta: float) -> float:
        return self._share("approx_dp") * self.by.approx_dp(delta)

    def zcdp(self) -> float:
        return self._share("zcdp") * self.by.zcdp()

    def gdp(self) -> float:
        return self._share("gdp") * self.by.gdp()

    def rdp(self, orders: Array) -> Array:
        return self._share("rdp") * self.by.rdp(orders)

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return tuple(map(ScaledCgf, self.by.losses())) if self.view == "losses" else self.by.losses()  # type: ignore[arg-type]

    def _share(self, view: str) -> float:
        return 0.1 if view == self.view else 1.0


# A number of each view, by which `has_view` sees that the mechanism has the view.
VIEWS: dict[str, Callable[[Mechanism], float]] = {
    "approx_dp": lambda mechanism: mechanism.approx_dp(DELTAS[1] + 2.0 * mechanism.delta_floor()),
    "zcdp": lambda mechanism: mechanism.zcdp(),
    "gdp": lambda mechanism: mechanism.gdp(),
    "rdp": lambda mechanism: float(mechanism.rdp(Z[-1:] + 1.0)[0]),
    "losses": lambda mechanism: float(mechanism.losses()[0].cgf(Z[-1:])[0]),
}


def has_view(mechanism: Mechanism, view: str) -> bool:
    """Return whether a view has a finite value that is large enough to be distinguished from a tenth of it."""
    with suppress(NotRepresentable), allowance(WORK), np.errstate(all="ignore"):
        return LEAST_VIEW < VIEWS[view](mechanism) < math.inf
    return False
