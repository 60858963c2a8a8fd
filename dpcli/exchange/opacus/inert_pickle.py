"""A reader of pickles that imports nothing and calls nothing, so that an untrusted pickle cannot run code.

A pickle is a program: it pushes values on a stack, and may import and call any function. `read_pickle` executes its instructions as
Python's unpickler does, but each import becomes a `Global` and each call an `Inert`, which only keep the names and arguments. A name that
is not KNOWN from checkpoints of tensors refuses the file. Sizes and keys are limited, so that a pickle cannot take unlimited time.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Hashable
from itertools import chain
from typing import IO, Any

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import escaped

# Names that occur in checkpoints of tensors. They are kept as names. Any other name is refused, because a normal reader would call it.
KNOWN = re.compile(
    r"(__builtin__|builtins) (dict|list|set|frozenset)"
    r"|collections (OrderedDict|defaultdict)|argparse Namespace|pathlib \w*Path|_codecs encode"
    r"|torch (Size|device|dtype|b?float\d*|double|half|u?int\d+|long|short|bool|complex\d+|\w+Storage)"
    r"|torch\.storage \w+Storage|torch\._utils _rebuild_\w+|torch\._tensor _rebuild_from_type_v2|torch\.nn\.parameter Parameter"
    r"|numpy (dtype|ndarray)|numpy\.dtypes \w+DType|numpy\._?core\.multiarray (scalar|_reconstruct)"
    r"|opacus\.accountants\.\w+ \w+Accountant"
)
# Limits of time. Their values are arbitrary, and far beyond what a checkpoint has.
LONGEST_KEY = 20  # largest number of values in a dict key, including those of nested tuples; a longer key may take long to hash
MOST_INSTRUCTIONS = 4_000_000  # largest number of instructions of a pickle
# Types whose calls become a dict.
DICT_TYPES = frozenset({"collections OrderedDict", "collections defaultdict", "builtins dict", "__builtin__ dict"})
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}  # values by the instruction that pushes them
# Makers of an empty value, by instruction.
EMPTY = {"EMPTY_LIST": list, "EMPTY_SET": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict}
# Instructions that push their argument, a number or a text.
PLAIN_INSTRUCTIONS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    }
)


class Mark:
    """The beginning of a group of values on the stack."""


class Global:
    """A name that the pickle asks to import, which is never imported."""

    def __init__(self, name: str) -> None:
        self.name = name


class Inert:
    """A call that the pickle asks for, which is never made.

    Attributes:
        name: Name of the called function.
        arguments: The arguments, a tuple. For a stored tensor, whose name is "storage", this is its persistent id; it is empty if
            the pickle has the id as a line of text.
        state: State that the pickle then sets on the result; None if it sets none.
    """

    def __init__(self, name: str, arguments: Any) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None


def read_pickle(stream: IO[bytes]) -> Any:
    """Return the value of the next pickle in the stream. The stream then is at the end of that pickle.

    Each call becomes an Inert, except that a dict, an OrderedDict or a defaultdict becomes a dict. A set becomes a list if the pickle has
    an instruction for it (protocol 4), and an Inert otherwise. Raises InputError if the data are not a pickle or a damaged one, have more
    than MOST_INSTRUCTIONS instructions, or have a name or an instruction that does not occur in checkpoints of tensors.
    """
    machine = _Machine()
    try:
        for count, (code, argument, _) in enumerate(pickletools.genops(stream)):
            if count >= MOST_INSTRUCTIONS:
                raise InputError(
                    f"expected a pickle of at most {MOST_INSTRUCTIONS:,} instructions, found more: save only the accountant"
                )
            if code.name == "STOP":
                return machine.pop()
            machine.step(code.name, argument)
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, UnicodeError):
        pass
    raise InputError("not an Opacus checkpoint (a torch file, a pickle, or JSON with history and mechanism), or a damaged one")


class _Machine:
    """The stack and the memo of a pickle. A malformed pickle raises one of the errors that `read_pickle` catches."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        """Remove and return the last value. Raises ValueError if it is a Mark."""
        value = self.stack.pop()
        if isinstance(value, Mark):
            raise ValueError
        return value

    def top(self, count: int) -> list[Any]:
        """Remove and return the last `count` values."""
        return [self.pop() for _ in range(count)][::-1]

    def marked(self) -> list[Any]:
        """Remove the last mark and the values after it, and return the values. Raises IndexError if there is no mark."""
        values = []
        while not isinstance(value := self.stack.pop(), Mark):
            values.append(value)
        return values[::-1]

    def step(self, name: str, argument: Any) -> None:
        """Execute one instruction, by its name in pickletools. Raises InputError for one that checkpoints of tensors do not have."""
        push = self.stack.append
        match name:
            case "PROTO" | "FRAME":
                pass
            case _ if name in CONSTANTS:
                push(CONSTANTS[name])
            case _ if name in EMPTY:
                push(EMPTY[name]())
            case "MARK":
                push(Mark())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                push(tuple(self.top(int(name[-1]))))
            case "TUPLE":
                push(tuple(self.marked()))
            case "LIST" | "FROZENSET":
                push(self.marked())
            case "DICT":
                push(_updated({}, self.marked()))
            case "APPEND":
                self.extend(self.top(1))
            case "APPENDS" | "ADDITEMS":
                self.extend(self.marked())
            case "SETITEM":
                self.set_items(self.top(2))
            case "SETITEMS":
                self.set_items(self.marked())
            case "POP":
                self.stack.pop()
            case "POP_MARK":
                self.marked()
            case "DUP":
                push(self.stack[-1])
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case _ if name in PLAIN_INSTRUCTIONS:
                push(argument)
            case _:
                self.import_or_call(name, argument)

    def import_or_call(self, name: str, argument: Any) -> None:
        """Keep the names and arguments of an instruction that imports, calls, sets a state or names a stored tensor. Raises as `step`."""
        push = self.stack.append
        match name:
            case "GLOBAL":
                push(_named(argument))
            case "STACK_GLOBAL":
                module, attribute = self.top(2)
                if type(attribute) is not str or type(module) is not str:
                    raise ValueError
                push(_named(f"{module} {attribute}"))
            case "REDUCE" | "NEWOBJ":
                self.call(*self.top(2))
            case "NEWOBJ_EX":
                function, arguments, _ = self.top(3)  # keyword arguments are dropped
                self.call(function, arguments)
            case "INST":
                self.call(_named(argument), tuple(self.marked()))
            case "OBJ":
                called, *operands = self.marked()
                self.call(called, tuple(operands))
            case "BUILD":
                self.build(self.pop())
            case "PERSID":
                push(Inert("storage", ()))
            case "BINPERSID":
                push(Inert("storage", self.pop()))
            case _:
                raise InputError(f"expected a pickle of plain values, found the instruction {name}")

    def call(self, function: Any, arguments: Any) -> None:
        """Push the dict or the Inert that takes the place of a call. Raises ValueError unless a Global is called with a tuple."""
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise ValueError
        self.stack.append(_pairs(arguments) if function.name in DICT_TYPES else Inert(function.name, arguments))

    def build(self, state: Any) -> None:
        """Set the state of the last value if it is an Inert; the state of any other value is dropped.

        Raises ValueError if it has a state already.
        """
        target = self.stack[-1]
        if isinstance(target, Inert):
            if target.state is not None:
                raise ValueError
            target.state = state

    def extend(self, values: list[Any]) -> None:
        """Append values to the last value if it is a list. Items of an Inert are dropped. Raises ValueError for any other value."""
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(values)
        elif not isinstance(target, Inert):
            raise ValueError

    def set_items(self, values: list[Any]) -> None:
        """Add alternating keys and values to the last value if it is a dict. Items of an Inert are dropped. Raises ValueError otherwise."""
        target = self.stack[-1]
        if isinstance(target, dict):
            _updated(target, values)
        elif not isinstance(target, Inert):
            raise ValueError


def _named(name: str) -> Global:
    """Return a Global for the name `module attribute`. Raises ValueError if this is not a name, and InputError if the name is not KNOWN."""
    if not re.fullmatch(r"[\w.]+ [\w.<>]+", name):  # other data may begin like a pickle
        raise ValueError
    if not KNOWN.fullmatch(name):
        call = escaped(name.replace(" ", "."))
        raise InputError(
            f"expected a checkpoint of tensors and plain values, found a pickle that would run {call}; none of it was run"
        )
    return Global(name)


def _pairs(arguments: Any) -> dict[Hashable, Any]:
    """Return the dict of OrderedDict([(key, value), ...]), which protocol 2 writes. Later protocols write the items one by one.

    Arguments that are not a list, such as the factory of a defaultdict, are dropped.
    """
    lists = [argument for argument in arguments if isinstance(argument, list)]
    pairs = [tuple(pair) for pair in chain.from_iterable(lists)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    return _updated({}, list(chain.from_iterable(pairs)))


def _updated(target: dict[Hashable, Any], values: list[Any]) -> dict[Hashable, Any]:
    """Add alternating keys and values to a dict, and return it. Raises ValueError for a repeated key, which a saved dict cannot have."""
    for key, value in zip(values[::2], values[1::2], strict=True):
        _require_shallow(key)
        if key in target:
            raise ValueError
        target[key] = value
    return target


def _require_shallow(key: Any) -> None:
    """Raise ValueError if a key is a long or deep tuple.

    The hash of a tuple that contains another one many times, at several levels, could take exponential time.
    """
    unvisited, visited = [key], 0
    while unvisited:
        visited += 1
        part = unvisited.pop()
        if visited > LONGEST_KEY or (isinstance(part, tuple) and len(part) > LONGEST_KEY):
            raise ValueError
        if isinstance(part, tuple):
            unvisited.extend(part)
