"""Follows a program operator by operator on tensors without numbers, whose first length is a symbol for any batch's size."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from dpcli.audit.user_code import is_own_code
from dpcli.base.errors import InputError
from dpcli.train.engine.caught import RaisedErrors
from dpcli.train.engine.draws import draws
from dpcli.train.isolation.call import Call, leaves
from dpcli.train.isolation.frames import ours
from dpcli.train.isolation.kinds import SHARED, AlongRecords, Kind, Kinds, Merged, Mixed, Numbers, Shared, Unknown
from dpcli.train.isolation.lengths import STAND_IN, coefficient, records
from dpcli.train.isolation.operators import DRAWN, MADE, OPAQUE, RULES, SIZED
from dpcli.train.isolation.sums import pointwise

UNSEEN = ("tolist", "storage", "untyped_storage", "data_ptr", "__array__", "__dlpack__")  # read numbers, and call no operator
INSTEAD = "take it over the dimensions of one example, never over the batch"
TORCHS = ("aten", "prims", "prim")
MOVED = ("view", "unsqueeze", "expand", "clone", "detach", "alias", "_to_copy", "reshape", "squeeze", "slice")
SPLIT = ("split", "unsafe_split")  # into as many parts as there are records to fill them
WHOLE = (torch.int32, torch.int64)  # which can count as many records as there are
SIZES = ("int", "Optional[int]", "List[int]", "Optional[List[int]]")


@dataclass(slots=True)
class Seen:
    """What was found: the first place where records meet, operators without a rule, the coarsest numbers, and whether it draws any.

    unknown: what the losses may be made of; emptied where they are not. doubts: what stays. own_rules: whether an operator is none of
    torch's, so that somebody else says what it does under vmap.
    """

    refusal: InputError | None = None
    unknown: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    coarsest: float = 0.0
    random: bool = False
    counted: bool = False
    path: list[str] = field(default_factory=list)
    forwards: list[tuple[str, ...]] = field(default_factory=list)
    own_rules: bool = False


class Counting(RaisedErrors):
    """len() of a batch must be a number: a prime that no model has, which comes back as the batch's size."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """As without this mode, but for len()."""
        if getattr(func, "__name__", "") in UNSEEN and not ours(sys._getframe(1)):
            self.seen.doubts.append(f"Tensor.{func.__name__}")
        if func is torch.Tensor.__len__ and records(args[0].shape[0]) and coefficient(args[0].shape[0]) is not None:
            self.seen.counted = True
            return STAND_IN * (coefficient(args[0].shape[0]) or 1)
        return super().__torch_function__(func, types, args, kwargs)


class Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps for every tensor what it holds of the records.

    Args:
        size: the symbol of the batch's size.
        where: the name of the module that runs.
        names: of tensors that were there before: what is written to them outlives the call.
    """

    def __init__(self, seen: Seen, size: torch.SymInt, where: Callable[[], str], names: dict[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen, self.size, self.where, self.names = seen, size, where, names
        self.kinds: Any = WeakIdKeyDictionary()
        self.made: Any = WeakIdKeyDictionary()  # by what, and where
        self.homes: Any = WeakIdKeyDictionary()  # the storage that a tensor had when it was seen
        self.stores: dict[int, tuple[Any, Kind, tuple[object, ...]]] = {}
        self.spoilt: dict[int, tuple[Any, Kind]] = {}
        self.given: set[int] = set()  # storages of the batch itself
        self.held: set[int] = set()  # storages of which some view has records
        self.touched: set[int] = set()  # storages that were written to after they were made

    def give(self, tensor: Tensor, kind: Kind) -> None:
        """A tensor of the batch."""
        self.kinds[tensor] = kind
        self.given.add(store(tensor)._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if (func.namespace != "aten" and func.namespace == "prim") or func.overloadpacket.__name__.startswith("sym_"):
            return func(*args, **kwargs)
        args, kwargs = (torch.utils._pytree.tree_map(self.symbolic, value) for value in (args, kwargs))
        values = bound(func, args, kwargs)
        name = func.overloadpacket.__name__
        self.require_written(func, values)
        one_by_one = name == "unbind" or (name in SPLIT and not records(values["split_size"]))
        if one_by_one and any(
            isinstance(k, AlongRecords) and k.dim == values["dim"] % values["self"].dim() for k in [self.kind(values["self"])]
        ):
            raise self.refuse(f"{name}, a loop over the records")
        try:
            out = self.constant(func, values) if name == "_local_scalar_dense" else NotImplemented
            out = func(*args, **kwargs) if out is NotImplemented else out
        except (DataDependentOutputException, DynamicOutputShapeException) as problem:
            raise self.refuse("a branch or a shape that depends on values", branch=True) from problem
        outputs = list(leaves(out if isinstance(out, list | tuple) else [out]))
        base = name.rstrip("_") if not name.startswith("__") else name
        call = Call(base, {key: value for key, value in values.items() if key != OPAQUE.get(base)}, outputs, self.kind)
        self.note(func, call)
        targets = [(tensor, self.kind(tensor)) for tensor in written(func, values)]
        try:
            found = self.judged(func, call, [*map(self.kind, call.tensors())])
        except Mixed as mixed:
            raise self.refuse(str(mixed)) from None
        several = found if isinstance(found, list) else [found] * len(outputs)
        for output, kind in zip(outputs, several, strict=True):
            self.keep(output, consistent(output, kind, base), base)
        self.write(base, targets, found if isinstance(found, list) else [found])
        return out

    def note(self, func: Any, call: Call) -> None:
        self.seen.path.append(call.name)
        self.seen.own_rules |= func.namespace not in TORCHS
        if draws(func, (), dict(call.values)):
            self.seen.random = True
        for output in call.outputs:
            if output.is_floating_point():
                self.seen.coarsest = max(self.seen.coarsest, float(torch.finfo(output.dtype).eps))

    def symbolic(self, value: Any) -> Any:
        """The stand-in is the symbol again."""
        if isinstance(value, int) and not isinstance(value, bool) and value and value % STAND_IN == 0:
            return self.size * (value // STAND_IN)
        return value

    def constant(self, func: Any, values: Any) -> Any:
        """The number in a tensor that was there before and is not trained."""
        tensor = values["self"]
        if isinstance(tensor, FakeTensor) or tensor.requires_grad:
            return NotImplemented
        with torch.utils._python_dispatch._disable_current_modes():
            return tensor.item()

    def kind(self, tensor: Tensor) -> Kind:
        """What a tensor holds; one that was not seen to be made is not known."""
        if not isinstance(tensor, FakeTensor):
            return SHARED
        held = store(tensor)
        if held is not None and held._cdata in self.spoilt:
            return self.spoilt[held._cdata][1]
        moved = held is not None and self.homes.get(tensor, held._cdata) != held._cdata  # tensor.data = another
        found: Kind | None = None if moved else self.kinds.get(tensor)
        if found is not None:
            return found if held is None or held._cdata not in self.touched else self.since_written(found, held._cdata)
        if held is not None and held._cdata in self.stores:
            _, kind, shape = self.stores[held._cdata]
            if shape == tuple(tensor.shape):
                return kind if held._cdata not in self.touched else self.since_written(kind, held._cdata)
        return Unknown("a tensor that came from elsewhere")

    def since_written(self, kind: Kind, place: int) -> Kind:
        """What is written into one view is in the others: records no longer have the same, and a part of them is of some."""
        if isinstance(kind, AlongRecords):
            return replace(kind, alike=False)
        return Unknown("a part of what was written to") if isinstance(kind, Shared) and place in self.held else kind

    def keep(self, tensor: Tensor, kind: Kind, name: str) -> None:
        if isinstance(kind, Unknown) and kind.operator not in self.seen.unknown:
            self.seen.unknown.append(kind.operator)
        if isinstance(kind, Merged) and " at " not in kind.how and " in " not in kind.how:
            kind = Merged(kind.how + self.place())
        self.kinds[tensor] = kind
        if not isinstance(kind, Shared):
            self.made[tensor] = name + self.place()
        held = store(tensor)
        if held is not None:
            self.homes[tensor] = held._cdata
            self.stores[held._cdata] = (held, kind, tuple(tensor.shape))
            if isinstance(kind, AlongRecords):
                self.held.add(held._cdata)

    def judged(self, func: Any, call: Call, kinds: list[Kind]) -> Kinds:
        """What comes out, from what goes in."""
        lengths, count = counting(func, call.values)
        shaped = call.name.endswith("_like") or (call.name.startswith("new_") and call.name in MADE)
        if not count and shaped and len([*call.tensors()]) == 1:
            return [self.alike(call, output) for output in call.outputs]
        unknown = [kind for kind in kinds if isinstance(kind, Unknown)]
        if unknown:
            return unknown[0]
        rows = [kind for kind in kinds if isinstance(kind, AlongRecords | Numbers)]
        if len({kind.call for kind in rows}) > 1:
            raise Mixed(f"{call.name} with a tensor that was kept from an earlier batch")
        merged = [kind for kind in kinds if isinstance(kind, Merged)]
        if call.name == "arange" and not rows and not merged and (lengths or count):
            return self.places(call)
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
            return self.numbered(call, rows)
        rule = RULES.get(call.name) if func.namespace == "aten" else not_understood
        if lengths and call.name not in SIZED:
            return Unknown(f"{call.name} with the number of records")
        if rule is None:
            rule = pointwise if torch.Tag.pointwise in func.tags else not_understood
        return self.told_apart(rule(call), rows)

    def told_apart(self, kinds: Kinds, rows: Sequence[Kind]) -> Kinds:
        """What is made of something that differs between records differs."""
        if all(isinstance(kind, AlongRecords) and kind.alike for kind in rows):
            return kinds
        several = kinds if isinstance(kinds, list) else [kinds]
        differing: list[Kind] = [replace(kind, alike=False) if isinstance(kind, AlongRecords) else kind for kind in several]
        return differing if isinstance(kinds, list) else differing[0]

    def alike(self, call: Call, output: Tensor) -> Kind:
        """New numbers that depend on no record, in a shape: along the dimension that its model has, else the only one."""
        dims = [dim for dim, length in enumerate(output.shape) if records(length)]
        if not dims:
            return SHARED
        for tensor in call.tensors():
            kind = self.kind(tensor)
            if (
                isinstance(kind, AlongRecords)
                and dims == [kind.dim]
                and coefficient(output.shape[kind.dim]) == kind.outer * kind.inner
            ):
                return replace(kind, alike=False)
        times = coefficient(output.shape[dims[0]])
        number = self.number
        alike = call.name not in DRAWN
        return AlongRecords(dims[0], 1, times, number, alike) if len(dims) == 1 and times else Unknown(call.name)

    @property
    def number(self) -> int:
        """Of the batch that is followed now."""
        return self._number

    _number = 0

    def next_batch(self, size: torch.SymInt) -> None:
        self._number, self.size = self._number + 1, size
        self.given = set()

    def places(self, call: Call) -> Kind:
        """arange over the batch."""
        start, step = call.values.get("start", 0), call.values.get("step", 1)
        return Numbers(0, self.number) if (start, step) == (0, 1) and counts(call.outputs[0], 0) else Unknown("arange")

    def numbered(self, call: Call, rows: Sequence[Kind]) -> Kind:
        """Moved as a record's own numbers are, places are still places; calculated with, they are nothing that can be told."""
        if call.name not in MOVED:
            return Unknown(f"{call.name} of the records' places")
        layouts = {id(tensor): laid_out(self.kind(tensor)) for tensor in call.tensors()}
        judged = RULES[call.name](replace(call, kind=lambda tensor: layouts[id(tensor)]))
        (found,), (output,) = judged if isinstance(judged, list) else [judged], call.outputs
        if isinstance(found, AlongRecords) and (found.outer, found.inner) == (1, 1) and counts(output, found.dim):
            return Numbers(found.dim, self.number)
        return Unknown(f"{call.name} of the records' places")

    def require_written(self, func: Any, values: Any) -> None:
        """Before it runs: nothing is written to what was there before the call."""
        for tensor in written(func, values):
            if not isinstance(tensor, FakeTensor):
                name = self.names.get(id(tensor), "a tensor that outlives it")
                raise self.refuse(f"{func.overloadpacket.__name__}, which writes to {name}", state=True)
            if store(tensor)._cdata in self.given:
                raise self.refuse(f"{func.overloadpacket.__name__}, which writes to the batch", state=True)

    def write(self, name: str, targets: Sequence[tuple[Tensor, Kind]], kinds: Sequence[Kind]) -> None:
        """What is written into a part of a tensor is in the whole.

        Args:
            targets: what is written to, and what it held before.
            found: what the operator made: the worst of it counts.
        """
        kind = next((one for sort in (Merged, Unknown, AlongRecords) for one in kinds if isinstance(one, sort)), SHARED)
        for tensor, before in targets:
            place = store(tensor)
            self.touched.add(place._cdata)
            if isinstance(kind, Merged | Unknown):
                self.spoilt[place._cdata] = (place, kind)
            elif (isinstance(kind, AlongRecords) and kind != before) or (isinstance(before, Shared) and place._cdata in self.held):
                self.spoilt[place._cdata] = (place, Unknown(name))

    def refuse(self, found: str, branch: bool = False, state: bool = False) -> InputError:
        """The first refusal counts, whatever the user's code makes of it."""
        place = self.where()
        line = self.place()
        found = found if line in found else f"{found}, which meets them{line}" if " at " in found else found + line
        if branch:
            words = f"{place}: expected one path whatever the values of the records, found {found}; decide for each record, by torch.where"
        elif state:
            words = f"{place}: expected a forward that changes nothing, found {found}; compute it before training, and leave it"
        elif place == "loss":
            words = f"{place}: expected a loss for each example that depends on it alone, found {found}; {INSTEAD}"
        else:
            words = f"{place}: expected an output for each example that depends on it alone, found {found}; {INSTEAD}"
        self.seen.refusal = self.seen.refusal or InputError(words)
        return self.seen.refusal

    def place(self) -> str:
        """The innermost line of the user's own code."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if is_own_code(file):
                return f" at {os.path.basename(file)}, line {frame.f_lineno}"
            frame = frame.f_back
        return ""

    def left(self) -> Iterator[str]:
        """What is still there of the batches: by what it was made."""
        for tensor in list(self.kinds.keys()):
            held = store(tensor)
            if not isinstance(self.kinds[tensor], Shared) and (held is None or held._cdata not in self.given):
                yield self.made.get(tensor, "a part of the batch")


def laid_out(kind: Kind) -> Kind:
    """One place for each record lies as one number of each record does."""
    return AlongRecords(kind.dim, 1, 1, kind.call) if isinstance(kind, Numbers) else kind


def counts(output: Tensor, dim: int) -> bool:
    """Whether it can hold one place for each record; a narrower number begins again."""
    return coefficient(output.shape[dim]) == 1 and output.dtype in WHOLE


def not_understood(call: Call) -> Kinds:
    """No rule."""
    return Unknown(call.name)


def consistent(output: Tensor, kind: Kind, name: str) -> Kind:
    """A layout that the output's shape bears out: records along that dimension, and along no other; else nothing is known."""
    lengths = [dim for dim, length in enumerate(output.shape) if records(length)]
    if isinstance(kind, AlongRecords):
        fits = lengths == [kind.dim] and coefficient(output.shape[kind.dim]) == kind.outer * kind.inner
    else:
        fits = not isinstance(kind, Shared) or not lengths
    return kind if fits else Unknown(name)


def written(func: Any, values: Mapping[str, Any]) -> list[Tensor]:
    """The arguments that an operator writes to."""
    named = [
        argument.name for argument in func._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [*leaves(values[name] for name in named)]


def store(tensor: Tensor) -> Any:
    """The storage, which views share."""
    return tensor.untyped_storage() if tensor.layout is torch.strided else None


def bound(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the schema's names."""
    named = list(func._schema.arguments)
    values = {argument.name: argument.default_value for argument in named if argument.has_default_value()}
    positional = [argument.name for argument in named if not argument.kwarg_only]
    return {**values, **dict(zip(positional, args, strict=False)), **kwargs}


def counting(func: Any, values: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the batch's size is among the lengths that an operator is told, and among the numbers that it calculates with."""
    lengths = count = False
    for argument in func._schema.arguments:
        value = values.get(argument.name)
        found = [
            one for one in (value if isinstance(value, list | tuple) else [value]) if not torch.is_tensor(one) and records(one)
        ]
        if found and str(argument.real_type) in SIZES and argument.name not in ("high", "low"):
            lengths = True
        elif found:
            count = True
    return lengths, count
