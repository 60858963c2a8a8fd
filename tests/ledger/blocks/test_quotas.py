"""Tests of quotas per person and team: a file, a database and a plain dictionary give the same answers."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from getpass import getuser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger import checkpoint
from dpcli.ledger.balance import remaining_room
from dpcli.ledger.chain import canonical
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.entry_log import Receipt
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.opening import quota_from_flags
from dpcli.ledger.stores.places import init, open_store
from dpcli.ledger.verify import verify
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.conftest import Database, Place
from tests.ledger.filters.folding import folded
from tests.ledger.filters.setting import DATASET, charge, run, run_file, terms
from tests.ledger.postgres.people import by, by_hand, signed, written

DAYS = {"by": "day", "column": "event_date", "max_blocks": 1}
BLOCKS = ("2026-01-01", "2026-01-02", "2026-01-03")


@pytest.fixture
def place_of_two(place: Place) -> Place:
    init(place.url, DATASET, terms()).close()
    return place


def limited(ledger: Ledger, who: str, share: str, *members: str) -> Receipt:
    return ledger.quota("team" if members else "person", who, share, members, why="a fair share")


def test_a_quota_is_reached_exactly_and_no_more(place_of_two: Place) -> None:
    with by(place_of_two, "ada") as ada, by(place_of_two, "eve") as eve:
        charge(ada, "before", "0.1")  # counts too
        limited(eve, "ada", "0.3")
        charge(ada, "first", "0.1")
        with pytest.raises(Denied):
            charge(ada, "second", "0.10000000000000000001")
        charge(ada, "second", "0.1")
        with pytest.raises(Denied):
            charge(ada, "third", "1E-300")
        charge(eve, "other", "0.7")
        assert verify(eve).notes == ()


@pytest.mark.long
def test_a_void_gives_back_to_whoever_was_charged(place_of_two: Place) -> None:
    with by(place_of_two, "ada") as ada, by(place_of_two, "eve") as eve:
        for ledger in (ada, eve):
            limited(eve, ledger.who, "0.3")
            charge(ledger, f"of {ledger.who}", "0.3", "reserve")
        eve.void("of ada", "she is on leave")
        charge(ada, "again", "0.3")
        with pytest.raises(Denied):
            charge(eve, "again and again", "0.1")
        assert verify(eve).notes == ()


@pytest.mark.long
def test_a_team_shares_one_quota_and_keeps_those_of_its_members(place_of_two: Place) -> None:
    with by(place_of_two, "ada") as ada, by(place_of_two, "eve") as eve, by(place_of_two, "bob") as bob:
        limited(eve, "ads", "0.5", "ada", "bob")
        limited(eve, "ada", "0.2")
        charge(ada, "a", "0.2")
        with pytest.raises(Denied):
            charge(ada, "b", "0.1")
        charge(bob, "c", "0.3")
        with pytest.raises(Denied):
            charge(bob, "d", "0.1")
        limited(eve, "ads", "1", "ada", "bob")  # lifted
        charge(bob, "d", "0.1")
        with pytest.raises(Denied):
            charge(ada, "e", "0.1")
        charge(eve, "f", "0.4")


@pytest.mark.long
@of_each("full", range(3))
def test_a_quota_holds_on_each_block(full: int, place: Place) -> None:
    """If the quota is used up on one block, a run on a window with this block is denied."""
    name = f"data {full}"
    init(place.url, name, replace(terms(), blocks=DAYS)).close()
    with by(place, "ada", dataset=name) as ada, by(place, "eve", dataset=name) as eve:
        limited(eve, "ada", "0.25")
        charge(eve, "others", "0.5", window=BLOCKS)
        charge(ada, "one", "0.25", window=BLOCKS[full : full + 1])
        for window in (BLOCKS, BLOCKS[full : full + 1]):
            with pytest.raises(Denied):
                charge(ada, "two", "0.1", window=window)
        (quota,) = ada.state().quotas.values()
        assert ada.state().quota_used(quota)["epsilon"] == Decimal("0.25")
        free = tuple(block for block in BLOCKS if block != BLOCKS[full])
        charge(ada, "two", "0.25", window=free)


def test_a_quota_follows_the_cap(place_of_two: Place) -> None:
    with by(place_of_two, "ada") as ada:
        limited(ada, "ada", "0.5")
        charge(ada, "a", "0.5")
        ada.amend(0.6, "too much was promised", "the board", acknowledged=True)
        with pytest.raises(Denied):
            charge(ada, "b", "0")
        ada.amend(2.0, "enough after all", "the board", unseen=True)
        charge(ada, "b", "0.5")


@pytest.mark.long
def test_a_quota_takes_two_persons_where_the_ledger_does(place: Place) -> None:
    init(place.url, DATASET, replace(terms(), two_person=True)).close()
    with by(place, "ada") as ada, by(place, "eve") as eve:
        first, second = limited(ada, "ada", "0.1"), limited(ada, "ads", "0.2", "ada", "eve")
        assert first.entry is not None and second.entry is not None and not eve.state().quotas
        charge(ada, "a", "0.2")
        with pytest.raises(LedgerError, match="expected the approval of another person"):
            ada.approve(first.entry.row.seq, "fine")
        eve.approve(first.entry.row.seq, "fine")
        eve.approve(second.entry.row.seq, "fine")
        for ledger in (ada, eve):
            with pytest.raises(Denied):
                charge(ledger, "b", "0.1")
        stale, newer = limited(ada, "ada", "0.5"), limited(ada, "ada", "0.6")
        assert stale.entry is not None and newer.entry is not None
        with pytest.raises(LedgerError, match="an open proposal"):
            eve.approve(stale.entry.row.seq, "fine")
        eve.approve(newer.entry.row.seq, "fine")
        assert eve.state().quotas["quota of person ada"].share == Decimal("0.6")


def test_a_spender_sets_no_quota(database: Database) -> None:
    init(database.url, DATASET, terms()).close()
    with by(database, "sam", "dpcli_spender") as sam, pytest.raises(LedgerError, match="quota needs the role dpcli_admin"):
        limited(sam, "sam", "1")


QUOTA = {"kind": "quota", "of": "person", "name": "sam", "members": ["sam"], "share": "0.1", "alert_at": "0.8", "why": "x"}
LIES = {
    "another member": ({**QUOTA, "members": ["ada"]}, "one member of a person's quota"),
    "members out of order": ({**QUOTA, "of": "team", "members": ["b", "a"]}, "expected members"),
    "nobody": ({**QUOTA, "of": "team", "members": []}, "expected members"),
    "a share above 1": ({**QUOTA, "share": "1.5"}, "expected share"),
    "a number": ({**QUOTA, "share": 0.5}, "expected share"),
    "an exponent": ({**QUOTA, "share": "1E-1"}, "expected share"),
    "another holder": ({**QUOTA, "of": "robot"}, "expected of"),
    "no reason": ({**QUOTA, "why": " "}, "expected why"),
}


@pytest.mark.long
def test_the_server_holds_whoever_has_no_dpcli(database: Database) -> None:
    import psycopg

    init(database.url, DATASET, terms()).close()
    with by(database, "ada") as ada, by(database, "sam", "dpcli_spender") as sam:
        for content, message in LIES.values():
            with pytest.raises(psycopg.Error, match=message):
                by_hand(database, "ada", canonical(signed(ada, content, "ada")))
        limited(ada, "sam", "0.1")
        body = charge(sam, "a", "0.06").entry
        assert body is not None
        chain = ("who", "when", "dpcli", "ledger", "dataset", "seq", "previous")
        again = {name: value for name, value in body.content.items() if name not in chain} | {"key": "b"}
        with pytest.raises(psycopg.Error, match=r"over the quota of sam \(0.1 of the cap, entry 2\) on epsilon"):
            by_hand(database, "sam", canonical(signed(sam, again, "sam")))


def test_a_chain_over_a_quota_is_refused(tmp_path: Any) -> None:
    url = str(tmp_path / "l.db")
    init(url, DATASET, terms()).close()
    with by(_file(url), "ada") as ada:
        entry = charge(ada, "a", "0.06").entry
        limited(ada, "ada", "0.1")
        assert entry is not None
        chain = ("who", "when", "dpcli", "ledger", "dataset", "seq", "previous")
        written(ada, {name: value for name, value in entry.content.items() if name not in chain} | {"key": "b"}, "ada")
        with pytest.raises(LedgerError, match="overspends a quota"):
            ada.state()


def _file(url: str) -> Place:
    from tests.ledger.conftest import File

    return File(url)


def test_totals_from_before_there_were_quotas(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint without spending by person stays usable. Only the first quota makes readers read all entries."""
    url = str(tmp_path / "l.db")
    monkeypatch.setattr(checkpoint, "EVERY", 3)
    init(url, DATASET, terms()).close()
    with by(_file(url), "ada") as ada:
        for i in range(7):
            charge(ada, f"run {i}", "0.01")
        assert "people" not in checkpoint_content(ada.state())
    with by(_file(url), "ada") as ada, by(_file(url), "eve") as eve:
        assert ada.state().people is None and eve.state().people is None
        limited(ada, "ada", "0.1")
        for ledger in (ada, eve):
            charge(ledger, f"of {ledger.who}", "0.03")
            with pytest.raises(Denied):
                charge(ada, "more", "0.01")
        assert canonical(checkpoint_content(eve.state())) == canonical(checkpoint_content(folded(eve)))
    with closing(open_store(url)) as store:
        said = json.loads(store.checkpoint(DATASET).body)  # type: ignore[union-attr]
    assert said["people"]["ada"]["epsilon"] == "0.10" and said["quotas"]
    assert said["checkpoint"] == 2  # a version that knows no quotas reads all entries, and stops at the first of them


@of_each("two_person", [None, True])
def test_a_quota_after_totals_of_before_however_it_is_set(
    two_person: bool | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first quota writes a checkpoint with the spending of each person, also if it was proposed and approved."""
    url = str(tmp_path / "l.db")
    monkeypatch.setattr(checkpoint, "EVERY", 3)
    init(url, DATASET, replace(terms(), two_person=two_person)).close()
    with by(_file(url), "ada") as ada:
        for i in range(7):
            charge(ada, f"run {i}", "0.01")
        asked = limited(ada, "ada", "0.1") if two_person else None
        for i in range(7, 9) if asked is not None else ():
            charge(ada, f"run {i}", "0.01")
    monkeypatch.setattr(checkpoint, "EVERY", 256)
    with by(_file(url), "eve") as eve:
        assert eve.state().people is None
        if asked is None:
            set_ = limited(eve, "ada", "0.1")
        else:
            assert asked.entry is not None
            set_ = eve.approve(asked.entry.row.seq, "it is fair")
        assert set_.entry is not None and set_.entry.kind == "quota"
        assert eve.state().quota_used(eve.state().quotas["quota of person ada"])["epsilon"] == Decimal(
            "0.07" if asked is None else "0.09"
        )
    with closing(open_store(url)) as store:
        assert json.loads(store.checkpoint(DATASET).body)["seq"] == set_.entry.row.seq  # type: ignore[union-attr]
    with by(_file(url), "ada") as ada:
        with pytest.raises(Denied):
            charge(ada, "more", "0.05")
        assert verify(ada).notes == ()


# The command.


def test_the_command_says_whose_how_much_and_who_changes_it(tmp_path: Any) -> None:
    url, file = str(tmp_path / "l.db"), tmp_path / "run.toml"
    file.write_text(run_file(0.1))
    with init(url, DATASET, terms()) as ledger:
        me = ledger.who
    assert dpcli("budget", "quota", url, "--person", me, "--share", ".25", "--reason", "fair").code == 0
    first, second, third = (dpcli("budget", "spend", url, str(file), "--key", key) for key in "abc")
    assert (first.code, first.err) == (0, "")
    assert (
        second.code == 0
        and second.err == f"dpcli: warning: the quota of {me}, 0.25 of the cap, is used to 80.0 %: 0.050000 of epsilon left\n"
    )
    assert third.code == 1 and f"the quota of {me} is 0.25 of the cap: 0.050000 of 0.25000 is left (entry 2)" in third.out
    assert f"whoever may amend the cap may change the quota: dpcli budget quota LEDGER --person {me} --share SHARE" in " ".join(
        third.out.split()
    )
    shown = json.loads(dpcli("budget", "show", url, "-f", "json").out)["quotas"]
    assert [(one["name"], one["share"], one["share_used"], one["alert"]) for one in shown] == [(me, "0.25", 0.8, True)]
    assert "warning: the quota of" in dpcli("budget", "show", url).out
    assert f"0.25 of the cap for person {me}" in dpcli("budget", "log", url, "-f", "text").out
    reserved = dpcli("budget", "reserve", url, str(file), "--key", "d")
    assert reserved.code == 1
    lifted = dpcli("budget", "quota", url, "--person", me, "--share", "1", "--reason", "enough")
    assert lifted.code == 0 and dpcli("budget", "reserve", url, str(file), "--key", "d").err == ""


FLAGS: tuple[tuple[tuple[Any, ...], str], ...] = (
    ((None, None, (), "1", "1"), "--person, --team: state one of the two$"),
    (("a", "b", (), "1", "1"), "--person, --team: expected one of the two, found both"),
    (("a", None, ("b",), "1", "1"), "--member: only with --team"),
    ((None, "a", (), "1", "1"), "--member: state the name of a member"),
    ((" ", None, (), "1", "1"), "--person: expected"),
    ((None, "a", ("\x1b",), "1", "1"), "--member: expected"),
    *(
        (("a", None, (), share, "1"), "--share: expected a decimal")
        for share in ("-1", "1.1", "x", "", "nan", "snan", "1e-9", "1e-999999999", "1e999999999", "1e9999999999", "inf", "25%")
    ),
    (("a", None, (), "1", "2"), "--alert-at: expected a decimal"),
)


@of_each("asked, message", FLAGS)
def test_flags_that_name_no_quota(asked: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quota_from_flags(*asked)


@given(digits=st.integers(0, 10**6), exponent=st.integers(-(10**9), 10**9) | st.integers(-12, 3))
def test_a_share_of_any_size_is_that_or_refused(digits: int, exponent: int) -> None:
    """A share is kept exactly or refused, whatever its exponent."""
    text = f"{digits}e{exponent}"
    try:
        spelled = quota_from_flags("a", None, (), text, "0.8").share
    except InputError:
        return
    assert Fraction(spelled) == digits * Fraction(10) ** exponent and 0 <= Fraction(spelled) <= 1


def test_what_is_charged_together_over_a_quota_is_told_so(place_of_two: Place) -> None:
    with by(place_of_two, "ada") as ada:
        limited(ada, "ada", "0.1")
        for count, fits in ((2, False), (1, True)):
            parts = [(run(0.05 * count), "beside"), (run(0.05), "rounds")]
            if fits:
                assert not any(each.repeated for each in ada.spend_both(parts, run(0.1)))
                continue
            before = ada.state().head
            with pytest.raises(Denied, match=r"the quota of ada is 0.1 of the cap: 0\.10* of 0\.10* is left"):
                ada.spend_both(parts, run(0.15))
            assert ada.state().head == before


@of_each("share, spelled", [(".25", "0.25"), ("0.250", "0.25"), ("1.000", "1"), ("0", "0"), ("1e-2", "0.01")])
def test_a_share_has_one_spelling(share: str, spelled: str) -> None:
    assert quota_from_flags("a", None, (), share, "0.8").share == spelled


@of_each("share, cost", [("0.5", "0.1"), ("0.3", "0.1"), ("0.25", "0.1"), ("0", "0.1"), ("1", "0.3")])
def test_what_still_fits_is_what_whoever_ran_last_may_charge(share: str, cost: str, tmp_path: Any) -> None:
    """The ledger accepts exactly as many repetitions of the last run as it says, given the quota of its author."""
    url = str(tmp_path / "ledger.db")
    init(url, DATASET, terms()).close()
    with Ledger(open_store(url), DATASET, who="ada") as ada:
        charge(ada, "first", cost)
        limited(ada, "ads", share, "ada", "bob")
        fits = remaining_room(ada.state()).like_last
        assert fits is not None and fits >= 0
        for i in range(fits):
            charge(ada, f"more {i}", cost)
        assert remaining_room(ada.state()).like_last == 0
        with pytest.raises(Denied):
            charge(ada, "too much", cost)
    assert "0 more like the last run" in (shown := dpcli("budget", "show", url).out) and "by ada, whose quota counts" in shown


@pytest.mark.parametrize("members", [(), ("ada", "bob")], ids=["person", "team"])
def test_the_headline_of_a_denial_says_what_is_used_up(members: tuple[str, ...], tmp_path: Any) -> None:
    url, name = str(tmp_path / "ledger.db"), "ads" if members else getuser()
    init(url, DATASET, terms()).close()
    with Ledger(open_store(url), DATASET) as ledger:
        limited(ledger, name, "0.1", *((*members, getuser()) if members else ()))
    for epsilon, of in ((0.5, " of a quota"), (5.0, "")):
        (file := tmp_path / "run.toml").write_text(run_file(epsilon))
        done = dpcli("budget", "spend", url, str(file), "--key", "one")
        assert done.code == 1 and f"denied: the run does not fit in what is left{of}\n" in f"{done.err}\n"


OF_ALL = [("ana", "ben"), (getuser(), "ana")]
MEMBERS = [*OF_ALL, ("ana",), ("ana", "ben", "cyd"), (getuser(),), ()]


@of_each("members, share", [*((members, "0.5") for members in MEMBERS), *((members, "1") for members in OF_ALL)])
def test_a_quota_of_names_that_nobody_signs_with_says_so(members: tuple[str, ...], share: str, tmp_path: Any) -> None:
    """A misspelt name would leave the intended person without a limit."""
    place = str(tmp_path / "l.db")
    with closing(init(place, DATASET, terms()).store):
        pass
    (tmp_path / "r.toml").write_text(run_file())
    assert dpcli("budget", "spend", place, str(tmp_path / "r.toml"), "--key", "one").code == 0
    whose = ("--person", "dora") if not members else ("--team", "ads", *(word for one in members for word in ("--member", one)))
    found = dpcli("budget", "quota", place, *whose, "--share", share, "--reason", "for others")
    unknown = [name for name in members or ("dora",) if name != getuser()]
    assert found.code == 0, found.err
    for name in (*members, "dora"):
        assert (f"{name} " in found.err or f"{name}, " in found.err) == (name in unknown and share != "1"), found.err
    assert ("nothing was charged to" in found.err) == bool(unknown and share != "1")
