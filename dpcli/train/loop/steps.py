"""The steps of a run whose training loop is the user's own. `dpcli.private` (loop/private.py) shows them to the user as `Private`.

`begin` prepares the run and reserves its cost in the ledger (run/charged_run.py). `LoopSteps` checks the order of the caller's calls, and
that each step of the optimizer uses the noisy gradient and nothing else. Its *guard* compares the state of the model and the optimizer with
their state after the last step (loop/guard.py). The functions at the end refuse what could change a gradient unseen: autocast, inference
mode, modes that intercept operators, and hooks.

A *stage* is a sequence of steps of one mechanism of the file (plan/stages.py). After a crash, the steps since the last saved state may be
taken again. These *repeated portions* are charged twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer

from dpcli.base.errors import DpcliError, InputError
from dpcli.random.streams import Streams
from dpcli.sessions.folder import this_process
from dpcli.train.engine.method import trained_parameters
from dpcli.train.engine.per_example import require_shapes
from dpcli.train.loop.guard import Guard, require_same_parameters
from dpcli.train.noise import Noise
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.charged_run import ChargedRun, charged_run
from dpcli.train.run.outcome import Outcome
from dpcli.train.run.ranks import Ranks
from dpcli.train.run.saved_state import Checkpoint
from dpcli.train.step.prepare import Prepared, assemble
from dpcli.train.tasks.learning import Learning
from dpcli.train.torch_internals import DeviceContext, dispatch_modes, function_modes, saved_tensors_hooks

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger


class LoopPhase(Enum):
    """The state of a run between two calls: `draw` leads from IDLE to DRAWN, `backward` to NOISED, and the optimizer's step to IDLE.

    During a call the phase is BUSY. The value of a phase is the reason for which a call in this phase is refused.
    """

    IDLE = "draw a batch first"
    DRAWN = "call private.step(batch) once for the batch that was drawn last"
    BUSY = "the previous call has not returned"
    NOISED = "the optimizer must take one step first"
    ENDED = "the run has ended"
    BROKEN = "the run broke off"


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample of one step, with the source of the step's noise.

    Attributes:
        noise: Noise of the stage to which the step belongs.
        expected_batch: Public number by which the noisy sum is divided.
    """

    records: Tensor
    noise: Noise
    expected_batch: float


class KnownEpsilon(NamedTuple):
    """An upper bound on epsilon for a number of steps."""

    steps: int
    epsilon: float


def begin(
    plan: TrainingPlan, problem: Learning, optimizer: torch.optim.Optimizer, ledger: Ledger | None, resume: bool, seed: int | None
) -> LoopSteps:
    """Prepare a run up to its first step, and reserve its charge in the ledger.

    A step on synthetic records must not change the guarded state. Otherwise the guard would refuse every private step after the charge.

    Raises:
        InputError: The run that the file declares is impossible, or contradicts an argument.
        Denied: The budget in the file or the ledger refuses the run.
        LedgerError: The ledger cannot be read or written, or has voided the run.
    """

    def callers_optimizer(model: nn.Module) -> torch.optim.Optimizer:
        require_same_parameters(model, optimizer)
        return optimizer

    def prepare_problem(plan: TrainingPlan, streams: Streams, ranks: Ranks, saved: Checkpoint | None, folder: str) -> Prepared:
        # Without a rate, the learning rate stays as the caller's program sets it.
        return assemble(plan, problem, callers_optimizer, rate=None, streams=streams, ranks=ranks, saved=saved, folder=folder)

    one_process = Ranks()
    run = charged_run(plan, ledger, resume, seed, one_process, plan.folder, prepare_problem)
    trainer = run.prepared.trainer
    try:
        guard = Guard(trainer.model, optimizer, trainer.records)
        trainer.gradients.checked_sums(run.prepared.synthetic_batch(), row=0)
        guard.require_unchanged()
    except BaseException as error:
        run.give_back(error)
        raise
    return LoopSteps(run, guard, _samples(run))


def _samples(run: ChargedRun) -> Iterator[Sample]:
    """Yield the sample of each remaining step. Each sample is drawn only when it is requested."""
    trainer = run.prepared.trainer
    for stage in run.plan.stages:
        batches, noise = run.prepared.batches(stage), run.prepared.noise(stage)
        while trainer.step < stage.stop:
            yield Sample(trainer.draw(batches), noise, stage.expected_batch)


@dataclass(slots=True)
class LoopSteps:
    """The steps of a run, which the caller takes one by one in the order that `phase` allows.

    Attributes:
        run: Run with its reservation in the ledger.
        guard: Guard that compares the state of the run before and after each step.
        samples: Samples of the remaining steps.
        phase: State of the run, which decides whether the next call is allowed.
        sample: Sample of the step in progress; None between steps.
        gradients: Noisy gradients that the optimizer has not used yet, by parameter name.
        known_epsilon: Epsilon that was computed last.
        depth: Number of calls of the optimizer's step that have not returned. If the step of a subclass calls that of its class, both are
            one step.
        process: Process that began the run. A fork may not continue it, because nothing would count the steps of the fork.
        lock: Lock that protects changes of the phase.
    """

    run: ChargedRun
    guard: Guard
    samples: Iterator[Sample]
    phase: LoopPhase = LoopPhase.IDLE
    sample: Sample | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)
    known_epsilon: KnownEpsilon = field(default_factory=lambda: KnownEpsilon(0, 0.0))
    depth: int = 0
    process: tuple[int, int] = field(default_factory=this_process)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def taken(self) -> int:
        """Return the number of steps that the optimizer has taken."""
        return self.run.prepared.trainer.step

    @property
    def noised(self) -> int:
        """Return the number of steps that drew noise. A step that is not complete counts, even if it was interrupted."""
        is_in_step = self.phase in (LoopPhase.BUSY, LoopPhase.NOISED, LoopPhase.BROKEN) and self.sample is not None
        return self.taken + 1 if is_in_step and self.run.charge.started else self.taken

    def draw(self) -> int:
        """Draw the sample of the next step, and return the number of the step, from 1.

        Raises:
            StopIteration: All steps were taken.
            InputError: The call is out of order.
        """
        self._enter_busy(LoopPhase.IDLE)
        with self._break_off_on_error():
            self.sample = next(self.samples, None)
            self._leave_busy(LoopPhase.IDLE if self.sample is None else LoopPhase.DRAWN)
        if self.sample is None:
            raise StopIteration
        return self.taken + 1

    def backward(self, number: int) -> None:
        """Set the .grad of the parameters to the noisy mean gradient of the drawn sample.

        Args:
            number: Number of the batch that the caller passed.

        Raises:
            InputError: The call is out of order, the batch is not the last one, or the state of the run changed.
        """
        self._require_phase(LoopPhase.DRAWN)
        if number != self.taken + 1:
            raise InputError(f"step: expected batch {self.taken + 1}, which was drawn last, found {number}")
        require_plain_modes(self.guard.model)
        self._enter_busy(LoopPhase.DRAWN)
        sample, trainer = self.sample, self.run.prepared.trainer
        assert sample is not None
        with self._break_off_on_error():
            self._require_no_hooks()
            self.guard.require_unchanged()
            with self.guard.initial_modes(), torch.enable_grad():
                trainer.backward(sample.records, sample.noise, sample.expected_batch)
            self.gradients = {name: value.detach().clone() for name, value in self._gradients() if value is not None}
            self._leave_busy(LoopPhase.NOISED)

    def apply(self) -> None:
        """Step the optimizer with the noisy gradient.

        Raises:
            InputError: The state of the run changed, or the optimizer does not call the hooks of `watch`. The run then breaks off.
        """
        with self._break_off_on_error():
            self.guard.optimizer.step()
        if self.phase is not LoopPhase.IDLE:
            self.phase = LoopPhase.BROKEN
            raise InputError("optimizer: its step called no hooks; the steps of torch's optimizers call them")

    def watch(self) -> Iterator[Callable[[], None]]:
        """Register hooks before and after every step of the optimizer, and yield functions that remove them."""
        yield self.guard.optimizer.register_step_pre_hook(self._check_step).remove
        yield self.guard.optimizer.register_step_post_hook(self._count_step).remove

    def end(self, unchecked: tuple[str, ...]) -> Outcome:
        """Write the model and the statement, and return the outcome.

        Args:
            unchecked: Paragraphs for the statement about the user's own loop, including what was not checked.

        Raises:
            InputError: The call is out of order, or the weights, other state or the records changed.
        """
        self._require_phase(LoopPhase.IDLE, LoopPhase.DRAWN)  # a sample without a step has released nothing
        self.guard.require_last_weights()  # outside the block below: the caller can restore the weights and call again
        self._enter_busy(LoopPhase.IDLE, LoopPhase.DRAWN)
        with self._break_off_on_error():
            self.guard.require_unchanged(rereads_frozen=True)  # large frozen tensors are read again only at the end
            self.guard.require_same_records()
            with self.guard.initial_modes():
                outcome = self.run.end(unchecked)
            self._leave_busy(LoopPhase.ENDED)
        return outcome

    def pause(self) -> None:
        """End the run with a saved state, from which it resumes without repeating a step. Before the first step, release the reservation.

        Do nothing in the middle of a step, after the end, or in a fork of the process that began the run.
        """
        if self.phase not in (LoopPhase.IDLE, LoopPhase.DRAWN) or this_process() != self.process:
            return
        self._enter_busy(LoopPhase.IDLE, LoopPhase.DRAWN)
        with self._break_off_on_error():
            self.guard.require_unchanged(rereads_frozen=True)
            self.guard.require_same_records()
            self.run.pause()
            self._leave_busy(LoopPhase.ENDED)

    def leave(self) -> None:
        """Pause the run that the caller's program dropped, or at whose end the program ended. Do nothing in a fork.

        A state that changed since the last step is not saved. Nobody would see an error, so the reason is logged.
        """
        if this_process() != self.process:
            return
        try:
            self.pause()
        except DpcliError as error:
            logging.getLogger("dpcli").warning("dpcli.private: the state of the run was not saved: %s", error)
        self.run.give_back()

    @property
    def planned_epsilon(self) -> float:
        """Return an upper bound on epsilon for all planned steps, including steps that count twice after a resumption."""
        return self.run.plan.account_with(self._repeated_portions()).upper

    def epsilon(self) -> float:
        """Return an upper bound on epsilon for a run that is planned to end after the steps that have drawn noise so far."""
        if self.noised == 0:
            return 0.0
        if self.known_epsilon.steps != self.noised:
            from dpcli.analysis.account import headline

            costs = self.run.plan.costs([(0, self.noised), *self._repeated_portions()])
            self.known_epsilon = KnownEpsilon(self.noised, headline(costs).upper)  # the best bound that the accountants certify
        return self.known_epsilon.epsilon

    def _repeated_portions(self) -> list[tuple[int, int]]:
        """Return the portions of steps that count twice, each as (number of steps before it, number of its last step)."""
        return self.run.plan.repeated_portions(self.run.initial.resumed)

    def _check_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check before a step of the optimizer that it uses the noisy gradient and nothing else. Raises InputError if it does not.

        Returns:
            Arguments of the step. A closure, which a framework may pass for its own counts, is checked when the optimizer calls it.
        """
        if self.depth and self.phase is LoopPhase.BUSY and self._has_noisy_gradients():
            self.depth += 1
            return args, kwargs
        if self.phase is not LoopPhase.NOISED:
            raise InputError(
                "optimizer: expected a step by private.step(batch), found one by other code: it would use a gradient without noise; in "
                "Lightning, set automatic_optimization = False"
            )
        require_plain_modes(self.guard.model)
        self._enter_busy(LoopPhase.NOISED)
        with self._break_off_on_error():
            self._require_noisy_gradients()
            self.depth = 1
            # Torch passes the arguments of the step, among them the optimizer itself.
            return tuple(map(self._checked, args)), {name: self._checked(value) for name, value in kwargs.items()}

    def _checked(self, argument: Any) -> Any:
        """Return an argument of the optimizer's step, in which a closure must leave the noisy gradients as they are."""
        if argument is None or argument is self.guard.optimizer:
            return argument
        if not callable(argument):
            raise InputError(f"optimizer: expected a step without arguments, found {type(argument).__name__}")

        def closure() -> None:  # the optimizer gets no loss, which would be private
            with self._break_off_on_error():
                argument()
                self._require_noisy_gradients()

        return closure

    def _require_noisy_gradients(self) -> None:
        """Raise InputError unless each .grad is the noisy gradient of the step, and the model and the optimizer are as the last step left
        them."""
        self._require_no_hooks()
        self.guard.require_last_state()  # `backward` has compared the rest of the state, and the next one compares it again
        if not self._has_noisy_gradients():
            raise InputError(
                "optimizer: expected the gradients as private.backward left them, found them changed: another backward() would add "
                "a gradient without noise; if the framework clips gradients, switch that off, because they are clipped already"
            )

    def _has_noisy_gradients(self) -> bool:
        """Return whether each .grad is the noisy gradient of the step."""
        return all(gradient is not None and torch.equal(gradient, self.gradients[name]) for name, gradient in self._gradients())

    def _count_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Count a step of the optimizer, and store marks of the state that it left."""
        self.depth -= 1
        if self.depth:
            return
        with self._break_off_on_error():
            self._require_no_hooks()
            self.run.prepared.trainer.count()
            self.guard.store_state()
            self.sample, self.gradients = None, {}
            self._leave_busy(LoopPhase.IDLE)
            self.run.after(self.taken)  # at a milestone of the plan, saves a state and measures the metrics

    def _require_no_hooks(self) -> None:
        """Raise InputError if the optimizer has hooks other than the two of this run."""
        require_no_hooks(self.guard.optimizer, (self._check_step, self._count_step))

    def _gradients(self) -> Iterator[tuple[str, Tensor | None]]:
        """Yield the present gradient of each trained parameter, by its name."""
        return ((name, value.grad) for name, value in trained_parameters(self.guard.model).items())

    def _enter_busy(self, *phases: LoopPhase) -> None:
        """Enter the phase BUSY from one of the given phases. A second thread or a nested call is then refused."""
        with self.lock:
            self._require_phase(*phases)
            self.phase = LoopPhase.BUSY

    def _leave_busy(self, phase: LoopPhase) -> None:
        """Move from the phase BUSY to `phase`. Raises InputError if the run broke off in the meantime."""
        with self.lock:
            self._require_phase(LoopPhase.BUSY)
            self.phase = phase

    def _require_phase(self, *phases: LoopPhase) -> None:
        """Raise InputError unless the run is in one of the phases, and this process began it."""
        if this_process() != self.process:
            raise InputError(
                "dpcli.private: expected the process that began the run, found a fork of it: nothing would count its steps"
            )
        if self.phase is LoopPhase.BROKEN:
            advice = "nothing was charged for it: begin it again"
            if self.run.charge.started:
                advice = "all declared steps stay charged, and resume=True continues from the last saved state"
            raise InputError(f"the run broke off after {self.taken} steps: expected no further call, found one; {advice}")
        if self.phase not in phases:
            raise InputError(f"dpcli.private: call out of order: {self.phase.value}")

    @contextmanager
    def _break_off_on_error(self) -> Iterator[None]:
        """Break the run off if the block raises an error. If the run was not charged, its reservation is released."""
        try:
            yield
        except BaseException as error:
            self.phase = LoopPhase.BROKEN
            self.run.give_back(error)
            raise


def require_plain_modes(model: nn.Module) -> None:
    """Raise InputError under torch.inference_mode or torch.autocast, and under modes or hooks that intercept operators."""
    if torch.is_inference_mode_enabled():
        raise InputError(
            "torch.inference_mode: expected none around dpcli.private and its steps, which need gradients, found one; leave it first "
            "(torch.no_grad is allowed)"
        )
    for device in sorted({parameter.device.type for parameter in model.parameters()}):
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            raise InputError(
                f"torch.autocast: expected none around dpcli.private and its steps, found one for {device}: norms and sums need full "
                "precision; put it inside the loss, around the call of the model"
            )
    functions = function_modes()  # type: ignore[no-untyped-call]
    modes = [*dispatch_modes(), *(mode for mode in functions if type(mode) is not DeviceContext)]
    if modes:
        raise InputError(
            f"{type(modes[0]).__name__}: expected no mode that intercepts operators around dpcli.private and its steps, found one: it may "
            "combine records of a model that was checked without it; leave it first (torch.device as a default is allowed)"
        )
    if saved_tensors_hooks() is not None:
        raise InputError(
            "torch.autograd.graph.saved_tensors_hooks: expected none around dpcli.private and its steps, found some: through them, one "
            "record may change the gradient of another; to save memory, set physical_batch_size in the file"
        )


def require_made_with_gradients(model: nn.Module) -> None:
    """Raise InputError if a parameter was created under torch.inference_mode, because it can have no gradient, or if it is lazy."""
    require_shapes(model)
    for name, parameter in model.named_parameters():
        if parameter.is_inference():
            raise InputError(
                f"model: expected parameters made outside of torch.inference_mode, found {name}, which was made inside"
            )


def require_no_hooks(optimizer: torch.optim.Optimizer, allowed: tuple[Callable[..., Any], ...] = ()) -> None:
    """Raise InputError if a hook runs on the optimizer's steps and is not in `allowed`. Hooks on all optimizers count as well."""
    for place, hook in hooks_on(optimizer):
        if hook not in allowed:
            name = getattr(hook, "__qualname__", type(hook).__name__)
            raise InputError(
                f"optimizer: expected no hook on its steps but that of dpcli.private, found {name}, a {place}: it runs between the noise "
                "and the checks; remove the hook, and call the function from the loop"
            )


def hooks_on(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each hook on the optimizer's steps as a pair: a description of the place where it is registered, and the hook."""
    registered = "hook of all optimizers (torch.optim.optimizer.register_optimizer_step_{}_hook)"
    hooks_by_place: dict[str, dict[int, Callable[..., Any]]] = {
        registered.format("pre"): torch_optimizer._global_optimizer_pre_hooks,
        "hook before them (register_step_pre_hook)": optimizer._optimizer_step_pre_hooks,
        "hook after them (register_step_post_hook)": optimizer._optimizer_step_post_hooks,
        registered.format("post"): torch_optimizer._global_optimizer_post_hooks,
    }
    for place, hooks in hooks_by_place.items():
        yield from ((place, hook) for hook in hooks.values())
