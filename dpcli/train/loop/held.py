"""What modules, classes and optimizers hold, as marks that are equal where it is the same: tensors, numbers, texts and containers of these
by value, anything else by which object it is.
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
from torch import Tensor

PLAIN: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, bytearray)
BYTES: tuple[type, ...] = (np.ndarray, np.generic, array)
BITS = {1: torch.uint8, 2: torch.int16}  # by bytes of a number
SIMPLE = frozenset((type(None), bool, int, float, str))
DEEPEST = 32  # containers in containers
READ_BY_ATTRIBUTE = ("__call__", "__getattr__", "__getattribute__")
WHOLE = 2**16  # numbers of a tensor that is kept as it is
COLUMNS = 1021  # odd and no width of a layer: a factor of two, or of minus one, on all numbers moves every row's sum


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    """An object, equal to itself alone; it is kept, so that no other one can come to its address."""

    thing: object

    def __eq__(self, other: object) -> bool:
        return type(other) is Itself and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """A tensor's form and bits, so that a NaN is equal to itself. bits: sums, where there are many; None where they cannot be read."""

    form: tuple[object, ...]
    bits: Tensor | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not TensorValue or self.form != other.form:
            return False
        return self.bits is other.bits or (self.bits is not None and other.bits is not None and torch.equal(self.bits, other.bits))

    def __hash__(self) -> int:
        return hash(self.form)


def numbers(tensor: Tensor) -> TensorValue:
    """Of a large tensor, sums of its bits by row and by column of a table: changes that leave all of these are not by accident.

    Edge cases: a subclass is read as torch's own; of one that says itself what operators do, of a sparse or quantised tensor and of one
    without storage the form alone.
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
    if len(bits) < WHOLE:
        return bits.clone()
    table = bits[: len(bits) // COLUMNS * COLUMNS].view(-1, COLUMNS)
    sums = [table.sum(dim, dtype=torch.int32) for dim in (0, 1)]
    return torch.cat([*sums, bits[table.numel() :].int()])


@singledispatch
def mark(value: Any) -> object:
    """One value, without its parts."""
    return Itself(value)


@mark.register
def _(value: Tensor) -> object:
    found = numbers(value)
    return Itself(value), found, version(value) if found.bits is None else None


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
    """torch's count of writes; of a tensor that torch.inference_mode made there is none."""
    return None if value.is_inference() else value._version


def shown(value: Any) -> object:
    return type(value), repr(value)


def raw(value: Any) -> object:
    return type(value), getattr(value, "shape", ()), value.tobytes()


for _plain in PLAIN:
    mark.register(_plain)(shown)
for _bytes in BYTES:
    mark.register(_bytes)(raw)


@singledispatch
def parts(value: Any) -> Iterable[tuple[str, Any]]:
    """What is looked at inside of it."""
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


def held(name: str, value: Any, known: AbstractSet[int] = frozenset(), depth: int = 0) -> Iterator[tuple[str, object]]:
    """Marks of a value and of its parts, by name. known: ids of what is compared elsewhere, here only by which object it is."""
    if id(value) in known:
        yield name, Itself(value)
        return
    yield name, mark(value)
    if depth < DEEPEST:
        for key, part in parts(value):
            yield from held(f"{name}{key}", part, known | {id(value)}, depth + 1)


def attributes(
    name: str, values: Mapping[str, Any], apart: AbstractSet[str], known: AbstractSet[int]
) -> Iterator[tuple[str, object]]:
    """Marks of an object's attributes but for those that stand apart."""
    for key, value in values.items():
        if key not in apart:
            if type(value) in SIMPLE:
                yield f"{name}: {key}", value
            elif type(value) not in (dict, OrderedDict) or value:  # most are dictionaries of no hooks
                yield from held(f"{name}: {key}", value, known)


def of_class(kind: type) -> Iterator[tuple[str, object]]:
    """What a class says its instances are: its functions and their code, and other attributes."""
    name, own = f"the class {kind.__qualname__}", vars(kind)
    named = {key: value for key, value in own.items() if key[:2] != "__" or key in READ_BY_ATTRIBUTE}
    functions = {key: value for key, value in named.items() if type(value) is FunctionType}
    yield f"{name}: methods", {key: (value, value.__code__, Itself(value.__defaults__)) for key, value in functions.items()}
    yield from attributes(name, named, functions.keys(), frozenset())
