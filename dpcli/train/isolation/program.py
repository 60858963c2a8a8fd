"""The program of a step, followed for a batch of any size: losses and gradients, twice, on tensors without numbers."""

from __future__ import annotations

import gc
import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._pytree import tree_map

from dpcli.audit.user_code import PACKAGE, raised_at
from dpcli.base.errors import DpcliError, InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.graph import gradients
from dpcli.train.engine.method import Loss
from dpcli.train.isolation.frames import TORCH, ours
from dpcli.train.isolation.kinds import AlongRecords, Merged, Unknown
from dpcli.train.isolation.lengths import STAND_IN
from dpcli.train.isolation.tracing import Counting, Following, Seen

CALLS = 2
DENSE = 600  # all batches that are smaller are tried where a question about the size is no linear one
TRIED = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 31, 32, 33, 64, 100, 128, 255, 256, 257, 500, 512, 1000, 1024, 2048, 4096, 16384)
SEPARATE = "expected a loss for each example that depends on it alone"


@dataclass(frozen=True, slots=True)
class Program:
    """What is known of a program that keeps records apart.

    doubt: an operator that has no rule, if any: its records are taken one at a time. coarsest: machine epsilon of its coarsest numbers.
    random: whether it draws any. mapped: whether vmap keeps its records apart: nobody but torch says what an operator does there.
    """

    doubt: str | None
    coarsest: float
    random: bool
    mapped: bool


def followed(model: nn.Module, loss: Loss, like: Batch) -> Program:
    """Follows the program.

    Args:
        model: a copy that nobody needs: its attributes may change.
        like: a batch whose shapes and types count, and nothing else of it.

    Raises:
        InputError: records meet, a branch depends on values or on how many records there are, something is written that outlives the
            call, or the program cannot be followed.
    """
    seen, asked = Seen(), Asked()
    environment = Shapes(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    environment.guards = asked
    fake, stack = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True), ["loss"]
    follower = Following(seen, symbol(environment, 0), lambda: stack[-1], names(model))
    with dense(model), named(model, stack), young():
        for number in range(CALLS):
            follower.where = lambda: stack[-1]
            if number:
                follower.next_batch(symbol(environment, number))
            try:
                counting = Counting(seen)
                with fake, enable_python_dispatcher(), counting, follower:
                    step(model, loss, batch_like(like, follower, number), follower, counting, with_gradients=number == 0)
            except Exception as problem:
                raise seen.refusal or refusal(problem, stack[-1]) from problem
            if seen.refusal is not None:
                raise seen.refusal
            require_nothing_left(follower)
    first, second = seen.forwards
    if first != second:
        raise InputError(
            "model: expected the same operators for every batch, found others at the second; leave out what a call changes"
        )
    require_any_size(asked.by_user)
    doubt = [
        *seen.doubts,
        *seen.unknown,
        *(["len() of the batch"] if seen.counted else []),
    ]  # a branch on a plain number is not seen
    return Program(doubt[0] if doubt else None, seen.coarsest, seen.random, not (seen.own_rules or own_rules()))


class Shapes(ShapeEnv):
    """Torch's, but which line asked about a length is found here: torch imports its compilers to know its own lines (45 MB, .3 s)."""

    def _get_user_frame(self) -> FrameType | None:
        """The innermost that is neither torch's nor of what follows; None where no user's code is between these and us."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename.startswith(("<", TORCH, os.path.dirname(__file__))):
            frame = frame.f_back
        return None if frame is None or frame.f_code.co_filename.startswith(PACKAGE + os.sep) else frame


def step(model: nn.Module, loss: Loss, batch: Batch, follower: Following, counting: Counting, with_gradients: bool) -> None:
    """The losses and their gradients; nothing of them is kept."""
    seen = counting.seen
    with torch.enable_grad():
        seen.path = []
        losses = loss(model, batch)
        seen.forwards.append(tuple(seen.path))
        require_losses(losses, follower)
        wanted = [p for p in model.parameters() if p.requires_grad]
        if not isinstance(follower.kind(losses), Unknown):
            seen.unknown.clear()  # what was not understood went nowhere
        if with_gradients and losses.requires_grad:
            follower.where = lambda: "model: in the backward pass"
            gradients(losses, torch.ones_like(losses), wanted)
            seen.doubts.extend(seen.unknown)
    seen.doubts.extend(f"an error of {name} that the model catches" for name in counting.names)


def require_nothing_left(follower: Following) -> None:
    """Raises InputError where a tensor that was made of records lives on: in a cache, a list, a closure."""
    gc.collect()
    for left in follower.left():
        raise InputError(
            f"model: expected a forward that leaves nothing behind of the records that it saw, found what {left} made kept; "
            "keep nothing of it"
        )


def require_losses(losses: Any, follower: Following) -> None:
    """One for each record.

    Raises:
        InputError: otherwise.
    """
    if not torch.is_tensor(losses) or losses.dim() != 1 or bool(losses.shape[0] != follower.size):
        found = tuple(losses.shape) if torch.is_tensor(losses) else type(losses).__name__
        raise InputError(
            f"loss: expected one loss per example, shape (B,) for B of them, found shape {found}; "
            'a mean over the batch hides who contributed what: use reduction="none"'
        )
    kind = follower.kind(losses)
    if isinstance(kind, Merged):
        raise InputError(f"loss: {SEPARATE}, found {kind.how}")
    if not isinstance(kind, Unknown) and kind != AlongRecords(0, 1, 1, follower.number):
        raise InputError(f"loss: {SEPARATE}, found one that depends on no example")


def symbol(environment: ShapeEnv, number: int) -> torch.SymInt:
    """The size of one batch."""
    hint = STAND_IN + 30 * number
    source = ConstantSource(f"batch_{number}")
    found = environment.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
    made: torch.SymInt = environment.create_symintnode(found, hint=hint)  # type: ignore[assignment]
    return made


def batch_like(like: Batch, follower: Following, number: int) -> Batch:
    """Tensors of a symbolic number of records."""

    def of(leaf: Tensor) -> Tensor:
        with torch.utils._python_dispatch._disable_current_modes():
            mode = leaf.dtype, leaf.device
        made = torch.empty((follower.size, *leaf.shape[1:]), dtype=mode[0], device=mode[1])
        follower.give(made, AlongRecords(0, 1, 1, number))
        return made

    found: Batch = tree_map(of, like)
    return found


def names(model: nn.Module) -> dict[int, str]:
    """What a tensor is called that the model has."""
    return {id(value): name for name, value in (*model.named_buffers(), *model.named_parameters())}


@contextmanager
def young() -> Iterator[None]:
    """The garbage collector looks at what is made from here on: all else may be a million objects."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def dense(model: nn.Module) -> Iterator[None]:
    """Gradients of tables in full: a sparse one says the same in another form."""
    sparse = [module for module in model.modules() if getattr(module, "sparse", False) is True]
    try:
        for module in sparse:
            module.sparse = False  # type: ignore[assignment]
        yield
    finally:
        for module in sparse:
            module.sparse = True  # type: ignore[assignment]


@contextmanager
def named(model: nn.Module, stack: list[str]) -> Iterator[None]:
    """Which module runs, innermost last."""
    handles = []
    for name, module in model.named_modules():
        label = f"model: {name or 'the model'} ({type(module).__name__})"
        handles.append(module.register_forward_pre_hook(entering(stack, label), prepend=True))
        handles.append(module.register_forward_hook(leaving(stack)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def entering(stack: list[str], label: str) -> Callable[..., None]:
    def enter(*unused: Any) -> None:
        stack.append(label)

    return enter


def leaving(stack: list[str]) -> Callable[..., None]:
    def leave(*unused: Any) -> None:
        stack.pop()

    return leave


def refusal(problem: Exception, place: str) -> InputError:
    """Of what the user's code or torch raised while it was followed; torch's words are shown, which hold no record's numbers."""
    if isinstance(problem, DpcliError) and isinstance(problem, InputError):
        return problem
    cause = problem.__cause__ if isinstance(problem, DpcliError) and problem.__cause__ is not None else problem
    return InputError(
        f"{place}: expected a program that can be followed operator by operator for any number of records, found {found_in(cause)}"
    )


def found_in(problem: BaseException) -> str:
    """Type and place of what was raised, and the words where they are torch's."""
    found = raised_at(problem)
    if not raised_by_torch(problem):
        return found
    said = (str(problem).strip().splitlines() or [""])[0][:200]
    return f"{found.partition(' (its message')[0]}{': ' if said else ''}{said}"


def raised_by_torch(problem: BaseException) -> bool:
    """Whether the last line that ran is torch's: what the user's own code raises may quote what it knows of the records."""
    lines = traceback.extract_tb(problem.__traceback__)
    return bool(lines) and lines[-1].filename.startswith(TORCH)


class Asked(list[Any]):
    """Questions about sizes. by_user: not those of torch's own operators, which choose between ways to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.by_user: dict[str, Any] = {}

    def append(self, guard: Any) -> None:
        super().append(guard)
        if not ours(sys._getframe(1)):
            self.by_user[str(guard.expr)] = guard


def own_rules() -> bool:
    """Whether there is a torch.autograd.Function, not of torch's, that says itself what it does under vmap."""
    classes = list(torch.autograd.Function.__subclasses__())
    for one in classes:  # grows meanwhile
        classes.extend(one.__subclasses__())
    return any("vmap" in vars(one) and one.__module__.partition(".")[0] != "torch" for one in classes)


def sizes(expression: Any) -> list[int]:
    """Numbers of records among which the truth of a relation changes, if it ever does: about its root where it is linear in the size."""
    sympy = importlib.import_module("sympy")
    found = set(TRIED)
    for relation in expression.atoms(sympy.core.relational.Relational):
        difference = sympy.expand(relation.lhs - relation.rhs)
        symbols = list(difference.free_symbols)
        slope = difference.diff(symbols[0]) if len(symbols) == 1 and difference.is_polynomial() else None
        if slope is not None and slope.is_Integer and slope != 0:
            root = int(sympy.floor(-difference.subs(symbols[0], 0) / slope))
            found |= set(range(root - 1, root + 3))
        else:
            found |= set(range(2, DENSE))
            found |= {int(number) + step for number in relation.atoms(sympy.Integer) for step in (-1, 0, 1)}
    return sorted(size for size in found if size >= 2)


def require_any_size(asked: Mapping[str, Any]) -> None:
    """Raises InputError where the program took a path that another number of records would not take."""
    sympy = importlib.import_module("sympy")

    for text, guard in asked.items():
        symbols = list(guard.expr.free_symbols)
        for count in sizes(guard.expr):
            if guard.expr.subs({name: count + 7 * place for place, name in enumerate(symbols)}) not in (sympy.true, True):
                raise InputError(
                    f"model: expected the same path for every number of records, found a branch on it ({text}){line_of(guard)}; "
                    "do the same for each"
                )


def line_of(guard: Any) -> str:
    """Where the user's code asked, as far as torch says."""
    found = re.findall(r"([^\s/\\]+\.py):(\d+)", str(guard.sloc))
    return f" at {found[0][0]}, line {found[0][1]}" if found else ""
