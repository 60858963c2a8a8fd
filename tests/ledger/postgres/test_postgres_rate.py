"""Tests of the rate of a database: the largest number of entries without a cost that a login may append in a day."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.chain import canonical
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, upgrade
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.cases import VECTORS
from tests.ledger.conftest import Database
from tests.ledger.entries.versions import restore
from tests.ledger.filters.setting import DATASET, charge, terms
from tests.ledger.postgres.people import by, by_hand, signed


@pytest.fixture
def people(database: Database) -> dict[str, Ledger]:
    """A ledger, as an administrator and two spenders have it, with room for three entries without a cost a day."""
    init(database.url, DATASET, terms()).close()
    roles = {"ada": "dpcli_admin", "sam": "dpcli_spender", "sue": "dpcli_spender"}
    ledgers = {who: by(database, who, role) for who, role in roles.items()}
    ledgers["ada"].rate(3, "a quiet dataset")
    return ledgers


def test_what_costs_nothing_is_limited_by_login_and_what_costs_is_not(people: dict[str, Ledger]) -> None:
    ada, sam, sue = people["ada"], people["sam"], people["sue"]
    seed = random.randrange(2**32)
    costs = ["0", "1E-330", "9E-7", *["0.01"] * 6]
    random.Random(seed).shuffle(costs)
    for number, cost in enumerate(costs):
        charge(sam, f"sam {number}", cost)
    with pytest.raises(
        LedgerError, match=r"over the rate: sam has appended 3 entries without a cost on \S+ \(UTC\), and the limit is 3"
    ) as refusal:
        charge(sam, "sam more", "0")
    assert "dpcli budget rate" in str(refusal.value) and "nothing more was written" in str(refusal.value), seed
    with pytest.raises(LedgerError, match="over the rate"):
        charge(sam, "next to nothing", "0.00000099999999999999")
    charge(sam, "sam pays", "0.000001")
    charge(sue, "sue", "0")  # whoever else is not held up
    ada.rate(4, "more")
    charge(sam, "sam more", "0")
    with pytest.raises(LedgerError, match="over the rate"):
        charge(sam, "sam again", "0")
    assert verify(ada).entries == ada.state().head.seq


def test_each_kind_without_a_cost_counts_and_a_paid_run_always_starts_and_ends(people: dict[str, Ledger]) -> None:
    sam = people["sam"]
    for key in ("paid", "given back", "counted", "last"):
        charge(sam, key, "0.01", "reserve")
    sam.void("given back", "the job never began")
    sam.start("counted")
    sam.count("counted", "answers", 1, 10)
    sam.count("counted", "answers", 1, 10)
    for ask in (lambda: sam.count("counted", "answers", 1, 10), lambda: sam.void("last", "no more")):
        with pytest.raises(LedgerError, match="over the rate: sam has appended 3"):
            ask()
    sam.start("paid")
    sam.commit("paid")
    sam.commit("counted")


def test_a_denied_charge_leaves_nothing_that_counts(people: dict[str, Ledger]) -> None:
    sam = people["sam"]
    for _ in range(5):
        with pytest.raises(Denied):
            charge(sam, "large", "2")
    for number in range(3):
        charge(sam, f"free {number}", "0")


def test_a_rate_that_is_used_up_can_be_raised_by_two_persons(database: Database) -> None:
    init(database.url, DATASET, replace(terms(), two_person=True)).close()
    ada, ben = by(database, "ada"), by(database, "ben")
    for rate in (2, 5):  # the proposal counts, and is never refused
        entry = ada.rate(rate, "what we need").entry
        assert entry is not None
        ben.approve(entry.row.seq, "agreed")
        charge(ada, f"free at {rate}", "0")
        if rate == 2:
            with pytest.raises(LedgerError, match="over the rate: ada has appended"):
                charge(ada, "one more", "0")


def test_only_an_administrator_sets_the_rate(people: dict[str, Ledger], database: Database) -> None:
    with pytest.raises(LedgerError, match="rate needs the role dpcli_admin, which sam has not"):
        people["sam"].rate(10**6, "mine")
    content = {"kind": "rate", "per_day": 0, "why": "nobody"}
    with pytest.raises(Exception, match="expected per_day: a whole number from 1 to 1000000"):
        by_hand(database, "ada", canonical(signed(people["ada"], content, "ada")))


def test_the_check_reads_an_index(database: Database) -> None:
    init(database.url, DATASET, terms()).close()
    query = (
        "EXPLAIN SELECT FROM dpcli.entry e WHERE e.dataset = 'visits' AND dpcli.is_free(e.kind, e.cost) "
        "AND e.body::jsonb ->> 'who' = session_user::text AND left(e.body::jsonb ->> 'when', 10) = '2026-01-01' LIMIT 10000"
    )
    with database.cluster.connect(database.name) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = " ".join(line for (line,) in connection.execute(query).fetchall())
    assert "entry_free" in plan
    assert plan.count("Index Cond") == 1 and "who" in plan.partition("Index Cond")[2], plan


def test_an_upgraded_database_has_a_rate(database: Database) -> None:
    restore(database, (VECTORS / "postgres-7.sql").read_bytes())
    ada = by(database, "ada", dataset="clicks")
    with pytest.raises(LedgerError, match="version 7, which knows no rate: run dpcli budget upgrade first"):
        ada.rate(5, "early")
    upgrade(database.url)
    ada = by(database, "ada", dataset="clicks")
    ada.rate(5, "in time")
    assert verify(ada).problems == ()


def test_a_file_has_no_rate(tmp_path: object) -> None:
    path = f"{tmp_path}/ledger.db"
    init(path, DATASET, terms()).close()
    done = dpcli("budget", "rate", path, "--per-day", "5", "--reason", "a try")
    assert done.code == 2 and "expected a ledger in a database, found a file" in done.err
    with pytest.raises(InputError):
        Ledger(init(f"{tmp_path}/other.db", DATASET, terms()).store, DATASET).rate(5, "")


@pytest.mark.long
def test_open_reservations_without_a_cost_are_limited_by_login(database: Database) -> None:
    """Every checkpoint lists them. Paid, ended and other logins' reservations do not count."""
    with database.cluster.connect(database.name) as owner:
        owner.execute("CREATE OR REPLACE FUNCTION dpcli.most_open() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 2::bigint'")
    init(database.url, DATASET, terms()).close()
    sam, sue = (by(database, who, "dpcli_spender") for who in ("sam", "sue"))
    for key, cost in (("paid", "0.1"), ("first", "0"), ("second", "9E-7"), ("also paid", "0.1")):
        charge(sam, key, cost, "reserve")
    with pytest.raises(
        LedgerError, match="at most 2 open reservations without a cost of one login, found 2 of sam: commit or void"
    ):
        charge(sam, "third", "0", "reserve")
    charge(sam, "at once", "0")
    charge(sue, "hers", "0", "reserve")
    sam.start("first")
    with pytest.raises(LedgerError, match="found 2 of sam"):
        charge(sam, "third", "0", "reserve")
    sam.commit("first")
    charge(sam, "third", "0", "reserve")
    sam.void("second", "it never began")
    charge(sam, "fourth", "0", "reserve")
    assert set(sam.state().runs) == {"paid", "first", "second", "also paid", "at once", "hers", "third", "fourth"}
