"""The exact accountant: a contour integral of the CGF with a certificate on both sides; an interval, not a guess."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, merged, normalised, require_positive
from dpcli.errors import NotRepresentable
from dpcli.mechanisms.base import Mechanism, PrivacyLoss
from dpcli.mechanisms.composed import Composed
from dpcli.numerics.contour import Contour, Losses, build, solve, total_cgf
from dpcli.registry import lazy

np = lazy("numpy")

MAX_PARTS = 48
MAX_LOG_DELTA = math.log(0.5)


@dataclass(frozen=True, slots=True)
class ExactProfile(PrivacyProfile):
    """Both directions of the composition, each with its own contour; the larger epsilon counts."""

    steps: Steps

    def epsilon(self, delta: float) -> Bound:
        lower, upper, tilt = self._best(delta)
        return Bound(upper, lower, {"tilt": tilt})

    def _best(self, delta: float) -> tuple[float, float, float]:
        """(lower, upper, t), of the direction with the larger upper bound; the lower bound is the larger of the two."""
        require_positive(delta, "the contour integral")
        if delta > 0.5:
            raise NotRepresentable("it is for delta up to 0.5")
        ends = []
        for losses in directions(merged(self.steps)):
            contour = contour_of(losses, math.log(delta))
            with np.errstate(all="ignore"):
                low, high = solve(contour, math.log(delta))
            ends.append((max(low, 0.0), max(high, 0.0), contour.t))
        lower, (_, upper, tilt) = max(low for low, _, _ in ends), max(ends, key=lambda end: end[1])
        if not math.isfinite(upper) or not lower <= upper:
            raise NotRepresentable("its certificate is too wide at this delta")
        return lower, upper, tilt

    def delta(self, epsilon: float) -> Bound:
        lower, upper = 0.0, 0.0
        for losses in directions(merged(self.steps)):
            low, high = delta_on(losses, epsilon)
            lower, upper = max(lower, low), max(upper, high)
        return Bound(min(upper, 1.0), min(lower, upper, 1.0))

    def shares(self, delta: float) -> tuple[float, ...]:
        """Each step's K at the tilt, which is what its loss adds to the exponent."""
        z = np.array([self._best(delta)[2]])
        return normalised([count * float(z[0]) * float(mechanism.rdp(z + 1.0)[0]) for mechanism, count in self.steps])


def parts_of(mechanism: Mechanism, count: int) -> Steps:
    """Composed groups taken apart."""
    if isinstance(mechanism, Composed):
        return tuple(found for part, n in mechanism.parts for found in parts_of(part, n * count))
    return ((mechanism, count),)


def directions(steps: Steps) -> tuple[Losses, ...]:
    """The composition's losses, once per direction of the neighbouring relation."""
    parts = merged(tuple(part for mechanism, count in steps for part in parts_of(mechanism, count)))
    if len(parts) > MAX_PARTS:
        raise NotRepresentable(f"more than {MAX_PARTS} different parts would take it too long")
    sides = [(part.losses(), n) for part, n in parts]
    number = max(len(losses) for losses, _ in sides)
    return tuple(tuple((losses[min(side, len(losses) - 1)], n) for losses, n in sides) for side in range(number))


@lru_cache(maxsize=32)
def contour_of(losses: tuple[tuple[PrivacyLoss, int], ...], log_delta: float) -> Contour:
    """A contour for one direction. Raises NotRepresentable where the characteristic function does not decay."""
    with np.errstate(all="ignore"):  # an overflow ends as inf or NaN in the certificate, which is then refused
        found = build(losses, log_delta)
    if found is None:
        raise NotRepresentable("the characteristic function of the loss decays too slowly to certify (atoms, or very few steps)")
    return found


def delta_on(losses: Losses, epsilon: float) -> tuple[float, float]:
    """Bounds on delta(epsilon): Chernoff's says where to place the contour, and serves where there is none."""
    z = np.geomspace(1e-3, 1e6, 181)
    with np.errstate(all="ignore"):
        exponents = total_cgf(losses, z) - z * epsilon + z * np.log(z) - (z + 1.0) * np.log1p(z)
        chernoff = float(np.nanmin(exponents))
        try:
            low, high = contour_of(tuple(losses), min(chernoff - 2.0, MAX_LOG_DELTA)).log_delta(epsilon)
        except NotRepresentable:
            low, high = -math.inf, chernoff
    high = chernoff if math.isnan(high) else min(high, chernoff)
    return 0.0 if math.isnan(low) else math.exp(low), max(math.exp(min(high, 0.0)), math.ulp(0.0))


ACCOUNTANT = Accountant(
    name="exact",
    title="contour integral, certified",
    source="Alghamdi et al. 2022, arXiv:2208.09595; Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10; certificate in numerics/contour.py",
    compose=ExactProfile,
)
