"""Abstract execution of a training program, to prove that each loss depends on one record alone.

The program runs operator by operator on fake tensors, which have no numbers and whose batch size is a symbol. A rule for each operator
tells along which dimension its results hold records, or that records were merged.

A program that the rules cannot follow (with a branch on values, or a loop over the records) is not refused: its gradients are computed
one record at a time instead.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakIdKeyDictionary

from dpcli.audit.own_code import PACKAGE, own_line, raised_at
from dpcli.base.errors import DpcliError, InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.capture import gradients
from dpcli.train.engine.draws import SEPARATE, draws
from dpcli.train.engine.method import Loss, RaisedErrors
from dpcli.train.isolation.layout import (
    SHARED,
    AlongRecords,
    Call,
    Kind,
    Kinds,
    Merged,
    Mixed,
    Numbers,
    Shared,
    Unknown,
    coefficient,
    consistent,
    has_records_at,
    leaves,
    records,
)
from dpcli.train.isolation.operators import DRAWN, MADE, OPAQUE, RULES, SIZED, pointwise

SIZE_HINT = 1_000_003  # batch size by which torch's operators choose an algorithm: large
# Batch sizes at which a branch is evaluated, in addition to the roots of the expressions that it compares.
SMALL_SIZES = range(2, 600)
LARGE_SIZES = (1000, 1024, 2048, 4096, 16384)
# Methods that read numbers without calling an operator.
DIRECT_READS = (
    "tolist",
    "storage",
    "untyped_storage",
    "data_ptr",
    "numpy",
    "__array__",
    "__dlpack__",
)
ADVICE = "take it over the dimensions of one example, never over the batch"
TORCH_NAMESPACES = ("aten", "prims", "prim")
REARRANGING = ("view", "unsqueeze", "expand", "clone", "detach", "alias", "_to_copy", "reshape", "squeeze", "slice")
SPLITTING = ("split", "unsafe_split")
INDEX_TYPES = (torch.int32, torch.int64)  # wide enough to count the records
SIZE_ARGUMENTS = ("int", "Optional[int]", "List[int]", "Optional[List[int]]")
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
OWN_FOLDERS = tuple(os.path.join(PACKAGE, "train", folder) for folder in ("isolation", "engine"))


@dataclass(frozen=True, slots=True)
class Program:
    """A program in which no records were found to meet.

    Attributes:
        doubt: Reason why the rules do not prove that records stay apart, so that they must be processed one at a time; None if proven.
        complete: The program was followed to its end.
        coarsest: Machine epsilon of its least precise floating-point type.
        random: It draws random numbers, or may do so.
        mapped: Every operator is torch's own, so that vmap keeps its records apart.
    """

    doubt: str | None
    complete: bool
    coarsest: float
    random: bool
    mapped: bool


@dataclass(slots=True)
class Seen:
    """Findings about a program, collected while it is followed.

    Attributes:
        refusal: Error for the first place where records meet.
        unknown: Operators without a rule whose results may enter the losses.
        doubts: Reasons why the program is not proven to keep records apart.
        coarsest: Machine epsilon of its least precise floating-point type.
        random: It draws random numbers.
        path: Names of its operators, in order.
        own_rules: It calls an operator that is not torch's, whose behaviour under vmap is defined elsewhere.
    """

    refusal: InputError | None = None
    unknown: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    coarsest: float = 0.0
    random: bool = False
    path: list[str] = field(default_factory=list)
    own_rules: bool = False


class Unfollowed(Exception):
    """The program depends on values or on the number of records, which fake tensors do not have: it cannot be followed further."""


def followed(model: nn.Module, loss: Loss, like: Batch) -> Program:
    """Follow a program through its losses and their gradients, and return what is known of it.

    Args:
        model: Copy of the model. Its attributes may change.
        loss: Function that returns one loss for each record.
        like: Batch whose shapes and types are used; its numbers are not.

    Raises:
        InputError: Records meet, a branch depends on the number of records, or the program writes to state that outlives the call.
    """
    seen, stack = Seen(), ["loss"]
    environment = Shapes(seen)
    follower = Following(seen, symbol(environment), lambda: stack[-1], names(model))
    errors, complete = Reads(seen), True
    fake = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    try:
        with dense(model), named(model, stack), fake, enable_python_dispatcher(), errors, follower:
            step(model, loss, batch_like(like, follower), follower)
    except InputError:
        if not follower.left:
            raise
        complete = False
    except Exception as problem:  # most errors are due to the missing numbers; a faulty program also fails on made-up records later
        seen.doubts.append(f"{raised(problem).partition(' (its message')[0].partition(': ')[0]}, on tensors without numbers")
        complete = False
    if seen.refusal is not None:
        raise seen.refusal
    environment.require_any_size()
    seen.doubts.extend(f"an error of {name} that the model catches" for name in errors.names if complete)
    doubt = seen.doubts[0] if seen.doubts else None
    return Program(doubt, complete, seen.coarsest, seen.random or not complete, not (seen.own_rules or own_rules()))


def step(model: nn.Module, loss: Loss, batch: Batch, follower: Following) -> None:
    """Compute the losses and their gradients, and discard them."""
    seen = follower.seen
    with torch.enable_grad():
        losses = loss(model, batch)
        require_losses(losses, follower)
        trained = [p for p in model.parameters() if p.requires_grad]
        if not isinstance(follower.kind(losses), Unknown):
            seen.unknown.clear()  # the losses do not depend on the unknown results
        if losses.requires_grad:
            follower.where = lambda: "model: in the backward pass"
            gradients(losses, torch.ones_like(losses), trained)
        seen.doubts.extend(f"{name} has no rule" for name in seen.unknown)


def require_losses(losses: Any, follower: Following) -> None:
    """Check that there is one loss for each record, made of that record alone. Raises InputError if not."""
    if not torch.is_tensor(losses) or losses.dim() != 1 or bool(losses.shape[0] != follower.size):
        shape = f"shape {tuple(losses.shape)}" if torch.is_tensor(losses) else type(losses).__name__
        raise InputError(
            f"loss: expected one loss per example, shape (B,) for B of them, found {shape}; "
            'a mean over the batch hides who contributed what: use reduction="none"'
        )
    kind = follower.kind(losses)
    if isinstance(kind, Merged):
        raise InputError(f"loss: {SEPARATE}, found {kind.how}")
    if not isinstance(kind, Unknown) and kind != AlongRecords(0):
        raise InputError(f"loss: {SEPARATE}, found one that depends on no example")


class Reads(RaisedErrors):
    """A recorder of reads that bypass operators, and of errors that the model catches."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(func, "__name__", "") in DIRECT_READS and not ours(sys._getframe(1)):
            line = own_line()
            self.seen.doubts.append(f"numbers are read by Tensor.{func.__name__}{' at ' if line else ''}{line}")
        return super().__torch_function__(func, types, args, kwargs)


class Shapes(ShapeEnv):
    """A shape environment of torch that records which comparisons of the batch size the user's code makes."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        self.seen = seen
        self.by_user: dict[str, Any] = {}
        self.guards = Guards(self.note)

    def evaluate_expr(self, orig_expr: Any, *args: Any, **named: Any) -> Any:
        """Evaluate an expression. Raises Unfollowed if a number of records is requested, as len() or range() do."""
        if orig_expr.free_symbols and not (orig_expr.is_Boolean or orig_expr.is_Relational):
            line = own_line()
            self.seen.doubts.append(f"a number of records is asked for{' at ' if line else ''}{line}")
            raise Unfollowed
        return super().evaluate_expr(orig_expr, *args, **named)

    def note(self, guard: Any) -> None:
        """Record a comparison made by the user's code. Those of torch's operators choose between equivalent algorithms."""
        if not ours(sys._getframe(2)):
            self.by_user[str(guard.expr)] = guard

    def require_any_size(self) -> None:
        """Check that every batch size leads to the same path through the program. Raises InputError if not."""
        sympy = importlib.import_module("sympy")
        for text, guard in self.by_user.items():
            (size,) = guard.expr.free_symbols
            for count in sizes(guard.expr, size):
                if guard.expr.subs(size, count) not in (sympy.true, True):
                    raise InputError(
                        f"model: expected the same path for every number of records, found a branch on it ({text}){line_of(guard)}; "
                        "do the same for each"
                    )

    def _get_user_frame(self) -> FrameType | None:
        """Return the innermost frame of the user's code. Torch's own version imports its compilers first (45 MB, 0.3 s)."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename.startswith(("<", TORCH_FOLDER, os.path.dirname(__file__))):
            frame = frame.f_back
        return None if frame is None or frame.f_code.co_filename.startswith(PACKAGE + os.sep) else frame


class Guards(list[Any]):
    """A list of comparisons of sizes that passes each new comparison to a function."""

    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__()
        self.note = note

    def append(self, guard: Any) -> None:
        super().append(guard)
        self.note(guard)


def sizes(expression: Any, size: Any) -> Iterator[int]:
    """Yield batch sizes that show a change in the truth of a relation, if it ever changes."""
    sympy = importlib.import_module("sympy")
    yield from (*SMALL_SIZES, *LARGE_SIZES)
    for relation in expression.atoms(sympy.core.relational.Relational):
        difference = sympy.expand(relation.lhs - relation.rhs)
        if difference.is_polynomial(size) and difference.has(size):
            for root in sympy.Poly(difference, size).real_roots():
                yield from (n for n in range(int(root) - 1, int(root) + 3) if n >= 2)


def symbol(environment: ShapeEnv) -> torch.SymInt:
    """Return the symbol for the batch size."""
    source = ConstantSource("batch")
    expression = environment.create_symbol(SIZE_HINT, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
    return environment.create_symintnode(expression, hint=SIZE_HINT)  # type: ignore[return-value]


def line_of(guard: Any) -> str:
    """Return the line of the user's code that compares the size, or an empty text if torch does not know it."""
    match = re.search(r"([^\s/\\]+\.py):(\d+)", str(guard.sloc))
    return f" at {match[1]}, line {match[2]}" if match else ""


def batch_like(like: Batch, follower: Following) -> Batch:
    """Return fake tensors in the form of a batch, with a symbolic number of records."""

    def column(leaf: Tensor) -> Tensor:
        with torch.utils._python_dispatch._disable_current_modes():
            dtype, device = leaf.dtype, leaf.device
        made = torch.empty((follower.size, *leaf.shape[1:]), dtype=dtype, device=device)
        follower.give(made, AlongRecords(0))
        return made

    return tree_map(column, like)  # type: ignore[no-any-return]


def names(model: nn.Module) -> dict[int, str]:
    """Return the names of the model's tensors, by identity."""
    return {id(value): name for name, value in (*model.named_buffers(), *model.named_parameters())}


@contextmanager
def dense(model: nn.Module) -> Iterator[None]:
    """Make embedding tables give dense gradients."""
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
    """Maintain a stack of the names of the running modules, the innermost last."""
    handles = []
    for name, module in model.named_modules():
        label = f"model: {name or 'the model'} ({type(module).__name__})"
        handles.append(module.register_forward_pre_hook(lambda *_, label=label: stack.append(label), prepend=True))
        handles.append(module.register_forward_hook(lambda *_: stack.__delitem__(-1)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def raised(problem: BaseException) -> str:
    """Return type and place of an error, and its message if torch raised it: the user's message may quote records."""
    if isinstance(problem, DpcliError) and problem.__cause__ is not None:
        problem = problem.__cause__
    where, lines = raised_at(problem), traceback.extract_tb(problem.__traceback__)
    if not lines or not lines[-1].filename.startswith(TORCH_FOLDER):
        return where
    message = (str(problem).strip().splitlines() or [""])[0][:200]
    return f"{where.partition(' (its message')[0]}{': ' if message else ''}{message}"


def own_rules() -> bool:
    """Check whether there is a torch.autograd.Function outside of torch that defines its own behaviour under vmap."""
    classes = list(torch.autograd.Function.__subclasses__())
    for cls in classes:  # grows as subclasses are added
        classes.extend(cls.__subclasses__())
    return any("vmap" in vars(cls) and cls.__module__.partition(".")[0] != "torch" for cls in classes)


def ours(frame: Any) -> bool:
    """Check whether this package or an operator called torch, rather than the user's code, a hook of it, or torch on its behalf."""
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name in ("__torch_dispatch__", "__torch_function__") and file.startswith(
            (TORCH_FOLDER, PACKAGE + os.sep)
        ):
            return True
        if not file.startswith(("<", TORCH_FOLDER)) and frame.f_code.co_name != "evaluate_expr":
            return os.path.dirname(file) in OWN_FOLDERS
        frame = frame.f_back
    return False


@dataclass(slots=True)
class Behind:
    """The storage that a tensor shares with its views.

    Attributes:
        storage: The storage, referenced so that its address is not used again.
        kind: Layout of the last tensor on it.
        shape: Shape of the last tensor on it.
        has_records: A tensor on it holds records.
        written: A view of it was written to.
        spoilt: Layout of all its tensors after a write that no rule describes; None if there was none.
    """

    storage: Any
    kind: Kind
    shape: tuple[object, ...]
    has_records: bool = False
    written: bool = False
    spoilt: Kind | None = None


class Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that tracks for every tensor along which dimension it holds records.

    Args:
        seen: Findings, which are updated.
        size: Symbol of the batch size.
        where: Function that returns the name of the running module.
        names: Names, by identity, of the tensors that outlive the call, so that none may be written to.
    """

    def __init__(self, seen: Seen, size: torch.SymInt, where: Callable[[], str], names: dict[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen, self.size, self.where, self.names = seen, size, where, names
        self.kinds: Any = WeakIdKeyDictionary()
        self.homes: Any = WeakIdKeyDictionary()  # the storage that a tensor had when it was seen
        self.behind: dict[int, Behind] = {}
        self.given: set[int] = set()  # storages of the batch itself

    @property
    def left(self) -> bool:
        """True if the program reached something that cannot be followed."""
        return bool(self.seen.doubts)

    def give(self, tensor: Tensor, kind: Kind) -> None:
        """Register a tensor of the batch with its layout."""
        self.kinds[tensor] = kind
        self.given.add(store(tensor)._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if func.namespace == "prim" or name.startswith("sym_"):
            return func(*args, **kwargs)
        values = bound(func, args, kwargs)
        self.require_unwritten(func, values)
        self.require_no_loop(name, values)
        try:
            out = self.constant(values) if name == "_local_scalar_dense" else NotImplemented
            out = func(*args, **kwargs) if out is NotImplemented else out
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise self.unfollowed("a branch or a shape depends on values") from None
        outputs = list(leaves(out if isinstance(out, list | tuple) else [out]))
        base = name.rstrip("_") if not name.startswith("__") else name
        call = Call(base, {key: value for key, value in values.items() if key != OPAQUE.get(base)}, outputs, self.kind)
        self.note(func, call)
        targets = [(tensor, self.kind(tensor)) for tensor in written(func, values)]
        try:
            kinds = self.judged(func, call, [*map(self.kind, call.tensors())])
        except Mixed as mixed:
            raise self.refuse(str(mixed)) from None
        several = kinds if isinstance(kinds, list) else [kinds] * len(outputs)
        for output, kind in zip(outputs, several, strict=True):
            self.keep(output, consistent(output, kind, base))
        self.write(base, targets, kinds if isinstance(kinds, list) else [kinds])
        return out

    def require_no_loop(self, name: str, values: Mapping[str, Any]) -> None:
        """Check that the operator does not split the batch into single records. Raises Unfollowed if it does."""
        if name == "unbind" or (name in SPLITTING and not records(values["split_size"])):
            kind = self.kind(values["self"])
            if isinstance(kind, AlongRecords) and kind.dim == values["dim"] % values["self"].dim():
                raise self.unfollowed(f"{name} loops over the records")

    def unfollowed(self, why: str) -> Unfollowed:
        line = own_line()
        self.seen.doubts.append(f"{why}{' at ' if line else ''}{line}")
        return Unfollowed(why)

    def note(self, func: Any, call: Call) -> None:
        self.seen.path.append(call.name)
        self.seen.own_rules |= func.namespace not in TORCH_NAMESPACES
        self.seen.random |= draws(func, (), dict(call.values))
        for output in call.outputs:
            if output.is_floating_point():
                self.seen.coarsest = max(self.seen.coarsest, float(torch.finfo(output.dtype).eps))

    def constant(self, values: Any) -> Any:
        """Return the number in a constant: a tensor that existed before the call and is not trained."""
        tensor = values["self"]
        if isinstance(tensor, FakeTensor) or tensor.requires_grad:
            return NotImplemented
        with torch.utils._python_dispatch._disable_current_modes():
            return tensor.item()

    def kind(self, tensor: Tensor) -> Kind:
        """Return a tensor's layout; Unknown if the operator that made it was not observed."""
        if not isinstance(tensor, FakeTensor):
            return SHARED
        storage = store(tensor)
        behind = None if storage is None else self.behind.get(storage._cdata)
        if behind is not None and behind.spoilt is not None:
            return behind.spoilt
        replaced_data = storage is not None and self.homes.get(tensor, storage._cdata) != storage._cdata  # by tensor.data = other
        kind: Kind | None = None if replaced_data else self.kinds.get(tensor)
        if kind is None and behind is not None and behind.shape == tuple(tensor.shape):
            kind = behind.kind
        if kind is None:
            return Unknown("a tensor that came from elsewhere")
        return kind if behind is None or not behind.written else since_written(kind, behind)

    def keep(self, tensor: Tensor, kind: Kind) -> None:
        if isinstance(kind, Unknown) and kind.operator not in self.seen.unknown:
            self.seen.unknown.append(kind.operator)
        if isinstance(kind, Merged) and " at " not in kind.how and (line := own_line()):
            kind = Merged(f"{kind.how} at {line}")
        self.kinds[tensor] = kind
        storage = store(tensor)
        if storage is not None:
            self.homes[tensor] = storage._cdata
            behind = self.behind.setdefault(storage._cdata, Behind(storage, kind, ()))
            behind.kind, behind.shape = kind, tuple(tensor.shape)
            behind.has_records |= isinstance(kind, AlongRecords)

    def judged(self, func: Any, call: Call, kinds: list[Kind]) -> Kinds:
        """Return the layout of each output, given the layouts of the arguments."""
        lengths, count = counting(func, call.values)
        shaped = call.name.endswith("_like") or (call.name.startswith("new_") and call.name in MADE)
        if not count and shaped and len([*call.tensors()]) == 1:
            return [self.alike(call, output) for output in call.outputs]
        unknown = [kind for kind in kinds if isinstance(kind, Unknown)]
        if unknown:
            return unknown[0]
        rows = [kind for kind in kinds if isinstance(kind, AlongRecords | Numbers)]
        merged = [kind for kind in kinds if isinstance(kind, Merged)]
        if call.name == "arange" and not rows and not merged and (lengths or count):
            start, step = call.values.get("start", 0), call.values.get("step", 1)
            return Numbers(0) if (start, step) == (0, 1) and counts(call.outputs[0], 0) else Unknown("arange")
        if merged or count:
            how = merged[0].how if merged else f"{call.name} with the number of records"
            if rows:
                raise Mixed(how)
            return Merged(how)
        if not rows:
            if not any(records(length) for output in call.outputs for length in output.shape):
                return SHARED
            return [self.alike(call, output) if call.name in MADE else Unknown(call.name) for output in call.outputs]
        if any(isinstance(kind, Numbers) for kind in rows) and call.name not in ("index", "index_put", "_unsafe_index"):
            return self.numbered(call)
        if lengths and call.name not in SIZED:
            return Unknown(f"{call.name} with the number of records")
        rule = RULES.get(call.name) if func.namespace == "aten" else not_understood
        if rule is None:
            rule = pointwise if torch.Tag.pointwise in func.tags else not_understood
        return told_apart(rule(call), rows)

    def alike(self, call: Call, output: Tensor) -> Kind:
        """Return the layout of a new tensor, such as zeros: that of the argument with its shape, or its only symbolic dimension."""
        dims = [dim for dim, length in enumerate(output.shape) if records(length)]
        if not dims:
            return SHARED
        for _, kind in call.rows():
            if dims == [kind.dim] and has_records_at(output, kind):
                return replace(kind, alike=False)
        times = coefficient(output.shape[dims[0]])
        return AlongRecords(dims[0], 1, times, call.name not in DRAWN) if len(dims) == 1 and times else Unknown(call.name)

    def numbered(self, call: Call) -> Kind:
        """Return the layout of record indices after an operator. They remain indices if they are only rearranged."""
        if call.name in REARRANGING:
            layouts = {id(tensor): laid_out(self.kind(tensor)) for tensor in call.tensors()}
            kinds = RULES[call.name](replace(call, kind=lambda tensor: layouts[id(tensor)]))
            (kind,), (output,) = kinds if isinstance(kinds, list) else [kinds], call.outputs
            if isinstance(kind, AlongRecords) and (kind.outer, kind.inner) == (1, 1) and counts(output, kind.dim):
                return Numbers(kind.dim)
        return Unknown(f"{call.name} of the records' places")

    def require_unwritten(self, func: Any, values: Any) -> None:
        """Check that an operator does not write to the batch or to a tensor that outlives the call. Raises InputError if it does."""
        for tensor in written(func, values):
            if not isinstance(tensor, FakeTensor):
                name = self.names.get(id(tensor), "a tensor that outlives it")
                raise self.refuse(f"{func.overloadpacket.__name__}, which writes to {name}", state=True)
            if store(tensor)._cdata in self.given:
                raise self.refuse(f"{func.overloadpacket.__name__}, which writes to the batch", state=True)

    def write(self, name: str, targets: Sequence[tuple[Tensor, Kind]], kinds: Sequence[Kind]) -> None:
        """Update the layouts of storages after a write. A write to a part counts as a write to the whole storage.

        Args:
            name: Name of the operator.
            targets: Tensors that are written to, each with its earlier layout.
            kinds: Layouts of the operator's results. The least favourable one counts.
        """
        kind = next((result for sort in (Merged, Unknown, AlongRecords) for result in kinds if isinstance(result, sort)), SHARED)
        for tensor, before in targets:
            storage = store(tensor)
            behind = self.behind.setdefault(storage._cdata, Behind(storage, before, ()))
            behind.written = True
            if isinstance(kind, Merged | Unknown):
                behind.spoilt = kind
            elif (isinstance(kind, AlongRecords) and kind != before) or (isinstance(before, Shared) and behind.has_records):
                behind.spoilt = Unknown(name)

    def refuse(self, what: str, state: bool = False) -> InputError:
        """Return an error and record it. The first error counts, even if the user's code catches it."""
        place, line = self.where(), own_line()
        if line and line not in what:
            what = f"{what}, which meets them at {line}" if " at " in what else f"{what} at {line}"
        if state:
            message = f"{place}: expected a forward that changes nothing, found {what}; compute it before training, and leave it"
        else:
            sort = "a loss" if place == "loss" else "an output"
            message = f"{place}: expected {sort} for each example that depends on it alone, found {what}; {ADVICE}"
        self.seen.refusal = self.seen.refusal or InputError(message)
        return self.seen.refusal


def since_written(kind: Kind, behind: Behind) -> Kind:
    """Return the layout of a view after another view of its storage was written to."""
    if isinstance(kind, AlongRecords):
        return replace(kind, alike=False)
    return Unknown("a part of what was written to") if isinstance(kind, Shared) and behind.has_records else kind


def told_apart(kinds: Kinds, rows: Sequence[Kind]) -> Kinds:
    """Return the layouts, with results marked as differing between records if any argument does."""
    if all(isinstance(kind, AlongRecords) and kind.alike for kind in rows):
        return kinds
    several = kinds if isinstance(kinds, list) else [kinds]
    differing: list[Kind] = [replace(kind, alike=False) if isinstance(kind, AlongRecords) else kind for kind in several]
    return differing if isinstance(kinds, list) else differing[0]


def laid_out(kind: Kind) -> Kind:
    """Return the layout of record indices as one number for each record; other layouts as they are."""
    return AlongRecords(kind.dim) if isinstance(kind, Numbers) else kind


def counts(output: Tensor, dim: int) -> bool:
    """Check whether a tensor can hold one index for each record; a narrower integer type would overflow."""
    return coefficient(output.shape[dim]) == 1 and output.dtype in INDEX_TYPES


def not_understood(call: Call) -> Kinds:
    return Unknown(call.name)


def written(func: Any, values: Mapping[str, Any]) -> list[Tensor]:
    """Return the arguments that an operator writes to."""
    targets = [argument for argument in func._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
    return [*leaves(values[argument.name] for argument in targets)]


def store(tensor: Tensor) -> Any:
    """Return the storage of a strided tensor, which its views share; None for other layouts."""
    return tensor.untyped_storage() if tensor.layout is torch.strided else None


def bound(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names in the operator's schema."""
    arguments = list(func._schema.arguments)
    values = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    positional = [argument.name for argument in arguments if not argument.kwarg_only]
    return {**values, **dict(zip(positional, args, strict=False)), **kwargs}


def counting(func: Any, values: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the batch size is among an operator's shape arguments, and whether it is among its numeric arguments."""
    lengths = count = False
    for argument in func._schema.arguments:
        value = values.get(argument.name)
        several = value if isinstance(value, list | tuple) else [value]
        if any(records(number) for number in several):
            length = str(argument.real_type) in SIZE_ARGUMENTS and argument.name not in ("high", "low")
            lengths, count = lengths or length, count or not length
    return lengths, count
