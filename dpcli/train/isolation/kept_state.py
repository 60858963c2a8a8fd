"""The state that a model and its loss can reach, and the constant tensors that they read.

A forward pass that changes state could carry one record into the gradient of another. The check on synthetic records before a run
(isolation/rehearsal.py) therefore compares a snapshot of the state before a pass with one after it (`reachable_state`, `require_same`). A
snapshot names each value by the path that leads to it, such as "model: layers.0.counter". It walks through attributes and closures, and
through globals and classes of the user's own code, not of libraries.

*Constant tensors* (`constant_tensors`) are tensors that a program reads besides parameters, buffers and records. The statement of the run
names them, because they may depend on data.
"""

from __future__ import annotations

import functools
import logging
import pickle
import random
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.audit.own_code import is_library, is_own_code, own_line
from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.capture import graph_steps
from dpcli.train.engine.method import Loss, no_validation_by_default
from dpcli.train.torch_internals import TorchDispatchMode, global_module_hooks, tree_leaves

# Types whose values are compared by their text.
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
OPERATORS = "torch._library.custom_ops"  # the module of the class of operators that users define by torch.library.custom_op
CONTAINERS = (Mapping, list, tuple, deque, set, frozenset, bytearray, Iterator)
CALLABLES = (functools.partial, types.FunctionType, types.BuiltinMethodType, types.MethodType)
# Values beyond these limits are compared by identity only, so that a snapshot of a large program ends. A change inside such a value is
# missed. The numbers are arbitrary.
MOST_VALUES = 100_000  # largest number of values in a snapshot
MOST_DEPTH = 8  # largest depth of nesting
SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})
LITERAL = torch.ops.aten.lift_fresh.default  # the operator by which torch.tensor makes a tensor of numbers in the program
DRAWS = "random numbers"  # end of the names of generators' states


@dataclass(frozen=True, slots=True)
class TensorIdentity:
    """A tensor in a snapshot without copies, by its `id`."""

    tensor_id: int


@dataclass(slots=True)
class ReachableState:
    """A snapshot of the values that a program can reach.

    Attributes:
        copies: Whether the snapshot holds copies of tensors. Otherwise tensors are compared by identity.
        values: Values, by the path that leads to them.
        visited: Objects that were visited, by identity. The references keep their addresses from being reused.
    """

    copies: bool
    values: dict[str, object] = field(default_factory=dict)
    visited: dict[int, object] = field(default_factory=dict)

    def require_same(self, later: ReachableState) -> None:
        """Raise InputError if a value differs in a later snapshot. The message names the path of the first such value."""
        for name in (*self.values, *(name for name in later.values if name not in self.values)):
            if name not in self.values or name not in later.values or not equal(self.values[name], later.values[name]):
                noun = "tensor" if isinstance(later.values.get(name), Tensor) else "value"
                repair = "return what a forward computes, and do not store it; compute constants before training"
                if name.endswith((DRAWS, "seed")):
                    repair = "draw random numbers with torch, without a seed or a generator of your own"
                raise InputError(
                    f"{name}: expected a {noun} that training does not change, found one that a forward updates; {repair}"
                )

    def add_tensor(self, name: str, tensor: Tensor) -> None:
        """Add the numbers of a tensor, or its identity without `copies`, and whether it requires a gradient."""
        self.values[name] = tensor.detach().clone() if self.copies else TensorIdentity(id(tensor))
        self.values[f"{name}.requires_grad"] = tensor.requires_grad

    def visit(self, name: str, value: Any, depth: int = 0) -> None:
        """Add a value, and everything that can be reached from it.

        Args:
            name: Path of the value, for messages.
            depth: Number of objects around the value, from which it was reached.

        Raises:
            InputError: As in `require_comparable`.
        """
        if isinstance(value, PLAIN):
            self.values[name] = repr(value)
            return
        if id(value) in self.visited or depth > MOST_DEPTH or len(self.values) > MOST_VALUES:
            self.values.setdefault(name, id(value))
            return
        self.visited[id(value)] = value
        require_comparable(name, value)
        if isinstance(value, Tensor):
            self.add_tensor(name, value)
        elif isinstance(value, torch.Generator):
            self.values[f"{name}'s {DRAWS}"] = str(value.get_state().tolist())
        elif isinstance(value, random.Random):
            self.values[f"{name}'s {DRAWS}"] = value.getstate()
        elif isinstance(value, TorchDispatchMode) and type(value).__module__.startswith("dpcli."):
            self.values[name] = id(value)  # `OwnDraws`, under which an audit replays steps, counts draws: no state of the program
        elif type(value).__module__ == "numpy":
            self.values[name] = repr(value.tobytes() if hasattr(value, "tobytes") else value)
        else:
            self.visit_parts(name, value, depth)

    def visit_parts(self, name: str, value: Any, depth: int) -> None:
        """Add an object with its parts, and the globals or the class that its code uses."""
        parts = list(parts_of(value))
        self.values[name] = (id(value), len(parts)) if parts or callable(value) else pickle_or_identity(value)
        for key, part in parts:
            self.visit(f"{name}{key}", part, depth + 1)
        if isinstance(value, types.FunctionType):
            self.visit_globals(name, value, depth)
        elif not isinstance(value, type):
            self.visit_class(name, type(value))

    def visit_globals(self, name: str, function: types.FunctionType, depth: int) -> None:
        """Add the global variables that a function names, if the function belongs to the user's code."""
        if is_own_code(function.__code__.co_filename):
            names, namespace = global_names(function.__code__), function.__globals__
            for path, value in named_globals(names, namespace, namespace.get("__name__", name)):
                self.visit(path, value, depth + 1)

    def visit_class(self, name: str, cls: type) -> None:
        """Add the attributes of a class and its bases, and the values that their methods use. Classes of libraries are left out.

        The depth of these values is counted from the class.
        """
        for base in cls.__mro__:
            file = getattr(sys.modules.get(base.__module__), "__file__", None)
            if id(base) in self.visited or file is None or is_library(file):
                continue
            self.visited[id(base)] = base
            for key, value in vars(base).items():
                value = getattr(value, "__func__", value)  # the function of a static method or a class method
                if isinstance(value, types.FunctionType):
                    for label, part in parts_of(value):
                        self.visit(f"{base.__name__}.{key}{label}", part, 1)
                    self.visit_globals(name, value, 0)
                elif not key.startswith("__") and not callable(value):
                    self.visit(f"{base.__name__}.{key}", value, 1)


def reachable_state(model: nn.Module, loss: Loss, copies: bool = True) -> ReachableState:
    """Return a snapshot of the state that a model and its loss can reach, and of the states of global random generators.

    Args:
        copies: Whether the snapshot holds copies of tensors. Otherwise tensors are compared by identity.

    Raises:
        InputError: As in `require_comparable`.
    """
    snapshot = ReachableState(copies=copies)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        snapshot.add_tensor(f"model: {name}", tensor)
        snapshot.values[f"model: {name}'s hooks"] = len(tensor._backward_hooks or ())
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                snapshot.visit(f"model: {name}.{key}" if name else f"model: {key}", value)
        snapshot.visit_class(f"model: {name or 'the model'}", type(module))
    snapshot.visit("loss", loss)
    for key, value in global_module_hooks().items():
        snapshot.visit(f"torch's {key.strip('_')}", value)
    snapshot.values["torch's seed"] = torch.initial_seed()
    snapshot.values[f"Python's {DRAWS}"] = random.getstate()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        parts = numpy.random.get_state()
        snapshot.values[f"numpy's {DRAWS}"] = [part.tobytes() if hasattr(part, "tobytes") else part for part in parts]
    return snapshot


def require_comparable(name: str, value: Any) -> None:
    """Raise InputError for a compiled function, whose state cannot be read, and for random numbers that cannot be repeated."""
    if isinstance(value, torch.jit.ScriptFunction):
        raise InputError(f"{name}: expected a Python function, found one of torch.jit; use the function from which it was compiled")
    if isinstance(value, random.SystemRandom):
        raise InputError(
            f"{name}: expected random numbers that can be repeated, found the operating system's; draw them with torch"
        )


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a container, a function or an object, each with the end of its path. A module or a class has no parts."""
    if isinstance(value, CONTAINERS):
        yield from container_parts(value)
    elif isinstance(value, CALLABLES) or hasattr(value, "cache_info"):
        yield from callable_parts(value)
    elif type(value).__module__ == OPERATORS:
        yield "._init_fn", getattr(value, "_init_fn", None)  # the function; the rest is what torch's dispatcher notes of it
    elif not isinstance(value, types.ModuleType | type):
        yield from ((f".{key}", part) for key, part in getattr(value, "__dict__", {}).items())
        members = [item for base in type(value).__mro__ if "__slots__" in vars(base) for item in vars(base).items()]
        slots = (name for name, member in members if isinstance(member, types.MemberDescriptorType))
        yield from ((f".{name}", getattr(value, name, None)) for name in slots)


def container_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a container. The content of a set, a bytearray or an iterator is one part."""
    if isinstance(value, Mapping):
        for index, (key, part) in enumerate(value.items()):
            yield f"[{key!r}]" if isinstance(key, str | int) else f"[{index}]", part
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield "", "".join(sorted(map(repr, value)))
    elif isinstance(value, bytearray):
        yield "", repr(value)
    else:
        yield "", pickle_or_identity(value)


def callable_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that a function, a method or a partial holds. A cached function has the number of its cached results."""
    if isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif hasattr(value, "cache_info"):
        yield ".cache", value.cache_info().currsize
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield f".{name}", cell_content(cell)
        yield ".__defaults__", value.__defaults__
        if is_own_code(value.__code__.co_filename):  # a library's function may store compiled code in its attributes
            yield ".__dict__", vars(value)
    elif isinstance(value, types.BuiltinMethodType):
        yield ".__self__", None if isinstance(value.__self__, types.ModuleType) else value.__self__
    else:
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))


def pickle_or_identity(value: Any) -> object:
    """Return the pickled form of an object without visible parts, such as an iterator. Return its identity if it cannot be pickled."""
    try:
        return pickle.dumps(value)
    except Exception:  # pickling may raise any error
        return id(value)


def cell_content(cell: Any) -> Any:
    """Return the content of a closure's cell; None if the cell is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def global_names(code: types.CodeType) -> set[str]:
    """Return the names of global variables that a function, or a function within it, may use. Names of attributes are among them."""
    nested = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(global_names, nested))


def named_globals(
    names: set[str], namespace: Mapping[str, Any], label: str, enters_modules: bool = True
) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a module that have one of the names, and those of the user's own modules that it names, as in `own.COUNT`.

    Args:
        label: Name of the module, with which the paths of its variables begin.
    """
    for key in sorted(names & namespace.keys()):
        value = namespace[key]
        if not isinstance(value, types.ModuleType):
            yield f"{label}.{key}", value
        elif enters_modules and is_own_code(getattr(value, "__file__", None) or "<"):
            yield from named_globals(names, vars(value), value.__name__, enters_modules=False)


def equal(a: object, b: object) -> bool:
    """Return whether two values are equal. NaN in a tensor equals NaN. Tensors on the device "meta" have no numbers to compare."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout or a.is_meta != b.is_meta:
            return False
        if a.layout in SPARSE:
            a, b = a.to_sparse().coalesce(), b.to_sparse().coalesce()
            return equal(a.indices(), b.indices()) and equal(a.values(), b.values())
        return a.is_meta or bool(((a == b) | ((a != a) & (b != b))).all())
    return type(a) is type(b) and bool(a == b)


def constant_tensors(model: nn.Module, loss: Loss, batch: Batch, records: Batch = ()) -> tuple[str, ...]:
    """Return the names of the constant tensors that a program reads. They may depend on data.

    Constants are tensors other than parameters, buffers and the tensors of the batch. Tensors with one number are left out.

    Args:
        records: Private records, which the program must read from its batch alone.

    Raises InputError if a constant, a parameter or a buffer is a tensor of the private records (`holds_records`). Logs a warning of
    tensors besides the model's parameters that a step without privacy would train.
    """
    recorder = OperandRecorder((*model.parameters(), *model.buffers(), *tree_leaves(batch)))
    with torch.enable_grad(), no_validation_by_default(), recorder:  # a loss may compute gradients itself
        losses = loss(model, batch)
    state = reachable_state(model, loss, copies=False)
    names = {value.tensor_id: name for name, value in state.values.items() if isinstance(value, TensorIdentity)}
    constants = [(names.get(id(tensor), description), tensor) for tensor, description in recorder.operands]
    trained = set(map(id, leaves_of_graph(losses)))
    untrained = [name for name, tensor in outside_leaves(model, state).items() if id(tensor) in trained]
    if untrained:
        more = f" (and {len(untrained) - 1:,} more)" if len(untrained) > 1 else ""
        logging.getLogger("dpcli").warning(
            f"dpcli: {untrained[0]}{more} requires a gradient, but is no parameter of the model: it gets none, and is not trained"
        )
    own = [(f"model: {name}", value) for name, value in (*model.named_parameters(), *model.named_buffers())]
    for name, value in (*own, *constants):
        if holds_records(value, records):
            raise InputError(
                f"data: expected records that the program reads from its batch alone, found them in {name}, too: whatever is computed from "
                "all records, such as their mean, is released without noise; compute it from public data"
            )
    return tuple(sorted({f"{name} of shape ({', '.join(map(str, value.shape))})" for name, value in constants}))


def outside_leaves(model: nn.Module, state: ReachableState) -> dict[str, Tensor]:
    """Return the tensors that a program can reach and that require a gradient, but are no parameters of the model, by name.

    Args:
        state: Snapshot of the program without copies.
    """
    own = {id(parameter) for parameter in model.parameters()}
    tensors = {
        name: state.visited.get(value.tensor_id) for name, value in state.values.items() if isinstance(value, TensorIdentity)
    }
    return {
        name: tensor
        for name, tensor in tensors.items()
        if isinstance(tensor, Tensor) and tensor.is_leaf and tensor.requires_grad and id(tensor) not in own
    }


def gradient_mark(tensor: Tensor) -> tuple[int, int] | None:
    """Return a mark of a tensor's `.grad` that changes when a backward pass adds to it; None if there is no gradient."""
    return None if tensor.grad is None else (id(tensor.grad), tensor.grad._version)


def leaves_of_graph(losses: Tensor) -> Iterator[Tensor]:
    """Yield the tensors in which a backward pass would accumulate gradients. Those within a re-entrant checkpoint are not found."""
    for step in graph_steps(losses):
        leaf = getattr(step.source, "variable", None)
        if leaf is not None:
            yield leaf


def holds_records(value: Tensor, records: Batch) -> bool:
    """Return whether a tensor is one of the tensors of the private records, or a view of its first columns.

    Copies and other views are not found. Other rows of the same table are no records of this run, and may be public.
    """
    return any(
        value.numel() > 1
        and value.shape[:1] == record.shape[:1]
        and address(value) == address(record)
        and (value.storage_offset(), value.stride()) == (record.storage_offset(), record.stride())
        for record in tree_leaves(records)
    )


class OperandRecorder(TorchDispatchMode):
    """A dispatch mode that lists operands that are neither known at the start nor the result of an earlier operator.

    Attributes:
        known: Addresses of known tensors. The address of a freed result may be reused, but not by a constant, which existed earlier.
        operands: Constant tensors, each with a description that names the line that reads it.
    """

    def __init__(self, known: tuple[Tensor, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = set(map(address, known))
        self.operands: list[tuple[Tensor, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        named = dict(kwargs or {})
        for operand in tree_leaves((args, named)):
            if isinstance(operand, Tensor) and (func is LITERAL or address(operand) not in self.known):
                self.known.add(address(operand))
                line = own_line()  # the line of the user's code that is running; "" if there is none
                if operand.numel() > 1 and (line or func is not LITERAL):  # a literal of a library is not data
                    self.operands.append((operand, f"a tensor read at {line}" if line else "a tensor of a library"))
        result = func(*args, **named)
        self.known.update(address(operand) for operand in tree_leaves(result) if isinstance(operand, Tensor))
        return result


def address(tensor: Tensor) -> int:
    """Return the address of a tensor's storage, which its views and its `.data` share; its identity if it has no storage."""
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (RuntimeError, NotImplementedError):  # some kinds of tensor have no storage
        return id(tensor)
