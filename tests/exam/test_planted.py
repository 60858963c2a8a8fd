"""A bug in any registered mechanism fails the exam, though nobody names the mechanism."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest

from dpcli.accountants.base import Bound
from dpcli.analysis import account as accounting
from dpcli.base.errors import InputError
from dpcli.base.registry import MECHANISMS
from dpcli.file.pipeline.resolve import resolve
from tests.brute.bracket import claimed, parsed, row, situations
from tests.brute.references import Reference, Situation
from tests.cases import in_turn, tiered
from tests.exam.laws import copies
from tests.exam.plants import PLANTS, Resolve
from tests.exam.subjects import Subject, drawn

Claims = tuple[Bound, ...]


def claims(reference: Reference, scheme: str, situation: Situation) -> Claims | None:
    """What is claimed; None where the statement makes no sense."""
    with suppress(InputError):
        return claimed(reference, scheme, situation)
    return None


honest = functools.cache(claims)


def changed(bug: Resolve, reference: Reference, scheme: str, situation: Situation) -> bool:
    """Whether the bug changes anything about the statement; where it does not, nobody need be asked."""
    with suppress(InputError):
        pipeline = parsed(reference, scheme, situation)
        with suppress(InputError):
            return bool(bug(pipeline, situation.group) != resolve(pipeline, situation.group))
        return True
    return False


def promises_more(planted: Bound, honest: Bound) -> bool:
    """An upper bound that is smaller; a lower bound that the enumeration reaches is none that is false."""
    return planted.upper < honest.upper - 1e-12


def says_more(planted: Bound, honest: Bound) -> bool:
    """On either side: else it is as true as what is claimed without the bug, which other tests compare with the enumeration."""
    return planted.upper < honest.upper or (planted.lower is not None and (honest.lower is None or planted.lower > honest.lower))


def told(kind: str, bug: Resolve) -> Iterator[tuple[bool, bool]]:
    """For each situation whether the planted claim is false, and whether it promises more than the honest one."""
    for situated in situations(kind):
        if changed(bug, *situated) and (planted := claims(*situated)) is not None:
            with pytest.MonkeyPatch.context() as mended:
                mended.setattr(accounting, "resolve", resolve)
                true = honest(*situated)
            if true is None:
                yield bool(row(*situated).faults()), False
            elif any(map(says_more, planted, true)):
                yield bool(row(*situated).faults()), any(map(promises_more, planted, true))


def uncounted(subject: Subject) -> bool:
    with suppress(InputError):  # under the planted adjacency it makes no sense
        return any(True for _ in copies(subject.pipeline))
    return False


EACH_ONCE = in_turn(MECHANISMS, PLANTS)
OTHERS = [pair for pair in product(MECHANISMS, PLANTS) if pair not in EACH_ONCE]


DEAR = [pair for pair in EACH_ONCE if pair[0] in ("exponential", "sparse-vector", "zcdp", "rdp")]
CHEAP = [pair for pair in EACH_ONCE if pair not in DEAR]


@pytest.mark.parametrize(("kind", "plant"), [*tiered(CHEAP, 12, 12), *tiered(DEAR, 0, len(DEAR)), *tiered(OTHERS, 0)])
def test_a_bug_in_any_mechanism_is_seen(kind: str, plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a false bracket, or by steps that are not counted, unless nothing promises more than without it."""
    bug = PLANTS[plant](accounting.resolve)
    with monkeypatch.context() as planting:
        planting.setattr(accounting, "resolve", bug)
        more = False
        for false, promised in told(kind, bug):
            if false:
                return
            more = more or promised
    if not more:
        return
    monkeypatch.setattr(accounting, "resolve", bug)
    assert any(map(uncounted, drawn(kind, "0"))), f"{plant} in {kind} is not seen"


def test_a_smaller_upper_bound_promises_more() -> None:
    assert not promises_more(Bound(0.3), Bound(0.3, 0.1)) and promises_more(Bound(0.2), Bound(0.3))
    assert (
        not says_more(Bound(0.3, 0.1), Bound(0.3, 0.1))
        and says_more(Bound(0.3, 0.2), Bound(0.3, 0.1))
        and says_more(Bound(0.3, 0.1), Bound(0.3))
    )
