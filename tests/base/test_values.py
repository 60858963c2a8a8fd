"""Tests that dataclasses of base/values.py behave like those of the standard library, although their methods are compiled later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, ClassVar

import pytest

from dpcli.base import values
from tests.command import ROOT

Decorate = Callable[..., Any]
OPTIONS: tuple[dict[str, bool], ...] = (
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"slots": True},
)


def kinds(decorate: Decorate, options: dict[str, bool]) -> Iterator[type]:
    """Classes with fields of every sort, each made anew."""

    @decorate(**options)
    class Plain:
        one: int
        two: str = "two"

    yield Plain

    @decorate(**options)
    class Sorts:
        """All that a field may say."""

        many: list[int] = field(default_factory=list)
        silent: int = field(default=1, repr=False)
        apart: int = field(default=2, compare=False)
        unhashed: float = field(default=0.5, hash=False)
        named: int = field(default=3, kw_only=True)
        fixed: int = field(default=4, init=False)
        made: tuple[int, ...] = field(default_factory=tuple, init=False)
        shared: ClassVar[int] = 5

    yield Sorts

    @decorate(**options)
    class Checked:
        value: float

        def __post_init__(self) -> None:
            if self.value < 0.0:
                raise ValueError("negative")

    yield Checked

    @decorate(**options)
    class Below(Checked):
        more: int = 7

        def __repr__(self) -> str:
            return f"<{self.more}>"

    yield Below

    @decorate(**options)
    class Own:
        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

    yield Own

    class Further(Plain):
        """No dataclass itself."""

    yield Further


CALLS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    *(((), {}), ((1,), {}), ((1, "x"), {}), ((1,), {"two": "y"}), ((2.0, 3), {}), ((-1.0,), {}), ((1, 2, 3, 4, 5, 6, 7), {})),
    *(((), {"one": 1}), ((), {"value": 2}), ((), {"value": 2, "more": 9}), ((), {"nothing": 1}), ((1,), {"one": 1})),
    *(((), {"named": 8}), (([1],), {"apart": 9}), (((1,),), {"silent": 3, "unhashed": 2.5}), ((), {"fixed": 1})),
)


def told(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def seen(made: list[type]) -> list[Any]:
    found: list[Any] = []
    for cls in made:
        found.append([(f.name, f.init, f.compare) for f in dataclasses.fields(cls)])
        found.append((getattr(cls, "__match_args__", None), getattr(cls, "__slots__", None), cls.__hash__ is None))
        given = [told(lambda cls=cls, args=args, names=names: cls(*args, **names)) for args, names in CALLS]  # type: ignore[misc]
        alive = [each for each in given if isinstance(each, cls)]
        found += [repr(each) for each in given] if cls.__repr__ is not object.__repr__ else []
        found.append([[a == b for a in alive] for b in alive])
        found.append([[a == b for a in alive] for b in map(copy.copy, alive)])
        if cls.__hash__ is not object.__hash__:
            hashes = [told(lambda each=each: hash(each)) for each in alive]  # type: ignore[misc]
            found.append([each if isinstance(each, tuple) else hashes.index(each) for each in hashes])
        for each in alive[:2]:
            name = dataclasses.fields(cls)[0].name
            for attribute in (name, *(["unknown"] if not hasattr(cls, "__slots__") else [])):  # which theirs breaks with slots
                found.append(told(lambda each=each, attribute=attribute: setattr(each, attribute, 1)))  # type: ignore[misc]
                found.append(told(lambda each=each, attribute=attribute: delattr(each, attribute)))  # type: ignore[misc]
            found.append(told(lambda each=each, name=name: repr(dataclasses.replace(each, **{name: 11}))))  # type: ignore[misc]
            found.append(told(lambda each=each: dataclasses.asdict(each)))  # type: ignore[misc]
            found.append(each == 1)
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_values_behave_like_dataclasses_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = list(kinds(values.dataclass, options)), list(kinds(dataclasses.dataclass, options))
    assert seen(ours) == seen(theirs)


@pytest.mark.parametrize("below", [values.dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("above", [values.dataclass, dataclasses.dataclass])
def test_values_and_dataclasses_inherit_from_each_other(above: Decorate, below: Decorate) -> None:
    higher = above(frozen=True, slots=True)(type("Above", (), {"__annotations__": {"one": "int"}}))
    lower = below(frozen=True, slots=True)(type("Below", (higher,), {"__annotations__": {"two": "int"}}))
    value = lower(1, 2)
    assert (value.one, value.two, copy.copy(value)) == (1, 2, value)
    for name in ("one", "two"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 3)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        below(type("Open", (higher,), {}))


@values.dataclass(frozen=True, slots=True)
class Kept:
    value: int
    others: tuple[int, ...] = ()


def test_values_can_be_pickled_hashed_and_matched() -> None:
    assert pickle.loads(pickle.dumps(Kept(3, (1, 2)))) == Kept(3, (1, 2))
    assert {Kept(3): "found"}[Kept(3)] == "found" and repr(Kept(3)) == "Kept(value=3, others=())"
    match Kept(5):
        case Kept(value):
            assert value == 5


def test_methods_are_generated_at_first_use() -> None:
    """The methods of a data class are generated at its first use, which halves the time of an import."""
    code = (
        "from dpcli.file.pipeline.gate_keys import Caps\n"
        "print(Caps.__init__.__code__.co_filename.endswith('values.py'))\n"
        "Caps()\nprint(Caps.__init__.__code__.co_varnames[:1], Caps.__init__.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split("\n")[:2] == ["True", "('self',) __init__"]
