"""Marks: values that change if the state of a module, a class or an optimizer changes.

With `dpcli.private`, the user's own loop takes private steps. Its guard (loop/guard.py) compares the marks of two moments between which
nothing may change, because a changed state could carry private data into the model without noise.

Numbers, texts, arrays and containers of these are marked by value. Tensors are marked by identity and by value, and all other objects by
identity. Modules are found among the registered submodules, and in the lists, tuples and dictionaries that are attributes of modules.
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

from dpcli.train.torch_internals import without_subclass_functions

# Types whose values are marked by their repr.
BY_TEXT: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, bytearray)
# Types whose values are marked by their shape and bytes.
BY_BYTES: tuple[type, ...] = (np.ndarray, np.generic, array)
INTEGER_TYPES = {1: torch.uint8, 2: torch.int16}  # integer types by the size of a number in bytes; larger numbers use int32
SIMPLE_TYPES = frozenset((type(None), bool, int, float, str))  # a value of these types is its own mark
# A container within this many containers is marked without its parts, so that a search always ends. A change deeper inside is missed.
# Arbitrary.
DEEPEST_NESTING = 32
SPECIAL_METHODS = ("__call__", "__getattr__", "__getattribute__")  # special methods that a forward pass may call
# A mark copies a tensor of fewer integers, and holds sums of a larger one, which take less memory. A change that leaves all sums equal is
# missed. The statement of a run names this number (UNCHECKED in loop/private.py).
COPIED_NUMBERS = 2**16
# Columns of the table that is summed. The number is odd: doubling a float32 adds 2^23 to its integer, and 512 such terms would vanish from
# a sum of 32 bits. It is also no usual layer width.
COLUMNS = 1021
REGISTERED = ("_parameters", "_buffers", "_modules")  # attributes of a module with its parameters, buffers and submodules


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A mark by identity. It holds a reference to the object, so that no later object can get the same address."""

    marked: object

    def __eq__(self, other: object) -> bool:
        return type(other) is Identity and other.marked is self.marked

    def __hash__(self) -> int:
        return id(self.marked)


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """A mark of a tensor's numbers. Their bits are compared, so that a NaN is equal to itself.

    Attributes:
        form: Shape, type, device and layout.
        bits: Bits of the numbers as integers, or sums of these integers for a large tensor. None if the numbers cannot be read.
    """

    form: tuple[object, ...]
    bits: Tensor | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not TensorValue or self.form != other.form:
            return False
        if self.bits is None or other.bits is None:
            return self.bits is other.bits
        return torch.equal(self.bits, other.bits)

    def __hash__(self) -> int:
        return hash(self.form)


def value_mark(tensor: Tensor) -> TensorValue:
    """Return a mark of a tensor's numbers.

    A tensor of a subclass is read as a plain torch tensor. The mark contains only the form for a subclass with its own dispatch, for a
    sparse or quantised tensor, and for a tensor without storage.
    """
    with without_subclass_functions():
        form = tensor.shape, tensor.dtype, tensor.device, tensor.layout
        plain = type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__ and tensor.layout is torch.strided
        if not plain or tensor.is_meta or tensor.is_quantized:
            return TensorValue(form, None)
        return TensorValue(form, _bits(tensor.as_subclass(Tensor)))


def _bits(tensor: Tensor) -> Tensor:
    """Return the bits of a tensor's numbers as integers.

    For a large tensor, the integers form a table. Return the sums of its rows and of its columns, and the integers after its last row.
    """
    integer_type = INTEGER_TYPES.get(tensor.element_size(), torch.int32)
    if tensor.is_complex() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    bits = tensor.detach().contiguous().reshape(-1).view(integer_type)
    if len(bits) < COPIED_NUMBERS:
        return bits.clone()
    table = bits[: len(bits) // COLUMNS * COLUMNS].view(-1, COLUMNS)
    sums = [table.sum(dim, dtype=torch.int32) for dim in (0, 1)]
    return torch.cat([*sums, bits[table.numel() :].int()])


@singledispatch
def mark(value: Any) -> object:
    """Return the mark of a value without its parts. By default a value is marked by identity."""
    return Identity(value)


@mark.register
def _tensor_mark(value: Tensor) -> object:
    """Return the tensor by identity, its numbers, and torch's count of writes if the numbers cannot be read."""
    content = value_mark(value)
    return Identity(value), content, version(value) if content.bits is None else None


@mark.register
def _mapping_mark(value: Mapping) -> object:  # type: ignore[type-arg]
    """Return the type of a mapping and the marks of its keys, in order."""
    return type(value), tuple(mark(key) for key in value)


@mark.register(list)
@mark.register(tuple)
@mark.register(deque)
def _sequence_mark(value: Any) -> object:
    """Return the type and the length of a sequence."""
    return type(value), len(value)


@mark.register
def _set_mark(value: AbstractSet) -> object:  # type: ignore[type-arg]
    """Return the type and the elements of a set, which are compared by their own equality."""
    return type(value), frozenset(value)


def version(value: Tensor) -> int | None:
    """Return torch's count of writes to a tensor; None for a tensor made in torch.inference_mode, which has no count."""
    return None if value.is_inference() else value._version


def _text_mark(value: Any) -> object:
    """Return the type and the repr of a value, so that 1, 1.0 and True differ."""
    return type(value), repr(value)


def _byte_mark(value: Any) -> object:
    """Return the type, the shape and the bytes of an array."""
    return type(value), getattr(value, "shape", ()), value.tobytes()


for _type in BY_TEXT:
    mark.register(_type)(_text_mark)
for _type in BY_BYTES:
    mark.register(_type)(_byte_mark)


@singledispatch
def parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the parts of a container, each with its name. Other values have no parts."""
    return ()


@parts.register
def _mapping_parts(value: Mapping) -> Iterable[tuple[str, Any]]:  # type: ignore[type-arg]
    for index, (key, part) in enumerate(value.items()):
        if type(key) in (str, int):
            yield f"[{key!r}]", part
        else:
            yield f"[key {index}]", part
            yield f"'s key {index}", key


@parts.register(list)
@parts.register(tuple)
@parts.register(deque)
def _sequence_parts(value: Any) -> Iterable[tuple[str, Any]]:
    return ((f"[{index}]", part) for index, part in enumerate(value))


def marks_of(name: str, value: Any, known: AbstractSet[int] = frozenset(), depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield the marks of a value and of its parts, each with its name.

    Args:
        known: Ids of objects whose content the guard compares elsewhere. They are marked by identity alone.
    """
    if id(value) in known:
        yield name, Identity(value)
        return
    yield name, mark(value)
    if depth < DEEPEST_NESTING:
        for key, part in parts(value):
            yield from marks_of(f"{name}{key}", part, known | {id(value)}, depth + 1)


def attributes(
    name: str, values: Mapping[str, Any], excluded: AbstractSet[str], known: AbstractSet[int]
) -> Iterator[tuple[str, object]]:
    """Yield the marks of an object's attributes, except for the excluded names and empty dictionaries.

    Most empty dictionaries in modules are those of hooks. A hook that is added later adds marks, so the change is still found.
    """
    for key, value in values.items():
        if key in excluded or (type(value) in (dict, OrderedDict) and not value):
            continue
        if type(value) in SIMPLE_TYPES:
            yield f"{name}: {key}", value
        else:
            yield from marks_of(f"{name}: {key}", value, known)


def class_marks(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the marks of a class, for its functions with their code and for its other attributes."""
    name = f"the class {cls.__qualname__}"
    values = {key: value for key, value in vars(cls).items() if not key.startswith("__") or key in SPECIAL_METHODS}
    functions = {key: value for key, value in values.items() if type(value) is FunctionType}
    # The code and the defaults of a function can be replaced while the function stays the same object.
    yield f"{name}: methods", {key: (value, value.__code__, Identity(value.__defaults__)) for key, value in functions.items()}
    yield from attributes(name, values, functions.keys(), frozenset())


def every_module(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module of a model once, with a name that gives its position in the model."""
    visited: set[int] = set()
    waiting: list[tuple[str, nn.Module]] = [("", model)]
    for prefix, root in waiting:  # the list grows in the loop, when modules are found in attributes
        for name, module in root.named_modules(prefix=prefix):
            if id(module) in visited:
                continue
            visited.add(id(module))
            yield name, module
            for key, value in vars(module).items():
                if key not in REGISTERED and type(value) not in SIMPLE_TYPES:
                    waiting.extend(_modules_in(f"{name}.{key}" if name else key, value, frozenset()))


def every_tensor(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return the parameters and buffers of the modules by name, each once."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, module in modules.items():
        for key, tensor in (*module.named_parameters(name, recurse=False), *module.named_buffers(name, recurse=False)):
            tensors.setdefault(id(tensor), (key, tensor))
    return dict(tensors.values())


def _modules_in(name: str, value: Any, outer: frozenset[int]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules in a value and in nested containers, each with its name.

    Args:
        outer: Ids of the containers around the value.
    """
    if isinstance(value, nn.Module):
        yield name, value
    elif id(value) not in outer and len(outer) < DEEPEST_NESTING:
        for key, part in parts(value):
            yield from _modules_in(f"{name}{key}", part, outer | {id(value)})
