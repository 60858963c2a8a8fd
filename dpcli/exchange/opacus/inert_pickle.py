"""A pickle as plain values, without running any of it: nothing is imported, nothing is called."""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable, Hashable
from typing import IO, Any

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import escaped

# What checkpoints of tensors name. These are kept as names; any other is refused, since the pickle would run it wherever it is loaded.
KNOWN = re.compile(
    r"(__builtin__|builtins) (dict|list|set|frozenset)"
    r"|collections (OrderedDict|defaultdict)|argparse Namespace|pathlib \w*Path|_codecs encode"
    r"|torch (Size|device|dtype|b?float\d*|double|half|u?int\d+|long|short|bool|complex\d+|\w+Storage)"
    r"|torch\.storage \w+Storage|torch\._utils _rebuild_\w+|torch\._tensor _rebuild_from_type_v2|torch\.nn\.parameter Parameter"
    r"|numpy (dtype|ndarray)|numpy\.dtypes \w+DType|numpy\._?core\.multiarray (scalar|_reconstruct)"
    r"|opacus\.accountants\.\w+ \w+Accountant"
)
LONGEST_KEY = 20  # values of a key that is a tuple, and of tuples in it
MOST = 4_000_000  # instructions
DICTS = frozenset({"collections OrderedDict", "collections defaultdict", "builtins dict", "__builtin__ dict"})


class Mark:
    """The beginning of a group of values on the stack."""


class Global:
    """A name that the pickle would import: it is never imported."""

    def __init__(self, name: str) -> None:
        self.name = name


class Inert:
    """A call that the pickle would make: its name and arguments, with the state that is set afterwards."""

    def __init__(self, name: str, arguments: Any) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None


def read_pickle(stream: IO[bytes]) -> Any:
    """Return the value of the next pickle in the stream, with an Inert wherever it would call something; dicts stay dicts.

    Raises InputError where it is no pickle, or names what is not in any checkpoint of tensors; nothing of it has run then either.
    """
    machine = _Machine()
    try:
        for count, (code, argument, _) in enumerate(pickletools.genops(stream)):
            if count > MOST:
                raise InputError(f"expected a pickle of at most {MOST:,} instructions, found more: save the accountant alone")
            if code.name == "STOP":
                return machine.pop()
            _step(machine, code.name, argument)
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, UnicodeError):
        pass
    raise InputError("not an Opacus checkpoint (a torch file, a pickle, or JSON with history and mechanism), or a damaged one")


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self.stack.pop()
        if isinstance(value, Mark):
            raise ValueError
        return value

    def marked(self) -> list[Any]:
        """The values after the last mark, which go with it."""
        place = max(index for index, value in enumerate(self.stack) if isinstance(value, Mark))
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values


def _step(machine: _Machine, name: str, argument: Any) -> None:
    if name in CONSTANTS:
        machine.stack.append(CONSTANTS[name](argument))
    elif name in STEPS:
        STEPS[name](machine, argument)
    else:
        raise InputError(f"expected a pickle of plain values, found the instruction {name}")


def _named(name: str) -> Global:
    """`module name`, if checkpoints have it."""
    if not KNOWN.fullmatch(name):
        call = escaped(name.replace(" ", "."))
        raise InputError(
            f"expected a checkpoint of tensors and plain values, found a pickle that would run {call}; none of it was run"
        )
    return Global(name)


def _stack_global(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    if type(name) is not str or type(module) is not str:
        raise ValueError
    machine.stack.append(_named(f"{module} {name}"))


def _call(machine: _Machine, function: Any, arguments: Any) -> None:
    if not isinstance(function, Global) or not isinstance(arguments, tuple):
        raise ValueError
    machine.stack.append(_pairs(arguments) if function.name in DICTS else Inert(function.name, arguments))


def _pairs(arguments: Any) -> dict[Hashable, Any]:
    """OrderedDict([(key, value), ...]), as protocol 2 writes what later ones write item by item."""
    pairs = [tuple(pair) for each in arguments if isinstance(each, list) for pair in each]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    return _updated({}, [value for pair in pairs for value in pair])


def _reduce(machine: _Machine, keywords: bool = False) -> None:
    if keywords:
        machine.pop()
    arguments = machine.pop()
    _call(machine, machine.pop(), arguments)


def _from_mark(machine: _Machine) -> None:
    function, *arguments = machine.marked()
    _call(machine, function, tuple(arguments))


def _build(machine: _Machine) -> None:
    state, target = machine.pop(), machine.stack[-1]
    if isinstance(target, Inert):
        if target.state is not None:
            raise ValueError
        target.state = state


def _extend(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, list):
        target.extend(values)
    elif not isinstance(target, Inert):
        raise ValueError


def _set_items(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, dict):
        _updated(target, values)
    elif not isinstance(target, Inert):
        raise ValueError


def _top(machine: _Machine, count: int) -> list[Any]:
    return [machine.pop() for _ in range(count)][::-1]


def _keep(machine: _Machine, place: int) -> None:
    machine.memo[place] = machine.stack[-1]


def _push(machine: _Machine, value: Any) -> None:
    machine.stack.append(value)


PLAIN = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
)
CONSTANTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(PLAIN, lambda argument: argument),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_DICT": lambda _: {},
    "EMPTY_SET": lambda _: [],
    "MARK": lambda _: Mark(),
    "GLOBAL": _named,
    "PERSID": lambda _: Inert("storage", ()),
}

STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "TUPLE1": lambda machine, _: _push(machine, tuple(_top(machine, 1))),
    "TUPLE2": lambda machine, _: _push(machine, tuple(_top(machine, 2))),
    "TUPLE3": lambda machine, _: _push(machine, tuple(_top(machine, 3))),
    "TUPLE": lambda machine, _: _push(machine, tuple(machine.marked())),
    "LIST": lambda machine, _: _push(machine, machine.marked()),
    "FROZENSET": lambda machine, _: _push(machine, machine.marked()),
    "DICT": lambda machine, _: _push(machine, _updated({}, machine.marked())),
    "APPEND": lambda machine, _: _extend(machine, _top(machine, 1)),
    "APPENDS": lambda machine, _: _extend(machine, machine.marked()),
    "ADDITEMS": lambda machine, _: _extend(machine, machine.marked()),
    "SETITEM": lambda machine, _: _set_items(machine, _top(machine, 2)),
    "SETITEMS": lambda machine, _: _set_items(machine, machine.marked()),
    "POP": lambda machine, _: _discard(machine),
    "POP_MARK": lambda machine, _: _discard_marked(machine),
    "DUP": lambda machine, _: _push(machine, machine.stack[-1]),
    "PUT": lambda machine, argument: _keep(machine, argument),
    "BINPUT": lambda machine, argument: _keep(machine, argument),
    "LONG_BINPUT": lambda machine, argument: _keep(machine, argument),
    "MEMOIZE": lambda machine, _: _keep(machine, len(machine.memo)),
    "GET": lambda machine, argument: _push(machine, machine.memo[argument]),
    "BINGET": lambda machine, argument: _push(machine, machine.memo[argument]),
    "LONG_BINGET": lambda machine, argument: _push(machine, machine.memo[argument]),
    "STACK_GLOBAL": lambda machine, _: _stack_global(machine),
    "REDUCE": lambda machine, _: _reduce(machine),
    "NEWOBJ": lambda machine, _: _reduce(machine),
    "NEWOBJ_EX": lambda machine, _: _reduce(machine, keywords=True),
    "INST": lambda machine, argument: _call(machine, _named(argument), tuple(machine.marked())),
    "OBJ": lambda machine, _: _from_mark(machine),
    "BUILD": lambda machine, _: _build(machine),
    "BINPERSID": lambda machine, _: _push(machine, Inert("storage", machine.pop())),
}


def _updated(target: dict[Hashable, Any], values: list[Any]) -> dict[Hashable, Any]:
    """With keys and values in turn. Raises ValueError where a key is there already: no dict that was saved has it twice."""
    for key, value in zip(values[::2], values[1::2], strict=True):
        _require_shallow(key)
        if key in target:
            raise ValueError
        target[key] = value
    return target


def _require_shallow(key: Any) -> None:
    """Raises ValueError for a key that is more than a short tuple: one that is deep, or holds itself often, is hashed without end."""
    left, seen = [key], 0
    while left:
        seen += 1
        part = left.pop()
        if seen > LONGEST_KEY or (isinstance(part, tuple) and len(part) > LONGEST_KEY):
            raise ValueError
        left.extend(part if isinstance(part, tuple) else ())


def _discard(machine: _Machine) -> None:
    machine.stack.pop()


def _discard_marked(machine: _Machine) -> None:
    machine.marked()
