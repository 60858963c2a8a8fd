"""Tests of the hash chain and its replay: every changed byte is found, and entries that dpcli never writes are refused."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import Head, StoredRow, canonical, digest, next_entry, seal
from dpcli.ledger.state import LedgerState
from dpcli.ledger.terms import LedgerTerms
from tests.ledger.cases import every

TERMS = LedgerTerms("user", "add-remove", 1.0, 1e-6, filter="approx-dp", parameters={})
PIPELINE = {"privacy": {"adjacency": "add-remove", "unit": "user"}, "mechanism": [{"name": "a", "type": "pure-dp", "epsilon": 0.1}]}


def charge(key: str, epsilon: str = "0.1", kind: str = "spend", **more: object) -> dict[str, object]:
    return {"kind": kind, "key": key, "pipeline": PIPELINE, "delta": "0.0", "cost": {"epsilon": epsilon, "delta": "0"}, **more}


OPEN = {"kind": "open", "terms": TERMS.content(), "caps": {"epsilon": "1", "delta": "0.000001"}}


def chain(*contents: dict[str, object]) -> list[StoredRow]:
    rows, head = [], Head()
    for content in contents:
        rows.append(seal(content, "visits", head).row)
        head = Head(rows[-1].seq, rows[-1].hash)
    return rows


def replay(rows: list[StoredRow]) -> LedgerState:
    state = LedgerState("visits")
    for row in rows:
        state.apply(next_entry(row, "visits", state.head))
    return state


def test_a_sound_chain_is_replayed() -> None:
    state = replay(
        chain(OPEN, charge("a"), charge("b", kind="reserve"), {"kind": "start", "key": "b"}, {"kind": "commit", "key": "b"})
    )
    assert state.spent["epsilon"] == Decimal("0.2")
    assert state.head.seq == 5
    assert state.runs["b"].status == "committed"


@given(entry=st.integers(0, 3), place=st.integers(0, 10**6), bit=st.integers(0, 6))
def test_any_changed_byte_is_found(entry: int, place: int, bit: int) -> None:
    rows = chain(OPEN, charge("a"), charge("b", kind="reserve"), {"kind": "void", "key": "b", "why": "x"})
    row = rows[entry]
    at = place % len(row.body)
    changed = row.body[:at] + chr(ord(row.body[at]) ^ (1 << bit)) + row.body[at + 1 :]
    rows[entry] = StoredRow(row.seq, changed, row.hash)
    with pytest.raises(LedgerError, match=f"entry {entry + 1}: its content does not match its hash"):
        replay(rows)


@given(entry=st.integers(0, 2), place=st.integers(0, 10**6))
def test_a_changed_byte_with_a_new_hash_breaks_the_next_link(entry: int, place: int) -> None:
    rows = chain(OPEN, charge("a"), charge("b", kind="reserve"), {"kind": "void", "key": "b", "why": "x"})
    content = {**json.loads(rows[entry].body), "note": str(place)}
    body = canonical(content)
    rows[entry] = StoredRow(rows[entry].seq, body, digest(body))
    with pytest.raises(LedgerError, match=rf"entry {entry + 2}: does not follow"):
        replay(rows)


def test_a_missing_or_repeated_entry_is_found() -> None:
    rows = chain(OPEN, charge("a"), charge("b"))
    with pytest.raises(LedgerError, match="entry 2: missing"):
        replay([rows[0], rows[2]])
    with pytest.raises(LedgerError, match="entry 3: missing"):
        replay([rows[0], rows[1], rows[1]])


def test_entries_of_another_dataset_or_in_another_spelling_are_found() -> None:
    with pytest.raises(LedgerError, match="states another number or dataset"):
        next_entry(seal(OPEN, "clicks", Head()).row, "visits", Head())
    body = json.dumps(json.loads(seal(OPEN, "visits", Head()).row.body), indent=1)
    with pytest.raises(LedgerError, match="is not in canonical form"):
        next_entry(StoredRow(1, body, digest(body)), "visits", Head())


def test_a_later_format_says_so() -> None:
    body = canonical({**OPEN, "ledger": 2, "seq": 1, "previous": "0" * 64, "dataset": "visits"})
    with pytest.raises(LedgerError, match="expected format 1, found 2: written by a later dpcli"):
        next_entry(StoredRow(1, body, digest(body)), "visits", Head())
    with pytest.raises(LedgerError, match='"grant" is unknown to this version'):
        replay(chain(OPEN, {"kind": "grant"}))


def test_what_is_no_entry_is_refused() -> None:
    def refused(body: str) -> None:
        with pytest.raises(LedgerError, match="not a JSON object"):
            next_entry(StoredRow(1, body, digest(body)), "visits", Head())

    every(["", "[]", "null", '{"kind": 1}', "[" * 10_000, "{"], refused)


NO_SOUND_LEDGER: list[tuple[list[dict[str, object]], str]] = [
    ([charge("a")], "no ledger"),
    ([OPEN, OPEN], "a second opening"),
    ([OPEN, charge("a"), charge("a")], "charges the key 'a' a second time"),
    ([OPEN, charge("")], "charges a run without a key"),
    ([OPEN, charge("a", "0.6"), charge("b", "0.6")], "overspends"),
    ([OPEN, charge("a", "-0.6")], "amounts written as decimal"),
    ([OPEN, {**charge("a"), "cost": {"rho": "0.1"}}], "overspends"),
    ([OPEN, {"kind": "commit", "key": "a"}], "which no entry has"),
    ([OPEN, charge("a"), {"kind": "void", "key": "a", "why": "x"}], "void of a run that is committed"),
    (
        [OPEN, charge("a", kind="reserve"), {"kind": "start", "key": "a"}, {"kind": "void", "key": "a"}],
        "void of a run that is started",
    ),
    (
        [OPEN, charge("a", kind="reserve"), {"kind": "void", "key": "a"}, {"kind": "commit", "key": "a"}],
        "commit of a run that is void",
    ),
    ([OPEN, {"kind": "amend", "epsilon": 2.0, "caps": {"rho": "1"}}], "amends other caps"),
    ([OPEN, {"kind": "amend"}], "not the content of amend"),
    ([OPEN, {"kind": "spend", "key": "a"}], "not the content of spend"),
    ([{"kind": "open", "terms": {"planet": "earth"}, "caps": {}}], "not an opening entry"),
]


def test_entries_that_no_sound_ledger_holds_are_refused() -> None:
    def refused(contents: list[dict[str, object]], words: str) -> None:
        with pytest.raises(LedgerError, match=words):
            replay(chain(*contents))

    every(NO_SOUND_LEDGER, refused)


def test_a_cap_below_what_is_spent_takes_nothing_back() -> None:
    state = replay(chain(OPEN, charge("a", "0.6"), {"kind": "amend", "epsilon": 0.5, "caps": {"epsilon": "0.5", "delta": "0"}}))
    assert state.spent["epsilon"] == Decimal("0.6")
    assert state.left() == {"epsilon": Decimal(0), "delta": Decimal(0)}
    assert not state.fits({"epsilon": Decimal("1e-30"), "delta": Decimal(0)})
