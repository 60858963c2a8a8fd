"""Tests of checkpoints in PostgreSQL: the server computes them from accepted entries, and accepts none from a login."""

from __future__ import annotations

import json

import pytest

from dpcli.base.errors import Denied, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_ledger, open_store
from dpcli.ledger.verify import verify
from tests.ledger.conftest import Database
from tests.ledger.filters.folding import alike, folded
from tests.ledger.filters.setting import DATASET, charge, terms
from tests.ledger.postgres.people import EVERY, USUAL


@pytest.fixture
def often(database: Database) -> Database:
    """A ledger that notes its totals at every third entry."""
    init(database.url, DATASET, terms()).close()
    database.by_hand(EVERY)
    return database


def noted(database: Database, dataset: str = DATASET) -> dict[str, object]:
    with database.cluster.connect(database.name) as connection:
        (body,) = connection.execute("SELECT body FROM dpcli.checkpoint WHERE dataset = %s", (dataset,)).fetchone()
    return dict(json.loads(body))


def test_a_reader_begins_at_what_the_server_noted(often: Database) -> None:
    with open_ledger(often.url) as ledger:
        for i in range(7):
            charge(ledger, f"run {i}", "0.1")
    with open_ledger(often.url) as ledger:
        asked: list[tuple[int, int]] = []
        inner = ledger.store.after

        def after(dataset: str, seq: int, most: int | None = None) -> object:
            found = inner(dataset, seq, most)
            asked.append((seq, len(found)))
            return found

        ledger.store.after = after  # type: ignore[method-assign, assignment]
        assert ledger.state().head.seq == 8
        assert sum(count for _, count in asked) <= 5
        assert charge(ledger, "run 0", "0.1").repeated
        with pytest.raises(LedgerError, match='key "run 1": expected'):
            charge(ledger, "run 1", "0.1", "reserve")


def test_no_login_writes_totals(often: Database) -> None:
    """A spender who could write a checkpoint could state that less was spent."""
    with open_ledger(often.url) as ledger:
        for i in range(4):
            charge(ledger, f"run {i}", "0.1")
    before = noted(often)
    for role in ("dpcli_viewer", "dpcli_spender", "dpcli_admin"):
        login = often.cluster.login(f"sly_{role[6:]}", role)
        with often.cluster.connect(often.name, login) as connection:
            for statement in (
                "UPDATE dpcli.checkpoint SET body = replace(body, '0.3', '0.0')",
                "INSERT INTO dpcli.checkpoint SELECT dataset || 'x', seq, body, digest FROM dpcli.checkpoint",
                "DELETE FROM dpcli.checkpoint",
                "TRUNCATE dpcli.checkpoint",
                f"SELECT dpcli.note('{DATASET}', 5, true)",
                f"SELECT dpcli.standing('{DATASET}')",
                "CREATE OR REPLACE FUNCTION dpcli.every() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
            ):
                with pytest.raises(Exception, match=r"permission denied|must be owner"):
                    connection.execute(statement)
    assert noted(often) == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["spent", "digest", "dataset", "lost"])
def test_totals_that_are_not_those_of_the_entries(how: str, often: Database) -> None:
    """The owner of the database changes a checkpoint: it is not used, or `verify` reports it."""
    with open_ledger(often.url) as ledger:
        for i in range(6):
            charge(ledger, f"run {i}", "0.1")
        truth = folded(ledger)
    less = "replace(body, '0.5', '0.0')"
    often.by_force(
        {
            "spent": f"UPDATE checkpoint SET body = {less}, digest = encode(sha256(convert_to({less}, 'UTF8')), 'hex')",
            "digest": f"UPDATE checkpoint SET body = {less}",
            "dataset": "UPDATE checkpoint SET body = replace(body, 'visits', 'clicks')",
            "lost": "DELETE FROM entry WHERE seq >= 6; UPDATE dataset SET seq = 5, head = (SELECT hash FROM entry WHERE seq = 5)",
        }[how]
    )
    if how == "lost":
        with pytest.raises(LedgerError, match="but the checkpoint names it"):
            open_ledger(often.url).state()
    elif how == "spent":
        often.by_hand(USUAL)
        with pytest.raises(LedgerError, match="not the sums of the entries"):
            verify(open_ledger(often.url))
    else:
        alike(open_ledger(often.url).state(), truth)
        with open_ledger(often.url) as ledger:
            for i in range(4):
                charge(ledger, f"goes on {i}", "0.1")
        assert noted(often)["seq"] == 9  # made anew, and from the entries
        with open_ledger(often.url) as ledger:
            alike(ledger.state(), folded(ledger))
            with pytest.raises(Denied):
                charge(ledger, "too much", "0.1")


@pytest.mark.long
@pytest.mark.parametrize("said", ["'0.6', '0.0'", "'visits', 'clicks'"])
def test_the_server_itself_adds_to_no_damaged_totals(said: str, often: Database) -> None:
    """The server keeps the cap also for clients other than dpcli."""
    with open_ledger(often.url) as ledger:
        for i in range(8):
            charge(ledger, f"run {i}", "0.1")
    often.by_force(f"UPDATE checkpoint SET body = replace(replace(body, '0.5', '0.0'), {said})")
    with often.cluster.connect(often.name) as connection:
        for cost, over in (("0.2", None), ("0.200001", "epsilon")):
            asked = (DATASET, json.dumps({"epsilon": cost, "delta": "0"}))
            assert connection.execute("SELECT dpcli.exceeded(%s, %s)", asked).fetchone() == (over,)


def test_teams_see_their_own_totals(often: Database) -> None:
    from dataclasses import replace

    for name in ("reds", "blues"):
        with often.cluster.connect() as connection:
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {name}")
    often.cluster.run("GRANT reds TO ledger_owner")
    with init(often.url, "red", replace(terms(), team="reds")) as ledger:
        for i in range(4):
            charge(ledger, f"run {i}", "0.1")
    blue = often.cluster.login("blue_viewer", "dpcli_viewer", "blues")
    store = open_store(often.cluster.url(often.name, blue))
    assert store.checkpoint("red") is None and Ledger(open_store(often.url), "red").store.checkpoint("red") is not None
