"""Private steps for a training loop that the user wrote."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.base.rounding import up
from dpcli.ledger.budget import texts_of
from dpcli.sessions.folder import exclusive
from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.plan.settings_custom import Loop
from dpcli.train.run.outcome import STATEMENT, epsilon_at_delta
from dpcli.train.run.processes import several_processes

if TYPE_CHECKING:
    import torch

    from dpcli.train.loop.steps import LoopSteps

# Sentences of the statement of a loop of the caller's own.
UNCHECKED = (
    "The loop around the steps is the user's own code. Before each step the weights, the optimizer's state, buffers, and the tensors, "
    "arrays, numbers, texts and containers of these that modules and their classes hold were compared by value with what the run began "
    "with or the step before had left; modules, hooks, methods and other objects by identity; records by identity and torch's count of "
    "versions, and by value at the end. A change that was seen would have stopped the run, and so would a hook on the optimizer's steps.",
    "Not checked: that what the loss and functions of the user's own read, functions of libraries, what objects of other kinds hold, and "
    "sparse tensors past torch's count of versions stayed as they were; that records were not changed and changed back past that count "
    "(.data, numpy); that learning rates, other options of the optimizer and its own code use nothing but the noisy gradients and public "
    "data; that the program shows nothing else of the records, such as a training loss.",
)

# How often a loop may ask for batches after the last: many epochs are right, a loop without an end is refused.
MOST_ENDS = 1_000


class PrivateBatch(Displayed):
    """A sample, drawn as the file declares.

    Attributes:
        number: Number of its step, from 1. Neither its records nor their number are shown.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number  # no dataclass: frameworks rebuild dataclasses on their way to a device

    def _line(self) -> str:
        return f"{self.number}"


@dataclass(frozen=True, slots=True)
class PrivateResult(Displayed):
    """The guarantee of a finished run, and where it is.

    Attributes:
        folder: Folder of the model, its description and its statement, as `dpcli train` leaves it.
        steps: How many were taken.
        epsilon: An upper bound for all planned steps, at `delta`.
        private: False if the noise came from a seed.
        statement: Markdown, the file's content.
    """

    folder: str
    steps: int
    epsilon: float
    delta: float
    private: bool
    statement: str

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the guarantee in a line, rounded up."""
        private = "" if self.private else "NOT PRIVATE (seeded noise, or laid open to an audit): "
        return f"{private}{epsilon_at_delta(self.epsilon, self.delta)} after {self.steps:,} steps; see {self.folder}"


class Private(Displayed):
    """A training run whose steps the caller takes; `dpcli.private` makes it.

    Iterate over it for batches, and hand each to `step`, once, before the next is drawn. Each step clips every record's gradient, adds the
    noise, and calls the optimizer once. After the planned steps the iteration ends. `finish` leaves the model and the statement.

    What would make the guarantee false is refused with an InputError: a batch that was not drawn last, or a second time; a step of the
    optimizer by anybody else, and hooks on its steps; weights, modules, records or the optimizer's state that are not as the last step
    left them; torch.autocast, torch.inference_mode, modes of operators or hooks on saved tensors around a step. Learning rates may
    change. A run in which something changed, or whose step raised, takes no more steps.

    As a context manager it saves, if the block is left early, a state that `resume=True` goes on from without repeating a step.
    """

    def __init__(self, steps: LoopSteps, resources: ExitStack) -> None:
        self._steps = steps
        self._release = weakref.finalize(self, resources.close)
        self._ends = 0

    def _line(self) -> str:
        return f"step {self.taken:,} of {self.planned:,}"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> PrivateBatch:
        """Return the next sample, until the planned steps are taken. Raises InputError for a loop that never ends."""
        try:
            return PrivateBatch(self._steps.draw())
        except StopIteration:
            self._ends += 1
            if self._ends < MOST_ENDS:
                raise
        raise InputError(
            f"dpcli.private: all {self.planned:,} planned steps are taken, and the loop around them has begun {MOST_ENDS:,} times since; "
            "let it end with the iteration (max_epochs = 1 in Lightning), then call finish()"
        )

    def __str__(self) -> str:
        """Return how far it is, and what it has cost so far, rounded up."""
        return f"step {self.taken:,} of {self.planned:,}, epsilon so far {up(self.epsilon, 3)}"

    def __len__(self) -> int:
        return self.planned

    @property
    def model(self) -> torch.nn.Module:
        """Return the model that is trained."""
        return self._steps.guard.model

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer that is stepped, by `step` alone or once after each `backward`."""
        return self._steps.guard.optimizer

    @property
    def planned(self) -> int:
        """Return the steps of the whole run, as the file declares."""
        return self._steps.run.plan.steps

    @property
    def taken(self) -> int:
        """Return the steps that drew noise so far, those before a resumption included."""
        return self._steps.noised

    @property
    def epsilon(self) -> float:
        """Return an upper bound, unrounded, on the epsilon of a run planned to end here; 0.0 before the first noise.

        It is for progress. A run that stops because of what its caller saw is charged for all planned steps: `planned_epsilon`.
        """
        return self._steps.epsilon()

    @property
    def planned_epsilon(self) -> float:
        """Return an upper bound, unrounded, for all planned steps: what the statement and the ledger say, wherever the loop stops."""
        return self._steps.planned_epsilon

    @property
    def delta(self) -> float:
        """Return the delta at which both are stated."""
        return float(self._steps.run.plan.account.delta)

    def step(self, batch: PrivateBatch) -> None:
        """Take the step of the batch that was drawn last: clip, add noise, call the optimizer.

        Raises:
            InputError: It is another batch, or was stepped before; something changed since the last step; the model or the loss does not
                keep records apart, and then no noise was added.
        """
        self.backward(batch)
        self._steps.apply()

    def backward(self, batch: PrivateBatch) -> None:
        """The first half of `step`, if somebody else, such as a framework's loop, calls the optimizer: exactly once, and next.

        Leaves the noisy mean gradient as `.grad` of each trained parameter. The optimizer refuses to step where these were changed since.

        Raises as `step` does.
        """
        self._steps.backward(batch.number if isinstance(batch, PrivateBatch) else None)

    def finish(self) -> PrivateResult:
        """Leave the model, its description and the statement in the run's folder, and commit the run in the ledger.

        A run that is finished before its planned steps is stated, and stays charged, for all of them.

        Raises:
            InputError: A gradient with noise was not used, something changed since the last step, or the run broke off.
        """
        outcome = self._steps.end(UNCHECKED)
        self._release()
        with open(os.path.join(outcome.folder, STATEMENT), encoding="utf-8") as file:
            statement = file.read()
        return PrivateResult(outcome.folder, outcome.taken, outcome.epsilon, self.delta, outcome.private, statement)

    def close(self) -> None:
        """Leave the run for later: `resume=True` goes on from here. Nothing is repeated unless a step was broken off.

        Before the first step there is nothing to go on from: its reservation is given back.
        """
        if self._release.alive:
            self._steps.pause()
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Any, Any], torch.Tensor],
    data: Any,
    *,
    pipeline: str | os.PathLike[str],
    units: Any = None,
    ledger: str | None = None,
    dataset: str | None = None,
    window: str | Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    insecure_seed: int | None = None,
) -> Private:
    """Make the steps of your own training loop private, as a pipeline file declares them.

    The sampler, the clipping, the noise, the charge to the ledger and the statement are those of `dpcli train`. The file has a [train]
    table with `task = "loop"` and a clipping norm; sampling, noise and number of steps are in its mechanism.

    Args:
        model: trained in place. It must keep records apart: BatchNorm in training mode is refused, GroupNorm is not.
        optimizer: over exactly the parameters that require a gradient; any that steps without a closure. Its learning rate is yours.
        loss: (model, batch) -> shape (B,), one loss per record, each of which depends on its own record alone. A batch is `data` for some
            rows. Means over the batch are refused: reduction="none".
        data: the private records: tensors or arrays whose first dimension counts them, alone or in a tuple, list or dict, or a torch
            Dataset, which is read once into memory. No DataLoader: batches are drawn here.
        pipeline: the path of the file.
        units: (n,) whose each record is; needed where the file says `units` in [train].
        ledger: a ledger's file or URL: the whole run is reserved at once, and charged before its first sum. dataset: its name there, where
            the ledger holds several.
        window: the blocks of that dataset that `data` are from, if it is cut into blocks ("2026-01-01..2026-01-28", one name, or
            several of these), each of which is charged in full; as the file says (privacy.window) where empty. That the records lie in
            them is your word: nobody checks it, and the statement says so.
        out: folder of the model and the statement; by default as the file says, or runs/NAME.
        resume: go on with the run in that folder which did not end. The optimizer's state is restored, and what may have been done twice
            is charged twice.
        insecure_seed: at least 0, for debugging: noise that can be repeated, so that the statement says NOT PRIVATE. A ledger refuses it.

    Returns:
        `Private`, which is iterated over.

    Raises:
        InputError: the file cannot be read or honoured, or something given is not as described. Denied: the file's own budget or the
            ledger says no. LedgerError: the ledger cannot be read. CannotCertify: nobody can say what the file costs. Unavailable: torch
            is not installed. In each case nothing was drawn, and nothing stays charged.

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.

    >>> import dpcli
    >>> private = dpcli.private(model, optimizer, loss, (inputs, labels), pipeline="run.toml")      # doctest: +SKIP
    >>> for batch in private:                                                                       # doctest: +SKIP
    ...     private.step(batch)
    >>> private.finish().epsilon                                                                    # doctest: +SKIP
    """
    require("torch", "safetensors")
    if ledger is not None and insecure_seed is not None:
        raise InputError("insecure_seed: expected no ledger with it, found one: noise that can be repeated protects nobody")
    if several_processes():
        raise InputError("dpcli.private: expected one process, found several, as torchrun starts them: dpcli train can use them")
    blocks = texts_of("window", window)
    plan = _plan(os.fspath(pipeline), None if out is None else os.fspath(out))
    _require_optimizer(optimizer)
    from dpcli.ledger.stores.places import open_ledger
    from dpcli.sessions.window import over_window
    from dpcli.train.loop.steps import begin, require_made_with_gradients, require_no_hooks, require_plain_modes
    from dpcli.train.tasks.custom import given

    problem = given(model, loss, data, units, plan.path)
    require_no_hooks(optimizer)
    require_plain_modes(model)
    require_made_with_gradients(model)
    with ExitStack() as resources:
        resources.enter_context(exclusive(plan.folder))
        books = resources.enter_context(open_ledger(ledger, dataset)) if ledger is not None else None
        plan = over_window(plan, books, blocks)
        steps = begin(plan, problem, optimizer, books, resume, insecure_seed)
        resources.callback(steps.give_back)
        for remove_hook in steps.watch():
            resources.callback(remove_hook)
        return Private(steps, resources.pop_all())
    raise AssertionError  # the block returns


def _plan(path: str, out: str | None) -> TrainingPlan:
    """Return the plan. Raises InputError if the file is of another task, or has keys of the optimizer."""
    plan = plan_of(path)
    if not isinstance(plan.train, Loop):
        raise InputError(
            f'{path}: train.task: expected "loop" with dpcli.private, found "{plan.train.task}", which dpcli train runs'
        )
    for name in plan.train.optimizer_keys():
        raise InputError(f"{path}: train.{name}: expected no such key with dpcli.private, found one: the optimizer is yours")
    return plan if out is None else replace(plan, train=replace(plan.train, output=out))


def _require_optimizer(optimizer: Any) -> None:
    import torch

    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer: expected a torch optimizer, found {type(optimizer).__name__}")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(
            f"optimizer: expected one that steps without a closure, found {type(optimizer).__name__}, which computes gradients again"
        )
