"""The steps of a run, one at a time: what may come after what, and who may call the optimizer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.random.streams import Streams
from dpcli.sessions.folder import this_process
from dpcli.train.loop.around import require_no_hooks, require_plain_modes
from dpcli.train.loop.guard import Guard, require_same_parameters, trained_by
from dpcli.train.noise.step import Noise
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.charged_run import ChargedRun, charged_run
from dpcli.train.run.checkpoint import Checkpoint
from dpcli.train.run.outcome import Outcome
from dpcli.train.run.ranks import Alone, Ranks
from dpcli.train.step.prepare import Prepared, assembled
from dpcli.train.tasks.learning import Learning

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger


class LoopPhase(Enum):
    """Where a run stands between two calls."""

    IDLE = "a batch to draw"
    DRAWN = "private.step(batch), once"
    BUSY = "the call before to end"
    NOISED = "one step of the optimizer"
    ENDED = "a run that has not ended"
    BROKEN = "a run that did not break off"


@dataclass(frozen=True, slots=True)
class Callers:
    """The caller's own optimizer, whose learning rates are the caller's too."""

    given: torch.optim.Optimizer
    rate: None = None

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        require_same_parameters(model, self.given)
        return self.given


@dataclass(frozen=True, slots=True)
class Sample:
    """What one step is taken with."""

    records: Tensor
    noise: Noise
    expected_batch: float


def begin(
    plan: TrainingPlan, problem: Learning, optimizer: torch.optim.Optimizer, ledger: Ledger | None, resume: bool, seed: int | None
) -> LoopSteps:
    """A run that is charged, before its first noise. Raises as `dpcli.train.run.run.train` does."""

    def prepared(plan: TrainingPlan, streams: Streams, ranks: Ranks, before: Checkpoint | None, folder: str) -> Prepared:
        return assembled(plan, problem, Callers(optimizer), streams, ranks, before, folder)

    run = charged_run(plan, ledger, resume, seed, Alone(), plan.folder, prepared)
    trainer = run.prepared.trainer
    try:
        guard = Guard(trainer.model, optimizer, trainer.records)
        trainer.gradients.checked(run.prepared.few(), 0)
        guard.require_untouched()  # by what a step does itself
    except BaseException as problem:
        run.charge.give_back(problem)
        raise
    return LoopSteps(run, guard, samples(run))


def samples(run: ChargedRun) -> Iterator[Sample]:
    """Of each step that is left, drawn when it is asked for."""
    trainer = run.prepared.trainer
    for stage in run.plan.stages:
        batches, noise = run.prepared.batches(stage), run.prepared.noise(stage)
        while trainer.step < stage.stop:
            yield Sample(trainer.draw(batches), noise, stage.expected_batch)


@dataclass(slots=True)
class LoopSteps:
    """run: with its trainer. left: a sample for each step to come. gradients: of the trained parameters, as the noise left them.

    process: that began, which alone may go on: a copy of it would take the same steps a second time.
    """

    run: ChargedRun
    guard: Guard
    left: Iterator[Sample]
    phase: LoopPhase = LoopPhase.IDLE
    sample: Sample | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)
    spent: tuple[int, float] = (0, 0.0)
    process: tuple[int, int] = field(default_factory=this_process)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def taken(self) -> int:
        return self.run.prepared.trainer.step

    @property
    def noised(self) -> int:
        """Steps that drew noise: one more where the optimizer has not used it yet, or the step broke off."""
        open_step = self.phase in (LoopPhase.BUSY, LoopPhase.NOISED, LoopPhase.BROKEN) and self.sample is not None
        return self.taken + (open_step and self.run.charge.started)

    def draw(self) -> int:
        """The number of the next step, whose sample is drawn. Raises StopIteration after the last."""
        self._begin(LoopPhase.IDLE)
        with self._breaking():
            self.sample = next(self.left, None)
            self._end(LoopPhase.IDLE if self.sample is None else LoopPhase.DRAWN)
        if self.sample is None:
            raise StopIteration
        return self.taken + 1

    def backward(self, number: int | None) -> None:
        """Clipped sum, noise, and the mean gradient into the parameters."""
        self._require(LoopPhase.DRAWN)
        if number != self.taken + 1:
            raise InputError(f"step: expected batch {self.taken + 1}, the one drawn last, found {number or 'something else'}")
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
        """The optimizer's step on it."""
        with self._breaking():
            self.guard.optimizer.step()
        if self.phase is not LoopPhase.IDLE:
            self.phase = LoopPhase.BROKEN
            raise InputError("optimizer: expected its step to call the hooks of torch's optimizers, found none called")

    def watch(self) -> Iterator[Callable[[], None]]:
        """Stand before and after every step of the optimizer. Yields what takes each hook off again."""
        yield self.guard.optimizer.register_step_pre_hook(self._before).remove
        yield self.guard.optimizer.register_step_post_hook(self._after).remove

    def end(self, unchecked: tuple[str, ...]) -> Outcome:
        """Leave what a run leaves. Raises InputError where the weights are not those of the last step."""
        self._require(LoopPhase.IDLE, LoopPhase.DRAWN)  # whose sample nothing was released of
        self.guard.require_last_weights()
        self._begin(LoopPhase.IDLE, LoopPhase.DRAWN)
        with self._breaking():
            self.guard.require_untouched()
            self.guard.require_same_records()
            with self.guard.in_its_modes():
                found = self.run.end(unchecked)
            self._end(LoopPhase.ENDED)
        return found

    def pause(self) -> None:
        """A state that nothing is repeated from, where no step was broken off."""
        if self.phase not in (LoopPhase.IDLE, LoopPhase.DRAWN) or this_process() != self.process:
            return
        self._begin(LoopPhase.IDLE, LoopPhase.DRAWN)
        with self._breaking():
            self.guard.require_untouched()
            self.guard.require_same_records()
            self.run.pause()
            self._end(LoopPhase.ENDED)

    def leave(self) -> None:
        """Without a first step: what was reserved is given back, by the process that reserved it."""
        if this_process() == self.process:
            self.run.charge.give_back()

    @property
    def planned_epsilon(self) -> float:
        """Of all planned steps, and those that are counted twice."""
        return self.run.plan.account_with(self._repeated()).upper

    def epsilon(self) -> float:
        """As if the steps so far had been all that was planned."""
        if self.noised == 0:
            return 0.0
        if self.spent[0] != self.noised:
            from dpcli.analysis.account import headline

            costs = self.run.plan.costs([(0, self.noised), *self._repeated()])
            self.spent = self.noised, headline(costs).upper
        return self.spent[1]

    def _repeated(self) -> list[tuple[int, int]]:
        return [(step, self.run.plan.milestone(step)) for step in self.run.before.resumed]

    def _before(self, optimizer: torch.optim.Optimizer, given: Any, named: Any) -> None:
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
        return ((name, value.grad) for name, value in trained_by(self.guard.model).items())

    def _begin(self, *phases: LoopPhase) -> None:
        """Busy from here on: of two threads, or of a call within a call, the second is refused."""
        with self.lock:
            self._require(*phases)
            self.phase = LoopPhase.BUSY

    def _end(self, phase: LoopPhase) -> None:
        """Raises InputError where the run broke off meanwhile."""
        with self.lock:
            self._require(LoopPhase.BUSY)
            self.phase = phase

    def _require(self, *phases: LoopPhase) -> None:
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
            raise InputError(f"dpcli.private: expected {self.phase.value}, found another call")

    def _breaking(self) -> Broken:
        return Broken(self)


@dataclass(frozen=True, slots=True)
class Broken:
    """Whatever is raised inside ends the run."""

    steps: LoopSteps

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.steps.phase = LoopPhase.BROKEN
            self.steps.run.charge.give_back(error)
