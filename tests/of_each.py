"""One test that tries many cases: each is tried, and all that fail are told, by what they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest


def of_each(
    names: str, cases: Iterable[Any] | Callable[[], Iterable[Any]], told: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Any]:
    """As `pytest.mark.parametrize`, in one test: for cases that are cheap, so that a test for each would cost more than what it asks.

    cases: or a function that makes them, when the test runs. told: how a failure names its case. A case has a `tmp_path` of its own, and
    what it does by `monkeypatch` is undone after it.
    """
    wanted = [name.strip() for name in names.split(",")]

    def decorated(test: Callable[..., None]) -> Any:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def every(**given: Any) -> None:
            failed: list[BaseException] = []
            named: list[str] = []
            tried = list(cases() if callable(cases) else cases)
            assert tried, f"no case of {names}"
            for number, case in enumerate(tried):
                values = dict(zip(wanted, case, strict=True)) if len(wanted) > 1 else {wanted[0]: case}
                try:
                    with ExitStack() as stack:
                        test(**of_its_own(given, number, stack), **values)
                except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:
                    failed.append(error)
                    named.append(f"{told(case)}"[:200])
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(tried)} fail, of {names}: {'; '.join(named)}", failed)

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
