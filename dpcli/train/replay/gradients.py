"""Canaries that are gradients: of norm C, in random directions, put into the clipped sum of each step that samples them.

Such a run takes the real program's steps: its sampler draws the canaries as it draws records, its noise is added to their sum, and its
average divides it. The sums and the noise are laid open, so the run is NOT PRIVATE. What precedes the sum (model, loss, clipping) is not
put to the test: that is what a replay is for.

The score of a canary may know the sums of the records themselves. Without a largest batch nothing in them tells whether a canary was
sampled, so a claim about canaries holds of the noisy sums and of these together.

Source: Nasr et al. 2023, arXiv:2302.07956; Steinke, Nasr, Jagielski 2023, arXiv:2305.08846.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcli.audit.gradient_scores import SampledSteps, log_ratios
from dpcli.audit.scores import RUN_FILE, SCHEMA
from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson, Unsampled
from dpcli.random.streams import Stream, insecure_seed
from dpcli.sessions.folder import replaced
from dpcli.train.engine.clip import Clip
from dpcli.train.noise.declared import noise_of
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.run.processes import several_processes
from dpcli.train.run.ranks import Alone
from dpcli.train.sampling.schemes import slots
from dpcli.train.step.loop import noise_std
from dpcli.train.tasks.learning import Learning

Array = NDArray[np.float64]
NUMBERS = 2**26  # of all directions together
STEPS = 1024  # of a run of correlated noise


@dataclass(slots=True)
class GradientCanaries(Alone):
    """One process, in whose sums the canaries are.

    records: how many there are; a higher index in a batch is a canary. inserted: (k,) canaries that are in the run, by index less
    `records`. directions: (m, d) orthonormal, over the trained parameters in order. bound: C, now. products: of each step (m,), over C.
    """

    plan: TrainingPlan
    records: int
    member: Tensor
    directions: Tensor
    bound: Callable[[], float]
    inserted: Tensor = field(init=False)
    drawn: Tensor = field(init=False)
    plain: Tensor | None = None
    products: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inserted = self.drawn = self.member.nonzero()[:, 0]

    @property
    def sampled(self) -> int:
        """How many are sampled beside the records."""
        return len(self.inserted)

    def part(self, batch: Tensor) -> Tensor:
        self.drawn = self.inserted[batch[batch >= self.records] - self.records]
        return batch[batch < self.records]

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.plain = flat(sums)
        added = self.bound() * self.directions[self.drawn].sum(0)
        parts = torch.split(added, [value.numel() for value in sums.values()])
        return {name: value + part.view(value.shape).to(value) for (name, value), part in zip(sums.items(), parts, strict=True)}

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.plain is not None:  # else the weights at the start
            self.products.append(self.directions @ ((flat(values) - self.plain) / self.bound()).float())
            self.plain = None
        return values

    def leave_scores(self, folder: str, problem: Learning) -> None:
        """What dpcli audit reads: for each canary whether it was in, and how much likelier that makes what was released."""
        products = torch.stack(self.products).double().numpy()
        scores = sum((scored(self.plan, stage, products[stage.start : stage.stop]) for stage in self.plan.stages), np.zeros(1))
        found = [{"member": bool(m), "score": float(score)} for m, score in zip(self.member, scores, strict=True)]
        told = [asdict(one) for one in sampled_steps(self.plan)]
        content = {"schema": SCHEMA, "neighbours": "add-remove", "gradients": told, "canaries": found}
        replaced(os.path.join(folder, RUN_FILE), json.dumps(content).encode())


def flat(values: Mapping[str, Tensor]) -> Tensor:
    """All numbers of a step, in one new row."""
    return torch.cat([value.detach().reshape(-1).double().cpu() for value in values.values()])


def gradient_canaries(plan: TrainingPlan, records: int, width: int, clip: Clip, stream: Stream) -> GradientCanaries:
    """Those of a run of `width` trained numbers, fresh.

    Raises InputError where batches of records tell of the canaries, and for more canaries or numbers than directions are drawn for.
    """
    if several_processes():
        raise InputError("audit.canary: expected one process with gradients, found several")
    for stage in plan.stages:
        require_independent(plan, stage)
    if plan.canaries > width or plan.canaries * width > NUMBERS:
        raise InputError(
            f"audit.canaries: expected at most {min(width, NUMBERS // width):,} gradients for a model of {width:,} trained numbers, found "
            f"{plan.canaries:,}"
        )
    directions = np.linalg.qr(stream.bulk().standard_normal((width, plan.canaries)))[0].T.astype(np.float32)
    member = torch.from_numpy((stream.words(plan.canaries) >> np.uint64(63)).astype(bool))
    return GradientCanaries(plan, records, member, torch.from_numpy(np.ascontiguousarray(directions)), lambda: clip.bound)


def require_independent(plan: TrainingPlan, stage: Stage) -> None:
    """Raises InputError where whether a canary is in a batch depends on the others in it, or its run is too long to score."""
    sampling, spec = stage.entry.sampling, stage.spec
    if isinstance(sampling, FixedSize) or getattr(sampling, "max_batch_size", None) is not None:
        raise InputError(
            f'{plan.path}: mechanism["{stage.entry.name}"].sampling: expected batches of no fixed and no largest size with gradients as '
            "canaries, found such: the records in a batch would tell how many canaries are"
        )
    if isinstance(spec, CorrelatedSpec) and spec.iterations > STEPS:
        raise InputError(
            f'{plan.path}: mechanism["{stage.entry.name}"].iterations: expected at most {STEPS:,} with gradients as canaries, found '
            f"{spec.iterations:,}"
        )


def sampled_steps(plan: TrainingPlan) -> Iterator[SampledSteps]:
    """What the audit may simulate: of every stage, or none where one of them is drawn otherwise."""
    if all(isinstance(stage.entry.sampling, (Poisson, Unsampled)) for stage in plan.stages):
        for stage in plan.stages:
            yield SampledSteps(stage.steps, rate(plan, stage), noise_std(stage.spec, plan.train.clipping.count_noise))


def rate(plan: TrainingPlan, stage: Stage) -> float:
    """Of one record, in one step."""
    return min(1.0, stage.expected_batch / plan.size)


def scored(plan: TrainingPlan, stage: Stage, products: Array) -> Array:
    """Log likelihood ratios (m,) of a stage: by places in the run under correlated noise, else step by step."""
    if isinstance(stage.spec, CorrelatedSpec):
        return by_place(stage.spec, products)
    return log_ratios(products, rate(plan, stage), noise_std(stage.spec, plan.train.clipping.count_noise))


def by_place(spec: CorrelatedSpec, products: Array) -> Array:
    """Of a canary that has one of the run's places, each as likely: the mean of their likelihood ratios, under the noise's covariance."""
    steps, count = len(products), slots(spec)
    if not steps:
        return np.zeros(products.shape[1])
    drawn = noise_of(spec, 1.0, insecure_seed(0).noise)
    noise = np.stack([drawn.next({"": torch.Size([8 * spec.iterations])})[""].double().numpy() for _ in range(steps)])
    places = (np.arange(steps)[:, None] % count == np.arange(min(count, steps))).astype(float)
    precise = np.linalg.solve(noise @ noise.T / noise.shape[1], places)
    ratios = precise.T @ products - 0.5 * np.sum(places * precise, axis=0)[:, None]
    found: Array = np.logaddexp.reduce(ratios, axis=0)
    return found
