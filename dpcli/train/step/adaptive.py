"""Clipping that follows a quantile of the norms: what a step releases of them is a noised count, and it is accounted for.

Source: Andrew et al. 2019, arXiv:1905.03871, Algorithm 1 and Theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.random.streams import Stream
from dpcli.train.engine.clip import Adaptive, gradient_noise_multiplier
from dpcli.train.noise.declared import first_weight
from dpcli.train.noise.step import gaussian
from dpcli.train.run.ranks import Ranks


@dataclass(slots=True)
class Quantile:
    """Moves `clip` after each step. count_noise: standard deviation on the count of unclipped examples, in examples."""

    clip: Adaptive
    count_noise: float
    expected_batch: float
    stream: Stream

    def follow(self, norms: torch.Tensor, ranks: Ranks) -> None:
        """One geometric step on the noised share of unclipped examples; drawn once per step, whatever the batch held."""
        count = ranks.number(self.clip.centred_count(norms))
        noised = count + float(gaussian((1,), self.count_noise, self.stream)[0])
        self.clip.update(0.5 + ranks.same(noised) / self.expected_batch)


def noise_std(spec: Spec, count_noise: float | None) -> float:
    """Standard deviation over C of the noise of a first step, in which all numbers are independent."""
    if count_noise is not None:
        spec = relative(spec, count_noise)
    return float(spec.noise_multiplier) / first_weight(spec)  # type: ignore[attr-defined]


def relative(spec: Spec, count_noise: float) -> Spec:
    """The entry with its noise over C = 1, so much larger that the gradients and the count together cost what the entry states.

    Raises InputError where the count alone would cost as much.
    """
    assert isinstance(spec, GaussianSpec) and spec.noise_multiplier is not None
    return replace(spec, noise_multiplier=gradient_noise_multiplier(spec.noise_multiplier, count_noise))
