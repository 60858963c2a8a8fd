"""Many small cases in one test: all that fail are told, each by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def every(cases: Iterable[object], check: Callable[..., object]) -> None:
    """`check` of every case, by itself; a tuple is its arguments."""
    failed, count = [], 0
    for case in cases:
        count += 1
        try:
            check(*case) if isinstance(case, tuple) else check(case)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(f"{case!r}: {type(error).__name__}: {error}")
    assert count, "there was no case"
    assert not failed, f"{len(failed)} of {count} cases:\n" + "\n".join(failed)
