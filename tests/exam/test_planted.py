"""A bug in any registered mechanism fails the exam, though nobody names the mechanism."""

from __future__ import annotations

import functools
from collections.abc import Iterator
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


def until_false(kind: str) -> Iterator[Row]:
    """What is claimed, up to the first false bracket."""
    for row in rows(kind):
        yield row
        if row.faults():
            return


def harmless(kind: str, planted: list[Row]) -> bool:
    """Whether nothing promises more than without the bug."""
    return not any(any(map(promises_more, row.brackets, honest(kind)[row.label].brackets)) for row in planted)


def uncounted(subject: Subject) -> bool:
    with suppress(InputError):  # under the planted adjacency it makes no sense
        return any(True for _ in copies(subject.pipeline))
    return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_bug_in_any_mechanism_is_seen(kind: str, plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a false bracket, or by steps that are not counted, unless nothing promises more than without it."""
    bug = PLANTS[plant](accounting.resolve)
    with monkeypatch.context() as planting:
        planting.setattr(accounting, "resolve", bug)
        planted = list(until_false(kind))
    assert planted
    if planted[-1].faults() or harmless(kind, planted):
        return
    monkeypatch.setattr(accounting, "resolve", bug)
    assert any(map(uncounted, drawn(kind, "0"))), f"{plant} in {kind} is not seen"


def test_a_smaller_upper_bound_promises_more() -> None:
    assert not promises_more(Bracket(0.1, None, 0.2, 0.3), Bracket(0.1, None, 0.2, 0.3))
    assert promises_more(Bracket(0.1, None, 0.2, 0.2), Bracket(0.1, None, 0.2, 0.3))
