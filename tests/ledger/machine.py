"""A state machine that sends random requests to a ledger and compares each answer with that of a plain dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st

from dpcli.base.errors import Denied, DpcliError, InputError, LedgerError
from dpcli.ledger.chain import canonical, time_after
from dpcli.ledger.charges.past_runs import recent_runs
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.verify import verify
from tests.ledger.filters.folding import KEYS, NOW, alike, begin_alike, folded
from tests.ledger.filters.setting import charge

PEOPLE = ("ada", "eve", "bob")
FRESH, FIRST, SECOND = "fresh", "first", "second"  # readers of a ledger (`play`)
# Random steps: (request, person, key, amount, positions of the blocks, reader).
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("spend", "reserve", "start", "void", "person") * 2,
                "brief",
                "commit",
                "count",
                "late void",
                "retire",
                "team",
                "amend",
            ]
        ),
        st.sampled_from(PEOPLE),
        st.sampled_from([*KEYS[:4], *KEYS]),  # a few keys occur often, so that requests repeat
        st.sampled_from(["0", "0.1", "0.1", "0.25", "0.5", "0.070000000000000001", "1E-30", "1E-300"]),
        st.sets(st.integers(0, 2), min_size=1).map(sorted),
        st.sampled_from([FRESH, FRESH, FIRST, SECOND]),
    ),
    min_size=8,
    max_size=25,
)
Step = tuple[str, str, str, str, list[int], str]


@dataclass
class ModelRun:
    """A run in the model of a ledger. `brief`: whether its reservation expires."""

    kind: str
    who: str
    cost: Fraction
    window: tuple[str, ...]
    status: str
    brief: bool = False
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Model:
    """The model of a ledger with blocks and quotas: a dictionary of runs, and fractions."""

    blocks: Sequence[str] = ()
    cap: Fraction = Fraction(1)
    entries: int = 1
    retired: set[str] = field(default_factory=set)
    runs: dict[str, ModelRun] = field(default_factory=dict)
    quotas: dict[tuple[str, str], tuple[tuple[str, ...], Fraction]] = field(default_factory=dict)

    def spent(self, members: Sequence[str], block: str, *statuses: str) -> Fraction:
        """Return the sum of the costs of the members' runs on a block; "" for a dataset without blocks.

        Only runs with one of the statuses count or, if none is given, all runs that are not void.
        """
        runs = [run for run in self.runs.values() if run.who in members and (not block or block in run.window)]
        return sum((run.cost for run in runs if (run.status in statuses if statuses else run.status != "void")), Fraction(0))

    def fits(self, cost: Fraction, window: Sequence[str], limits: Sequence[tuple[Sequence[str], Fraction]] = ()) -> bool:
        return not self.retired & set(window) and all(
            self.spent(members, block) + cost <= share * self.cap
            for members, share in ((PEOPLE, Fraction(1)), *limits)
            for block in window or ("",)
        )

    def charge(
        self, kind: str, who: str, key: str, cost: Fraction, window: tuple[str, ...], brief: bool
    ) -> type[DpcliError] | bool:
        """Return the error that the request must raise, or whether it repeats an earlier one."""
        run = self.runs.get(key)
        if run is not None:
            same = (run.kind, run.who, run.window) == (kind, who, window)
            return (same and run.status != "void" and (kind == "spend" or run.status == "reserved")) or LedgerError
        if not self.fits(cost, window, [quota for quota in self.quotas.values() if who in quota[0]]):
            return Denied
        self.runs[key] = ModelRun(kind, who, cost, window, "reserved" if kind == "reserve" else "committed", brief)
        return False

    def move(self, kind: str, key: str, is_late: bool) -> type[DpcliError] | bool:
        run = self.runs.get(key)
        if run is None or run.kind != "reserve":
            repeated = run is not None and kind == "commit"
            return repeated or LedgerError
        becomes = {"start": "started", "commit": "committed", "void": "void"}[kind]
        if run.status == becomes and kind != "start":
            return True
        allowed = {
            "start": ("reserved",),
            "commit": ("reserved", "started"),
            "void": () if is_late and run.brief else ("reserved",),
        }
        if run.status not in allowed[kind]:
            return LedgerError
        run.status = becomes
        return False

    def count(self, who: str, key: str, of: str, most: int) -> type[DpcliError] | bool:
        run = self.runs.get(key)
        if run is None or run.status not in ("started", "committed") or run.who != who:
            return LedgerError
        if run.counts.get(of, 0) == most:
            return Denied
        run.counts[of] = run.counts.get(of, 0) + 1
        return False


def step(ledger: Ledger, model: Model, what: str, key: str, amount: str, places: Sequence[int]) -> None:
    """Make one request of the ledger and of the model, and require the same answer."""
    who, window = ledger.who, tuple(sorted(model.blocks[i] for i in places)) if model.blocks else ()
    late, now = what == "late void", ledger.now
    if late:
        ledger.now = lambda: time_after(NOW, days=9)
    what, brief = {"late void": "void", "brief": "reserve"}.get(what, what), what == "brief"
    ask: Callable[[], Any]
    expected: type[DpcliError] | bool
    if what in ("spend", "reserve"):
        expires = time_after(NOW, days=4) if brief else None
        expected = model.charge(what, who, key, Fraction(amount), window, brief)
        ask = lambda: charge(ledger, key, amount, what, expires=expires, window=window)  # noqa: E731
    elif what in ("start", "commit", "void"):
        expected = model.move(what, key, late)
        ask = lambda: getattr(ledger, what)(key, "a reason")  # noqa: E731
    elif what == "count":
        of = f"answers {amount[:3]}"
        expected = model.count(who, key, of, 3)
        ask = lambda: ledger.count(key, of, 1, 3)  # noqa: E731
    elif what == "retire":
        expected = window[0] in model.retired if window else InputError
        model.retired |= set(window[:1])
        ask = lambda: ledger.retire(window[:1], "deleted")  # noqa: E731
    elif what == "amend":
        cap, expected = float(Decimal("0.5") + Decimal(amount[:4])), False
        model.cap = Fraction(repr(cap))
        ask = lambda: ledger.amend(cap, "a reason", "the board", acknowledged=True, unseen=key in "abc")  # noqa: E731
    else:
        members = tuple(sorted(PEOPLE[:2])) if what == "team" else (PEOPLE[len(key) % 3],)
        name, share, expected = (
            "team" if what == "team" else members[0],
            {"1E-30": "1", "1E-300": "1"}.get(amount, amount[:4]),
            False,
        )
        model.quotas[what, name] = (members, Fraction(share))
        ask = lambda: ledger.quota(what, name, share, members, why="a reason")  # noqa: E731
    try:
        if isinstance(expected, type):
            with pytest.raises(expected):
                ask()
            return
        answer = ask()
    finally:
        ledger.now = now
    assert getattr(answer, "repeated", False) is expected
    assert what != "count" or answer == model.runs[key].counts[f"answers {amount[:3]}"]
    model.entries += not expected


def agrees(ledger: Ledger, model: Model) -> None:
    """Require that the ledger agrees with the model: its entries, its runs, the spending of each block, and what would fit."""
    state = ledger.state()
    assert [row.seq for row in ledger.store.after(ledger.dataset, 0)] == list(range(1, model.entries + 1))
    assert {key: (run.status, run.window) for key, run in state.runs.items()} == {
        key: (run.status, run.window) for key, run in model.runs.items()
    }
    assert (Fraction(state.caps["epsilon"]), state.retired) == (model.cap, model.retired)
    for block in model.blocks or ("",):
        part = state.on_blocks((block,) if block else ())
        assert Fraction(part.spent["epsilon"]) == model.spent(PEOPLE, block)
        assert Fraction(part.reserved["epsilon"]) == model.spent(PEOPLE, block, "reserved", "started")
    for cost in ("0", "1E-300", "0.1", "0.5", "1"):
        for window in (model.blocks[:1], model.blocks[1:3], model.blocks):
            fits = state.retired_block(window) is None and state.on_blocks(window).fits(
                {"epsilon": Decimal(cost), "delta": Decimal(0)}
            )
            assert fits == model.fits(Fraction(cost), window)
    for quota in state.quotas.values():
        assert Fraction(state.quota_used(quota)["epsilon"]) == max(
            model.spent(quota.members, block) for block in model.blocks or ("",)
        )


def play(open_as: Callable[[str, str], Ledger], model: Model, steps: Sequence[Step], quotas: bool, own_clock: bool = False) -> None:
    """Make each step as a request to a new ledger, and check after every fourth step that its stored sums are those of its entries.

    Args:
        open_as: Function that opens the ledger for a person and a reader. FRESH has read nothing, and FIRST and SECOND continue from the
            state that they have read.
        quotas: Whether to make requests about quotas. A ledger without them stores no sums of persons.
        own_clock: Whether the store has its own clock, which a test cannot move, so that nothing expires.
    """
    for at, (what, who, key, amount, places, reader) in enumerate(steps):
        if (what in ("person", "team") and not quotas) or (what in ("brief", "late void") and own_clock):
            continue
        ledger = open_as(who, reader)
        step(ledger, model, what, key, amount, places)
        if at % 4 == 3:
            with suppress(ZeroDivisionError), ledger.store.writing(ledger.dataset):
                raise ZeroDivisionError  # a writer that fails leaves nothing
            agrees(ledger, model)
            fresh = open_as(who, FRESH)
            begin_alike(fresh, folded(fresh))
            alike(fresh.state(), folded(fresh))
    for reader in (FRESH, FIRST, SECOND):
        agrees(open_as(PEOPLE[0], reader), model)
    ledger = open_as(PEOPLE[0], FRESH)
    truth, state = folded(ledger), ledger.state()
    alike(state, truth)
    begin_alike(ledger, truth)
    assert (state.quotas, state.people if truth.quotas else None) == (truth.quotas, truth.people if truth.quotas else None)
    last = [replace(run, counts={}) for run in list(truth.runs.values())[-4:]]  # a table of runs shows no counts
    assert recent_runs(ledger.store, ledger.dataset, state.head, 4) == last
    assert list(state.runs.values()) == list(truth.runs.values())
    replayed = [state for _, state in ledger.replay()][-1]
    assert canonical(checkpoint_content(replayed)) == canonical(checkpoint_content(truth))
    assert verify(ledger).notes == ()
