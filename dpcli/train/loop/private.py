"""`dpcli.private`, which makes the steps of the user's own training loop private.

The caller writes the loop. For each step, dpcli draws the batch, clips each record's gradient, adds noise and calls the optimizer once; or
the caller calls the optimizer after `backward`. The caller holds a `PrivateBatch`, which names a step and shows nothing of the records. The
guarantee requires that nothing else changes the model, so a step refuses a state that changed since the last one (UNCHECKED says what is
compared). If the caller names a *ledger*, which holds what each release has cost, all planned steps are charged there before the first
noise. A loop that stops early therefore costs as much.
"""

from __future__ import annotations

import inspect
import logging
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.base.rounding import up
from dpcli.ledger.budget import texts_of
from dpcli.sessions.folder import exclusive
from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.plan.settings_custom import Loop
from dpcli.train.run.outcome import MODEL, STATEMENT, epsilon_at_delta
from dpcli.train.run.processes import several_processes

if TYPE_CHECKING:
    import torch

    from dpcli.train.loop.steps import LoopSteps

# Paragraphs of the statement on the user's own loop: checks that the steps made, and assumptions that they did not check.
UNCHECKED = (
    "The loop around the steps is the user's own code. Before each step, the state of the run was compared with its state at the start or "
    "after the previous step. Weights, buffers and the optimizer's state were compared by value. So were the tensors, arrays, numbers, "
    "texts and containers of these that modules and their classes hold. Modules, hooks, methods and other objects were compared by "
    "identity. Records, and frozen tensors of 65,536 numbers or more, were compared by identity and by torch's count of versions, and by "
    "value at the end. A detected change would have stopped the run. A hook on the optimizer's steps would also have stopped it.",
    "Five assumptions were not checked: (1) variables that the loss and the user's own functions read, functions of libraries, and the "
    "content of objects of other kinds did not change; (2) sparse tensors were not changed past torch's count of versions; (3) records "
    "and such frozen tensors were not changed and changed back past that count (.data, numpy); (4) learning rates, other options of the "
    "optimizer and its own code use nothing but the noisy gradients and public data; (5) the program shows nothing else about the records, "
    "such as a training loss.",
)

# Number of times that a loop, for example over many epochs, may ask for a batch after the last one. Then it is refused as endless. The
# number is arbitrary.
MOST_ENDS = 1_000


class PrivateBatch(Displayed):
    """A handle of a sample that was drawn as the file declares. It reveals neither the records nor their number.

    Attributes:
        number: Number of the step that uses the sample, from 1.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number  # not a dataclass, because frameworks rebuild dataclasses when they move them to a device

    def __getitem__(self, index: object) -> NoReturn:
        """Refuse to show records, also in `for inputs, labels in private`. There is no `__iter__`, by which frameworks take batch sizes."""
        raise InputError(
            "dpcli.private: a batch shows no records; pass it to private.step(batch), which takes them from the data and calls the loss"
        )

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        return f"{self.number}"


@dataclass(frozen=True, slots=True)
class PrivateResult(Displayed):
    """The guarantee of a finished run, and the folder of its files.

    Attributes:
        folder: Folder with the model, its description and its statement, as `dpcli train` writes them.
        steps: Number of steps that were taken.
        epsilon: Upper bound on epsilon for all planned steps, at `delta`.
        delta: Delta at which `epsilon` holds.
        private: False if the noise came from a seed, or if an audit could see the noisy sums.
        statement: Content of the statement, in Markdown.
    """

    folder: str
    steps: int
    epsilon: float
    delta: float
    private: bool
    statement: str

    __repr__ = Displayed.__repr__

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        return str(self)

    def __str__(self) -> str:
        """Return the guarantee in one line, with epsilon rounded up."""
        private = "" if self.private else "NOT PRIVATE (the noise is seeded, or visible to an audit): "
        return f"{private}{epsilon_at_delta(self.epsilon, self.delta)} after {self.steps:,} steps; see {self.folder}"


class Private(Displayed):
    """A training run whose steps the caller takes; `dpcli.private` returns it.

    Iterate over the run to draw batches, and pass each batch to `step` once, before the next one is drawn. A step clips every record's
    gradient, adds the noise, and calls the optimizer once. The iteration ends after the planned steps. `finish` writes the model and the
    statement.

    The following would make the guarantee false, and raises an InputError. A batch is used twice, or is not the batch that was drawn last.
    Other code steps the optimizer, or has hooks on its steps. Weights, modules, records or the optimizer's state are not as the last step
    left them. A step runs under torch.autocast, torch.inference_mode, a mode that intercepts operators, or hooks on saved tensors. After
    such a change, or after an error in a step, the run takes no more steps. Learning rates may change.

    A run whose program ends before `finish`, also by an error of its own, saves a state, from which `resume=True` continues without
    repeating a step. No new state is saved if the program was killed, if a step broke off, or if the state changed since the last step. The
    run is also a context manager, which saves the state where its block is left.
    """

    def __init__(self, steps: LoopSteps, resources: ExitStack) -> None:
        self._steps = steps
        self._release = weakref.finalize(self, resources.close)  # closes them even if the caller drops the run without closing it
        self._ends = 0  # number of requests for a batch after the last one

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        return f"step {self.taken:,} of {self.planned:,}"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> PrivateBatch:
        """Return the next sample, until the planned steps are taken.

        Raises:
            StopIteration: All planned steps are taken.
            InputError: The call is out of order, or the loop has asked MOST_ENDS times for a batch after the last one.
        """
        try:
            return PrivateBatch(self._steps.draw())
        except StopIteration:
            self._ends += 1
            if self._ends == 2:
                logging.getLogger("dpcli").warning(
                    "dpcli.private: all %s planned steps were taken in the first pass of the loop, so a further pass has no steps; "
                    "for epochs, take itertools.islice(private, steps_per_epoch) in each",
                    f"{self.planned:,}",
                )
            if self._ends < MOST_ENDS:
                raise
        raise InputError(
            f"dpcli.private: all {self.planned:,} planned steps are taken, but the loop has asked for batches {MOST_ENDS:,} times since; "
            "end the loop with the iteration (max_epochs = 1 in Lightning), then call finish()"
        )

    def __str__(self) -> str:
        """Return the number of steps taken, and epsilon so far, rounded up."""
        return f"step {self.taken:,} of {self.planned:,}, epsilon so far {up(self.epsilon, 3)}"

    def __len__(self) -> int:
        return self.planned

    @property
    def model(self) -> torch.nn.Module:
        """Return the trained model."""
        return self._steps.guard.model

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer. It takes a step in each `step`, or when the caller steps it once after each `backward`."""
        return self._steps.guard.optimizer

    @property
    def planned(self) -> int:
        """Return the number of steps of the whole run, which the file declares."""
        return self._steps.run.plan.steps

    @property
    def taken(self) -> int:
        """Return the number of steps that have drawn noise, including the steps before a resumption."""
        return self._steps.noised

    @property
    def epsilon(self) -> float:
        """Return an unrounded upper bound on epsilon for the steps taken so far; 0.0 before the first noise.

        The bound holds if the run was planned to end here, so it only shows progress. A run that the caller stops early costs
        `planned_epsilon`.
        """
        return self._steps.epsilon()

    @property
    def planned_epsilon(self) -> float:
        """Return an unrounded upper bound on epsilon for all planned steps. The statement gives it even if the loop stops early."""
        return self._steps.planned_epsilon

    @property
    def delta(self) -> float:
        """Return the delta of `epsilon` and `planned_epsilon`."""
        return float(self._steps.run.plan.account.delta)

    def step(self, batch: PrivateBatch) -> None:
        """Take the step for the batch that was drawn last: clip the gradients, add noise, and call the optimizer.

        Raises:
            InputError: The batch is not the last one, or was used before. The state of the run changed since the last step. The model or
                the loss combines records; no noise is added then.
        """
        self.backward(batch)
        self._steps.apply()

    def backward(self, batch: PrivateBatch) -> None:
        """Set the `.grad` of each trained parameter to the noisy mean gradient of the batch that was drawn last.

        This is the first half of `step`, for a framework that calls the optimizer itself. The next call must be exactly one step of the
        optimizer. That step is refused if a `.grad` was changed.

        Raises:
            InputError: `step` raises it for the same reasons.
        """
        if not isinstance(batch, PrivateBatch):
            raise InputError(f"step: expected the batch that the run drew last, found {type(batch).__name__}")
        self._steps.backward(batch.number)

    def finish(self) -> PrivateResult:
        """Write the model, its description and the statement to the run's folder, and commit the run in the ledger.

        A run that ends early is charged for all planned steps, and its statement covers them.

        Raises:
            InputError: The optimizer has not used a noisy gradient, the state of the run changed since the last step, or the run broke off.
        """
        outcome = self._steps.end(UNCHECKED)
        self._release()
        with open(os.path.join(outcome.folder, STATEMENT), encoding="utf-8") as file:
            statement = file.read()
        return PrivateResult(outcome.folder, outcome.taken, outcome.epsilon, self.delta, outcome.private, statement)

    def close(self) -> None:
        """Save a state from which `resume=True` continues the run. Before the first step, release the reservation instead.

        No state is saved if a step was interrupted. Do nothing after `finish`, or if the run is closed already.
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

    The sampler, the clipping, the noise, the charge to the ledger and the statement are those of `dpcli train`. The file needs a [train]
    table with `task = "loop"` and a clipping norm. Its mechanism declares the sampling, the noise and the number of steps.

    Args:
        model: the model, which is trained in place. It must not combine records: BatchNorm in training mode is refused, GroupNorm is not.
        optimizer: an optimizer of exactly the parameters that require a gradient. Its steps must not need a closure. You choose its
            learning rate.
        loss: a function (model, batch) -> shape (B,) that returns one loss per record. Each loss depends on its own record alone. A batch
            has the structure of `data`, with some of its rows. A mean over the batch is refused: use reduction="none".
        data: the private records. They are tensors or arrays whose first dimension counts the records, alone or in a tuple, list or dict.
            A torch Dataset also works; it is read once into memory. A DataLoader is refused, because dpcli draws the batches.
        pipeline: the path of the file.
        units: an array of shape (n,) with the owner of each record. It is needed if [train] has `units`.
        ledger: the file or URL of a ledger. The whole run is reserved at once, and charged before its first sum.
        dataset: the name of the dataset in the ledger, if the ledger holds several.
        window: the blocks of the dataset that contain `data`, if the dataset is divided into blocks: "2026-01-01..2026-01-28", one name, or
            several of these. Each block is charged in full. By default privacy.window of the file applies. dpcli does not check that the
            records lie in these blocks, and the statement says so.
        out: the folder of the model and the statement. The default is the folder that the file names, or runs/NAME.
        resume: whether to continue the unfinished run in that folder. The optimizer's state is restored. Steps that may have been taken
            twice are charged twice.
        insecure_seed: a seed of reproducible noise for debugging, at least 0. The statement then says NOT PRIVATE, and a ledger is refused.

    Returns:
        `Private`. Iterate over it to draw the batches.

    Raises:
        InputError: the file cannot be read, it declares a run that dpcli cannot train, or an argument is not as described.
        Denied: the budget in the file or the ledger refuses the run.
        LedgerError: the ledger cannot be read.
        CannotCertify: the cost of the run cannot be bounded.
        Unavailable: torch or safetensors is not installed.

    After each of these errors, no noise was drawn and nothing is charged.

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.

    >>> import dpcli
    >>> private = dpcli.private(model, optimizer, loss, (inputs, labels), pipeline="run.toml")      # doctest: +SKIP
    >>> for batch in private:                                                                       # doctest: +SKIP
    ...     private.step(batch)
    >>> private.finish().epsilon                                                                    # doctest: +SKIP
    """
    require("torch", "safetensors")
    if ledger is not None and insecure_seed is not None:
        raise InputError("insecure_seed: expected no ledger with a seed, found one: reproducible noise protects nobody")
    if several_processes():
        raise InputError("dpcli.private: expected one process, found several that torchrun started: only dpcli train can use them")
    blocks = texts_of("window", window)
    plan = _plan(os.fspath(pipeline), None if out is None else os.fspath(out))
    _require_optimizer(optimizer)
    from dpcli.ledger.stores.places import open_ledger
    from dpcli.sessions.window import over_window
    from dpcli.train.loop.steps import begin, require_made_with_gradients, require_no_hooks, require_plain_modes
    from dpcli.train.tasks.custom import problem_of_arguments

    problem = problem_of_arguments(model, loss, data, units, plan.path)
    require_no_hooks(optimizer)
    require_plain_modes(model)
    require_made_with_gradients(model)
    with ExitStack() as resources:
        resources.enter_context(exclusive(plan.folder))  # locked, so that no other process uses the folder
        if not resume and os.path.lexists(os.path.join(plan.folder, MODEL)):
            logging.getLogger("dpcli").warning(
                "dpcli.private: %s holds the model of an earlier run, which finish() will replace: both runs cost epsilon",
                plan.folder,
            )
        opened = resources.enter_context(open_ledger(ledger, dataset)) if ledger is not None else None
        plan = over_window(plan, opened, blocks)  # restricted to the blocks
        steps = begin(plan, problem, optimizer, opened, resume, insecure_seed)
        resources.callback(steps.leave)
        for remove_hook in steps.watch():
            resources.callback(remove_hook)
        return Private(steps, resources.pop_all())  # `Private` closes the resources from here on
    raise AssertionError  # the block returns


def _plan(path: str, out: str | None) -> TrainingPlan:
    """Return the plan of the file at `path`. Raises InputError if its task is not "loop", or if it has keys of an optimizer."""
    plan = plan_of(path)
    if not isinstance(plan.train, Loop):
        raise InputError(
            f'{path}: train.task: expected "loop" with dpcli.private, found "{plan.train.task}", which dpcli train runs'
        )
    for name in plan.train.optimizer_keys():
        raise InputError(f"{path}: train.{name}: expected no such key with dpcli.private, found one: the optimizer is yours")
    return plan if out is None else replace(plan, train=replace(plan.train, output=out))


def _require_optimizer(optimizer: Any) -> None:
    """Raise InputError unless the object is a torch optimizer whose steps need no closure."""
    import torch

    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer: expected a torch optimizer, found {type(optimizer).__name__}")
    if not hasattr(optimizer, "_optimizer_step_pre_hooks"):
        raise InputError(
            f"optimizer: expected one whose __init__ calls that of torch.optim.Optimizer, found {type(optimizer).__name__}, which does not"
        )
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise InputError("optimizer: expected one that takes dense gradients, found SparseAdam: every number has noise; take Adam")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(
            f"optimizer: expected one that steps without a closure, found {type(optimizer).__name__}, which recomputes gradients"
        )
