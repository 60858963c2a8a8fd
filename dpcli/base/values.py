"""Frozen dataclasses whose methods are compiled when they are first called. This makes every command start faster.

The standard library compiles six functions for each class while its module is imported. That takes half a millisecond for each of some
hundred classes, many of which a command never uses. Here `__init__`, `__repr__`, `__eq__` and `__hash__` are compiled when they are first
called. The methods that refuse a change are compiled once for all classes. Any other kind of dataclass is made by the standard library.
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
        """Replace `dataclasses.dataclass`, as a decorator with or without options."""
        return _build_class(cls, options) if cls is not None else lambda decorated: _build_class(decorated, options)


MISSING = dataclasses.MISSING
STANDARD: Callable[..., type] = dataclasses.dataclass
Method = Callable[..., Any]


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _build_class(cls: Any, options: dict[str, bool]) -> type:
    """Return the dataclass for `cls`, with methods that are compiled when they are first called if it is frozen."""
    if not options.get("frozen") or set(options) - {"frozen", "slots", "kw_only", "eq"}:
        return STANDARD(cls, **options)
    home: list[type] = []  # will hold the finished class; with slots this is another class than `cls`
    own = vars(cls)
    for name, write in COMPILERS.items() if options.get("eq", True) else COMPILERS_WITHOUT_EQ.items():
        # Python sets __hash__ to None in a class that defines __eq__.
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(cls, name, _deferred_method(name, write, home))
    made = (STANDARD if _inherits_dataclass(cls) else _build_frozen)(cls, **{**options, "init": False, "repr": False, "eq": False})
    home.append(made)
    return made


def _inherits_dataclass(cls: type) -> bool:
    """Return whether the class inherits from a dataclass. The standard library then checks that both are frozen."""
    return any(map(dataclasses.is_dataclass, cls.__bases__))


def _build_frozen(cls: Any, **options: bool) -> type:
    """Return the frozen class that the standard library would make, without compiling its methods."""
    home: list[type] = []
    cls.__setattr__ = _refusing_method("__setattr__", "assign to", home)
    cls.__delattr__ = _refusing_method("__delattr__", "delete", home)
    if options.get("slots"):  # copying and unpickling assign fields, which the class refuses
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in vars(cls):
                setattr(cls, name, method)
    made = STANDARD(cls, **{**options, "frozen": False})
    vars(made)["__dataclass_params__"].frozen = True
    home.append(made)
    return made


def _refusing_method(name: str, what: str, home: list[type]) -> Method:
    """Return a method that refuses to change a field. Other attributes are allowed: a subclass that is no dataclass may have them."""

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


def _deferred_method(name: str, write: Callable[[type], Method], home: list[type]) -> Method:
    """Return a method that, when first called, compiles the real method and replaces itself by it."""

    def method(self: object, *args: Any, **given: Any) -> Any:
        written = write(home[0])
        written.__name__, written.__qualname__ = name, f"{home[0].__qualname__}.{name}"
        setattr(home[0], name, written)
        return written(self, *args, **given)

    return method


def _init(cls: type) -> Method:
    """Compile __init__. It sets the fields in order; keyword-only fields come last in its signature."""
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
    # As in the standard library, the only foreign text in the source is the names of fields.
    exec("\n".join([f"def __init__({head}):", *lines, "    pass"]), known)
    result: Method = known["__init__"]
    return result


def _parameter(field: dataclasses.Field[Any]) -> str:
    """Return the parameter of __init__ for a field."""
    if field.default_factory is not MISSING:
        return f"{field.name}=_MISSING"
    return field.name if field.default is MISSING else f"{field.name}=_default_{field.name}"


def _value(field: dataclasses.Field[Any]) -> str:
    """Return the expression in __init__ for the value of a field; "" if __init__ does not set the field."""
    name = field.name
    if field.default_factory is not MISSING:
        return f"_make_{name}() if {name} is _MISSING else {name}" if field.init else f"_make_{name}()"
    return name if field.init else "" if field.default is MISSING else f"_default_{name}"


def _repr(cls: type) -> Method:
    """Return __repr__ for a class."""
    shown = [field.name for field in _fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def written(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return written


def _eq(cls: type) -> Method:
    """Return __eq__ for a class. Objects of different classes are never equal."""
    values = _tuple_of(_compared(cls))

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(cls: type) -> Method:
    """Return __hash__ for a class."""
    values = _tuple_of(_compared(cls, hashed=True))

    def hashed(self: object) -> int:
        return hash(values(self))

    return hashed


def _compared(cls: type, hashed: bool = False) -> Iterator[str]:
    """Yield the names of the fields that __eq__ compares or, if `hashed`, that __hash__ reads."""
    for field in _fields(cls):
        if field.compare if not hashed or field.hash is None else field.hash:
            yield field.name


def _tuple_of(names: Iterator[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that reads these attributes as a tuple. It is compiled because comparisons are frequent."""
    inside = "".join(f"value.{name}, " for name in names)
    result: Callable[[object], tuple[Any, ...]] = eval(f"lambda value: ({inside})")
    return result


COMPILERS_WITHOUT_EQ: dict[str, Callable[[type], Method]] = {"__init__": _init, "__repr__": _repr}
COMPILERS = {**COMPILERS_WITHOUT_EQ, "__eq__": _eq, "__hash__": _hash}
