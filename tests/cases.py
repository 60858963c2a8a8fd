"""Distribute the cases of a parametrised test over the three runs of the tests, or check several cheap cases in one test.

The *quick* run takes tests without a mark, the *long* run also those with the mark `long`, and the *nightly* run those with the mark
`nightly` (tests/README.md). `tiered`, `by_tier` and `every` return arguments for `pytest.mark.parametrize`. `of_each` and `require_each`
check all cases in one test, and report each that fails.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def fresh_random() -> random.Random:
    """Return a random generator for a test. Its draws depend on the commit, and are fresh each night (conftest.py seeds `random`)."""
    return random.Random(random.getrandbits(64))


def tiered(cases: Iterable[Any], quick: int, long: int = 0) -> list[Any]:
    """Return the cases for `parametrize`: `quick` of them without a mark, `long` of the others marked as long, and the rest as nightly.

    The cases of each run are evenly spaced, and include the first and the last of those that are left.
    """
    cases = list(cases)
    remaining = list(enumerate(cases))
    marks_of_case: dict[int, list[pytest.MarkDecorator]] = {}
    for count, marks in ((quick, []), (long, [pytest.mark.long]), (len(remaining), [pytest.mark.nightly])):
        positions = spread(len(remaining), count)
        marks_of_case |= {remaining[k][0]: marks for k in positions}
        remaining = [case for k, case in enumerate(remaining) if k not in positions]
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks_of_case[k]) for k, case in enumerate(cases)]


def spread(size: int, count: int) -> set[int]:
    """Return `count` of `size` positions, evenly spaced from the first to the last. A single position is the middle one."""
    if count >= size:
        return set(range(size))
    if count == 1:
        return {size // 2}
    return {k * (size - 1) // (count - 1) for k in range(count)}


def by_tier(quick: Any, long: Any, nightly: Any) -> list[Any]:
    """Return one case for each of the three runs, for `parametrize`; None stands for a run without a case."""
    marks = (), pytest.mark.long, pytest.mark.nightly
    return [pytest.param(case, marks=mark) for case, mark in zip((quick, long, nightly), marks, strict=True) if case is not None]


def in_turn(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return a pair for each item of `first`, with the items of `second` in turn, which begin again when they are used up."""
    second = list(second)
    return [(one, second[k % len(second)]) for k, one in enumerate(first)]


def every(step: int, names: Iterable[str], marks: Any = (), begin: int = 0) -> list[Any]:
    """Return pairs (name, slice) for `parametrize`. The slice selects one of `step` cases, and starts one later for each name."""
    return [
        pytest.param(name, slice(k % step, None, step), marks=marks, id=f"{name}-{step}") for k, name in enumerate(names, begin)
    ]


def of_each(
    names: str | tuple[str, ...], cases: Iterable[Any] | Callable[[], Iterable[Any]], told: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator like `pytest.mark.parametrize` that checks all cases in one test, as a test for each cheap case would cost more.

    Each case has its own `tmp_path`, and its changes by `monkeypatch` are undone after it. If a case skips, the others run, and the test
    skips unless one of them fails.

    Args:
        cases: The cases, or a function that returns them when the test runs.
        told: A function that returns the name of a case for the message about a failure.
    """
    wanted = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]

    def decorated(test: Callable[..., None]) -> Any:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def every(**given: Any) -> None:
            failed: list[BaseException] = []
            named: list[str] = []
            skipped: list[str] = []
            tried = list(cases if isinstance(cases, Iterable) else cases())
            assert tried, f"no case of {names}"
            for number, case in enumerate(tried):
                values = dict(zip(wanted, case, strict=True)) if len(wanted) > 1 else {wanted[0]: case}
                try:
                    with ExitStack() as stack:
                        test(**fixtures_of_case(given, number, stack), **values)
                except pytest.skip.Exception as skip:
                    skipped.append(f"{told(case)}: {skip}")
                except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:
                    failed.append(error)
                    named.append(f"{told(case)}"[:200])
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(tried)} fail, of {names}: {'; '.join(named)}", failed)
            if skipped:
                pytest.skip(f"{len(skipped)} of {len(tried)}, of {names}: {'; '.join(skipped)}")

        del every.__wrapped__  # type: ignore[attr-defined]
        kept = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        every.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return every

    return decorated


def fixtures_of_case(given: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    """Return the fixtures of the test for one case, which gets its own folder, and changes that end with `stack`."""
    fixtures = dict(given)
    if "tmp_path" in fixtures:
        fixtures["tmp_path"] = fixtures["tmp_path"] / str(number)
        fixtures["tmp_path"].mkdir()
    if "monkeypatch" in fixtures:
        fixtures["monkeypatch"] = stack.enter_context(fixtures["monkeypatch"].context())
    return fixtures


def require_each(cases: Iterable[Case], check: Callable[[Case], object], name: Callable[[Case], str] = str) -> None:
    """Assert that there are cases, and that the check raises for none of them. The traceback is that of the first failure.

    If the check skips a case, the others are checked, and the test skips unless one of them fails.
    """
    tried, failed, skipped = 0, [], []
    for case in cases:
        tried += 1
        try:
            check(case)
        except pytest.skip.Exception as skip:
            skipped.append(f"{name(case)}: {skip}")
        except (Exception, pytest.fail.Exception) as problem:
            failed.append((name(case), problem))
    assert tried, "no case was tried"
    if failed:
        reasons = "\n".join(f"{case_name}: {type(problem).__name__}: {problem}" for case_name, problem in failed)
        raise AssertionError(f"{len(failed)} of {tried} fail:\n{reasons}") from failed[0][1]
    if skipped:
        pytest.skip(f"{len(skipped)} of {tried}: {'; '.join(skipped)}")
