"""Laplace noise without sampling, and the mechanism type "laplace".

`LaplaceSpec` holds the keys, `Laplace` is the mechanism, and `LaplaceLoss` the privacy loss of its pair: two Laplace laws whose centres are
epsilon scales apart. The loss has an atom at each end and a density in between, so that its CGF, tails and outcomes are closed forms.
Formulas are written so that nothing cancels: n steps multiply every rounding error by n. On Poisson samples with noise_multiplier,
laplace_mixture.py has replaced records and groups.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs, and `unclaimed` drops this
claim. Of a loss L, `cgf` bounds K(z) = log E_P[e^{z L}] from above, and `tails` returns log tail probabilities under P and Q. `tilted`
returns the loss under P times e^{t L}, normalised. `outcomes` returns the atoms and densities of the pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, noise_problems, noise_ratio, with_noise
from dpcli.mechanisms.sampling.poisson import with_ends
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.tilted_closed import TiltedCgf
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.tails import Tails

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import Outcomes

ArrayOrComplex = TypeVar("ArrayOrComplex", Array, ComplexArray)
# Soundness: the error of the series must be far below the slack of `LaplaceLoss.cgf`.
LARGEST_SERIES_ARGUMENT = 1.5  # largest product of a loss and an order for which the power series is used
MOST_TERMS, LAST_TERM = 24, 2e-20  # most terms of the series, and the size of a term at which it ends; the rest is then below 4e-20


@dataclass(frozen=True, slots=True)
class LaplaceSpec(Spec):
    """A query plus Laplace noise with the same scale in every coordinate. The density of the noise is proportional to e^{-|x| / scale}.

    noise_multiplier is the scale over C, the bound on one record's contribution (L1). A record that is added, removed or zeroed moves the
    sum by at most C, a replaced one by at most 2 C, and k records by k times as much. Alternatively, scale and sensitivity state the noise
    and the largest move of the query under the file's adjacency and unit, both in units of the query. Only a group multiplies this
    sensitivity.

    Neighbours: all three adjacencies. Poisson sampling under replace-one or zero-out needs noise_multiplier.

    Bounds: the pure epsilon is sensitivity / scale. Delta, Renyi divergences and rho are exact for one number, and upper bounds for a
    vector with the same L1 sensitivity. Finite at delta = 0. With noise_multiplier, the records of a unit are sampled independently by a
    Poisson scheme, and cost as much as the pair of their sum. This pair is exact for up to 64 records, and an upper bound for up to
    100,000. More than 100,000 records are priced as one record of their total contribution.

    Source: Dwork & Roth 2014 (pure epsilon); Mironov 2017, arXiv:1702.07476 (Renyi).
    """

    example: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 90.0}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    discrete_twin: ClassVar[str | None] = "discrete-laplace"  # the type with this noise on whole numbers
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No record contributes more than C (L1); with sensitivity, no change moves the query by more than that."),
        NOISE,  # the noise has the named distribution
    )

    noise_multiplier: Annotated[
        float | None,
        Key("scale over C, the bound on one record's contribution (L1); the adjacency decides the sensitivity", POSITIVE),
    ] = None
    scale: Annotated[float | None, Key("scale b of the noise, in units of the query; needs sensitivity", POSITIVE)] = None
    # claim=True: dpcli does not enforce what the key states.
    sensitivity: Annotated[
        float | None, Key("stated L1 sensitivity of the query under the file's adjacency", POSITIVE, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        yield from noise_problems(self.noise_multiplier, "scale", self.scale, self.sensitivity)

    @property
    def contribution_form(self) -> bool:
        return self.noise_multiplier is not None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return with_noise(Laplace, noise_ratio(self.noise_multiplier, self.scale, self.sensitivity, neighbours))

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism on a Poisson sample, on which a group's records are sampled independently.

        Its pair is exact, or dominates the exact one for large groups.
        """
        from dpcli.mechanisms.noise.laplace_mixture import LaplaceMixture, LaplaceMixtureReplaced
        from dpcli.numerics.mixture import EXACT, MOST_RECORDS, binomial_mixture

        ratio = noise_ratio(self.noise_multiplier, self.scale, self.sensitivity, neighbours)
        records = neighbours.records
        fewest = 1 if neighbours.replaces else 2  # one added or removed record has an exact pair of its own
        has_mixture = self.contribution_form and fewest <= records <= MOST_RECORDS
        if not has_mixture or rate == 1.0 or ratio > LARGEST_RATIO:
            return Spec.poisson(self, rate, neighbours)
        kind = LaplaceMixtureReplaced if neighbours.replaces else LaplaceMixture
        sampled = kind(binomial_mixture(ratio / neighbours.contribution_bounds, rate, records))
        return sampled if records <= EXACT else sampled.unclaimed()


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism):
    """Laplace noise with epsilon = L1 sensitivity / scale.

    A single number attains the pair if every added or removed record contributes its whole bound. A replaced record first adds its bound
    and then subtracts it.

    A vector query with the same L1 sensitivity has the same bounds, because a move in one coordinate is the worst case.

    1. Move the vector along a path of length e0, one coordinate after the other. Let q_t be its law at length t, and S any event.
    2. d/dt q_t(S) = q_t(S and +) - q_t(S and -), where + is the event that the moving coordinate's noise points ahead. q_t(+) = 1/2.
    3. So d/dt q_t(S) <= min(q_t(S), 1 - q_t(S)). In one coordinate S = {x > c} attains this along the whole path, because it is a subset of
       + or contains it.
    4. So no event of probability q_0(S) is more likely at the end of another path, and the pair of one coordinate dominates.

    rho = e0 - 1 + e^-e0, the mean loss, is tight. As a function of s = (z+1/2)^2, K is the logarithm of an entire function of order 1/2
    with negative zeros. So K is concave, and K(z) <= K'(s=1/4) z (z+1), where the slope is the mean loss.

    Source: Mironov 2017, arXiv:1702.07476, Proposition 6 (Renyi divergence).
    """

    epsilon: float

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from the exact delta(eps) = 1 - e^{(eps - e0)/2} for eps <= e0."""
        return max(0.0, self.epsilon + 2.0 * math.log1p(-delta)) if delta > 0.0 else self.epsilon

    def zcdp(self) -> float:
        e0 = self.epsilon
        exact = e0 + math.expm1(-e0) if e0 > 1e-3 else 0.5 * e0 * e0  # the quadratic is too large by a factor of at most 1 + e0/3
        return exact * (1.0 + 1e-12) + math.ulp(0.0) if e0 > 0.0 else 0.0

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[LaplaceLoss]:
        return (LaplaceLoss(self.epsilon),)


@dataclass(frozen=True, slots=True)
class LaplaceLoss:
    """The loss of the pair (Lap(e0, 1), Lap(0, 1)), where e0 is `epsilon`. The loss of the other direction has the same law."""

    mirrored: ClassVar[bool] = True  # the loss of (Q, P) has the same law

    epsilon: float

    def cgf(self, z: Array) -> Array:
        """Return K = log((z+1)/(2z+1) e^{z e0} + z/(2z+1) e^{-(z+1) e0}), rounded up. Nothing overflows or cancels."""
        e0 = self.epsilon
        high, low = z * e0, -(z + 1.0) * e0
        near = -low <= LARGEST_SERIES_ARGUMENT
        with np.errstate(over="ignore", invalid="ignore"):
            small = np.log1p(z * (z + 1.0) * e0 * e0 * _slope_between(np.where(near, high, 0.0), np.where(near, low, 0.0)))
            large = high + np.log1p(z / (2.0 * z + 1.0) * np.expm1(low - high))
        return np.asarray(np.where(near, small, large) * (1.0 + 1e-14))

    def tilted(self, t: float) -> TiltedCgf:
        """Return the tilted loss, computed from K at complex z.

        n steps multiply the error by n, so no digits may be lost by cancellation.
        """
        e0 = self.epsilon

        def cgf(z: ComplexArray) -> ComplexArray:
            high, low = z * e0, -(z + 1.0) * e0
            near = np.abs(low) <= LARGEST_SERIES_ARGUMENT
            small = log1p_complex(np.where(near, z * (z + 1.0) * e0 * e0 * _slope_between(high * near, low * near), 0.0))
            large = high + log1p_complex(z / (2.0 * z + 1.0) * np.expm1(low - high))
            return np.where(near, small, large)

        return TiltedCgf(cgf, t, self.outcomes().decay(t, float(self.cgf(np.array([t]))[0])))

    def outcomes(self) -> Outcomes:
        """Return the outcomes: atoms at both ends, and between them a piece on which Q has the density e^{-(l + e0) / 2} / 4."""
        from dpcli.numerics.contour.outcomes import LossPiece, Outcomes

        e0 = self.epsilon
        between = LossPiece(-e0, e0, log_density=-0.5 * e0 - math.log(4.0), slope=-0.5)
        return Outcomes(np.array([0.0, -e0]) - math.log(2.0), np.array([-e0, e0]), (between,))

    def tails(self, at: Array) -> Tails:
        """Return the tails. Between the atoms at -e0 and e0, P(L <= l) = e^{(l - e0)/2} / 2 and Q(L > l) = e^{-(l + e0)/2} / 2."""
        e0 = self.epsilon
        inside = np.clip(at, -e0, e0)
        p_below, q_above = 0.5 * (inside - e0) - math.log(2.0), -0.5 * (inside + e0) - math.log(2.0)
        inner_tails = Tails(np.log1p(-np.exp(p_below)), p_below, q_above, np.log1p(-np.exp(q_above)))
        return with_ends(inner_tails, below=at < -e0, beyond=at >= e0)


def _slope_between(a: ArrayOrComplex, b: ArrayOrComplex) -> ArrayOrComplex:
    """Return (f(a) - f(b)) / (a - b) for f(x) = (e^x - 1) / x, for arguments up to LARGEST_SERIES_ARGUMENT in size.

    It is the sum of (a^{k-1} + a^{k-2} b + ... + b^{k-1}) / (k+1)! over k = 1, 2, .... E_Q[r^{z+1}] - 1 is z (z+1) e0^2 times the result
    at a = z e0 and b = -(z+1) e0.
    """
    power, sums = np.ones_like(b), np.ones_like(a)
    total = 0.5 * sums
    furthest = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    for k in range(2, MOST_TERMS):
        if furthest ** (k - 1) / math.factorial(k) <= LAST_TERM:  # a bound on this term, which exceeds the sum of all later ones
            break
        power = power * b
        sums = a * sums + power
        total = total + sums / float(math.factorial(k + 1))
    return total
