"""Cases of a test: which a quick run takes, which a longer one, which are left for the night, and which are one test together."""

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
    """A generator for what a test draws: the same draws for everybody who has this commit, others with the next one and each night."""
    return random.Random(random.getrandbits(64))


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


def in_turn(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Each of the first with one of the second, which are taken in turn."""
    second = list(second)
    return [(one, second[k % len(second)]) for k, one in enumerate(first)]


def every(step: int, names: Iterable[str], marks: Any = (), begin: int = 0) -> list[Any]:
    """(name, which of its things) for `parametrize`: one of `step`, beginning with `begin` and at the next one for each name."""
    return [
        pytest.param(name, slice(k % step, None, step), marks=marks, id=f"{name}-{step}") for k, name in enumerate(names, begin)
    ]


def of_each(
    names: str | tuple[str, ...], cases: Iterable[Any] | Callable[[], Iterable[Any]], told: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Any]:
    """As `pytest.mark.parametrize`, in one test: for cases that are cheap, so that a test for each would cost more than what it asks.

    cases: or a function that makes them, when the test runs. told: how a failure names its case. A case has a `tmp_path` of its own, and
    what it does by `monkeypatch` is undone after it. Where one skips, the others run, and the test skips unless one of them fails.
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
                        test(**of_its_own(given, number, stack), **values)
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


def of_its_own(given: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    """The fixtures, for one case."""
    found = dict(given)
    if "tmp_path" in found:
        found["tmp_path"] = found["tmp_path"] / str(number)
        found["tmp_path"].mkdir()
    if "monkeypatch" in found:
        found["monkeypatch"] = stack.enter_context(found["monkeypatch"].context())
    return found


def require_each(cases: Iterable[Case], check: Callable[[Case], object], name: Callable[[Case], str] = str) -> None:
    """Asserts that there are cases, and that the check raises for none of them; the traceback is the first one's.

    Where it skips for one, it is asked of the others, and the test skips unless it raises for one of them.
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
        told = "\n".join(f"{one}: {type(problem).__name__}: {problem}" for one, problem in failed)
        raise AssertionError(f"{len(failed)} of {tried} fail:\n{told}") from failed[0][1]
    if skipped:
        pytest.skip(f"{len(skipped)} of {tried}: {'; '.join(skipped)}")
