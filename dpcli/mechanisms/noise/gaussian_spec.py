"""The mechanism type "gaussian", and Gaussian noise on a Poisson sample, which is the mechanism of DP-SGD.

`GaussianSpec` has the keys. `Gaussian` (gaussian.py) is its cost without sampling, and `SampledGaussian` that of a step on a Poisson
sample. Other types whose noise is Gaussian use `sampled_gaussian` too.

mu is one record's contribution over the standard deviation of the noise. Under add-remove the pair of a sampled step is ((1 - q) N(0, 1) +
q N(mu, 1), N(0, 1)) with the sampling rate q, in both directions. Under replace-one both sides are mixtures with opposite shifts, for which
the noise must be stated relative to C, the bound on one record's contribution. With noise so stated, a group of records is a mixture over
how many of them were drawn.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these
pairs, and `unclaimed` drops this claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours, any_sampled
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, noise_problems, noise_ratio, with_noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, GaussianMixtureReplaced
from dpcli.mechanisms.sampling.poisson import NO_RHO, amplify
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.numerics.arrays import Array
from dpcli.numerics.mixture import EXACT, MOST_RECORDS, binomial_mixture

NOT_PLAIN = "it is a sampled Gaussian, and the closed form is for unsampled ones"


@dataclass(frozen=True, slots=True)
class SampledGaussian(Mechanism):
    """Gaussian noise on a Poisson sample under add-remove or zero-out, for a group of `records` records.

    mu: one record's contribution over the noise standard deviation. rate: sampling rate in (0, 1).

    The group's records are sampled independently, so the sum moves by j mu with a binomial probability. Collinear contributions of full
    norm are the worst case (Choquette-Choo et al. 2023, arXiv:2310.15526: mixture-of-Gaussians mechanisms are dominated by their scalar
    norms). They attain the pair.

    pair: class of the mixture. Its `stretch` is the largest distance of a shift under P from one under Q, in units of the largest shift.
    """

    pair: ClassVar[type[GaussianMixture]] = GaussianMixture

    mu: float
    rate: float
    records: int = 1

    def approx_dp(self, delta: float) -> float:
        """Return epsilon by amplification of the analytic Gaussian.

        Source: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 8 and the argument of Theorem 9.
        """
        return amplify(Gaussian(self.pair.stretch * self.mu * self.records), any_sampled(self.rate, self.records), delta)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def gdp(self) -> float:
        raise NotRepresentable(NOT_PLAIN)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self._pair().losses()

    def renyi_loss(self) -> PrivacyLoss | None:
        return self._pair().renyi_loss()

    def rdp(self, orders: Array) -> Array:
        return self._pair().rdp(orders)

    def _pair(self) -> GaussianMixture:
        """Return the mixture over the number of sampled records."""
        return self.pair(binomial_mixture(self.mu, self.rate, self.records))


@dataclass(frozen=True, slots=True)
class SampledGaussianReplaced(SampledGaussian):
    """Gaussian noise on a Poisson sample under replace-one, for a group of `records` records.

    The group's records are sampled independently. With a binomial probability, j of them move the sum by at most j mu, towards one version
    under P and towards the other one under Q. By the theorem of normal_mixture.py, collinear and opposite contributions of full norm are
    the worst case. They attain the pair. The pair is its own mirror image, so both directions have the same loss.
    """

    pair: ClassVar[type[GaussianMixture]] = GaussianMixtureReplaced


def sampled_gaussian(mu: float, rate: float, records: int, kind: type[SampledGaussian] = SampledGaussian) -> Mechanism:
    """Return the mechanism of `kind`, or one that dominates it.

    At rate 1 it is the Gaussian without sampling. A group of more than EXACT records gets a mixture with fewer shifts, and one of more than
    MOST_RECORDS a single record of the group's total contribution (numerics/mixture.py).
    """
    if rate == 1.0:
        return Gaussian(kind.pair.stretch * mu * records)
    if records > MOST_RECORDS:
        return Dominated(sampled_gaussian(mu * records, any_sampled(rate, records), 1, kind))
    if records > EXACT:
        return Dominated(kind.pair(binomial_mixture(mu, rate, records)))
    return kind(mu, rate, records)


@dataclass(frozen=True, slots=True)
class GaussianSpec(Spec):
    """A query plus Gaussian noise with the same standard deviation in every coordinate. DP-SGD releases this at each step.

    noise_multiplier is the standard deviation over C, the bound on one record's contribution (L2). A record that is added, removed or
    zeroed moves the sum by at most C, a replaced one by at most 2 C, and k records by k times as much. Alternatively, sigma and sensitivity
    state the noise and the largest move of the query under the file's adjacency and unit, both in units of the query. Only a group
    multiplies this sensitivity.

    Neighbours: all three adjacencies. Poisson sampling under replace-one or zero-out needs noise_multiplier.

    Bounds: exact for epsilon, delta, Renyi divergences and rho, with mu = sensitivity / sigma. On Poisson samples the pairs are exact,
    except that several records with a stated sensitivity get upper bounds. No finite epsilon at delta = 0.

    Source: Balle & Wang 2018, arXiv:1805.06530 (delta of epsilon); Mironov 2017, arXiv:1702.07476 (Renyi); Bun & Steinke 2016,
    arXiv:1605.02065 (rho = mu^2 / 2).
    """

    example: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 40.0}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    discrete_twin: ClassVar[str | None] = "discrete-gaussian"  # the type with this noise on whole numbers
    needs_delta: ClassVar[bool] = True
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No record contributes more than C (L2); with sensitivity, no change moves the query by more than that.", "train"),
        NOISE,  # the noise has the named distribution
    )

    noise_multiplier: Annotated[
        float | None,
        Key(
            "noise standard deviation over C, the bound on one record's contribution (L2); the adjacency decides the sensitivity",
            POSITIVE,
        ),
    ] = None
    sigma: Annotated[float | None, Key("noise standard deviation, in units of the query; needs sensitivity", POSITIVE)] = None
    # claim=True: dpcli does not enforce what the key states.
    sensitivity: Annotated[
        float | None, Key("stated L2 sensitivity of the query under the file's adjacency", POSITIVE, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        yield from noise_problems(self.noise_multiplier, "sigma", self.sigma, self.sensitivity)

    @property
    def contribution_form(self) -> bool:
        return self.noise_multiplier is not None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return with_noise(Gaussian, noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours))

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism on a Poisson sample. Its pairs are exact, or dominate the exact ones for large groups."""
        ratio = noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours)
        if rate == 1.0 or ratio > LARGEST_RATIO:
            return self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        if self.contribution_form:
            kind = SampledGaussianReplaced if neighbours.replaces else SampledGaussian
            return sampled_gaussian(ratio / neighbours.contribution_bounds, rate, neighbours.records, kind)
        sampled = sampled_gaussian(ratio, any_sampled(rate, neighbours.records), 1)
        return sampled if self.moved_by_any(neighbours) else sampled.unclaimed()
