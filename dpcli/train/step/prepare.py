"""The preparation of a run, which turns a plan, its data, model, optimizer and canaries into a trainer that can take steps.

A *plan* is what a training file says (plan/plan.py); its *stages* are sequences of steps of one *entry*, a mechanism of the file. `prepare`
is for the files of `dpcli train`: the task of [train] builds the learning problem. `assemble` is for `dpcli.private` too, whose caller
passes the problem and the optimizer. Nothing is charged yet, so the preparation passes no private record to the model or its loss:
`Prepared.rehearse`, the *rehearsal*, tries on synthetic records whatever could fail. *Canaries* are records or gradients that an audit
inserts into the run, to test it (replay/canaries.py). The key `engine` of [train] chooses the *engine*, the code that clips and sums
(ENGINES).
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.random.streams import Streams, is_cryptographic
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.clip import Adaptive, Clip, require_measurable
from dpcli.train.engine.method import trained_parameters
from dpcli.train.engine.sums import Sums
from dpcli.train.isolation.kept_state import constant_tensors, equal, gradient_mark, outside_leaves, reachable_state
from dpcli.train.isolation.synthetic_records import convert_to_kind, draws_like
from dpcli.train.noise import Noise, noise_of, number_count
from dpcli.train.plan.descent import radius_of
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.sources import FUNCTION
from dpcli.train.plan.stages import Stage
from dpcli.train.replay.canaries import Canaries, GradientCanaries, gradient_canaries, record_canaries
from dpcli.train.run.processes import choose_threads
from dpcli.train.run.ranks import Ranks
from dpcli.train.sampling.batch_samplers import correlated_sampler, descent_sampler, sampler
from dpcli.train.sampling.units import by_unit, with_bounded_units
from dpcli.train.step.loop import ROUNDING_OF_RECORD, AdaptiveNorm, Samples, Trainer, WeightAverage, gradient_spec
from dpcli.train.step.optimizers import optimizer_of, rate_schedule, set_noise_variance
from dpcli.train.tasks.learning import Learning, Metrics, learning, to_device
from dpcli.train.tasks.user_code import call_on_records
from dpcli.train.trained.weights import released_weights, require_savable

if TYPE_CHECKING:
    from dpcli.train.run.saved_state import Checkpoint

# Share of the declared size. With fewer records there is a warning, if their number is public. Arbitrary; it affects only the warning.
LEAST_SHARE = 0.9
# Classes of the engines, by the name in the file.
ENGINES = {"dpcli": "dpcli.train.engine.per_example:ClippedGradients", "opacus": "dpcli.train.engine.opacus:OpacusGradients"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with its data and a trainer that is ready to take steps.

    Attributes:
        canaries: Canaries of an audit; None if there are none. A canary record is among the problem's records if its coin toss selected it.
        buffers: Copies of the model's buffers at the start.
        constants: Names of the constant tensors that the user's own program reads. They are known after the rehearsal.
    """

    plan: TrainingPlan
    problem: Learning
    trainer: Trainer
    streams: Streams
    canaries: Canaries | GradientCanaries | None
    buffers: dict[str, Tensor]
    constants: list[str] = field(default_factory=list)

    def take_steps(self, stage: Stage, after: Callable[[int], None], stop_asked: Callable[[], bool]) -> None:
        """Take the remaining steps of a stage. Noise and samples are drawn afresh.

        Args:
            after: Function that is called with the number of each step after the step.
            stop_asked: Function that returns whether to stop. It is called before each step.

        Raises:
            Stopped: `stop_asked` returned True.
        """
        self.trainer.advance(stage.stop, self.batches(stage), self.noise(stage), stage.expected_batch, after, stop_asked)

    @property
    def rehearsed_size(self) -> int:
        """Return the number of records of a micro-batch, or of the largest likely batch if that is smaller.

        Memory that does not suffice for them runs out in the rehearsal, before the charge, and not in a step after it.
        """
        return min(self.plan.train.physical_batch_size, max(stage.largest_likely_batch for stage in self.plan.stages))

    def synthetic_batch(self) -> Batch:
        """Return synthetic records, as many as are rehearsed at once."""
        return self.synthetic_records(self.rehearsed_size)

    def synthetic_records(self, count: int) -> Batch:
        """Return `count` synthetic records with the kind of numbers on which the program ran in the rehearsal."""
        return convert_to_kind(self.trainer.gradients.numbers, self.drawn_records(count))

    def drawn_records(self, count: int) -> Batch:
        """Return `count` synthetic records. They are drawn by the task, or have the shapes and types of the private records."""
        if self.problem.draw is None:
            return draws_like(self.trainer.records)(count)
        device = next(self.problem.model.parameters()).device
        return to_device(self.problem.draw(count, self.streams.initialisation), device)

    def rehearse(self) -> float:
        """Run a step on synthetic records, so that errors occur before anything is charged.

        The rehearsal also chooses the method of the clipped sums and the number of threads. It passes no private record to the model,
        because the model could store the record before anything is charged.

        Returns:
            Seconds that the clipped sum of a micro-batch takes, divided by the number of its records.

        Raises:
            InputError: The program combines records, reads them outside of its batch, changes a buffer or other state, or does not run on
                synthetic records; or no file can hold its weights; or AdamBC is used with correlated noise.
        """
        require_savable(self.problem.model)
        for stage in self.plan.first_stages:
            next(self.batches(stage))  # not used: a sampler that cannot draw raises its error now; so does AdamBC in the next line
            set_noise_variance(self.trainer.optimizer, self.noise(stage), 1.0 / stage.expected_batch)
        is_own = self.plan.train.own_code or FUNCTION.holds(self.plan.train.model)  # the user's own model, as module:function
        model, loss = self.problem.model, self.problem.loss
        outside = outside_leaves(model, reachable_state(model, loss, copies=False)) if is_own else {}
        marks = {name: gradient_mark(tensor) for name, tensor in outside.items()}
        self.trainer.gradients.rehearse(self.drawn_records)
        if is_own:
            synthetic, records = self.synthetic_records(2), self.trainer.records
            self.constants[:] = constant_tensors(model, loss, synthetic, records)
        batch = self.synthetic_batch()
        self.trainer.gradients.checked_sums(batch, row=0)  # raises the errors that a step would raise
        for name, tensor in outside.items():
            if gradient_mark(tensor) != marks[name]:
                raise InputError(
                    f"loss: expected gradients of the model's parameters alone, found {name}, to which a step adds one without noise: "
                    "make it a parameter of the model, set its requires_grad to False, or pass use_reentrant=False to checkpoint"
                )
        self.trainer.gradients.fix_description()  # the description of the method, before private records could change it
        if self.plan.train.device == "cpu":
            choose_threads(lambda: self.trainer.gradients(batch))
        begun = time.perf_counter()
        self.trainer.gradients(batch)  # timed without the checks; the calls above did the work of a first call
        seconds = (time.perf_counter() - begun) / size(batch)
        self.require_buffers()
        return seconds

    def require_buffers(self) -> None:
        """Check that training has changed no buffer. A changed buffer may depend on private data without noise.

        Raises InputError if a buffer has changed.
        """
        for name, buffer in self.problem.model.named_buffers():
            if name in self.buffers and not equal(buffer, self.buffers[name]):
                raise InputError(f"model: {name}: expected a buffer that training does not change, found one that it changed")

    def measure(self) -> Metrics:
        """Return the metrics on public data. They are measured with the weights that the run would release if it ended now."""
        with self.final_weights():
            return self.problem.measure()

    def final_weights(self) -> AbstractContextManager[None]:
        """Set the model within the block to the weights that the run would release now.

        These are the moving average if the file asks for it, and the last weights otherwise.
        """
        return nullcontext() if self.trainer.average is None else self.trainer.average.in_model()

    def batches(self, stage: Stage) -> Samples:
        """Return the samples of a stage from its first step. The sampling scheme of the stage's entry draws them."""
        size, stream = self.plan.size, self.streams.sampling
        # Canary gradients are sampled as if they were further records.
        count = self.problem.count + (0 if self.canaries is None else self.canaries.sampled)
        if isinstance(stage.spec, CorrelatedSpec):
            return correlated_sampler(stage.spec, size, stream, count, stage.entry.sampling)
        if isinstance(stage.spec, LastIterateSpec):
            return descent_sampler(stage.spec, size, stream, count)
        return sampler(stage.entry.sampling or Unsampled("none"), size, stream, count)  # "none": all records in every step

    def noise(self, stage: Stage) -> Noise:
        """Return the noise of a stage from its first step, as its entry declares it, enlarged by the rounding of sums.

        With adaptive clipping the noise is in units of C, because C changes in each step.
        """
        enlargement = 1.0 + self.rounding
        adaptive = self.trainer.adaptive_norm
        if adaptive is None:
            return noise_of(stage.spec, enlargement * self.trainer.gradients.clip.bound, self.streams.noise)
        return noise_of(gradient_spec(stage.spec, adaptive.count_noise), enlargement, self.streams.noise)

    @property
    def rounding(self) -> float:
        """Return an upper bound on the excess over C, relative to C, by which one record may change a sum.

        Besides the sum itself, a record may change the rounding of the sum. The noise is enlarged by 1 plus this number. The sum of a
        micro-batch is computed in single precision, and its norm is at most physical_batch_size times C. Micro-batches are added in double
        precision.
        """
        return ROUNDING_OF_RECORD * self.plan.train.physical_batch_size

    def weights(self) -> dict[str, Tensor]:
        """Return the trained parameters if others are frozen, or the whole model otherwise. A tensor with several names occurs once."""
        self.require_buffers()
        return {name: value.detach().cpu().contiguous() for name, value in released_weights(self.problem.model).items()}

    def noise_source(self) -> str:
        """Return the source of the noise, in words."""
        if not self.streams.noise.private:
            return "a seed that somebody knows"
        if is_cryptographic(number_count(self.trainer.shapes), self.streams.noise):
            return "OpenSSL's cryptographic generator, seeded by the operating system"
        return "Philox, which is not a cryptographic generator; the operating system gives it a fresh key of 128 bits for each step"


def prepare(plan: TrainingPlan, streams: Streams, ranks: Ranks, saved: Checkpoint | None, folder: str) -> Prepared:
    """Read the data, build the model, and restore the state of `saved` if it is given.

    Args:
        folder: Folder of the run, which stores the canaries of an audit.

    Raises:
        InputError: The data, the model or the state do not fit the plan.
    """
    problem = learning(plan.train, plan.path, streams.initialisation, plan.rows)
    (units,) = ranks.broadcast((problem.units,))  # in a tuple, because `broadcast` takes None for a missing value
    problem = replace(problem, records=ranks.broadcast_records(problem.records), units=units)
    make_optimizer, rate = partial(optimizer_of, plan.train), rate_schedule(plan.train, plan.steps)
    return assemble(plan, problem, make_optimizer, rate, streams, ranks, saved, folder)


def prepare_trial(plan: TrainingPlan, streams: Streams, ranks: Ranks) -> Prepared:
    """Return a run that leaves no file: without the canaries of an audit and without a saved state. Dry runs and replays use it.

    Raises InputError as `prepare` does.
    """
    return prepare(replace(plan, canaries=0), streams, ranks, None, folder="")


def assemble(
    plan: TrainingPlan,
    problem: Learning,
    make_optimizer: Callable[[nn.Module], torch.optim.Optimizer],
    rate: Callable[[int], float] | None,
    streams: Streams,
    ranks: Ranks,
    saved: Checkpoint | None,
    folder: str,
) -> Prepared:
    """Return a problem with its trainer, in the state of `saved` if it is given. For the other arguments, see `prepare`.

    Args:
        make_optimizer: Function that returns an optimizer of a model's trained parameters.
        rate: Function from the number of a step to its learning rate, relative to the declared one; None if the caller sets the rate.

    Raises:
        InputError: The problem, the optimizer or the state do not fit the plan.
    """
    train = plan.train
    # Units come before the comparison of the sizes, because dataset_size counts units if they are sampled.
    problem = _with_units(plan, problem, streams, ranks)
    _require_declared_size(plan, problem)
    if ranks.first:
        _warn_of_size(plan, problem.count)
    canaries: Canaries | GradientCanaries | None = None
    if plan.canaries and not plan.open_to_audit:  # the canaries are records; canary gradients are made below
        canaries = _record_canaries(plan, problem, streams, ranks, folder, resumed=saved is not None)
        problem = problem.with_records(canaries.inserted)
    problem = problem.on(_device(train.device))
    model, clip = problem.model, train.clipping.clip()
    if plan.open_to_audit:
        width = sum(parameter.numel() for parameter in trained_parameters(model).values())
        # Canary gradients take the place of the processes, through which every sample and every sum of the trainer passes.
        ranks = canaries = gradient_canaries(plan, problem.count, width, clip, streams.initialisation)
    gradients = load(ENGINES[train.engine])(model, problem.loss, clip)
    if isinstance(canaries, GradientCanaries):
        canaries.single_norm = partial(_single_norm, gradients, problem.records)
    optimizer = make_optimizer(model)
    _broadcast_weights(model, ranks)
    if saved is not None:
        _restore(saved, model, optimizer)
    trainer = Trainer(
        model=model,
        gradients=gradients,
        optimizer=optimizer,
        records=problem.records,
        rate=rate,
        physical=train.physical_batch_size,
        step=0 if saved is None else saved.step,
        adaptive_norm=_adaptive_norm(plan, clip, streams, saved),
        ranks=ranks,
        average=_weight_average(plan, model, saved),
        radius=radius_of(plan.stages[0].spec),  # only for last-iterate, which is then the only entry of the plan
    )
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    return Prepared(plan, problem, trainer, streams, canaries, buffers)


def _single_norm(gradients: Callable[[Batch], Sums], records: Batch, row: Tensor) -> float:
    """Return the norm of the clipped gradient of one record. Its index is the only number in `row`."""
    sums: Sums = call_on_records("a step", gradients, take(records, row))
    return math.sqrt(sum(float(value.double().square().sum()) for value in sums.gradients.values()))


def _with_units(plan: TrainingPlan, problem: Learning, streams: Streams, ranks: Ranks) -> Learning:
    """Return the problem with a bounded number of records of each unit.

    With records_per_unit, the records of a unit are sampled and clipped together. Otherwise each record is sampled and clipped separately.
    """
    if plan.train.units is None:
        return problem
    if problem.units is None or len(problem.units) != problem.count:
        raise InputError(
            f"{plan.path}: train.units: expected an owner for each record, found unequal numbers of owners and records"
        )
    if plan.train.records_per_unit is not None:
        return by_unit(problem, problem.units, plan.train.records_per_unit, streams.initialisation, ranks)
    return with_bounded_units(problem, problem.units, plan.pipeline.privacy.max_contributions or 1, streams.initialisation, ranks)


def _require_declared_size(plan: TrainingPlan, problem: Learning) -> None:
    """Raise InputError if the records of the problem and the canaries outnumber the declared size."""
    if problem.count + plan.canaries > plan.size:
        with_canaries = f" and {plan.canaries} canaries" if plan.canaries else ""
        raise InputError(
            f"{plan.path}: privacy.dataset_size: expected at least the number of private records{with_canaries}, found {plan.size}"
        )


def _warn_of_size(plan: TrainingPlan, count: int) -> None:
    """Log a warning if far fewer records exist than the file declares. Under add-remove their number is private: there is no warning.

    The declared size determines the rates and the divisor of each sum, so epsilon holds, but batches are smaller than planned.
    """
    if plan.pipeline.privacy.adjacency is not Adjacency.ADD_REMOVE and count + plan.canaries < LEAST_SHARE * plan.size:
        logging.getLogger("dpcli").warning(
            f"dpcli: {plan.path}: privacy.dataset_size = {plan.size} is far above the {count} records of the data: epsilon holds, but "
            "batches are smaller than declared, and each sum is divided by the declared batch size"
        )


def _weight_average(plan: TrainingPlan, model: nn.Module, saved: Checkpoint | None) -> WeightAverage | None:
    """Return the moving average of the weights; None if the file does not ask for it."""
    decay = plan.train.average
    return None if decay is None else WeightAverage(model, decay, {} if saved is None else saved.average)


def _record_canaries(plan: TrainingPlan, problem: Learning, streams: Streams, ranks: Ranks, folder: str, resumed: bool) -> Canaries:
    """Return the canary records of an audit. The first process draws and saves them, and sends them to the other processes."""
    canaries = record_canaries(problem, plan.canaries, streams.initialisation, folder, resumed=resumed) if ranks.first else None
    return ranks.broadcast(canaries)


def _device(device: str) -> str:
    """Return the device of this process. For "cuda" under torchrun, this is the GPU with the number in LOCAL_RANK.

    Raises InputError if the machine does not have the declared device.
    """
    count = torch.cuda.device_count() if device.startswith("cuda") else 1
    number = int(device.partition(":")[2] or 0)
    if number >= count:
        raise InputError(f"train.device: expected a device of this machine, found {device}; torch finds {count or 'no'} GPU")
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


def _restore(saved: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load the saved state into the model and the optimizer. Raises InputError if the state does not fit the model."""
    try:
        model.load_state_dict(saved.model)
        optimizer.load_state_dict(saved.optimizer)
    except (RuntimeError, ValueError, KeyError) as problem:
        message = str(problem).strip().splitlines()[0]
        raise InputError(f"--resume: the model differs from the one at the start of the run: {message}") from None


def _broadcast_weights(model: nn.Module, ranks: Ranks) -> None:
    """Copy the weights of the first process to all other processes."""
    with torch.no_grad():
        for value in model.state_dict().values():
            value.copy_(ranks.broadcast_tensors({"": value.clone()})[""])


def _adaptive_norm(plan: TrainingPlan, clip: Clip, streams: Streams, saved: Checkpoint | None) -> AdaptiveNorm | None:
    """Return the adaptive clipping norm; None for other clipping styles.

    Raises InputError if the plan has several stages or correlated noise, which adaptive clipping does not support.
    """
    count_noise = plan.train.clipping.count_noise
    if not isinstance(clip, Adaptive) or count_noise is None:
        return None
    if len(plan.stages) > 1 or isinstance(plan.stages[0].spec, CorrelatedSpec):
        raise InputError(
            f"{plan.path}: train.clipping.style: expected a style other than adaptive with a schedule or correlated noise, "
            "found adaptive"
        )
    if saved is not None:
        clip.norm = require_measurable("norm", saved.bound)
    return AdaptiveNorm(clip, count_noise, plan.stages[0].expected_batch, streams.noise)
