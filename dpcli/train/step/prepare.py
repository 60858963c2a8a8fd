"""From a plan to a trainer: everything that touches the data, put together."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.random.streams import Streams, cryptographic
from dpcli.train.engine.batches import Batch, size
from dpcli.train.engine.clip import Adaptive, Clip, measurable
from dpcli.train.isolation.kept_state import constants
from dpcli.train.isolation.rehearsal import like
from dpcli.train.noise.declared import noise_of
from dpcli.train.noise.step import Noise, total
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.settings import Train
from dpcli.train.plan.sources import FUNCTION
from dpcli.train.plan.stages import Stage
from dpcli.train.replay.canaries import Canaries, GradientCanaries, canaries, gradient_canaries
from dpcli.train.run.processes import choose_threads
from dpcli.train.run.ranks import Ranks
from dpcli.train.sampling.batch_samplers import participations, sampler
from dpcli.train.sampling.units import by_unit, fewer
from dpcli.train.step.loop import Average, Indices, Quantile, Trainer, relative
from dpcli.train.step.optimizers import optimizer_of, tell
from dpcli.train.tasks.learning import Learning, Metrics, learning, moved
from dpcli.train.trained.weights import trained

if TYPE_CHECKING:
    from dpcli.train.run.saved_state import Checkpoint

ENGINES = {"dpcli": "dpcli.train.engine.per_example:ClippedGradients", "opacus": "dpcli.train.engine.opacus:OpacusGradients"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with its data. canaries: of an audit; records that won the toss are among the records.

    constants: what the user's own program reads beside its parameters, its buffers and the records, by name; after the rehearsal.
    """

    plan: TrainingPlan
    problem: Learning
    trainer: Trainer
    streams: Streams
    canaries: Canaries | GradientCanaries | None
    buffers: dict[str, Tensor]
    constants: list[str] = field(default_factory=list)

    def stage(self, stage: Stage, after: Callable[[int], None], stop_asked: Callable[[], bool]) -> None:
        """Take the stage's steps that are not yet taken, with fresh noise and a fresh sample. Raises Stopped where asked to."""
        self.trainer.advance(stage.stop, self.batches(stage), self.noise(stage), stage.expected_batch, after, stop_asked)

    def few(self) -> Batch:
        """Made-up records, as many as are in memory at once: of a step that is measured and thrown away."""
        expected = math.ceil(max(stage.expected_batch for stage in self.plan.stages))
        return self.made_up(min(self.plan.train.physical_batch_size, expected))

    def made_up(self, count: int) -> Batch:
        """Records that nobody owns: the task's own where it has such, else of the form of the records."""
        if self.problem.draw is None:
            return like(self.trainer.records)(count)
        device = next(self.problem.model.parameters()).device
        return moved(self.problem.draw(count, self.streams.initialisation), device)

    def rehearse(self) -> float:
        """Do everything that a step needs once, and keep nothing of it: what cannot be done is refused before anything is charged.

        Chooses how the clipped sums are computed, and how many threads a step takes. The model sees made-up records alone: it may keep
        what it sees, and nothing is charged yet.

        Returns:
            The seconds that one record of a step took.
        """
        for stage in {stage.entry.name: stage for stage in reversed(self.plan.stages)}.values():
            next(self.batches(stage))
            tell(self.trainer.optimizer, self.noise(stage), 1.0 / stage.expected_batch)
        self.trainer.gradients.rehearse(self.made_up)
        if self.plan.train.own_code or FUNCTION.holds(self.plan.train.model):
            self.constants[:] = constants(self.problem.model, self.problem.loss, self.made_up(2))
        few = self.few()
        begun = time.perf_counter()
        self.trainer.gradients.checked(few, 0)  # as a step is: what that refuses, it refuses here
        seconds = (time.perf_counter() - begun) / size(few)
        self.trainer.gradients.settle()
        if self.plan.train.device == "cpu":
            choose_threads(lambda: self.trainer.gradients(few))
        self.require_buffers()
        return seconds

    def require_buffers(self) -> None:
        """Raises InputError where training has moved a buffer: what it took from the data has no noise."""
        for name, buffer in self.problem.model.named_buffers():
            if name in self.buffers and not torch.equal(buffer.nan_to_num(), self.buffers[name].nan_to_num()):
                raise InputError(f"model: {name}: expected a buffer that training leaves alone, found one that it has changed")

    def measure(self) -> Metrics:
        """On data declared public, with the weights that would be left now."""
        with self.final():
            return self.problem.measure()

    def final(self) -> AbstractContextManager[None]:
        """The model with the weights that would be left now."""
        return nullcontext() if self.trainer.average is None else self.trainer.average.swapped()

    def batches(self, stage: Stage) -> Indices:
        """Samples as the stage's entry declares them, from its first step."""
        size, stream = self.plan.size, self.streams.sampling
        count = self.problem.count + (0 if self.canaries is None else self.canaries.sampled)
        if isinstance(stage.spec, CorrelatedSpec):
            return participations(stage.spec, size, stream, count)
        return sampler(stage.entry.sampling or Unsampled("none"), size, stream, count)

    def noise(self, stage: Stage) -> Noise:
        """The noise that the stage's entry declares, from its first step."""
        quantile, rounding = self.trainer.quantile, 1.0 + self.rounding
        if quantile is None:
            return noise_of(stage.spec, rounding * self.trainer.gradients.clip.bound, self.streams.noise)
        return noise_of(relative(stage.spec, quantile.count_noise), rounding, self.streams.noise)

    @property
    def rounding(self) -> float:
        """By how much more a record may move a sum than by C, relatively: the others' sum is rounded anew without it.

        Each micro-batch is summed in single precision and adds up to at most so many times C; micro-batches are added in double.
        """
        return 4.0 * float(torch.finfo(torch.float32).eps) * self.plan.train.physical_batch_size

    def weights(self) -> dict[str, Tensor]:
        """Return what was trained, where some of the model was not; else all of the model, tied tensors once."""
        self.require_buffers()
        return {name: value.detach().cpu().contiguous() for name, value in trained(self.problem.model).items()}

    def noise_source(self) -> str:
        """Return where the noise comes from, in words."""
        if not self.streams.noise.private:
            return "a seed that somebody knows"
        if cryptographic(total(self.trainer.shapes), self.streams.noise):
            return "OpenSSL's cryptographic generator, seeded by the operating system"
        return (
            "Philox, a generator that is not cryptographic, under a fresh key of 128 bits from the operating system for each step"
        )


def prepare(plan: TrainingPlan, streams: Streams, ranks: Ranks, before: Checkpoint | None, folder: str) -> Prepared:
    """Read the data, build the model, and go on from the state of `before`, if any. Raises InputError where something does not fit."""
    problem = learning(plan.train, plan.path, streams.initialisation, plan.rows)
    (units,) = ranks.same((problem.units,))
    problem = replace(problem, records=ranks.same_records(problem.records), units=units)
    chosen = FromFile(plan.train, plan.steps)
    return assembled(plan, problem, chosen, streams, ranks, before, folder)


class Optimization(Protocol):
    """The use of the noisy gradient."""

    @property
    def rate(self) -> Callable[[int], float] | None:
        """The learning rate of step 0, 1, ... over the first one; None where somebody else sets it."""

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of the parameters that are trained."""


@dataclass(frozen=True, slots=True)
class FromFile:
    """The optimization that [train] states, over a number of steps."""

    train: Train
    steps: int

    @property
    def rate(self) -> Callable[[int], float]:
        return _rate(self.train, self.steps)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return optimizer_of(self.train, model)


def assembled(
    plan: TrainingPlan,
    problem: Learning,
    optimization: Optimization,
    streams: Streams,
    ranks: Ranks,
    before: Checkpoint | None,
    folder: str,
) -> Prepared:
    """The trainer of a problem, from the state of `before`, if any. Raises InputError where something does not fit."""
    chosen, problem = plan.train, _bounded_and_few(plan, problem, streams, ranks)
    inserted = _inserted(plan, problem, streams, ranks, folder, before is not None)
    problem = (problem if inserted is None else problem.extended(inserted.inserted)).on(_device(chosen.device))
    model = problem.model
    clip = chosen.clipping.clip()
    laid_open = _laid_open(plan, problem, clip, streams)
    gradients = load(ENGINES[chosen.engine])(model, problem.loss, clip)
    optimizer = optimization.optimizer(model)
    _same_start(model, ranks)
    if before is not None:
        _restore(before, model, optimizer)
    trainer = Trainer(
        model,
        gradients,
        optimizer,
        problem.records,
        optimization.rate,
        chosen.physical_batch_size,
        before.step if before else 0,
        _quantile(plan, clip, streams, before),
        laid_open or ranks,
        None if chosen.average is None else Average(model, chosen.average, before.average if before else {}),
    )
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    return Prepared(plan, problem, trainer, streams, laid_open or inserted, buffers)


def _bounded_and_few(plan: TrainingPlan, problem: Learning, streams: Streams, ranks: Ranks) -> Learning:
    """With at most as many records of each unit, and in all, as the file declares."""
    if plan.train.units is not None:
        problem = _bounded(plan, problem, streams, ranks)
    if problem.count + plan.canaries > plan.size:
        with_canaries = f" and {plan.canaries} canaries" if plan.canaries else ""
        raise InputError(
            f"{plan.path}: privacy.dataset_size: expected at least the number of private records{with_canaries}, found {plan.size}"
        )
    return problem


def _inserted(plan: TrainingPlan, problem: Learning, streams: Streams, ranks: Ranks, folder: str, resumed: bool) -> Canaries | None:
    """The canaries of an audit, drawn and kept by the first process."""
    if not plan.canaries or plan.laid_open:
        return None
    return ranks.same(canaries(problem, plan.canaries, streams.initialisation, folder, resumed) if ranks.first else None)


def _laid_open(plan: TrainingPlan, problem: Learning, clip: Clip, streams: Streams) -> GradientCanaries | None:
    """The canaries of an audit that are gradients, which take the place of the processes."""
    if not plan.laid_open:
        return None
    width = sum(p.numel() for p in problem.model.parameters() if p.requires_grad)
    return gradient_canaries(plan, problem.count, width, clip, streams.initialisation)


def _bounded(plan: TrainingPlan, problem: Learning, streams: Streams, ranks: Ranks) -> Learning:
    """Each unit with a bounded number of records: drawn together and clipped as one, or each for itself."""
    if problem.units is None or len(problem.units) != problem.count:
        raise InputError(f"{plan.path}: train.units: expected an owner for each record, but their numbers differ")
    if plan.train.records_per_unit is not None:
        return by_unit(problem, problem.units, plan.train.records_per_unit, streams.initialisation, ranks)
    return fewer(problem, problem.units, plan.pipeline.privacy.max_contributions or 1, streams.initialisation, ranks)


def _device(device: str) -> str:
    count = torch.cuda.device_count() if device.startswith("cuda") else 1
    if int(device.partition(":")[2] or 0) >= count:
        raise InputError(f"train.device: expected a device of this machine, found {device}, and torch sees {count or 'no'} GPU")
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


def _restore(before: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    try:
        model.load_state_dict(before.model)
        optimizer.load_state_dict(before.optimizer)
    except (RuntimeError, ValueError, KeyError) as problem:
        message = str(problem).strip().splitlines()[0]
        raise InputError(f"--resume: expected the model that the run was started with: {message}") from None


def _same_start(model: nn.Module, ranks: Ranks) -> None:
    """Every process starts from the first one's weights."""
    with torch.no_grad():
        for value in model.state_dict().values():
            value.copy_(ranks.spread({"": value.clone()})[""])


def _rate(chosen: Train, steps: int) -> Callable[[int], float]:
    """The learning rate of step 0, 1, ... over the declared one."""
    shapes: dict[str, Callable[[float], float]] = {
        "constant": lambda done: 1.0,
        "linear": lambda done: 1.0 - done,
        "cosine": lambda done: 0.5 + 0.5 * math.cos(math.pi * done),
    }
    shape = shapes[chosen.schedule]
    return lambda step: shape(step / steps)


def _quantile(plan: TrainingPlan, clip: object, streams: Streams, before: Checkpoint | None) -> Quantile | None:
    """Return what moves C, under adaptive clipping alone."""
    noise = plan.train.clipping.count_noise
    if not isinstance(clip, Adaptive) or noise is None:
        return None
    if len(plan.stages) > 1 or isinstance(plan.stages[0].spec, CorrelatedSpec):
        raise InputError(
            f"{plan.path}: train.clipping.style: expected another style than adaptive with a schedule or correlated noise, found adaptive"
        )
    if before is not None:
        clip.norm = measurable("norm", before.bound)
    return Quantile(clip, noise, plan.stages[0].expected_batch, streams.noise)
