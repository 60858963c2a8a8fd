"""Canaries: records that do not exist, each in the run by the toss of a fair coin, by which an audit tells whether the run leaks more than
it claims.

Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846.
"""

from __future__ import annotations

import io
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
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.clip import Clip
from dpcli.train.noise.declared import noise_of
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.run.outcome import KEPT
from dpcli.train.run.processes import several_processes
from dpcli.train.run.ranks import Alone
from dpcli.train.sampling.batch_samplers import slots
from dpcli.train.step.loop import noise_std
from dpcli.train.tasks.learning import Learning, evaluating, moved


@dataclass(frozen=True, slots=True)
class Canaries:
    """records: of the task's own form, m of them. member: (m,) which are in the run."""

    records: Batch
    member: torch.Tensor

    @property
    def sampled(self) -> int:
        """Return how many are sampled besides the records: none, as those in the run are among them."""
        return 0

    @property
    def inserted(self) -> Batch:
        """Return the canaries that are in the run."""
        return take(self.records, self.member.nonzero()[:, 0])

    def leave_scores(self, folder: str, problem: Learning) -> None:
        """Write what dpcli audit reads: for each canary whether it was in, and minus its loss under the final model."""
        device = next(problem.model.parameters()).device
        with torch.no_grad(), evaluating(problem.model):
            parts = [problem.loss(problem.model, moved(part, device)).cpu() for part in pieces(self.records, 256)]
        losses = torch.cat(parts)
        rows = [{"member": bool(m), "score": -float(loss)} for m, loss in zip(self.member, losses, strict=True)]
        content = json.dumps({"schema": SCHEMA, "neighbours": "add-remove", "canaries": rows})
        replaced(os.path.join(folder, RUN_FILE), content.encode())


def canaries(problem: Learning, count: int, stream: Stream, folder: str, resumed: bool) -> Canaries:
    """Return the canaries of the run in this folder: fresh ones, or under --resume those that it holds.

    Raises InputError for a task that has no form for records that nobody owns, and where those of the run are gone.
    """
    path = os.path.join(folder, KEPT)
    if resumed:
        return _kept(path)
    if problem.draw is None:
        raise InputError(
            "audit.canaries: expected a task whose records can be made up, found sampled units, or a custom one without train.canary"
        )
    records = problem.draw(count, stream)
    member = torch.tensor([int(word) >> 63 == 1 for word in stream.words(count)])
    buffer = io.BytesIO()
    torch.save({"records": records, "member": member}, buffer)
    replaced(path, buffer.getvalue())
    return Canaries(records, member)


def _kept(path: str) -> Canaries:
    try:
        return Canaries(**torch.load(path, weights_only=True))
    except Exception as problem:  # whatever a damaged file does
        raise InputError(f"--resume: {path}: the canaries of the run cannot be read ({type(problem).__name__})") from None


def pieces(batch: Batch, length: int) -> list[Batch]:
    """Return consecutive parts."""
    return [take(batch, slice(start, start + length)) for start in range(0, size(batch), length)]


Array = NDArray[np.float64]
NUMBERS = 2**26  # of all directions together
STEPS = 1024  # of a run of correlated noise


@dataclass(slots=True)
class GradientCanaries(Alone):
    """A single process, in whose sums the canaries are.

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
        """Return how many are sampled besides the records."""
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
        """Write what dpcli audit reads: for each canary whether it was in, and how much likelier that makes what was released."""
        products = torch.stack(self.products).double().numpy()
        scores = sum((scored(self.plan, stage, products[stage.start : stage.stop]) for stage in self.plan.stages), np.zeros(1))
        rows = [{"member": bool(m), "score": float(score)} for m, score in zip(self.member, scores, strict=True)]
        steps = [asdict(one) for one in sampled_steps(self.plan)]
        content = {"schema": SCHEMA, "neighbours": "add-remove", "gradients": steps, "canaries": rows}
        replaced(os.path.join(folder, RUN_FILE), json.dumps(content).encode())


def flat(values: Mapping[str, Tensor]) -> Tensor:
    """Return all numbers of a step, in one new row."""
    return torch.cat([value.detach().reshape(-1).double().cpu() for value in values.values()])


def gradient_canaries(plan: TrainingPlan, records: int, width: int, clip: Clip, stream: Stream) -> GradientCanaries:
    """Return fresh canaries for a run of `width` trained numbers.

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
    """Raise InputError where whether a canary is in a batch depends on the others in it, or its run is too long to score."""
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
    """Yield what the audit may simulate: of every stage, or of none where one of them is drawn otherwise."""
    if all(isinstance(stage.entry.sampling, (Poisson, Unsampled)) for stage in plan.stages):
        for stage in plan.stages:
            yield SampledSteps(stage.steps, rate(plan, stage), noise_std(stage.spec, plan.train.clipping.count_noise))


def rate(plan: TrainingPlan, stage: Stage) -> float:
    """Return the rate of one record, in one step."""
    return min(1.0, stage.expected_batch / plan.size)


def scored(plan: TrainingPlan, stage: Stage, products: Array) -> Array:
    """Return log likelihood ratios (m,) of a stage: by places in the run under correlated noise, else step by step."""
    if isinstance(stage.spec, CorrelatedSpec):
        return by_place(stage.spec, products)
    return log_ratios(products, rate(plan, stage), noise_std(stage.spec, plan.train.clipping.count_noise))


def by_place(spec: CorrelatedSpec, products: Array) -> Array:
    """Return the mean, over the places in the run that a canary may have, of its likelihood ratios under the noise's covariance."""
    steps, count = len(products), slots(spec)
    if not steps:
        return np.zeros(products.shape[1])
    drawn = noise_of(spec, 1.0, insecure_seed(0).noise)
    noise = np.stack([drawn.next({"": torch.Size([8 * spec.iterations])})[""].double().numpy() for _ in range(steps)])
    places = (np.arange(steps)[:, None] % count == np.arange(min(count, steps))).astype(float)
    precise = np.linalg.solve(noise @ noise.T / noise.shape[1], places)
    ratios = precise.T @ products - 0.5 * np.sum(places * precise, axis=0)[:, None]
    means: Array = np.logaddexp.reduce(ratios, axis=0)
    return means
