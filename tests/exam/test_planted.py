"""A bug in any registered mechanism fails the exam, though nobody names the mechanism."""

from __future__ import annotations

import functools
from contextlib import suppress

import pytest

from dpcli.analysis import account as accounting
from dpcli.errors import InputError
from dpcli.registry import MECHANISMS
from tests.brute.bracket import Bracket, Row, rows
from tests.exam.laws import copies
from tests.exam.plants import PLANTS
from tests.exam.subjects import Subject, drawn


@functools.cache
def honest(kind: str) -> dict[str, Row]:
    return {row.label: row for row in rows(kind)}


def promises_more(planted: Bracket, honest: Bracket) -> bool:
    """An upper bound that is smaller; a lower bound that the enumeration reaches is none that is false."""
    return planted.upper < honest.upper - 1e-12


def seen(kind: str) -> bool:
    """Whether the exam finds a false bracket, or steps that are not counted; or nothing promises more than without the bug."""
    harmless = True
    for row in rows(kind):
        if row.faults():
            return True
        harmless = harmless and not any(map(promises_more, row.brackets, honest(kind)[row.label].brackets))
    return harmless or any(map(uncounted, drawn(kind, "0")))


def uncounted(subject: Subject) -> bool:
    with suppress(InputError):  # under the planted adjacency it makes no sense
        return any(True for _ in copies(subject.pipeline))
    return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_bug_in_any_mechanism_is_seen(kind: str, plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert honest(kind)
    monkeypatch.setattr(accounting, "resolve", PLANTS[plant](accounting.resolve))
    assert seen(kind), f"{plant} in {kind} is not seen"


def test_a_smaller_upper_bound_promises_more() -> None:
    assert not promises_more(Bracket(0.1, None, 0.2, 0.3), Bracket(0.1, None, 0.2, 0.3))
    assert promises_more(Bracket(0.1, None, 0.2, 0.2), Bracket(0.1, None, 0.2, 0.3))
