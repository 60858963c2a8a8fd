"""Frozen dataclasses whose methods are compiled when they are first called. This makes each command start faster.

The standard library compiles six functions for each class when its module is imported. This takes half a millisecond for each of some
hundred classes, and a command never uses many of them. Here `__init__`, `__repr__`, `__eq__` and `__hash__` are compiled at their first
call. The methods that refuse changes are not compiled for each class. Dataclasses that are not frozen are those of the standard library.

Use `dataclass` from this module as you would use the one of the standard library: what differs is only when the methods are compiled.
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
        """Return the class as a dataclass, like `dataclasses.dataclass`."""
        return _dataclass_of(cls, options) if cls is not None else lambda decorated: _dataclass_of(decorated, options)


MISSING = dataclasses.MISSING
STANDARD: Callable[..., type] = dataclasses.dataclass
Method = Callable[..., Any]


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _dataclass_of(cls: Any, options: dict[str, bool]) -> type:
    """Return the dataclass of a class. Options other than frozen, slots, kw_only and eq are left to the standard library."""
    if not options.get("frozen") or set(options) - {"frozen", "slots", "kw_only", "eq"}:
        return STANDARD(cls, **options)
    home: list[type] = []  # will hold the finished class; with slots this is another class than `cls`
    defined = vars(cls)
    compilers = COMPILERS if options.get("eq", True) else COMPILERS_WITHOUT_EQ
    for name, compiler in compilers.items():
        # Python sets __hash__ to None in a class that defines __eq__.
        if name not in defined or (name == "__hash__" and defined[name] is None):
            setattr(cls, name, _compiling_stub(name, compiler, home))
    make = STANDARD if _inherits_dataclass(cls) else _frozen
    result = make(cls, **{**options, "init": False, "repr": False, "eq": False})  # the class has stubs for them
    home.append(result)
    return result


def _inherits_dataclass(cls: type) -> bool:
    """Return whether the class inherits from a dataclass. The standard library then checks that both are frozen."""
    return any(map(dataclasses.is_dataclass, cls.__bases__))


def _frozen(cls: Any, **options: bool) -> type:
    """Return the frozen dataclass that the standard library would return, without compiling its methods."""
    home: list[type] = []
    cls.__setattr__ = _refusing_method("__setattr__", "assign to", home)
    cls.__delattr__ = _refusing_method("__delattr__", "delete", home)
    if options.get("slots"):  # copying and unpickling would otherwise assign to fields
        for name, method in (("__getstate__", _state), ("__setstate__", _restore)):
            if name not in vars(cls):
                setattr(cls, name, method)
    result = STANDARD(cls, **{**options, "frozen": False})
    vars(result)["__dataclass_params__"].frozen = True  # a subclass must be frozen too, which the standard library checks by this
    home.append(result)
    return result


def _refusing_method(name: str, what: str, home: list[type]) -> Method:
    """Return a method that refuses to change fields. Other attributes may belong to a subclass that is not a dataclass.

    Args:
        name: Name of the method, __setattr__ or __delattr__.
        what: Name of the change, for the message.
        home: List to which the finished class is appended.
    """

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


def _compiling_stub(name: str, compiler: Callable[[type], Method], home: list[type]) -> Method:
    """Return a method that, at its first call, replaces itself by a compiled method and calls that one.

    Args:
        name: Name of the method.
        compiler: Function of the class that returns the compiled method.
        home: List to which the finished class is appended.
    """

    def method(self: object, *args: Any, **given: Any) -> Any:
        compiled = compiler(home[0])
        compiled.__name__, compiled.__qualname__ = name, f"{home[0].__qualname__}.{name}"
        setattr(home[0], name, compiled)
        return compiled(self, *args, **given)

    return method


def _init(cls: type) -> Method:
    """Return a compiled __init__. It sets the fields in order. Keyword-only fields come last in its signature."""
    fields = _fields(cls)
    namespace: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    lines = []
    for field in fields:
        namespace[f"_default_{field.name}"] = field.default
        namespace[f"_make_{field.name}"] = field.default_factory
        if value := _value(field):
            lines.append(f"    _set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ["self", *(_parameter(field) for field in fields if field.init and not field.kw_only)]
    keyword_only = [_parameter(field) for field in fields if field.init and field.kw_only]
    if keyword_only:
        parameters += ["*", *keyword_only]
    # As in the standard library, the code contains no text but the names of fields.
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines, "    pass"]), namespace)
    result: Method = namespace["__init__"]
    return result


def _parameter(field: dataclasses.Field[Any]) -> str:
    # A default factory must be called for each object, so __init__ calls it if the argument is missing (`_value`).
    if field.default_factory is not MISSING:
        return f"{field.name}=_MISSING"
    return field.name if field.default is MISSING else f"{field.name}=_default_{field.name}"


def _value(field: dataclasses.Field[Any]) -> str:
    """Return the expression in __init__ for the value of a field; "" if __init__ does not set the field."""
    name = field.name
    if field.default_factory is not MISSING:
        return f"_make_{name}() if {name} is _MISSING else {name}" if field.init else f"_make_{name}()"
    if field.init:
        return name
    return "" if field.default is MISSING else f"_default_{name}"


def _repr(cls: type) -> Method:
    shown = [field.name for field in _fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def represent(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    return represent


def _eq(cls: type) -> Method:
    values = _tuple_of(_compared(cls))

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(cls: type) -> Method:
    values = _tuple_of(_compared(cls, hashed=True))

    def hash_fields(self: object) -> int:
        return hash(values(self))

    return hash_fields


def _compared(cls: type, hashed: bool = False) -> Iterator[str]:
    """Yield the names of the fields that __eq__ compares or, if `hashed`, that __hash__ uses."""
    for field in _fields(cls):
        is_compared = field.compare
        if hashed and field.hash is not None:
            is_compared = field.hash
        if is_compared:
            yield field.name


def _tuple_of(names: Iterator[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that returns the named attributes of an object as a tuple. It is compiled, which makes it fast."""
    inside = "".join(f"value.{name}, " for name in names)
    result: Callable[[object], tuple[Any, ...]] = eval(f"lambda value: ({inside})")
    return result


# Functions that return the compiled methods, by name: for classes with eq=False, and for all others.
COMPILERS_WITHOUT_EQ: dict[str, Callable[[type], Method]] = {"__init__": _init, "__repr__": _repr}
COMPILERS = {**COMPILERS_WITHOUT_EQ, "__eq__": _eq, "__hash__": _hash}
