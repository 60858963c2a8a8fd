"""Marks of what modules, classes and optimizers hold: two marks are equal where what they were taken of has not changed.

Tensors, numbers, texts and containers of these are compared by value, anything else by identity. Modules are looked for where they are
registered, and in lists, dictionaries and other attributes.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import singledispatch
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

BY_TEXT: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, bytearray)
BY_BYTES: tuple[type, ...] = (np.ndarray, np.generic, array)
BITS = {1: torch.uint8, 2: torch.int16}  # by bytes of a number
SIMPLE = frozenset((type(None), bool, int, float, str))  # values that are their own mark
DEEPEST = 32  # containers in containers
DUNDERS = ("__call__", "__getattr__", "__getattribute__")  # special methods that a forward may run
KEPT_NUMBERS = 2**16  # a tensor of fewer numbers is kept, of a larger one sums
COLUMNS = 1021  # odd and no width of a layer: a factor of two, or of minus one, on all numbers moves every row's sum
REGISTERED = ("_parameters", "_buffers", "_modules")  # attributes in which a module registers what it holds


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    """A mark by identity. The object is kept, so that no other can come to its address."""

    thing: object

    def __eq__(self, other: object) -> bool:
        return type(other) is Itself and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """A tensor's form and bits, so that a NaN is equal to itself. bits: sums for a large tensor; None where they cannot be read."""

    form: tuple[object, ...]
    bits: Tensor | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not TensorValue or self.form != other.form:
            return False
        return self.bits is other.bits or (self.bits is not None and other.bits is not None and torch.equal(self.bits, other.bits))

    def __hash__(self) -> int:
        return hash(self.form)


def numbers(tensor: Tensor) -> TensorValue:
    """Return a mark of a tensor's numbers: its bits, or for a large one their sums by row and by column.

    Edge cases: a subclass is read as torch's own tensor. The form alone is marked of a subclass with its own dispatch, a sparse or
    quantised tensor, and one without storage.
    """
    with torch._C.DisableTorchFunctionSubclass():
        form = tensor.shape, tensor.dtype, tensor.device, tensor.layout
        plain = type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__ and tensor.layout is torch.strided
        if not plain or tensor.is_meta or tensor.is_quantized:
            return TensorValue(form, None)
        return TensorValue(form, _bits(tensor.as_subclass(Tensor)))


def _bits(tensor: Tensor) -> Tensor:
    kind = BITS.get(tensor.element_size(), torch.int32)
    bits = (tensor.resolve_conj().resolve_neg() if tensor.is_complex() or tensor.is_neg() else tensor).detach()
    bits = bits.contiguous().reshape(-1).view(kind)
    if len(bits) < KEPT_NUMBERS:
        return bits.clone()
    table = bits[: len(bits) // COLUMNS * COLUMNS].view(-1, COLUMNS)
    sums = [table.sum(dim, dtype=torch.int32) for dim in (0, 1)]
    return torch.cat([*sums, bits[table.numel() :].int()])


@singledispatch
def mark(value: Any) -> object:
    """Return the mark of a value, without its parts."""
    return Itself(value)


@mark.register
def _(value: Tensor) -> object:
    bits = numbers(value)
    return Itself(value), bits, version(value) if bits.bits is None else None


@mark.register
def _(value: Mapping) -> object:  # type: ignore[type-arg]
    return type(value), tuple(mark(key) for key in value)


@mark.register(list)
@mark.register(tuple)
@mark.register(deque)
def _(value: Any) -> object:
    return type(value), len(value)


@mark.register
def _(value: AbstractSet) -> object:  # type: ignore[type-arg]
    return type(value), frozenset(value)


def version(value: Tensor) -> int | None:
    """Return torch's count of writes; of a tensor that torch.inference_mode made there is none."""
    return None if value.is_inference() else value._version


def _text_mark(value: Any) -> object:
    return type(value), repr(value)


def _byte_mark(value: Any) -> object:
    return type(value), getattr(value, "shape", ()), value.tobytes()


for _type in BY_TEXT:
    mark.register(_type)(_text_mark)
for _type in BY_BYTES:
    mark.register(_type)(_byte_mark)


@singledispatch
def parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the parts of a container, by name; nothing for other values."""
    return ()


@parts.register
def _(value: Mapping) -> Iterable[tuple[str, Any]]:  # type: ignore[type-arg]
    for place, (key, part) in enumerate(value.items()):
        yield (f"[{key!r}]" if type(key) in (str, int) else f"[key {place}]"), part
        if type(key) not in (str, int):
            yield f"'s key {place}", key


@parts.register(list)
@parts.register(tuple)
@parts.register(deque)
def _(value: Any) -> Iterable[tuple[str, Any]]:
    return ((f"[{place}]", part) for place, part in enumerate(value))


def marks_of(name: str, value: Any, known: AbstractSet[int] = frozenset(), depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield marks of a value and of its parts, by name. known: ids of objects that are compared elsewhere, and marked by identity."""
    if id(value) in known:
        yield name, Itself(value)
        return
    yield name, mark(value)
    if depth < DEEPEST:
        for key, part in parts(value):
            yield from marks_of(f"{name}{key}", part, known | {id(value)}, depth + 1)


def attributes(
    name: str, values: Mapping[str, Any], excluded: AbstractSet[str], known: AbstractSet[int]
) -> Iterator[tuple[str, object]]:
    """Yield marks of an object's attributes, without the excluded ones."""
    for key, value in values.items():
        if key in excluded or (type(value) in (dict, OrderedDict) and not value):  # most are empty dictionaries of hooks
            continue
        if type(value) in SIMPLE:
            yield f"{name}: {key}", value
        else:
            yield from marks_of(f"{name}: {key}", value, known)


def class_marks(cls: type) -> Iterator[tuple[str, object]]:
    """Yield marks of a class: its functions and their code, and other attributes."""
    name = f"the class {cls.__qualname__}"
    values = {key: value for key, value in vars(cls).items() if not key.startswith("__") or key in DUNDERS}
    functions = {key: value for key, value in values.items() if type(value) is FunctionType}
    yield f"{name}: methods", {key: (value, value.__code__, Itself(value.__defaults__)) for key, value in functions.items()}
    yield from attributes(name, values, functions.keys(), frozenset())


def every_module(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module once, by a name that says where it is."""
    seen: set[int] = set()
    waiting: list[tuple[str, nn.Module]] = [("", model)]
    for place, root in waiting:  # which grows meanwhile
        for name, module in root.named_modules(prefix=place):
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            for key, value in vars(module).items():
                if key not in REGISTERED and type(value) not in SIMPLE:
                    waiting.extend(_modules_in(f"{name}.{key}" if name else key, value, frozenset()))


def every_tensor(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return the parameters and buffers of the modules, by name and each once."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, module in modules.items():
        for key, tensor in (*module.named_parameters(name, recurse=False), *module.named_buffers(name, recurse=False)):
            tensors.setdefault(id(tensor), (key, tensor))
    return dict(tensors.values())


def _modules_in(name: str, value: Any, above: frozenset[int]) -> Iterator[tuple[str, nn.Module]]:
    """Yield modules in containers of containers. above: ids of the containers that this value is in."""
    if isinstance(value, nn.Module):
        yield name, value
    elif id(value) not in above and len(above) < DEEPEST:
        for key, part in parts(value):
            yield from _modules_in(f"{name}{key}", part, above | {id(value)})
