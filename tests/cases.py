"""Cases of a test: which a quick run takes, which a longer one, which are left for the night, and which are one test together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def tiered(cases: Iterable[Any], quick: int, long: int = 0) -> list[Any]:
    """The cases for `parametrize`: `quick` of them as they are, `long` of the others marked so, the rest marked as nightly; each evenly
    spaced, with the first and the last."""
    cases = list(cases)
    left = list(enumerate(cases))
    chosen: dict[int, list[pytest.MarkDecorator]] = {}
    for count, marks in ((quick, []), (long, [pytest.mark.long]), (len(left), [pytest.mark.nightly])):
        taken = spread(len(left), count)
        chosen |= {left[k][0]: marks for k in taken}
        left = [one for k, one in enumerate(left) if k not in taken]
    return [
        pytest.param(*case, marks=chosen[k]) if isinstance(case, tuple) else pytest.param(case, marks=chosen[k])
        for k, case in enumerate(cases)
    ]


def spread(size: int, count: int) -> set[int]:
    """`count` of `size` positions, evenly spaced; the middle one where it is only one."""
    if count >= size:
        return set(range(size))
    if count == 1:
        return {size // 2}
    return {k * (size - 1) // (count - 1) for k in range(count)}


def by_tier(quick: Any, long: Any, nightly: Any) -> list[Any]:
    """One case each for `parametrize`; None where a tier has none."""
    marks = (), pytest.mark.long, pytest.mark.nightly
    return [pytest.param(case, marks=mark) for case, mark in zip((quick, long, nightly), marks, strict=True) if case is not None]


def together(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """In place of `parametrize` where a case takes no time: one test of all cases, which tells each one that fails. What is a fixture is
    the same for all of them."""
    cases, keys = list(cases), (names,) if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def whole(**fixtures: Any) -> None:
            faults = []
            for case in cases:
                values = dict(zip(keys, (case,) if isinstance(names, str) else case, strict=True))
                try:
                    test(**values, **fixtures)
                except Exception as error:
                    error.add_note(f"of {values}")
                    faults.append(error)
            if faults:
                raise ExceptionGroup(f"{len(faults)} of {len(cases)} cases", faults)

        signature = inspect.signature(test)
        assert signature.parameters.keys() >= {*keys} and cases, keys
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return whole

    return decorate


def in_turn(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Each of the first with one of the second, which are taken in turn."""
    second = list(second)
    return [(one, second[k % len(second)]) for k, one in enumerate(first)]


def every(step: int, names: Iterable[str], marks: Any = (), begin: int = 0) -> list[Any]:
    """(name, which of its things) for `parametrize`: one of `step`, beginning with `begin` and at the next one for each name."""
    return [
        pytest.param(name, slice(k % step, None, step), marks=marks, id=f"{name}-{step}") for k, name in enumerate(names, begin)
    ]
