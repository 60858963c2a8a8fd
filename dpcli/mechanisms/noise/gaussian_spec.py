"""type = "gaussian": the keys, and which mechanism they mean on all data or a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.fields import POSITIVE, Key
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours, any_sampled
from dpcli.mechanisms.noise.additive import noise_problems, noise_ratio, with_noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.no_privacy import LARGEST_RATIO
from dpcli.mechanisms.sampling.sampled_gaussian import sampled_gaussian, sampled_gaussian_replaced
from dpcli.mechanisms.spec import Spec


@dataclass(frozen=True, slots=True)
class GaussianSpec(Spec):
    """Adds Gaussian noise to a query of bounded L2 sensitivity; what DP-SGD releases at each step."""

    example: ClassVar[Mapping[str, Any]] = {"noise_multiplier": 40.0}
    evidence: ClassVar[int] = 2
    discrete_twin: ClassVar[str | None] = "discrete-gaussian"
    needs_delta: ClassVar[bool] = True

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
