"""Frozen dataclasses whose methods are compiled when they are first called, for a faster start of each command.

The standard library compiles six functions for each class while its module is imported: half a millisecond for each of some hundred
classes, many of which a command never uses. Here `__init__`, `__repr__`, `__eq__` and `__hash__` are compiled when they are first called,
and the methods that refuse a change once for all classes. Any other kind of dataclass is the standard library's.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """`dataclasses.dataclass`."""
        return _made(cls, options) if cls is not None else lambda match: _made(match, options)


MISSING = dataclasses.MISSING
STANDARD: Callable[..., type] = dataclasses.dataclass
Method = Callable[..., Any]


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _made(cls: Any, options: dict[str, bool]) -> type:
    if not options.get("frozen") or set(options) - {"frozen", "slots", "kw_only", "eq"}:
        return STANDARD(cls, **options)
    home: list[type] = []
    own = vars(cls)
    for name, write in WRITTEN.items() if options.get("eq", True) else UNCOMPARED.items():
        if name not in own or (name == "__hash__" and own[name] is None):  # None is what a class gets that has an __eq__ of its own
            setattr(cls, name, _waiting(name, write, home))
    made = (STANDARD if _below(cls) else _frozen)(cls, **{**options, "init": False, "repr": False, "eq": False})
    home.append(made)  # with slots, another class
    return made


def _below(cls: type) -> bool:
    """Return whether the class inherits from a dataclass: the standard library requires that such a class is frozen too."""
    return any(map(dataclasses.is_dataclass, cls.__bases__))


def _frozen(cls: Any, **options: bool) -> type:
    """Make the class that the standard library would make, without compiling."""
    home: list[type] = []
    cls.__setattr__ = _refusing("__setattr__", "assign to", home)
    cls.__delattr__ = _refusing("__delattr__", "delete", home)
    if options.get("slots"):  # copying and unpickling assign too
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in vars(cls):
                setattr(cls, name, method)
    made = STANDARD(cls, **{**options, "frozen": False})
    vars(made)["__dataclass_params__"].frozen = True
    home.append(made)
    return made


def _refusing(name: str, what: str, home: list[type]) -> Method:
    """Return a method that refuses fields; other attributes may belong to a subclass that is no dataclass."""

    def method(self: object, attribute: str, *value: Any) -> None:
        if type(self) is home[0] or any(field.name == attribute for field in _fields(home[0])):
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {attribute!r}")
        getattr(super(home[0], self), name)(attribute, *value)

    return method


def _state(self: object) -> list[Any]:
    return [getattr(self, field.name) for field in _fields(self)]


def _restore(self: object, state: list[Any]) -> None:
    for field, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _waiting(name: str, write: Callable[[type], Method], home: list[type]) -> Method:
    def method(self: object, *args: Any, **given: Any) -> Any:
        written = write(home[0])
        written.__name__, written.__qualname__ = name, f"{home[0].__qualname__}.{name}"
        setattr(home[0], name, written)
        return written(self, *args, **given)

    return method


def _init(cls: type) -> Method:
    """Compile __init__, which sets every field in order; keyword-only fields come last in its signature."""
    fields = _fields(cls)
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    lines = []
    for field in fields:
        known[f"_default_{field.name}"] = field.default
        known[f"_make_{field.name}"] = field.default_factory
        if value := _value(field):
            lines.append(f"    _set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    usual = [_parameter(field) for field in fields if field.init and not field.kw_only]
    keywords = [_parameter(field) for field in fields if field.init and field.kw_only]
    head = ", ".join(["self", *usual, *(["*", *keywords] if keywords else [])])
    exec("\n".join([f"def __init__({head}):", *lines, "    pass"]), known)  # as the standard library does: names of fields alone
    result: Method = known["__init__"]
    return result


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=_MISSING"
    return field.name if field.default is MISSING else f"{field.name}=_default_{field.name}"


def _value(field: dataclasses.Field[Any]) -> str:
    name = field.name
    if field.default_factory is not MISSING:
        return f"_make_{name}() if {name} is _MISSING else {name}" if field.init else f"_make_{name}()"
    return name if field.init else "" if field.default is MISSING else f"_default_{name}"


def _repr(cls: type) -> Method:
    shown = [field.name for field in _fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def written(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return written


def _eq(cls: type) -> Method:
    values = _tuple_of(_compared(cls))

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(cls: type) -> Method:
    values = _tuple_of(_compared(cls, hashed=True))

    def hashed(self: object) -> int:
        return hash(values(self))

    return hashed


def _compared(cls: type, hashed: bool = False) -> Iterator[str]:
    for field in _fields(cls):
        if field.compare if not hashed or field.hash is None else field.hash:
            yield field.name


def _tuple_of(names: Iterator[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that reads attributes as fast as possible."""
    inside = "".join(f"value.{name}, " for name in names)
    result: Callable[[object], tuple[Any, ...]] = eval(f"lambda value: ({inside})")
    return result


UNCOMPARED: dict[str, Callable[[type], Method]] = {"__init__": _init, "__repr__": _repr}
WRITTEN = {**UNCOMPARED, "__eq__": _eq, "__hash__": _hash}
