"""Tests of two-person ledgers: a change counts after another person approved it; a file compares names, a database logins."""

from __future__ import annotations

import json
import random
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.base.errors import DpcliError, InputError, LedgerError
from dpcli.file.toml.confusables import skeleton
from dpcli.ledger import checkpoint
from dpcli.ledger.chain import canonical, time_after, utc_now
from dpcli.ledger.checkpoint import agrees_with, checkpoint_content
from dpcli.ledger.entry_log import Receipt
from dpcli.ledger.governance.amendments import Proposable, SetRate
from dpcli.ledger.governance.proposals import MOST_DAYS_OPEN
from dpcli.ledger.grammar import ASKS, ENTRIES, TYPES
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import APPROVED_KINDS
from dpcli.ledger.stores.places import init, open_dataset, open_store
from dpcli.ledger.verify import verify
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.conftest import Database, Place
from tests.ledger.filters.folding import folded
from tests.ledger.filters.setting import DATASET, charge, run, terms
from tests.ledger.postgres.people import EVERY, by, by_hand, signed, written
from tests.waiting import until

TWO = replace(terms(), two_person=True)
PEOPLE = ("ada", "eve")
ELSEWHERE = "/srv/elsewhere.db"
FINDING = "entry 2: a finding"
ALIKE = ("ADA", "Ada ", "\uff41da", "\u0430da", "a\u0301da", " ada")


@pytest.fixture
def two(place: Place) -> Place:
    """A ledger of two persons, with a reservation of ada's."""
    init(place.url, DATASET, TWO).close()
    with by(place, "ada") as ada:
        charge(ada, "night", "0.25", "reserve")
    return place


Made = Callable[[str], tuple[Ledger, Ledger]]


@pytest.fixture
def made(place: Place) -> Iterator[Made]:
    """Makes a dataset like that one: as ada has it, and as eve does, each over one connection for all of them."""
    init(place.url, DATASET, TWO).close()
    with by(place, "ada") as first, by(place, "eve") as second:
        found = first.state().open_terms()

        def make(name: str) -> tuple[Ledger, Ledger]:
            charge(open_dataset(first.store, name, found, "ada"), "night", "0.25", "reserve")
            return Ledger(first.store, name, "ada"), Ledger(second.store, name, "eve")

        yield make


def late(ledger: Ledger, time: str) -> None:
    """Go on once its clock has reached a time: a server's by itself."""
    if "://" not in ledger.store.place:
        ledger.now = lambda: time
    assert until(lambda: ledger.now() >= time)


def number(receipt: Receipt) -> int:
    assert receipt.entry is not None and receipt.entry.kind == "propose"
    return receipt.entry.row.seq


def asked(ledger: Ledger, kind: str, **more: Any) -> int:
    if kind == "amend":
        return number(ledger.amend(2.0, "a second analysis", **more))
    if kind == "quota":
        return number(ledger.quota("person", "bob", "0.5", why="a fair share", **more))
    if kind == "moved":
        return number(ledger.leave(ELSEWHERE, "a server of our own", **more))
    if kind == "acknowledge":
        return number(ledger.acknowledge(FINDING, "the board knows", **more))
    if kind == "rate":  # past the refusal of files, which have no logins
        return number(ledger._append(Proposable(SetRate(5, "a quiet dataset"), **more), ""))
    return number(ledger.void("night", "no data came", **more))


def done(ledger: Ledger, kind: str) -> bool:
    state = ledger.state()
    if kind == "quota":
        return "quota of person bob" in state.quotas
    if kind == "moved":
        return state.departure is not None and state.departure.to == ELSEWHERE
    if kind == "acknowledge":
        return any(entry.kind == kind and entry.content["finding"] == FINDING for entry in ledger.entries())
    if kind == "rate":
        return any(entry.kind == kind and entry.content["per_day"] == 5 for entry in ledger.entries())
    return state.epsilon == 2.0 if kind == "amend" else state.run("night").status == "void"


# One proposes, another approves.


@pytest.mark.long
@of_each("kind", APPROVED_KINDS)
def test_another_person_makes_a_proposal_effective(kind: str, made: Made) -> None:
    ada, eve = made(f"data to {kind}")
    seq = asked(ada, kind)
    assert not done(eve, kind) and eve.state().spent["epsilon"] != 0
    with pytest.raises(LedgerError, match="expected the approval of another person than ada"):
        ada.approve(seq, "it is fine", unseen=True)
    receipt = eve.approve(seq, "it is fine", unseen=True)
    assert receipt.entry is not None
    assert (receipt.entry.kind, receipt.entry.content["who"], receipt.entry.content["proposal"]) == (kind, "eve", seq)
    assert done(ada, kind) and not ada.state().proposals
    with pytest.raises(LedgerError, match=r"an open proposal|has moved to"):
        eve.approve(seq, "again", unseen=True)
    assert verify(eve).notes == ()


@pytest.mark.long
def test_no_name_that_looks_like_the_proposer_s(two: Place) -> None:
    with by(two, "ada") as ada:
        proposed = {kind: asked(ada, kind) for kind in APPROVED_KINDS}
        for name in ALIKE:
            with by(two, name) as other:
                for kind, seq in proposed.items():
                    with pytest.raises(LedgerError, match="expected the approval of another person than ada"):
                        other.approve(seq, "it is fine", unseen=True)
                    assert not done(ada, kind), (kind, name)


@pytest.mark.long
@of_each("kind, who", [(kind, who) for kind in APPROVED_KINDS for who in PEOPLE])
def test_a_proposal_that_was_closed_is_approved_by_nobody(kind: str, who: str, made: Made) -> None:
    """The proposer withdrew it, or another person refused it."""
    ada, eve = made(f"data to {kind} by {who}")
    seq = asked(ada, kind)
    (ada if who == "ada" else eve).refuse(seq, "a mistake")
    for ledger in (ada, eve):
        with pytest.raises(LedgerError, match="an open proposal"):
            ledger.refuse(seq, "again")
    with pytest.raises(LedgerError, match="an open proposal"):
        eve.approve(seq, "it is fine", unseen=True)
    assert not done(eve, kind)
    eve.approve(asked(ada, kind), "once more", unseen=True)
    assert done(ada, kind)


def move(kind: str) -> Callable[[Ledger, Ledger], object]:
    return lambda ada, eve: getattr(ada, kind)("night", "it runs")


def amended(ada: Ledger, eve: Ledger) -> None:
    """To another cap and back: what was proposed was about the cap that there was."""
    for epsilon in (3.0, 1.0):
        eve.approve(number(ada.amend(epsilon, "as well", acknowledged=True)), "it is fine", acknowledged=True)


def voided(ada: Ledger, eve: Ledger) -> None:
    eve.approve(asked(ada, "void"), "it is fine")


OVERTAKEN: dict[str, tuple[str, Callable[[Ledger, Ledger], object]]] = {
    "the run was started": ("void", move("start")),
    "the run was committed": ("void", move("commit")),
    "the run was voided": ("void", voided),
    "another reason": ("void", lambda ada, eve: asked(ada, "void")),
    "the cap was amended": ("amend", amended),
    "another quota was proposed": ("quota", lambda ada, eve: ada.quota("person", "bob", "0.6", why="or so")),
    "the quota was set": ("quota", lambda ada, eve: eve.approve(asked(ada, "quota"), "it is fine")),
    "another place was proposed": ("moved", lambda ada, eve: ada.leave("/srv/another.db", "or there")),
    "another answer was proposed": ("acknowledge", lambda ada, eve: ada.acknowledge(FINDING, "another reason")),
    "another rate was proposed": ("rate", lambda ada, eve: asked(ada, "rate")),
    "the finding was answered": ("acknowledge", lambda ada, eve: eve.approve(asked(ada, "acknowledge"), "it is fine")),
    "another cap was proposed": ("amend", lambda ada, eve: ada.amend(5.0, "or so")),
}


@pytest.mark.long
@of_each("what", OVERTAKEN)
def test_a_proposal_ends_when_what_it_is_about_changes(what: str, made: Made) -> None:
    (kind, meanwhile), (ada, eve) = OVERTAKEN[what], made(what)
    seq = asked(ada, kind)
    meanwhile(ada, eve)
    before = eve.state().head
    with pytest.raises(LedgerError, match="an open proposal"):
        eve.approve(seq, "it is fine", unseen=True)
    assert eve.state().head == before


@pytest.mark.long
@of_each("kind", APPROVED_KINDS)
def test_a_proposal_outlives_what_is_said_of_others(kind: str, made: Made) -> None:
    ada, eve = made(f"data to {kind}")
    charge(ada, "other", "0.1", "reserve")
    seq = asked(ada, kind)
    asked(ada, "void" if kind == "amend" else "amend")
    ada.start("other")
    eve.approve(seq, "it is fine", unseen=True)
    assert done(ada, kind)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
def test_a_proposal_expires(two: Place) -> None:
    with by(two, "ada") as ada, by(two, "eve") as eve:
        soon = time_after(ada.now(), 3 / 86_400)
        proposed = {kind: asked(ada, kind, expires=soon) for kind in APPROVED_KINDS}
        late(eve, soon)
        for kind, seq in proposed.items():
            with pytest.raises(LedgerError, match="found one that expired at"):
                eve.approve(seq, "it is fine", unseen=True)
            assert not done(eve, kind), kind
            with pytest.raises(InputError, match=f"at most {MOST_DAYS_OPEN} days"):
                asked(ada, kind, expires=f"{MOST_DAYS_OPEN + 1}d")


@pytest.mark.sampled(0, 1)
@pytest.mark.long
def test_a_run_that_expired_is_not_given_back(two: Place) -> None:
    with by(two, "ada") as ada, by(two, "eve") as eve:
        soon = time_after(ada.now(), 3 / 86_400)
        charge(ada, "brief", "0.1", "reserve", expires=soon)
        seq = number(ada.void("brief", "it never started"))
        assert eve.state().proposals["run brief"].expires == soon  # though a proposal has a week
        late(eve, soon)
        with pytest.raises(LedgerError, match="found one that expired at"):
            eve.approve(seq, "it is fine", unseen=True)
        assert eve.state().run("brief").status == "reserved"


def test_a_reason_on_both_sides(two: Place) -> None:
    with by(two, "ada") as ada, by(two, "eve") as eve:
        seq = asked(ada, "amend")
        asks: tuple[Callable[[str], object], ...] = (
            lambda words: ada.amend(2.0, words),
            lambda words: ada.void("night", words),
            lambda words: ada.quota("person", "bob", "0.5", why=words),
            lambda words: ada.leave(ELSEWHERE, words),
            lambda words: eve.approve(seq, words),
            lambda words: eve.refuse(seq, words),
        )
        for ask, words in ((ask, words) for ask in asks for words in ("", " ", "\u3164")):
            with pytest.raises(InputError, match="--reason"):
                ask(words)
        with pytest.raises(InputError, match="--approver: not in a two-person ledger"):
            ada.amend(2.0, "a reason", "the board")


# A ledger that takes one person is what it was.


def test_without_the_term_nothing_is_proposed(place: Place) -> None:
    init(place.url, DATASET, terms()).close()
    with by(place, "ada") as ada, by(place, "eve") as eve:
        charge(ada, "night", "0.25", "reserve")
        assert "two_person" not in ada.entries()[0].content["terms"]
        assert set(ada.void("night", "no data").entry.content) == {  # type: ignore[union-attr]
            *("kind", "key", "why", "who", "when", "dpcli", "ledger", "dataset", "seq", "previous")
        }
        amended = ada.amend(2.0, "a reason", "the board", unseen=True).entry
        assert amended is not None and amended.content["approver"] == "the board" and "proposal" not in amended.content
        for ask in (lambda: eve.approve(3, "fine"), lambda: eve.refuse(3, "fine")):
            with pytest.raises(InputError, match="which has no proposals"):
                ask()
        with pytest.raises(InputError, match="is not a two-person ledger"):
            ada.amend(3.0, "a reason", "the board", expires="7d", unseen=True)
        assert "proposals" not in checkpoint_content(ada.state())


# By hand.


CAPS = {"epsilon": "2.0", "delta": "0"}
AMEND = {"kind": "amend", "epsilon": 2.0, "caps": CAPS, "why": "a reason"}
VOID = {"kind": "void", "key": "night", "why": "a reason"}
MOVED = {"kind": "moved", "to": ELSEWHERE, "why": "a reason"}
ANSWER = {"kind": "acknowledge", "finding": FINDING, "why": "a reason"}
RATE = {"kind": "rate", "per_day": 5, "why": "a reason"}
YES = {"proposal": 3, "approval": "fine"}
SIGNED = {**AMEND, **YES, "approver": "eve"}
# What somebody writes without dpcli, after ada proposed AMEND in entry 3 and VOID in entry 4.
LIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "an amendment of one": ("eve", {**AMEND, "approver": "eve"}, "expected what another person proposed"),
    "a void of one": ("ada", VOID, "expected what another person proposed"),
    "his own": ("ada", {**SIGNED, "approver": "ada"}, "expected the approval of another person than ada"),
    "his own void": ("ada", {**VOID, **YES, "proposal": 4}, "expected the approval of another person than ada"),
    "another cap": ("eve", {**SIGNED, "epsilon": 3.0}, "expected what was proposed"),
    "wider caps": ("eve", {**SIGNED, "caps": {**CAPS, "epsilon": "9"}}, "expected what was proposed"),
    "another reason": ("eve", {**SIGNED, "why": "mine"}, "expected what was proposed"),
    "another run": ("eve", {**VOID, **YES, "proposal": 4, "key": "other"}, "expected what was proposed"),
    "the other proposal": ("eve", {**VOID, **YES}, "expected what was proposed"),
    "no reason": ("eve", {**SIGNED, "approval": " "}, "expected approval: a reason"),
    "no approval": ("eve", {name: value for name, value in SIGNED.items() if name != "approval"}, "expected why it is approved"),
    "another's name": ("eve", {**SIGNED, "approver": "the board"}, "expected the approver who is logged in"),
    "no such entry": ("eve", {**SIGNED, "proposal": 99}, "expected the number of a proposal that is open"),
    "no proposal": ("eve", {**SIGNED, "proposal": 2}, "expected the number of a proposal that is open"),
    "a spender's approval": ("sam", {**VOID, **YES, "proposal": 4}, "needs the role dpcli_admin"),
    "a spender's refusal": ("sam", {"kind": "refuse", "proposal": 3, "why": "no"}, "needs the role dpcli_admin"),
    "a spender's cap": ("sam", {"kind": "propose", "asks": AMEND, "expires": 2}, "needs the role dpcli_admin"),
    "a spender's wish for another's run": ("sam", {"kind": "propose", "asks": VOID, "expires": 2}, "that reservation is of ada"),
    "for ever": ("ada", {"kind": "propose", "asks": AMEND, "expires": MOST_DAYS_OPEN + 1}, "for at most 31 days"),
    "expired": ("ada", {"kind": "propose", "asks": AMEND, "expires": -1}, "for at most 31 days"),
    "other names": (
        "ada",
        {"kind": "propose", "asks": {**AMEND, "caps": {"rho": "1"}}, "expires": 2},
        "the caps that the ledger has",
    ),
    "an answer of one": ("eve", ANSWER, "expected what another person proposed"),
    "an answer that nobody proposed": ("eve", {**ANSWER, **YES}, "expected what was proposed"),
    "a rate of one": ("eve", RATE, "expected what another person proposed"),
    "a rate that nobody proposed": ("eve", {**RATE, **YES}, "expected what was proposed"),
    "a spender's rate": ("sam", {"kind": "propose", "asks": RATE, "expires": 2}, "needs the role dpcli_admin"),
    "a spender's answer": ("sam", {"kind": "propose", "asks": ANSWER, "expires": 2}, "needs the role dpcli_admin"),
    "a move of one": ("eve", MOVED, "expected what another person proposed"),
    "a move that nobody approved": ("eve", {**MOVED, **YES}, "expected what was proposed"),
    "a move that has arrived": ("eve", {**MOVED, "copy": "0" * 64}, "expected a dataset that moves once"),
    "a spender's move": ("sam", {"kind": "propose", "asks": MOVED, "expires": 2}, "needs the role dpcli_admin"),
    "a run that is not there": ("ada", {"kind": "propose", "asks": {**VOID, "key": "x"}, "expires": 2}, "the key of a reservation"),
    "something else": ("ada", {"kind": "propose", "asks": {"kind": "spend"}, "expires": 2}, "expected asks"),
}


def stamped(content: dict[str, Any]) -> dict[str, Any]:
    days = content.get("expires")
    return {**content, "expires": time_after(utc_now(), days=days)} if type(days) is int else content


@pytest.fixture
def proposed(database: Database) -> Database:
    init(database.url, DATASET, TWO).close()
    with by(database, "ada") as ada, by(database, "eve"), by(database, "sam", "dpcli_spender"):
        charge(ada, "night", "0.25", "reserve")
        for asks in (AMEND, VOID):
            content = {"kind": "propose", "asks": asks, "expires": time_after(utc_now(), days=2)}
            by_hand(database, "ada", canonical(signed(ada, content, "ada")))
    return database


@pytest.mark.long
def test_the_server_takes_no_lie(proposed: Database) -> None:
    import psycopg

    with by(proposed, "eve") as eve:
        for name, (who, content, message) in LIES.items():
            before = eve.state().head
            with pytest.raises(psycopg.Error, match=message):
                by_hand(proposed, who, canonical(signed(eve, stamped(content), who)))
            assert eve.state().head == before, name
        by_hand(proposed, "eve", canonical(signed(eve, SIGNED, "eve")))
        by_hand(proposed, "eve", canonical(signed(eve, {**VOID, **YES, "proposal": 4}, "eve")))
        assert done(eve, "amend") and done(eve, "void")


@pytest.mark.long
def test_the_server_takes_no_approval_after_its_time(proposed: Database) -> None:
    import psycopg

    with by(proposed, "ada") as ada, by(proposed, "eve") as eve:
        soon = time_after(utc_now(), 3 / 86_400)
        seq = asked(ada, "void", expires=soon)
        assert until(lambda: eve.now() >= soon)
        late = {**VOID, "why": "no data came", "proposal": seq, "approval": "fine"}
        with pytest.raises(psycopg.Error, match="expected a proposal within its time"):
            by_hand(proposed, "eve", canonical(signed(eve, late, "eve")))


@pytest.mark.long
def test_a_spender_proposes_and_withdraws_what_is_his(proposed: Database) -> None:
    with by(proposed, "sam", "dpcli_spender") as sam, by(proposed, "eve") as eve:
        charge(sam, "mine", "0.1", "reserve")
        sam.refuse(number(sam.void("mine", "no data")), "there is some")
        eve.approve(number(sam.void("mine", "none after all")), "it is fine")
        assert sam.state().run("mine").status == "void"


FORGED: dict[str, tuple[str, dict[str, Any]]] = {name: LIES[name][:2] for name in LIES if name in {
    *("an amendment of one", "a void of one", "his own", "his own void", "another cap", "wider caps", "another run"),
    *("no such entry", "no proposal", "an answer of one", "a rate of one"),
    *("a move of one", "a move that nobody approved", "a move that has arrived"),
}}  # fmt: skip


@of_each("forged", FORGED)
def test_a_file_in_which_one_person_wrote_for_two_is_refused(forged: str, tmp_path: Any) -> None:
    """The entries are written by hand, and no reader accepts them."""
    (who, content), url = FORGED[forged], str(tmp_path / "ledger.db")
    init(url, DATASET, TWO).close()
    with Ledger(open_store(url), DATASET, who="ada") as ada:
        charge(ada, "night", "0.25", "reserve")
        for asks in (AMEND, VOID):
            written(ada, {"kind": "propose", "asks": asks, "expires": time_after(utc_now(), days=2)}, "ada")
        written(ada, content, who)
        with pytest.raises(LedgerError, match="changed by hand"):
            ada.state()


def test_caps_that_are_wider_than_what_is_read_are_not_approved(two: Place) -> None:
    """A proposer without dpcli can write any caps beside an epsilon, but a person reads only the epsilon."""
    with by(two, "ada") as ada, by(two, "eve") as eve:
        wide = {**AMEND, "caps": {**CAPS, "epsilon": "9"}}
        written(ada, {"kind": "propose", "asks": wide, "expires": time_after(utc_now(), days=2)}, "ada")
        with pytest.raises(LedgerError, match="proposes caps that are wider than its epsilon 2"):
            eve.approve(3, "it is fine")


def test_verify_names_an_approval_by_a_name_that_looks_alike(tmp_path: Any) -> None:
    """Whoever may write the file can sign with any name. The ledger stays readable."""
    url = str(tmp_path / "ledger.db")
    init(url, DATASET, TWO).close()
    with Ledger(open_store(url), DATASET, who="ada") as ada:
        asked(ada, "amend")
        content = {**ada.entries()[1].content["asks"], "proposal": 2, "approval": "fine", "approver": "Ada"}
        written(ada, content, "Ada")
        assert [note for note in verify(ada).notes if "look alike" in note] == [
            "entry 3: Ada approved what ada proposed, and the two names look alike"
        ]


# The server's names, and those of dpcli.


@pytest.mark.long
def test_both_see_names_alike(database: Database) -> None:
    init(database.url, DATASET, TWO).close()
    chance = random.Random(5)
    letters = "aAbBdDeEiIlLoOrnvw01|_- .\xe9\xc9\u0430\u0410\u0435\u0415\u03bf\u039f\u0456\u0406\uff41\uff21\u200b\u0301\xa0"
    names = [*PEOPLE, *ALIKE, *("".join(chance.choices(letters, k=chance.randrange(1, 8))) for _ in range(300))]
    with database.cluster.connect(database.name) as connection:
        found = [connection.execute("SELECT dpcli.looks(%s)", (name,)).fetchone()[0] for name in names]
    for i, first in enumerate(names):
        for j, second in enumerate(names[:i]):
            assert (found[i] == found[j]) == (skeleton(first) == skeleton(second)), (first, second, found[i], found[j])


@pytest.mark.nightly
@pytest.mark.long
def test_dpcli_and_the_server_agree_on_letters_that_look_alike(database: Database) -> None:
    """The server takes the same letters for each other as dpcli does, and it alone checks the login of an approval."""
    init(database.url, DATASET, TWO).close()
    changed = [chr(c) for c in range(0x21, 0x20000) if skeleton(f"x{chr(c)}y") != f"x{chr(c)}y"]
    whole = [f"x{c}y" for c in changed if TYPES["name"](f"x{c}y") and "." not in unicodedata.normalize("NFKD", c)]
    pieces = [piece for piece in whole if skeleton(piece).isascii()]
    pieces += random.Random(7).sample(whole, 1000)
    assert len(pieces) > 2_000
    with database.cluster.connect(database.name) as connection:
        (looked,) = connection.execute("SELECT dpcli.looks(%s)", (".".join(pieces),)).fetchone()
    servers: dict[str, str] = {}
    for piece, seen in zip(pieces, looked.split("."), strict=True):
        assert servers.setdefault(skeleton(piece), seen) == seen, (piece, ascii(piece))


@pytest.mark.long
def test_one_person_of_two_logins_does_not_approve_past_dpcli(proposed: Database) -> None:
    import psycopg

    with by(proposed, "\u0142ukasz") as one:
        seq = asked(one, "amend")
        for name in ("lukasz", "\u0141ukasz", "\u026bukas\u017e"):
            proposed.cluster.login(name, "dpcli_admin")
            content = {**AMEND, "why": "a second analysis", "proposal": seq, "approval": "fine", "approver": name}
            content["caps"] = one.entries()[seq - 1].content["asks"]["caps"]
            with pytest.raises(psycopg.Error, match="expected the approval of another person"):
                by_hand(proposed, name, canonical(signed(one, content, name)))
        assert not done(one, "amend")


@pytest.mark.long
def test_a_dataset_that_moves_names_a_copy_and_not_itself(proposed: Database) -> None:
    """Written by hand, the dataset's own last entry as the name of the copy would close it for ever."""
    import psycopg

    with by(proposed, "ada") as ada, by(proposed, "eve") as eve:
        eve.approve(asked(ada, "moved"), "it is fine")
        departure = eve.state().departure
        assert departure is not None
        content = {"kind": "moved", "to": ELSEWHERE, "copy": departure.closed_at.hash}
        with pytest.raises(psycopg.Error, match="expected a dataset that has not arrived yet"):
            by_hand(proposed, "ada", canonical(signed(ada, content, "ada")))
        assert not eve.name_copy("0" * 64).repeated and eve.state().departure == replace(departure, copy="0" * 64)


# Any history, in either database, read from its notes or as a whole.

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "start", "commit", "void", "amend", "quota", "approve", "refuse", "spend", "approve"]),
        st.sampled_from(PEOPLE),
        st.integers(0, 3),
    ),
    max_size=30,
)


def act(ledger: Ledger, what: str, at: int) -> str:
    key, seqs = f"run {at % 2}", sorted(each.seq for each in ledger.state().proposals.values()) or [1]
    try:
        match what:
            case "reserve" | "spend":
                receipt = charge(ledger, key if what == "reserve" else f"once {at}", "0.1", what)
            case "approve" | "refuse":
                said = {"unseen": at % 2 == 0, "acknowledged": True} if what == "approve" else {}
                receipt = getattr(ledger, what)(seqs[at % len(seqs)] - at // 3, "a reason", **said)
            case "amend":
                receipt = ledger.amend(1.0 + at, "a reason", acknowledged=True)
            case "quota":
                receipt = ledger.quota("person", PEOPLE[at % 2], "0.15", why="a reason")
            case _:
                receipt = getattr(ledger, what)(key, "a reason")
    except DpcliError as error:
        return type(error).__name__
    return "repeated" if receipt.entry is None else receipt.entry.kind


@pytest.fixture
def often(database: Database) -> Database:
    """A server that notes its totals at every third entry."""
    init(database.url, "first", TWO).close()
    database.by_hand(EVERY)
    return database


@pytest.mark.nightly
@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each history is of a dataset of its own
@given(acts=ACTS)
def test_both_databases_answer_alike_and_their_notes_are_true(
    acts: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory, often: Database
) -> None:
    path, database = str(tmp_path_factory.mktemp("two") / "ledger.db"), often
    name = f"data {uuid.uuid4().hex}"
    init(database.url, name, TWO).close()
    init(path, name, TWO).close()
    with pytest.MonkeyPatch.context() as patched, by(database, "ada") as ada, by(database, "eve") as eve:
        patched.setattr(checkpoint, "EVERY", 3)
        for what, who, at in acts[:16]:  # by somebody who has read nothing yet
            server = Ledger((ada if who == "ada" else eve).store, name)
            with Ledger(open_store(path), name, who=who) as file:
                assert act(server, what, at) == act(file, what, at), (what, who, at)
        for reader in (Ledger(open_store(path), name), Ledger(open_store(database.url), name)):
            with reader:
                assert canonical(checkpoint_content(reader.state())) == canonical(checkpoint_content(folded(reader)))
                assert reader.state().proposals == folded(reader).proposals
                assert verify(reader).notes == ()
    with database.cluster.connect(database.name) as connection:
        (body,) = connection.execute("SELECT dpcli.standing(%s)::text", (name,)).fetchone()
    with Ledger(open_store(database.url), name) as reader:
        assert agrees_with(json.loads(body), folded(reader)), body


# The command, and what is asked of every kind.


def test_every_kind_that_takes_two_may_be_proposed() -> None:
    assert set(ASKS) == set(APPROVED_KINDS)
    for kind, names in ASKS.items():
        assert set(names) <= {"kind", *ENTRIES[kind]} and names["why"] == "said"
        assert all(type_ == {"kind": "name", **ENTRIES[kind]}[name] for name, type_ in names.items() if name != "why")
        assert {name for name, type_ in ENTRIES[kind].items() if not type_.endswith("?")} - {"approver"} <= set(names)


def test_the_command_tells_a_proposal_from_a_deed(tmp_path: Any) -> None:
    url = str(tmp_path / "ledger.db")
    flags = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "0", "--filter", "approx-dp")
    opened = dpcli("budget", "init", url, "--dataset", DATASET, *flags, "--two-person")
    assert opened.code == 0 and "amend, void, quota, rate, copy and acknowledge need a second person" in opened.out
    made = dpcli("budget", "amend", url, "--epsilon", "2", "--reason", "more", "-f", "json")
    assert made.code == 0 and json.loads(made.out)["granted"] is False
    own = dpcli("budget", "approve", url, "2", "--reason", "fine")
    assert own.code == 4 and "expected the approval of another person" in own.err
    shown = json.loads(dpcli("budget", "show", url, "-f", "json").out)
    assert [(each["entry"], each["asks"]["epsilon"]) for each in shown["proposals"]] == [(2, 2.0)]
    assert shown["result"]["epsilon_cap"] == 1.0
    assert "waits for another person's approval: entry 2" in dpcli("budget", "show", url).out
    with Ledger(open_store(url), DATASET, who="eve") as eve:
        eve.approve(2, "the board met")
    log = dpcli("budget", "log", url, "-f", "text").out
    assert "more (approved by eve: the board met; proposed in entry 2)" in log
    assert "waits" not in dpcli("budget", "show", url).out


def test_a_block_of_a_run_ends_well_where_its_void_was_proposed(tmp_path: Any) -> None:
    import dpcli as package

    url = str(tmp_path / "ledger.db")
    init(url, DATASET, TWO).close()
    with package.budget(url).reserve(run(0.1), key="night") as reserved:
        reserved.void("no data today")
    assert reserved.run.status == "reserved"
