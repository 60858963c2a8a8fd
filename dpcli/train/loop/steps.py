"""The steps of a run whose training loop is the user's own.

This module checks the order of calls, and that the optimizer is stepped only with a noisy gradient. A step is refused under autocast,
inference mode or a mode of operators, and if the optimizer has other hooks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from dpcli.base.errors import InputError
from dpcli.random.streams import Streams
from dpcli.sessions.folder import this_process
from dpcli.train.loop.guard import Guard, require_same_parameters, trained_by
from dpcli.train.noise import Noise
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.charged_run import ChargedRun, charged_run
from dpcli.train.run.outcome import Outcome
from dpcli.train.run.ranks import Ranks
from dpcli.train.run.saved_state import Checkpoint
from dpcli.train.step.prepare import Optimization, Prepared, assembled
from dpcli.train.tasks.learning import Learning

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger


def require_plain_modes(model: nn.Module) -> None:
    """Raise InputError under torch.inference_mode or torch.autocast, and under modes or hooks that intercept operators."""
    if torch.is_inference_mode_enabled():
        raise InputError(
            "torch.inference_mode: expected none around dpcli.private and its steps, which need gradients, found one; leave it first "
            "(torch.no_grad does no harm)"
        )
    for device in sorted({parameter.device.type for parameter in model.parameters()}):
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            raise InputError(
                f"torch.autocast: expected none around dpcli.private and its steps, found one for {device}: norms and sums are taken in "
                "full precision; put it inside the loss, around the call of the model"
            )
    functions = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    modes = [*_get_current_dispatch_mode_stack(), *(mode for mode in functions if type(mode) is not DeviceContext)]
    if modes:
        raise InputError(
            f"{type(modes[0]).__name__}: expected no mode of operators around dpcli.private and its steps but that of a default device, "
            "found one: records that were seen to stay apart may meet in it; leave it first"
        )
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise InputError(
            "torch.autograd.graph.saved_tensors_hooks: expected none around dpcli.private and its steps, found some, through which "
            "one record may change what is kept of another; physical_batch_size in the file saves memory"
        )


def require_made_with_gradients(model: nn.Module) -> None:
    """Raise InputError if a parameter was created under torch.inference_mode, because it can have no gradient."""
    for name, parameter in model.named_parameters():
        if parameter.is_inference():
            raise InputError(f"model: expected parameters made outside of torch.inference_mode, found {name}, which was made in it")


def require_no_hooks(optimizer: torch.optim.Optimizer, own: tuple[Callable[..., Any], ...] = ()) -> None:
    """Raise InputError if the steps of the optimizer, or of all optimizers, have a hook other than those in `own`."""
    for place, hook in hooks_on(optimizer):
        if hook not in own:
            name = getattr(hook, "__qualname__", type(hook).__name__)
            raise InputError(
                f"optimizer: expected no hook on its steps but that of dpcli.private, found {name}, a {place}: it runs between the noise "
                "and what is checked; remove it, and call it from the loop"
            )


def hooks_on(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the hooks on the optimizer's steps, each after words that state where it is registered."""
    everywhere = "of all optimizers (torch.optim.optimizer.register_optimizer_step_{}_hook)"
    for place, hooks in (
        (f"hook {everywhere.format('pre')}", torch_optimizer._global_optimizer_pre_hooks),
        ("hook before them (register_step_pre_hook)", optimizer._optimizer_step_pre_hooks),
        ("hook after them (register_step_post_hook)", optimizer._optimizer_step_post_hooks),
        (f"hook {everywhere.format('post')}", torch_optimizer._global_optimizer_post_hooks),
    ):
        yield from ((place, hook) for hook in hooks.values())


class LoopPhase(Enum):
    """The state of a run between two calls. The value names the call that is expected next."""

    IDLE = "a batch to draw"
    DRAWN = "private.step(batch), once"
    BUSY = "the call before to end"
    NOISED = "one step of the optimizer"
    ENDED = "a run that has not ended"
    BROKEN = "a run that did not break off"


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample of one step, with the noise of the step.

    Attributes:
        records: Indices of the records.
        expected_batch: Public number by which the noisy sum is divided.
    """

    records: Tensor
    noise: Noise
    expected_batch: float


def begin(
    plan: TrainingPlan, problem: Learning, optimizer: torch.optim.Optimizer, ledger: Ledger | None, resume: bool, seed: int | None
) -> LoopSteps:
    """Prepare a run up to its first step, and reserve its charge. Raises the errors of `dpcli.train.run.training_run.train`."""

    def own_optimizer(model: nn.Module) -> torch.optim.Optimizer:
        require_same_parameters(model, optimizer)
        return optimizer

    def prepared(plan: TrainingPlan, streams: Streams, ranks: Ranks, before: Checkpoint | None, folder: str) -> Prepared:
        return assembled(plan, problem, Optimization(own_optimizer, None), streams, ranks, before, folder)

    run = charged_run(plan, ledger, resume, seed, Ranks(), plan.folder, prepared)
    trainer = run.prepared.trainer
    try:
        guard = Guard(trainer.model, optimizer, trainer.records)
        trainer.gradients.checked(run.prepared.made_up_batch(), 0)
        guard.require_untouched()  # a step itself must not change guarded state
    except BaseException as problem:
        run.give_back(problem)
        raise
    return LoopSteps(run, guard, _samples(run))


def _samples(run: ChargedRun) -> Iterator[Sample]:
    """Yield the sample of each remaining step. A sample is drawn when it is requested."""
    trainer = run.prepared.trainer
    for stage in run.plan.stages:
        batches, noise = run.prepared.batches(stage), run.prepared.noise(stage)
        while trainer.step < stage.stop:
            yield Sample(trainer.draw(batches), noise, stage.expected_batch)


@dataclass(slots=True)
class LoopSteps:
    """The steps of a run, taken one by one in the order that `phase` allows.

    Attributes:
        samples: Samples of the remaining steps.
        sample: Sample of the step in progress; None between steps.
        gradients: Noisy gradients that the optimizer has not used yet, by parameter name.
        known_epsilon: Number of steps for which epsilon was computed last, and this epsilon.
        process: Process that began the run. No other process may continue it, because a fork would repeat the same steps.
        lock: Lock that protects changes of the phase.
    """

    run: ChargedRun
    guard: Guard
    samples: Iterator[Sample]
    phase: LoopPhase = LoopPhase.IDLE
    sample: Sample | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)
    known_epsilon: tuple[int, float] = (0, 0.0)
    process: tuple[int, int] = field(default_factory=this_process)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def taken(self) -> int:
        """Return the number of steps that the optimizer has taken."""
        return self.run.prepared.trainer.step

    @property
    def noised(self) -> int:
        """Return the number of steps that drew noise. It includes a step that was interrupted, or whose gradient was not used yet."""
        open_step = self.phase in (LoopPhase.BUSY, LoopPhase.NOISED, LoopPhase.BROKEN) and self.sample is not None
        return self.taken + (open_step and self.run.charge.started)

    def draw(self) -> int:
        """Draw the sample of the next step, and return the number of the step. Raises StopIteration after the last step."""
        self._begin(LoopPhase.IDLE)
        with self._breaking():
            self.sample = next(self.samples, None)
            self._end(LoopPhase.IDLE if self.sample is None else LoopPhase.DRAWN)
        if self.sample is None:
            raise StopIteration
        return self.taken + 1

    def backward(self, number: int | None) -> None:
        """Set the .grad of the parameters to the noisy mean gradient of the drawn sample.

        Args:
            number: Number of the batch that the caller passed; None if the object was no batch.
        """
        self._require(LoopPhase.DRAWN)
        if number != self.taken + 1:
            raise InputError(
                f"step: expected batch {self.taken + 1}, the one drawn last, found {number or 'an object of another class'}"
            )
        require_plain_modes(self.guard.model)
        self._begin(LoopPhase.DRAWN)
        sample, trainer = self.sample, self.run.prepared.trainer
        assert sample is not None
        with self._breaking():
            self._require_no_hooks()
            self.guard.require_untouched()
            with self.guard.in_its_modes(), torch.enable_grad():
                trainer.backward(sample.records, sample.noise, sample.expected_batch)
            self.gradients = {name: value.detach().clone() for name, value in self._gradients() if value is not None}
            self._end(LoopPhase.NOISED)

    def apply(self) -> None:
        """Step the optimizer with the noisy gradient. Raises InputError if its step calls no hooks."""
        with self._breaking():
            self.guard.optimizer.step()
        if self.phase is not LoopPhase.IDLE:
            self.phase = LoopPhase.BROKEN
            raise InputError("optimizer: its step called no hook, as those of torch's optimizers do")

    def watch(self) -> Iterator[Callable[[], None]]:
        """Register hooks before and after every step of the optimizer, and yield functions that remove them."""
        yield self.guard.optimizer.register_step_pre_hook(self._before).remove
        yield self.guard.optimizer.register_step_post_hook(self._after).remove

    def end(self, unchecked: tuple[str, ...]) -> Outcome:
        """Write the model and the statement, and return the outcome. Raises InputError if the weights changed after the last step.

        Args:
            unchecked: As in `Outcome`.
        """
        self._require(LoopPhase.IDLE, LoopPhase.DRAWN)  # a sample that was drawn without a step has released nothing
        self.guard.require_last_weights()
        self._begin(LoopPhase.IDLE, LoopPhase.DRAWN)
        with self._breaking():
            self.guard.require_untouched()
            self.guard.require_same_records()
            with self.guard.in_its_modes():
                outcome = self.run.end(unchecked)
            self._end(LoopPhase.ENDED)
        return outcome

    def pause(self) -> None:
        """End the run with a saved state, from which it resumes without repeating a step. Do nothing if a step was interrupted."""
        if self.phase not in (LoopPhase.IDLE, LoopPhase.DRAWN) or this_process() != self.process:
            return
        self._begin(LoopPhase.IDLE, LoopPhase.DRAWN)
        with self._breaking():
            self.guard.require_untouched()
            self.guard.require_same_records()
            self.run.pause()
            self._end(LoopPhase.ENDED)

    def give_back(self) -> None:
        """Release the reservation if no step began. Only the process that began the run does so."""
        if this_process() == self.process:
            self.run.give_back()

    @property
    def planned_epsilon(self) -> float:
        """Return epsilon for all planned steps, including steps that count twice after a resumption."""
        return self.run.plan.account_with(self._repeated()).upper

    def epsilon(self) -> float:
        """Return epsilon of a run that was planned to end after the steps taken so far."""
        if self.noised == 0:
            return 0.0
        if self.known_epsilon[0] != self.noised:
            from dpcli.analysis.account import headline

            costs = self.run.plan.costs([(0, self.noised), *self._repeated()])
            self.known_epsilon = self.noised, headline(costs).upper
        return self.known_epsilon[1]

    def _repeated(self) -> list[tuple[int, int]]:
        return self.run.plan.repeated_portions(self.run.before.resumed)

    def _before(self, optimizer: torch.optim.Optimizer, given: Any, named: Any) -> None:
        """Check, before a step of the optimizer, that it uses the noisy gradient and nothing else."""
        if self.phase is not LoopPhase.NOISED:
            raise InputError(
                "optimizer: expected private.step(batch) to call it, found somebody else: a gradient without noise would be used"
            )
        require_plain_modes(self.guard.model)
        self._begin(LoopPhase.NOISED)
        with self._breaking():
            if any(value is not None for value in (*given, *named.values()) if value is not optimizer):
                raise InputError("optimizer: expected a step without a closure, which computes gradients without noise, found one")
            self._require_no_hooks()
            self.guard.require_unmoved()
            if not all(value is not None and torch.equal(value, self.gradients[name]) for name, value in self._gradients()):
                raise InputError(
                    "optimizer: expected the gradients as private.backward left them, found them changed: another backward adds what has "
                    "no noise; they were clipped before, so switch off the framework's own clipping"
                )

    def _after(self, optimizer: torch.optim.Optimizer, given: Any, named: Any) -> None:
        """Count a step of the optimizer, and record the state that it left."""
        with self._breaking():
            self._require_no_hooks()
            self.run.prepared.trainer.count()
            self.guard.note()
            self.sample, self.gradients = None, {}
            self._end(LoopPhase.IDLE)
            self.run.after(self.taken)

    def _require_no_hooks(self) -> None:
        require_no_hooks(self.guard.optimizer, (self._before, self._after))

    def _gradients(self) -> Iterator[tuple[str, Tensor | None]]:
        """Yield the present gradient of each trained parameter, by its name."""
        return ((name, value.grad) for name, value in trained_by(self.guard.model).items())

    def _begin(self, *phases: LoopPhase) -> None:
        """Enter the phase BUSY, so that a second thread or a nested call is refused."""
        with self.lock:
            self._require(*phases)
            self.phase = LoopPhase.BUSY

    def _end(self, phase: LoopPhase) -> None:
        """Leave the phase BUSY. Raises InputError if the run was interrupted in the meantime."""
        with self.lock:
            self._require(LoopPhase.BUSY)
            self.phase = phase

    def _require(self, *phases: LoopPhase) -> None:
        """Raise InputError unless the run is in one of the phases, and this process began it."""
        if this_process() != self.process:
            raise InputError(
                "dpcli.private: expected the process that began the run, found a copy of it, whose steps nothing would count"
            )
        if self.phase is LoopPhase.BROKEN:
            left = "what the file declares stays charged, and resume=True goes on from its last state"
            raise InputError(
                f"the run broke off after {self.taken} steps: expected no further call, found one; "
                f"{left if self.run.charge.started else 'nothing was charged for it: begin it again'}"
            )
        if self.phase not in phases:
            raise InputError(f"dpcli.private: expected {self.phase.value}, and no other call")

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Mark the run as interrupted if the block raises an error."""
        try:
            yield
        except BaseException as error:
            self.phase = LoopPhase.BROKEN
            self.run.give_back(error)
            raise
