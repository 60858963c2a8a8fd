"""Abstract execution of a training program (a model with its loss), to prove that each loss depends on one record alone.

rehearsal.py calls `analyze` before a run reads a record, and gets the verdict as a `Program`. `analyze` runs the program operator by
operator on fake tensors. They have no numbers, and their batch size is a symbol (batch_size.py). A rule for each operator (operators.py,
moves.py) states the *layout* of its results: along which dimension they hold records, or that the operator merged records. `LayoutTracker`
(tracker.py) applies the rules.

The rules cannot follow every program, such as one with a branch on values or a loop over the records. Such a program is not refused. There
is a *doubt*, and its gradients are computed one record at a time instead.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.audit.own_code import raised_at
from dpcli.base.errors import DpcliError, InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.capture import gradients
from dpcli.train.engine.draws import EXPECTED_LOSS
from dpcli.train.engine.method import NO_MEAN, Loss, RaisedErrors, no_validation_by_default, trained_parameters
from dpcli.train.isolation.batch_size import Shapes, batch_symbol, called_by_operator
from dpcli.train.isolation.layout import AlongRecords, Merged, Unknown
from dpcli.train.isolation.synthetic_records import KINDS, NumberKind
from dpcli.train.isolation.tracker import TORCH_FOLDER, IsolationFindings, LayoutTracker
from dpcli.train.torch_internals import FakeTensorMode, enable_python_dispatcher, tree_map, without_dispatch_modes

# Arbitrary number of characters of an error's message that are shown: torch may print whole tensors or graphs.
LONGEST_MESSAGE = 200
# Methods of tensors that read numbers or give access to memory without calling an operator.
DIRECT_READS = ("tolist", "storage", "untyped_storage", "data_ptr", "numpy", "__array__", "__dlpack__")


@dataclass(frozen=True, slots=True)
class Program:
    """The verdict of `analyze` on a program in which it found no operator that combines records.

    Attributes:
        doubt: Reason why the rules do not prove isolation, so that records must be processed one at a time; None if isolation is proven.
        complete: Whether the program was followed to its end.
        coarsest: Machine epsilon of the least precise floating-point type of a result; 0 if no operator returned such numbers.
        random: Whether the program draws random numbers, or may do so.
        mapped: Whether torch defines every operator, and its behaviour under vmap. Then vmap isolates the records.
        numbers: Kind of synthetic numbers for which the losses are finite. `analyze` does not determine it and returns the default.
    """

    doubt: str | None
    complete: bool
    coarsest: float
    random: bool
    mapped: bool
    numbers: NumberKind = KINDS[0]


def analyze(model: nn.Module, loss: Loss, like: Batch) -> Program:
    """Follow a program through its losses and their gradients, and return the verdict on it.

    An error of the program itself, other than InputError, is only a reason for doubt here.

    Args:
        model: Copy of the model. Its attributes may change.
        loss: Function that returns one loss for each record.
        like: Batch whose shapes and types are used. Its numbers are not read.

    Raises:
        InputError: An operator combines records, the program does not return one loss for each record, a branch depends on the number of
            records, or the program writes to state that outlives the call.
    """
    findings = IsolationFindings()
    environment = Shapes(findings)
    complete = follow(model, loss, like, environment, findings)
    if findings.refusal is not None:
        raise findings.refusal
    environment.require_any_size()
    return Program(
        doubt=findings.doubts[0] if findings.doubts else None,
        complete=complete,
        coarsest=findings.coarsest,
        random=findings.random or not complete or any(map(drops_between_layers, model.modules())),
        mapped=not (findings.custom_operators or has_vmap_rules()),
    )


def follow(model: nn.Module, loss: Loss, like: Batch, environment: Shapes, findings: IsolationFindings) -> bool:
    """Follow a program operator by operator, and add what is found to the findings. Return whether it was followed to its end.

    Raises InputError if the program does not return one loss for each record and there was no reason for doubt before.
    """
    stack = ["loss"]  # descriptions of the running modules; "loss" outside of them
    tracker = LayoutTracker(findings, batch_symbol(environment), lambda: stack[-1], tensor_names(model))
    errors = ReadRecorder(findings)
    fake = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    try:
        with dense_embeddings(model), tracked_modules(model, stack), fake, enable_python_dispatcher(), errors, tracker:
            step(model, loss, batch_like(like, tracker), tracker)
    except InputError:  # `analyze` raises a refusal by the tracker in any case
        if not findings.doubts:
            raise
        return False
    except Exception as problem:
        # The cause is usually that fake tensors have no numbers. A faulty program fails again later, on synthetic records.
        findings.doubts.append(f"{type_and_place(problem)}, on tensors without numbers")
        return False
    findings.doubts.extend(f"an error of {name} that the model catches" for name in errors.names)
    return True


def drops_between_layers(module: nn.Module) -> bool:
    """Return whether a module is one of torch's recurrent networks with active dropout between its layers.

    On fake tensors torch runs such a network without the dropout, so the findings do not show that it is random.
    """
    return isinstance(module, nn.RNNBase) and module.training and module.dropout > 0.0 and module.num_layers > 1


def step(model: nn.Module, loss: Loss, batch: Batch, tracker: LayoutTracker) -> None:
    """Compute the losses and their gradients, so that the tracker observes them. Operators without a rule are added to the doubts.

    Raises InputError if the program does not return one loss for each record, which depends on that record alone.
    """
    findings = tracker.findings
    with torch.enable_grad(), no_validation_by_default():
        losses = loss(model, batch)
        require_losses(losses, tracker)
        trained = list(trained_parameters(model).values())
        if not isinstance(tracker.layout_of(losses), Unknown):
            findings.unknown.clear()  # the losses do not depend on the results of operators without a rule
        if losses.requires_grad:
            tracker.running_module = lambda: "model: in the backward pass"
            gradients(losses, torch.ones_like(losses), trained)
        findings.doubts.extend(f"{name} has no rule" for name in findings.unknown)


def require_losses(losses: Any, tracker: LayoutTracker) -> None:
    """Check that the program returns one loss for each record, which depends on that record alone. Raises InputError if not.

    Losses of an unknown layout pass, because they are a reason for doubt only.
    """
    if not torch.is_tensor(losses) or losses.dim() != 1 or bool(losses.shape[0] != tracker.size):
        kind, repair = type(losses).__name__, NO_MEAN
        if torch.is_tensor(losses):
            kind = f"shape ({', '.join('B' if str(length) == str(tracker.size) else str(length) for length in losses.shape)})"
            repair = NO_MEAN if not losses.dim() else "sum or average over all dimensions but the first"
        raise InputError(f"loss: expected one loss per example, shape (B,) for B examples, found {kind}; {repair}")
    layout = tracker.layout_of(losses)
    if isinstance(layout, Merged):
        raise InputError(f"loss: {EXPECTED_LOSS}, found {layout.how}")
    if not isinstance(layout, Unknown) and layout != AlongRecords(0):
        raise InputError(f"loss: {EXPECTED_LOSS}, found one that depends on no example")


class ReadRecorder(RaisedErrors):
    """A mode that adds a doubt for each read that bypasses the operators. Its base class records errors that the model catches."""

    def __init__(self, findings: IsolationFindings) -> None:
        super().__init__()
        self.findings = findings

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(func, "__name__", "") in DIRECT_READS and not called_by_operator(sys._getframe(1)):
            self.findings.doubt(f"numbers are read by Tensor.{func.__name__}")
        return super().__torch_function__(func, types, args, kwargs)


def batch_like(like: Batch, tracker: LayoutTracker) -> Batch:
    """Return fake tensors with the shapes and types of a batch, but with a symbolic number of records. The tracker knows their layout."""

    def fake_leaf_like(leaf: Tensor) -> Tensor:
        with without_dispatch_modes():
            dtype, device = leaf.dtype, leaf.device
        fake_leaf = torch.empty((tracker.size, *leaf.shape[1:]), dtype=dtype, device=device)
        tracker.register(fake_leaf, AlongRecords(0))
        return fake_leaf

    return tree_map(fake_leaf_like, like)  # type: ignore[no-any-return]


def tensor_names(model: nn.Module) -> dict[int, str]:
    """Return the name of each tensor of the model, by the identity of the tensor."""
    return {id(value): name for name, value in (*model.named_buffers(), *model.named_parameters())}


@contextmanager
def dense_embeddings(model: nn.Module) -> Iterator[None]:
    """Switch the gradients of embedding tables from sparse to dense within the block."""
    sparse = [module for module in model.modules() if getattr(module, "sparse", False) is True]
    try:
        for module in sparse:
            module.sparse = False  # type: ignore[assignment]
        yield
    finally:
        for module in sparse:
            module.sparse = True  # type: ignore[assignment]


@contextmanager
def tracked_modules(model: nn.Module, stack: list[str]) -> Iterator[None]:
    """Maintain a stack of descriptions of the running modules within the block. The innermost module is last.

    A module whose forward raises an error remains on the stack, which then tells where the error was raised.
    """

    def pop(*_: Any) -> None:
        del stack[-1]

    handles = []
    for name, module in model.named_modules():
        label = f"model: {name or 'the model'} ({type(module).__name__})"
        handles.append(module.register_forward_pre_hook(lambda *_, label=label: stack.append(label), prepend=True))
        handles.append(module.register_forward_hook(pop))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def describe_error(problem: BaseException) -> str:
    """Return the type and the place of an error, and the first line of its message if code of torch raised it.

    The message of an error that the user's code raised is left out, because it may quote records.
    """
    problem = cause_of(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    raised_by_torch = bool(frames) and frames[-1].filename.startswith(TORCH_FOLDER)
    if not raised_by_torch:
        return raised_at(problem)
    message_lines = str(problem).strip().splitlines()
    return ": ".join([type_and_place(problem), *(line[:LONGEST_MESSAGE] for line in message_lines[:1])])


def type_and_place(problem: BaseException) -> str:
    """Return the type of an error and its innermost line in the user's code, without the note on the message that `raised_at` adds."""
    return raised_at(cause_of(problem)).partition(" (its message")[0]


def cause_of(problem: BaseException) -> BaseException:
    """Return the error that an error of dpcli was raised from; the error itself if there is none."""
    if isinstance(problem, DpcliError) and problem.__cause__ is not None:
        return problem.__cause__
    return problem


def has_vmap_rules() -> bool:
    """Return whether any torch.autograd.Function outside of torch, used or not, defines its own behaviour under vmap."""
    classes = list(torch.autograd.Function.__subclasses__())
    for cls in classes:  # the list grows within the loop, so that it reaches subclasses of subclasses
        classes.extend(cls.__subclasses__())
    return any("vmap" in vars(cls) and cls.__module__.partition(".")[0] != "torch" for cls in classes)
