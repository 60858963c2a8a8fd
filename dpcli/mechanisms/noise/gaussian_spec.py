"""type = "gaussian": the keys, and which mechanism they mean on all data or a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import POSITIVE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours, any_sampled
from dpcli.mechanisms.noise.additive import noise_problems, noise_ratio, with_noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.no_privacy import LARGEST_RATIO
from dpcli.mechanisms.sampling.sampled_gaussian import sampled_gaussian, sampled_gaussian_replaced
from dpcli.mechanisms.spec import Spec


@dataclass(frozen=True, slots=True)
class GaussianSpec(Spec):
    """A query plus Gaussian noise of one standard deviation in every coordinate; what DP-SGD releases at each step.

    noise_multiplier is that standard deviation over C, the bound on one record's contribution (L2): a record that comes, goes or is zeroed
    moves the sum by C, a replaced one by 2 C, and k records k times as far. sigma with sensitivity states the movement itself, in units of
    the query, under the file's adjacency and unit; only a group multiplies it.

    Neighbours: all three adjacencies. Poisson sampling under replace-one or zero-out needs noise_multiplier.

    Bounds: exact in every view, with sensitivity / sigma = mu; Poisson samples by their exact pairs, and several records that a bare
    sensitivity covers by an upper bound. No finite epsilon at delta = 0.

    Source: Balle & Wang 2018, arXiv:1805.06530 (delta of epsilon); Mironov 2017, arXiv:1702.07476 (Renyi); Bun & Steinke 2016,
    arXiv:1605.02065 (rho = mu^2 / 2).
    """

    example: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 40.0}
    evidence: ClassVar[int] = 2
    discrete_twin: ClassVar[str | None] = "discrete-gaussian"
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves(
            "No record contributes more than C (L2); with sensitivity, no change moves the query by more than that.",
            "train",
        ),
        NOISE,
    )

    noise_multiplier: Annotated[
        float | None,
        Key(
            "noise standard deviation over C, the bound on one record's contribution (L2); the adjacency decides the sensitivity",
            POSITIVE,
        ),
    ] = None
    sigma: Annotated[float | None, Key("noise standard deviation, in units of the query; needs sensitivity", POSITIVE)] = None
    sensitivity: Annotated[
        float | None, Key("L2 sensitivity of the query under the file's adjacency, taken as stated", POSITIVE, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        yield from noise_problems(self.noise_multiplier, "sigma", self.sigma, self.sensitivity)

    @property
    def contribution_form(self) -> bool:
        return self.noise_multiplier is not None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return with_noise(Gaussian, noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours))

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Exact pairs; very large groups are bounded by one record of their total size."""
        whole = noise_ratio(self.noise_multiplier, self.sigma, self.sensitivity, neighbours)
        if rate == 1.0 or whole > LARGEST_RATIO:
            return self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        if neighbours.replaces:
            return sampled_gaussian_replaced(0.5 * whole / neighbours.records, rate, neighbours.records)
        if self.contribution_form:
            return sampled_gaussian(whole / neighbours.records, rate, neighbours.records)
        sampled = sampled_gaussian(whole, any_sampled(rate, neighbours.records), 1)
        return sampled if self.moved_by_any(neighbours) else sampled.unclaimed()
