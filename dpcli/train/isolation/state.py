"""Everything that a model and its loss can reach and write to: compared around a forward, which must change none of it."""

from __future__ import annotations

import contextvars
import functools
import os
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
from torch.nn.modules import module as nn_module

from dpcli.audit.user_code import is_library, is_own_code
from dpcli.base.errors import InputError
from dpcli.train.engine.method import Loss

PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
MOST = 100_000  # values that are looked at


@dataclass(slots=True)
class ReachableState:
    """Values by the path on which they are found. whole: tensors with their numbers, else by identity and version."""

    whole: bool
    found: dict[str, object] = field(default_factory=dict)
    seen: dict[int, object] = field(default_factory=dict)

    def require_same(self, later: ReachableState) -> None:
        """Raises InputError, naming it, where something is another."""
        for name in (*self.found, *(name for name in later.found if name not in self.found)):
            if name not in self.found or name not in later.found or not equal(self.found[name], later.found[name]):
                kind = "buffer" if isinstance(later.found.get(name), Tensor) else "value"
                raise InputError(
                    f"{name}: expected a {kind} that training leaves alone, found one that a forward updates; "
                    "compute it before training, and leave it"
                )


def state(model: nn.Module, loss: Loss, whole: bool = True) -> ReachableState:
    """As it is now."""
    found = ReachableState(whole)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        keep(found, f"model: {name}", tensor)
        found.found[f"model: {name}'s hooks"] = len(tensor._backward_hooks or ())
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                visit(found, f"model: {name}.{key}" if name else f"model: {key}", value, 0)
        own(found, f"model: {name or 'the model'}", type(module))
    visit(found, "loss", loss, 0)
    for key in (key for key in vars(nn_module) if key.startswith("_global")):
        visit(found, f"torch's {key.strip('_')}", vars(nn_module)[key], 0)
    found.found["the environment"] = repr(sorted(os.environ.items()))
    found.found["torch's seed"] = torch.initial_seed()
    found.found["Python's random numbers"] = random.getstate()
    numbers = sys.modules.get("numpy")
    if numbers is not None:
        found.found["numpy's random numbers"] = [
            getattr(part, "tobytes", lambda part=part: part)() for part in numbers.random.get_state()
        ]
    return found


def keep(reachable_state: ReachableState, name: str, tensor: Tensor) -> None:
    reachable_state.found[name] = tensor.detach().clone() if reachable_state.whole else (id(tensor), tensor._version)


def visit(reachable_state: ReachableState, name: str, value: Any, depth: int) -> None:
    """A value, and what hangs on it."""
    if isinstance(value, PLAIN):
        reachable_state.found[name] = repr(value)
        return
    if id(value) in reachable_state.seen or depth > 8 or len(reachable_state.found) > MOST:
        reachable_state.found.setdefault(name, id(value))
        return
    reachable_state.seen[id(value)] = value
    if isinstance(value, Tensor):
        keep(reachable_state, name, value)
    elif isinstance(value, torch.Generator):
        reachable_state.found[name] = str(value.get_state().tolist())
    elif isinstance(value, torch.jit.ScriptFunction):
        raise InputError(
            f"{name}: expected functions whose inside can be followed, found one of torch.jit; use what it was made from"
        )
    elif isinstance(value, random.SystemRandom):
        raise InputError(f"{name}: expected random numbers that can be repeated, found the system's; draw them by torch")
    elif isinstance(value, random.Random):
        reachable_state.found[name] = value.getstate()
    elif isinstance(value, memoryview):
        reachable_state.found[name] = bytes(value)
    elif isinstance(value, contextvars.ContextVar):
        visit(reachable_state, f"{name}.get()", value.get(None), depth + 1)
    elif type(value).__module__ == "numpy":
        reachable_state.found[name] = repr(getattr(value, "tobytes", lambda: value)())
    else:
        parts = list(inside(value))
        reachable_state.found[name] = (id(value), len(parts)) if parts or callable(value) else pickled(value)
        for key, part in parts:
            visit(reachable_state, f"{name}{key}", part, depth + 1)
        if isinstance(value, types.FunctionType):
            written(reachable_state, name, value, depth)
        elif not isinstance(value, type):
            own(reachable_state, name, type(value))


def inside(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a container, a function or an object."""
    if isinstance(value, Mapping):
        yield from (
            (f"[{key!r}]" if isinstance(key, str | int) else f"[{place}]", part) for place, (key, part) in enumerate(value.items())
        )
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{place}]", part) for place, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield "", "".join(sorted(map(repr, value)))
    elif isinstance(value, bytearray | Iterator):
        yield "", repr(value) if isinstance(value, bytearray) else kept(value)
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif hasattr(value, "cache_info"):
        yield ".cache", value.cache_info().currsize
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield f".{name}", cell_of(cell)
        yield ".__defaults__", value.__defaults__
        if is_own_code(value.__code__.co_filename):  # a library's own remembers what it has compiled
            yield ".__dict__", vars(value)
    elif isinstance(value, types.BuiltinMethodType):
        yield ".__self__", None if isinstance(value.__self__, types.ModuleType) else value.__self__
    elif isinstance(value, types.MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif not isinstance(value, types.ModuleType | type):
        yield from ((f".{key}", part) for key, part in getattr(value, "__dict__", {}).items())
        slotted = [base for base in type(value).__mro__ if "__slots__" in vars(base)]
        names = [name for base in slotted for name, member in vars(base).items() if isinstance(member, types.MemberDescriptorType)]
        yield from ((f".{name}", getattr(value, name, None)) for name in names)


def kept(value: Any) -> object:
    """What an iterator would be pickled with: how far it is."""
    try:
        return repr(value.__reduce__()[1:])
    except Exception:  # a generator has nothing of the kind
        frame = getattr(value, "gi_frame", None)
        return pickled(value) if frame is None else repr((frame.f_lasti, frame.f_locals))


def pickled(value: Any) -> object:
    """Of an object whose parts Python does not show, as a generator of random numbers or an array: what it would be saved as."""
    try:
        return pickle.dumps(value)
    except Exception:  # whatever it raises that cannot be saved
        return id(value)


def cell_of(cell: Any) -> Any:
    """What a closure holds; nothing where it is not yet bound."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def written(reachable_state: ReachableState, name: str, function: types.FunctionType, depth: int) -> None:
    """The globals of a user's own function."""
    if not is_own_code(function.__code__.co_filename):
        return
    space = function.__globals__
    label = space.get("__name__", name)
    for key in sorted(names_in(function.__code__) & space.keys()):
        if not isinstance(space[key], types.ModuleType):
            visit(reachable_state, f"{label}.{key}", space[key], depth + 1)
        elif is_own_code(getattr(space[key], "__file__", None) or "<"):
            used(reachable_state, space[key], names_in(function.__code__), depth)


def used(reachable_state: ReachableState, module: types.ModuleType, names: set[str], depth: int) -> None:
    """What a user's own module has of these names."""
    for name in sorted(names & vars(module).keys()):
        if not isinstance(vars(module)[name], types.ModuleType):
            visit(reachable_state, f"{module.__name__}.{name}", vars(module)[name], depth + 1)


def names_in(code: types.CodeType) -> set[str]:
    """Of globals that a function, or one inside of it, may use."""
    nested = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*(names_in(one) for one in nested))


def own(reachable_state: ReachableState, name: str, kind: type) -> None:
    """Attributes of a user's own class, and what its methods use."""
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__)
        file = getattr(module, "__file__", None)
        if id(base) in reachable_state.seen or file is None or is_library(file):
            continue
        reachable_state.seen[id(base)] = base
        for key, value in vars(base).items():
            value = getattr(value, "__func__", value)
            if isinstance(value, types.FunctionType):
                for label, part in inside(value):
                    visit(reachable_state, f"{base.__name__}.{key}{label}", part, 1)
                written(reachable_state, name, value, 0)
            elif not key.startswith("__") and not callable(value):
                visit(reachable_state, f"{base.__name__}.{key}", value, 1)


def equal(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())
    return type(a) is type(b) and bool(a == b)
