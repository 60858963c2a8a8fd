"""Random calls of torch's operators, made from their schemas. Some arguments hold records along a random dimension."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpcli.train.isolation import moves, operators
from dpcli.train.isolation.layout import SHARED, AlongRecords, Layout, RecordIndices
from dpcli.train.isolation.operators import OPERANDS, RULES, Rule

CLASSES = 3  # places that an index may name


@dataclass(frozen=True, slots=True)
class Times:
    """So many times the number of records, as a length."""

    by: int


Length = int | Times


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor: its shape, what it holds, its type, and for whole numbers how many there are to choose from."""

    shape: tuple[Length, ...]
    kind: Layout = SHARED
    dtype: torch.dtype = torch.float64
    choices: int = CLASSES


@dataclass(frozen=True, slots=True)
class Example:
    """What is called, and with what: Arguments and Times in it stand for tensors and lengths."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    written: tuple[int, ...] = ()  # positions of what is written to


class Drawn:
    """One draw: a shape with records along one dimension, and tensors that go with it."""

    shape: list[Length]

    def __init__(self, seed: Any, like: Argument | None = None) -> None:
        self.random = random.Random(str(seed))
        self.dtype = torch.float64
        if like is not None:
            assert isinstance(like.kind, AlongRecords)
            self.dim, self.outer, self.inner, self.dtype = like.kind.dim, like.kind.outer, like.kind.inner, like.dtype
            self.rank, self.shape = len(like.shape), list(like.shape)
            return
        self.rank = self.random.randint(1, 4)
        self.dim = self.random.randrange(self.rank)
        self.outer, self.inner = self.random.choice([(1, 1)] * 5 + [(2, 1), (1, 2), (2, 3)])
        self.shape = [self.random.choice([1, 2, 2, 3, 4]) for _ in range(self.rank)]
        self.shape[self.dim] = Times(self.outer * self.inner)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def kind(self, dim: int | None = None) -> AlongRecords:
        return AlongRecords(self.dim if dim is None else dim, self.outer, self.inner)

    def rows(self, shape: Sequence[Length] | None = None, dim: int | None = None, **more: Any) -> Argument:
        """Records as drawn, or in another shape along `dim`."""
        return Argument(tuple(self.shape if shape is None else shape), self.kind(dim), **more)

    def beside(self, **more: Any) -> Argument:
        """What may stand beside the first tensor: the same layout, one that is broadcast, one along another dimension, what all share."""
        pick, shape = self.random.random(), list(self.shape)
        if pick < 0.5:
            return self.rows(**more)
        if pick < 0.55 and self.outer != self.inner:
            return Argument(tuple(shape), AlongRecords(self.dim, self.inner, self.outer), **more)
        if pick < 0.65:
            return self.rows([n if i == self.dim or self.chance(0.5) else 1 for i, n in enumerate(shape)], **more)
        if pick < 0.72 and self.rank > 1:
            other = self.random.choice([i for i in range(self.rank) if i != self.dim])
            shape[other], shape[self.dim] = shape[self.dim], shape[other] if self.chance(0.5) else 1
            return self.rows(shape, other, **more)
        if pick < 0.78 and self.dim:
            cut = self.random.randint(1, self.dim)
            return self.rows(shape[cut:], self.dim - cut, **more)
        if pick < 0.84:
            return Argument(tuple(shape), AlongRecords(self.dim, self.outer, self.inner, identical=True), **more)
        shape[self.dim] = 1
        cut = self.random.randint(0, self.rank)
        return Argument(tuple(n if self.chance(0.7) else 1 for n in shape[cut:]), **more)


WHOLE = ("index", "indices", "target")
TRUTHS = ("mask", "condition")


def tensor(drawn: Drawn, name: str, first: bool) -> Argument:
    """For an argument of this name."""
    more: dict[str, Any] = {}
    if name in WHOLE:
        more = {"dtype": torch.int64}
        if drawn.chance(0.1):
            return Argument((Times(1),), RecordIndices(0), torch.int64)
    elif name in TRUTHS:
        more = {"dtype": torch.bool}
    elif drawn.chance(0.1):
        more = {"dtype": drawn.random.choice([torch.int64, torch.bool])}
    return drawn.rows(**more) if first else drawn.beside(**more)


def number(drawn: Drawn, name: str) -> Any:
    """For a whole number of this name."""
    if name in ("dim", "dimension") and drawn.chance(0.6):
        return drawn.random.choice(others(drawn) or [0])
    if name.startswith(("dim", "axis", "start_dim", "end_dim")):
        return drawn.random.randint(-drawn.rank - (name == "dim"), drawn.rank)
    if drawn.chance(0.05):
        return Times(1)
    return {
        "reduction": 0 if drawn.chance(0.85) else 1,
        "step": drawn.random.choice([1, 1, 2]),
        "end": drawn.random.choice([1, 2, 3, 2**63 - 1]),
        "k": drawn.random.choice([1, 2]),
        "chunks": 2,
        "split_size": drawn.random.choice([1, 2]),
        "size": drawn.random.choice([1, 2]),
    }.get(name, drawn.random.choice([0, 0, 1, 2, -1]))


def others(drawn: Drawn) -> list[int]:
    """Some dimensions, in any order, and not that of the records."""
    found = [dim for dim in range(drawn.rank) if dim != drawn.dim]
    return drawn.random.sample(found, drawn.random.randint(1, len(found))) if found else []


def lengths(drawn: Drawn, name: str) -> list[Length]:
    """For a list of whole numbers of this name."""
    pick = drawn.random
    if name in ("dim", "dims") and drawn.chance(0.9):
        found = others(drawn) if drawn.chance(0.7) else pick.sample(range(drawn.rank), pick.randint(0, drawn.rank))
        return [d - drawn.rank if drawn.chance(0.3) else d for d in found]
    if name == "repeats":
        return [pick.choice([1, 1, 2, 3]) for _ in range(drawn.rank + pick.randint(0, 2))]
    if name == "pad":
        return [pick.choice([0, 1, 1, -1]) for _ in range(2 * pick.randint(1, drawn.rank))]
    if name == "split_sizes":
        return [1, 1] if drawn.chance(0.6) else [1, 2]
    return [pick.choice([1, 2]) for _ in range(pick.randint(1, drawn.rank))]


def value(drawn: Drawn, argument: Any, first: bool) -> Any:
    """For any argument of a schema."""
    kind, name = str(argument.real_type), argument.name
    optional = kind.startswith("Optional")
    if optional and drawn.chance(0.3 if "Tensor" in kind else 0.5):
        return None
    inner = kind[9:-1] if optional else kind
    if inner == "Tensor":
        return tensor(drawn, name, first)
    if inner == "List[Tensor]":
        return [tensor(drawn, name, i == 0) for i in range(drawn.random.choice([1, 2, 2, 3]))]
    if inner == "int":
        return torch.float64 if name.endswith("dtype") else None if name in ("layout", "memory_format") else number(drawn, name)
    if inner == "List[int]":
        return lengths(drawn, name)
    if inner == "bool":
        return False if name in ("half_to_float", "pin_memory") else drawn.chance(0.5)
    if inner in ("float", "number"):
        return drawn.random.choice([0.5, 0.25, 1.0, 2.0]) if name not in ("p", "beta") else 0.5
    if inner == "str":
        return {"reduce": drawn.random.choice(["sum", "prod", "mean", "amax", "add"]), "approximate": "tanh"}.get(name, "none")
    if inner == "ScalarType":
        return drawn.random.choice([torch.float64, torch.float32]) if name == "dtype" else torch.float64
    return None if optional else argument.default_value


def overloads(name: str) -> Iterator[Any]:
    """All of them, in place too, but those that write into what they are given besides."""
    for packet in (getattr(torch.ops.aten, name, None), getattr(torch.ops.aten, name + "_", None)):
        for overload in packet.overloads() if packet is not None else ():
            found = getattr(packet, overload)
            texts = [str(argument.real_type) for argument in found._schema.arguments]
            written = [a.name for a in found._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
            if any("Tensor" in text for text in texts) and not any(a.is_out for a in found._schema.arguments) and len(written) <= 2:
                yield found


def by_schema(name: str, drawn: Drawn) -> Example:
    """Any arguments that an operator's schema allows."""
    return of(drawn.random.choice([*overloads(name)]), drawn)


def of(overload: Any, drawn: Drawn, **given: Any) -> Example:
    """One overload's arguments by its schema, but for those that are given."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    first = True
    for argument in overload._schema.arguments:
        if argument.name in given:
            found = given[argument.name]
        elif argument.name == "generator":
            found = None
        else:
            found = value(drawn, argument, first)
            first = first and not isinstance(found, Argument | list)
        if argument.kwarg_only:
            kwargs[argument.name] = found
        else:
            args.append(found)
    written = tuple(
        i
        for i, a in enumerate(overload._schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write and not a.kwarg_only
    )
    return Example(overload._schema.name.split("::")[1], overload, tuple(args), kwargs, written)


def default(name: str) -> Any:
    """The usual overload of an operator."""
    return next(overloads(name))


def shapes(drawn: Drawn) -> list[Length]:
    """Another shape for the same numbers: neighbours joined, lengths parted, ones put in, or a guess."""
    found: list[Length] = list(drawn.shape)
    for _ in range(drawn.random.randint(1, 3)):
        at = drawn.random.randrange(len(found)) if found else 0
        pick = drawn.random.random()
        if pick < 0.45 and len(found) > 1:
            at = drawn.random.randrange(len(found) - 1)
            found[at : at + 2] = [joined(found[at], found[at + 1])]
        elif pick < 0.75 and found:
            found[at : at + 1] = parted(drawn, found[at])
        elif pick < 0.9:
            found.insert(at, 1)
        else:
            drawn.random.shuffle(found)
    if found and drawn.chance(0.2):
        found[drawn.random.randrange(len(found))] = -1
    return found


def joined(one: Length, other: Length) -> Length:
    a, b = (n.by if isinstance(n, Times) else n for n in (one, other))
    return Times(a * b) if isinstance(one, Times) or isinstance(other, Times) else a * b


def parted(drawn: Drawn, length: Length) -> list[Length]:
    whole = length.by if isinstance(length, Times) else length
    part = drawn.random.choice([n for n in range(1, whole + 1) if whole % n == 0])
    found: list[Length] = [part, Times(whole // part) if isinstance(length, Times) else whole // part]
    return found if drawn.chance(0.5) else found[::-1]


def viewed(name: str, drawn: Drawn) -> Example:
    overload = default(name)
    x = drawn.rows()
    if name == "flatten":
        return of(overload, drawn, self=x)
    if name == "unflatten":
        dim = drawn.random.randrange(drawn.rank)
        return of(overload, drawn, self=x, dim=dim, sizes=parted(drawn, drawn.shape[dim]))
    if name in ("view", "view_copy") and drawn.chance(0.15):
        kinds = [torch.int32, torch.int64, torch.float32, torch.float64, torch.complex128, torch.int16]
        return of(
            getattr(torch.ops.aten, name).dtype,
            drawn,
            self=drawn.rows(dtype=drawn.random.choice(kinds)),
            dtype=drawn.random.choice(kinds),
        )
    size = shapes(drawn)
    return Example(name, overload, (x, size), {})


def permuted(name: str, drawn: Drawn) -> Example:
    dims = drawn.random.sample(range(drawn.rank), drawn.rank)
    return Example(name, default(name), (drawn.rows(), [dim - drawn.rank if drawn.chance(0.3) else dim for dim in dims]), {})


def conjugated(name: str, drawn: Drawn) -> Example:
    """Among what keeps places: some are of complex numbers only."""
    return of(default(name), drawn, self=drawn.rows(dtype=torch.complex128)) if name == "_conj" else by_schema(name, drawn)


def expanded(name: str, drawn: Drawn) -> Example:
    more = [drawn.random.choice([1, 2, 3, Times(1)] if drawn.chance(0.2) else [1, 2, 3]) for _ in range(drawn.random.randint(0, 2))]
    size = [*more, *(n if n != 1 or drawn.chance(0.5) else 3 for n in drawn.shape)]
    return Example(name, default(name), (drawn.rows(), [-1 if isinstance(n, Times) and drawn.chance(0.3) else n for n in size]), {})


def backwards(name: str, drawn: Drawn) -> Example:
    """Of select and of slice."""
    shape, dim = list(drawn.shape), drawn.random.randrange(drawn.rank + (name == "select_backward"))
    if name == "select_backward":
        shape.insert(dim, drawn.random.choice([1, 2, 3, Times(1)] if drawn.chance(0.2) else [1, 2, 3]))
        return of(default(name), drawn, grad_output=drawn.rows(), input_sizes=shape, dim=dim, index=drawn.random.choice([0, 0, -1]))
    start, step, length = drawn.random.choice([0, 0, 1]), drawn.random.choice([1, 1, 2]), shape[dim]
    if isinstance(length, Times):
        shape[dim] = drawn.random.choice([length, Times(2 * length.by)])
        return of(default(name), drawn, grad_output=drawn.rows(), input_sizes=shape, dim=dim, start=0, end=length, step=1)
    end = start + (length - 1) * step + 1
    shape[dim] = end + drawn.random.choice([0, 1])
    return of(default(name), drawn, grad_output=drawn.rows(), input_sizes=shape, dim=dim, start=start, end=end, step=step)


def picked(name: str, drawn: Drawn) -> Example:
    """gather and scatter."""
    dim = drawn.random.randrange(drawn.rank)
    shape = list(drawn.shape)
    if not isinstance(shape[dim], Times):
        shape[dim] = CLASSES
    x = drawn.rows(shape)
    index = drawn.rows(drawn.shape, dtype=torch.int64) if drawn.chance(0.75) else drawn.beside(dtype=torch.int64)
    more = {"grad": index, "src": Argument(index.shape, index.kind) if drawn.chance(0.8) else drawn.beside()}
    if name == "gather_backward":
        more["grad"] = more["src"]
    return of(drawn.random.choice([*overloads(name)]), drawn, self=x, dim=dim, index=index, **more)


def index_selected(name: str, drawn: Drawn) -> Example:
    dim = drawn.random.randrange(drawn.rank)
    shape = list(drawn.shape)
    if not isinstance(shape[dim], Times):
        shape[dim] = CLASSES
    shared = Argument(tuple(2 if isinstance(n, Times) else n for n in shape), choices=2)
    rows = Argument((Times(drawn.outer * drawn.inner),), drawn.kind(0), torch.int64, 1 if drawn.chance(0.5) else 2)
    index = rows if drawn.chance(0.5) else Argument((2,), dtype=torch.int64, choices=2)
    if drawn.chance(0.2):
        index = Argument((Times(1),), RecordIndices(0), torch.int64)
    return of(default(name), drawn, self=shared if drawn.chance(0.4) else drawn.rows(shape), dim=dim, index=index)


def indexed(name: str, drawn: Drawn) -> Example:
    """Own rows, places of the batch, and what all share, at some of the dimensions."""
    own = [n if isinstance(n, Times) else CLASSES for n in drawn.shape]
    shared = drawn.chance(0.35)
    shape: list[Length] = [CLASSES if isinstance(n, Times) else n for n in own] if shared else own
    x = Argument(tuple(shape)) if shared else drawn.rows(shape)
    depth = drawn.random.randint(1, 2)
    at = drawn.random.randrange(depth)
    index_shape: list[Length] = [drawn.random.choice([1, 2]) for _ in range(depth)]
    indices: list[Any] = []
    for place, length in enumerate(shape):
        pick = drawn.random.random()
        if isinstance(length, Times) or pick < 0.25:
            if isinstance(length, Times) and drawn.chance(0.5):
                indices.append(Argument((Times(1), *[1] * (depth - 1 - at)), RecordIndices(0), torch.int64))
            else:
                indices.append(None if not drawn.chance(0.1) else Argument((2,), dtype=torch.int64, choices=2))
        elif pick < 0.7:
            rows = list(index_shape)
            rows[at] = Times(drawn.outer * drawn.inner)
            indices.append(Argument(tuple(rows), drawn.kind(at), torch.int64))
        else:
            indices.append(
                Argument(
                    tuple(index_shape[1:] if drawn.chance(0.3) else [n if i != at else 1 for i, n in enumerate(index_shape)]),
                    dtype=torch.int64,
                )
            )
        del place
    if all(index is None for index in indices):
        indices[-1] = Argument((2,), dtype=torch.int64, choices=2)
    function = next(o for o in overloads(name) if "hacked" not in o._overloadname)
    if "put" not in name:
        return Example(name, function, (x, indices), {})
    count = Times(drawn.outer * drawn.inner)
    before, after = drawn.random.randint(0, 1), drawn.random.randint(0, 2)
    values = drawn.random.choice(
        [drawn.beside(), drawn.rows([*[1] * before, count, *[1] * after], before), Argument(()), Argument((1,))]
    )
    return of(function, drawn, self=x, indices=indices, values=values)


def product(name: str, drawn: Drawn) -> Example:
    """Operands of fitting lengths, each with records along any of its dimensions, or none."""
    overload = default(name)
    left, right = OPERANDS[name]
    middle: list[Length] = [2, 3, 4]
    batch = [drawn.random.choice([1, 2])] if "b" in name.replace("mm", "") else []
    names = {"mm": "nm mp", "addmm": "nm mp", "bmm": "bnm bmp", "baddbmm": "bnm bmp", "mv": "nm m", "dot": "m m"}[name].split()
    sizes: dict[str, Length] = {"b": (batch or [1])[0], "n": middle[0], "m": middle[1], "p": middle[2]}
    letter = drawn.random.choice([*dict.fromkeys("".join(names))])
    sizes[letter] = Times(drawn.outer * drawn.inner)
    result = {2: "np", 3: "bnp"}[len(names[0])] if len(names[1]) > 1 else {2: "n", 1: ""}[len(names[0])]

    def operand(letters: str) -> Argument:
        shape = tuple(sizes[one] for one in letters)
        return Argument(shape, drawn.kind(letters.index(letter))) if letter in letters else Argument(shape)

    found = {left: operand(names[0]), right: operand(names[1])}
    if "self" not in found:
        added = operand(result)
        if letter in result and drawn.chance(0.3):
            added = Argument(tuple(1 if isinstance(n, Times) else n for n in added.shape))
        found["self"] = added
    if drawn.chance(0.15):
        one = drawn.random.choice([left, right])
        found[one] = (
            Argument(found[one].shape, AlongRecords(found[one].kind.dim, drawn.outer, drawn.inner, identical=True))
            if isinstance(found[one].kind, AlongRecords)
            else found[one]
        )
    return of(overload, drawn, **found)


def normalised(name: str, drawn: Drawn) -> Example:
    """Layer and RMS normalisation over the last dimensions."""
    last = drawn.random.randint(1, drawn.rank)
    shape = [n if not isinstance(n, Times) else 2 for n in drawn.shape[drawn.rank - last :]]
    weight = Argument(tuple(shape)) if drawn.chance(0.9) else Argument((Times(1),), AlongRecords(0))
    x, sizes = drawn.rows(), [n if drawn.chance(0.98) else 2 for n in drawn.shape[drawn.rank - last :]]
    norm = torch.ops.aten._fused_rms_norm.default if "rms" in name else torch.ops.aten.native_layer_norm.default
    extra = () if "rms" in name else (weight,)
    if "backward" not in name:
        return Example(name, default(name), (x, sizes, weight, *extra, 1e-3), {})
    other = drawn.beside()
    gradient = other if other.shape == x.shape else x  # torch reads beyond the end of a smaller one

    def back(gradient: Tensor, x: Tensor, weight: Tensor, sizes: Any) -> Any:
        forward = norm(x, sizes, weight, 1e-3) if "rms" in name else norm(x, sizes, weight, weight, 1e-3)
        if "rms" in name:
            return torch.ops.aten._fused_rms_norm_backward(gradient, x, sizes, forward[1], weight, [True, True])
        return torch.ops.aten.native_layer_norm_backward(
            gradient, x, sizes, forward[1], forward[2], weight, weight, [True, True, True]
        )

    return Example(name, back, (gradient, x, weight, sizes), {})


def convolved(name: str, drawn: Drawn) -> Example:
    """Convolutions of one to three dimensions; group normalisation."""
    if "group_norm" in name:
        return grouped(name, drawn)
    space = drawn.random.randint(1, 3)
    groups, transposed = drawn.random.choice([1, 2]), drawn.chance(0.4)
    shape: list[Length] = [Times(drawn.outer * drawn.inner), 4, *[3] * space]
    dim = 0
    if drawn.chance(0.15):
        shape[0], dim = 2, drawn.random.choice([1, 2])
        shape[dim] = Times(drawn.outer * drawn.inner)
    x = drawn.rows(shape, dim)
    weight = Argument((4, 4 // groups, *[2] * space))
    if drawn.chance(0.08):
        weight = Argument((Times(1), 4 // groups, *[2] * space), AlongRecords(0))
    rest = ([1] * space, [drawn.random.choice([0, 1])] * space, [1] * space, transposed, [0] * space, groups)
    ops = torch.ops.aten
    if name == "convolution":
        return Example(name, ops.convolution.default, (x, weight, Argument((4,)), *rest), {})
    if name == "_convolution":
        return Example(name, ops._convolution.default, (x, weight, Argument((4,)), *rest, False, False, False, False), {})

    def back(x: Tensor, weight: Tensor, *rest: Any) -> Any:
        gradient = ops.convolution(x, weight, None, *rest).sin()
        return ops.convolution_backward(gradient, x, weight, [4], *rest, [True, True, True])

    return Example(name, back, (x, weight, *rest), {})


def grouped(name: str, drawn: Drawn) -> Example:
    count = Times(drawn.outer * drawn.inner)
    shape: list[Length] = [count, 4, 3]
    dim = 0
    if drawn.chance(0.2):
        shape, dim = [2, 4, count], 2
    told = shape[0] if drawn.chance(0.8) else drawn.random.choice([1, 2, Times(2)])
    weight = Argument((4,)) if drawn.chance(0.9) else Argument((Times(1),), AlongRecords(0))
    sizes = (told, 4, shape[2], drawn.random.choice([1, 2]))
    ops = torch.ops.aten
    if name == "native_group_norm":
        return Example(name, ops.native_group_norm.default, (drawn.rows(shape, dim), weight, weight, *sizes, 1e-3), {})

    def back(x: Tensor, weight: Tensor, *sizes: Any) -> Any:
        out, mean, rstd = ops.native_group_norm(x, weight, weight, *sizes, 1e-3)
        return ops.native_group_norm_backward(out.cos(), x, mean, rstd, weight, *sizes, [True, True, True])

    return Example(name, back, (drawn.rows(shape, dim), weight, *sizes), {})


def batch_normalised(name: str, drawn: Drawn) -> Example:
    """Records first, or as channels; by their own statistics or by kept ones."""
    along_channels, count = drawn.chance(0.4), Times(drawn.outer * drawn.inner)
    shape: list[Length] = [2, count, 3] if along_channels else [count, 4, 3]
    x = drawn.rows(shape, 1 if along_channels else 0)
    channels = drawn.rows([count], 0) if along_channels else Argument((4,))
    one = Argument(channels.shape, AlongRecords(0, drawn.outer, drawn.inner, identical=True)) if along_channels else channels
    training = drawn.chance(0.4)
    ops = torch.ops.aten
    tails: dict[str, tuple[Any, ...]] = {
        "native_batch_norm": (training, 0.1, 1e-3),
        "_native_batch_norm_legit": (training, 0.1, 1e-3),
        "_native_batch_norm_legit_functional": (training, 0.1, 1e-3),
        "_native_batch_norm_legit_no_training": (0.1, 1e-3),
        "_batch_norm_with_update": (0.1, 1e-3),
        "_batch_norm_no_update": (0.1, 1e-3),
    }

    def call(x: Tensor, weight: Tensor, mean: Tensor, variance: Tensor) -> Any:
        if name.endswith("backward"):
            found = ops.native_batch_norm(x, weight, weight, mean, variance.abs() + 1.0, training, 0.1, 1e-3)
            kept = (found[1], found[2]) if training else (None, None)
            rest = (training, 1e-3, [True, True, True])
            if name == "batch_norm_backward":
                reserve = torch.empty(0, dtype=torch.uint8)
                return ops.batch_norm_backward(found[0].cos(), x, weight, mean, variance.abs() + 1.0, *kept, *rest, reserve)
            return ops.native_batch_norm_backward(found[0].cos(), x, weight, mean, variance.abs() + 1.0, *kept, *rest)
        return getattr(ops, name)(x, weight, weight, mean.clone(), variance.abs() + 1.0, *tails[name])

    return Example(name, call, (x, one if drawn.chance(0.3) else channels, channels, channels), {})


def looked_up(name: str, drawn: Drawn) -> Example:
    weight = Argument((CLASSES, 4)) if drawn.chance(0.85) else Argument((Times(1), 4), AlongRecords(0))
    return of(default(name), drawn, weight=weight, indices=drawn.rows(dtype=torch.int64, choices=2), padding_idx=-1)


def added_up(name: str, drawn: Drawn) -> Example:
    gradient = drawn.rows([*drawn.shape, 4])
    return Example(name, default(name), (gradient, drawn.rows(dtype=torch.int64), CLASSES, -1, False), {})


def likelihood(name: str, drawn: Drawn) -> Example:
    count, flat = Times(drawn.outer * drawn.inner), "2d" not in name
    places: list[Length] = [] if flat else [2, 2]
    x = drawn.rows([count, CLASSES, *places], 0)
    target = drawn.rows([count, *places], 0, dtype=torch.int64)
    weight = Argument((CLASSES,)) if drawn.chance(0.5) else None
    reduction, ignored = (0 if drawn.chance(0.8) else 1), drawn.random.choice([-100, 1])
    if name.endswith("forward"):
        return Example(name, default(name), (x, target, weight, reduction, ignored), {})
    gradient = drawn.rows([count, *places], 0) if reduction == 0 else Argument(())

    def back(gradient: Tensor, x: Tensor, target: Tensor, weight: Any) -> Any:
        forward = torch.ops.aten.nll_loss_forward if flat else torch.ops.aten.nll_loss2d_forward
        _, total = forward(x, target, weight, reduction, ignored)
        return getattr(torch.ops.aten, name)(gradient, x, target, weight, reduction, ignored, total)

    return Example(name, back, (gradient, x, target, weight), {})


def attention(name: str, drawn: Drawn) -> Example:
    dim, causal = drawn.random.choice([0, 0, 0, 1, 2]), drawn.chance(0.5)
    shape: list[Length] = [2, 2, 3, 4]
    shape[dim] = Times(drawn.outer * drawn.inner)
    query, key, worth = (drawn.rows(shape, dim) for _ in range(3))
    mask: Argument | None = None
    if not causal and drawn.chance(0.6):
        options = [Argument((3, 3)), Argument((1, 1, 3, 3)), drawn.rows([shape[0], 1, 3, 3], 0) if dim == 0 else Argument((3, 3))]
        mask = drawn.random.choice(options)
    ops = torch.ops.aten
    if not name.endswith("backward"):
        return Example(name, getattr(ops, name).default, (query, key, worth, 0.0, causal), {"attn_mask": mask})

    def back(query: Tensor, key: Tensor, worth: Tensor, mask: Tensor | None) -> Any:
        out, total = ops._scaled_dot_product_flash_attention_for_cpu(query, key, worth, 0.0, causal, attn_mask=mask)
        return getattr(ops, name)(out.cos(), query, key, worth, out, total, 0.0, causal, attn_mask=mask)

    return Example(name, back, (query, key, worth, mask), {})


def planes(name: str, drawn: Drawn) -> Example:
    space = next(n for n in (1, 2, 3) if f"{n}d" in name)
    shape: list[Length] = [2, 3, *[4] * space]
    if drawn.chance(0.3):
        shape = shape[1:]
    dim = drawn.random.choice([*range(len(shape) - space)] * 4 + [len(shape) - 1])
    shape[dim] = Times(drawn.outer * drawn.inner)
    x, ops = drawn.rows(shape, dim), torch.ops.aten
    if "pad" in name:
        padding = [1] * (2 * space)
        if not name.endswith("backward"):
            return Example(name, default(name), (x, padding), {})
        forward = getattr(ops, name.removesuffix("_backward"))
        return Example(name, lambda x: getattr(ops, name)(forward(x, padding).cos(), x, padding), (x,), {})
    if "upsample" in name:
        size = [3] * space
        more = () if "nearest" in name else (drawn.chance(0.5),)
        return Example(name, default(name), (x, size, *more), {})
    if "adaptive" in name:
        size = [2] * space
        if not name.endswith("backward"):
            return Example(name, default(name), (x, size), {})
        forward = getattr(ops, name.removesuffix("_backward"))
        return Example(name, lambda x: getattr(ops, name)(forward(x, size).cos(), x), (x,), {})
    kernel = ([2] * space, [drawn.random.choice([1, 2])] * space, [drawn.random.choice([0, 1])] * space)
    if "max" in name:
        rest = (*kernel, [1] * space, False)
        if not name.endswith("backward"):
            return Example(name, default(name), (x, *rest), {})
        forward = getattr(ops, name.removesuffix("_backward"))

        def back(x: Tensor) -> Any:
            out, indices = forward(x, *rest)
            return getattr(ops, name)(out.cos(), x, *rest, indices)

        return Example(name, back, (x,), {})
    rest = (*kernel, False, True, None)
    if not name.endswith("backward"):
        return Example(name, default(name), (x, *rest), {})
    forward = getattr(ops, name.removesuffix("_backward"))
    return Example(name, lambda x: getattr(ops, name)(forward(x, *rest).cos(), x, *rest), (x,), {})


def recurrent(name: str, drawn: Drawn) -> Example:
    """One layer of an LSTM, forward."""
    count, dim = Times(drawn.outer * drawn.inner), 1 if drawn.chance(0.8) else 0
    shape: list[Length] = [3, 2, 4]
    shape[dim] = count
    state = drawn.rows([1, count, 5], 1, dtype=torch.float32) if dim == 1 else Argument((1, 2, 5), dtype=torch.float32)
    weights = [Argument(size, dtype=torch.float32) for size in ((20, 4), (20, 5), (20,), (20,))]
    rest = (drawn.chance(0.5), [], 2, 5, 1, True, False, False, True)
    return Example(name, default(name), (drawn.rows(shape, dim, dtype=torch.float32), *weights, state, state, *rest), {})


def parts(name: str, drawn: Drawn) -> Example:
    """Not one by one along the records, which are not followed."""
    overload = drawn.random.choice([*overloads(name)])
    one_by_one = name.startswith("unbind") or overload._overloadname == "Tensor"
    shape: list[Length] = [*drawn.shape, 3]
    dim = drawn.random.choice([i for i in range(len(shape)) if i != drawn.dim or not one_by_one])
    more: dict[str, Any] = {"split_sizes": [1, 2] if dim != drawn.dim else [1, Times(1)], "split_size": drawn.random.choice([1, 2])}
    more["chunks"] = 2
    if overload._overloadname == "sizes":
        more["split_size"] = more["split_sizes"]
    shape[dim] = 3 if dim != drawn.dim else shape[dim]
    return of(overload, drawn, self=drawn.rows(shape), dim=dim - len(shape) if drawn.chance(0.3) else dim, **more)


WAYS: dict[Rule, Callable[[str, Drawn], Example]] = {
    moves.elementwise_move: conjugated,
    moves.view: viewed,
    moves.permute: permuted,
    moves.expand: expanded,
    moves.split: parts,
    moves.unbind: parts,
    moves.select_backward: backwards,
    moves.slice_backward: backwards,
    moves.gather: picked,
    moves.index_select: index_selected,
    moves.index: indexed,
    moves.index_put: indexed,
    operators.product: product,
    operators.trailing_norm: normalised,
    operators.trailing_norm_backward: normalised,
    operators.batch_first: convolved,
    operators.batch_first_backward: convolved,
    operators.batch_norm: batch_normalised,
    operators.batch_norm_backward: batch_normalised,
    operators.embedding: looked_up,
    operators.embedding_backward: added_up,
    operators.likelihood: likelihood,
    operators.attention: attention,
    operators.pooling: planes,
    operators.recurrent: recurrent,
}


# Operators that the rules cover by torch's tags alone.
BESIDE = ("add", "sub", "mul", "div", "exp", "neg", "remainder", "floor_divide", "eq", "maximum", "sin", "clamp")


def example(name: str, seed: Any, like: Argument | None = None) -> Example:
    """One call of an operator; of one that has a rule, in the way that the rule is about. like: among the arguments, where they can be."""
    way = WAYS.get(RULES[name], by_schema) if name in RULES else by_schema
    return way(name, Drawn(f"{name} {seed}", like))
