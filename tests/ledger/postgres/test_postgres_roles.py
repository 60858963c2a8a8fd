"""Tests of the rights of roles in PostgreSQL, with real logins, through dpcli and by SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import Head, canonical, digest, time_after, utc_now
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.plugin import SUBCOMMANDS
from dpcli.ledger.stores.places import init, open_store, upgrade
from dpcli.ledger.stores.postgres import PostgresStore
from tests.cases import of_each
from tests.command import dpcli
from tests.ledger.conftest import OWNER, Database, made
from tests.ledger.filters.setting import DATASET, TABLES, charge, run, run_file, terms
from tests.ledger.postgres.cluster import Cluster
from tests.ledger.postgres.people import by_hand
from tests.waiting import until

EARLIER = "2020-01-01T00:00:00Z"
NAME = "at most 200 visible characters"
AMOUNTS = "expected cost: decimal numbers >= 0 of at most 20 digits"
PIPELINE = "expected pipeline: the privacy and the mechanisms"


def with_people(database: Database) -> Database:
    """A ledger, and people who may use it: vera may look, sam spend, ada anything; nick is nobody."""
    init(database.url, DATASET, terms()).store.close()
    for name, role in (("vera", "dpcli_viewer"), ("sam", "dpcli_spender"), ("ada", "dpcli_admin")):
        database.cluster.login(name, role)
    database.cluster.login("nick")
    return database


@pytest.fixture
def opened(database: Database) -> Database:
    return with_people(database)


@pytest.fixture(scope="module")
def fixed(cluster: Cluster) -> Iterator[tuple[Database, Head]]:
    """One that nothing is ever written to but a run of 0.1 out of 1, under the key "first"."""
    with made(cluster) as database:
        spender = ledger(with_people(database), "sam")
        charge(spender, "first", "0.1")
        yield database, spender.state().head


def ledger(database: Database, user: str, dataset: str = DATASET) -> Ledger:
    return Ledger(PostgresStore(database.cluster.url(database.name, user)), dataset)


def body(who: str, head: Head, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A charge of 0.1 that a database would take from `who`, but for the changes; None takes a name out."""
    charged = {"kind": "spend", "key": "run", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.1", "delta": "0"}}
    signed = {"detail": "stated", "who": who, "when": utc_now(), "dpcli": "0"}
    chained = {"ledger": 1, "dataset": DATASET, "seq": head.seq + 1, "previous": head.hash}
    whole = {**charged, **signed, **chained, **(changes or {})}
    return {name: value for name, value in whole.items() if value is not None}


def refused(database: Database, user: str, text: str, **other: Any) -> str:
    """What the database says, which must write nothing."""
    import psycopg

    before = rows(database)
    with pytest.raises(psycopg.Error) as caught:
        by_hand(database, user, text, **other)
    assert rows(database) == before
    return str(caught.value)


def rows(database: Database) -> list[tuple[Any, ...]]:
    """Everything that was written, as whoever owns the server reads it."""
    with database.cluster.connect(database.name) as connection:
        return list(connection.execute("SELECT * FROM dpcli.entry ORDER BY dataset, seq").fetchall())


# Roles.


def test_a_viewer_looks_and_does_not_write(opened: Database) -> None:
    charge(ledger(opened, "sam"), "run")
    viewer = ledger(opened, "vera")
    assert [entry.kind for entry in viewer.entries()] == ["open", "spend"]
    with pytest.raises(LedgerError, match="permission denied"):
        charge(viewer, "other")
    with pytest.raises(LedgerError, match="permission denied"):
        init(opened.cluster.url(opened.name, "vera"), "second", terms())
    assert "permission denied" in refused(opened, "vera", canonical(body("vera", viewer.state().head, {"key": "other"})))


def test_a_spender_spends_and_moves_and_no_more(opened: Database) -> None:
    spender = ledger(opened, "sam")
    charge(spender, "run")
    spender.reserve(run(0.1), "long")
    spender.start("long")
    spender.commit("long")
    spender.reserve(run(0.1), "other")
    spender.void("other", "it never started")
    with pytest.raises(
        LedgerError, match="permission denied: amend needs the role dpcli_admin, which sam has not; nothing more was written"
    ):
        spender.amend(10.0, "I need more", "the board", unseen=True)
    with pytest.raises(LedgerError, match="permission denied: open needs the role dpcli_admin, which sam has not"):
        init(opened.cluster.url(opened.name, "sam"), "second", terms())
    assert {entry.content["who"] for entry in spender.entries()[1:]} == {"sam"}


def test_an_admin_may_open_and_amend(opened: Database) -> None:
    admin = ledger(opened, "ada")
    admin.amend(2.0, "a second analysis", "the board")
    charge(admin, "run", "2")
    second = init(opened.cluster.url(opened.name, "ada"), "second", terms())
    assert second.entries()[0].content["who"] == "ada"


def test_somebody_without_a_role_is_told_which_there_are(opened: Database) -> None:
    with pytest.raises(
        LedgerError,
        match=r"permission denied: for schema dpcli; reading needs the role dpcli_viewer, charging dpcli_spender",
    ):
        ledger(opened, "nick")


STATEMENTS = (
    "INSERT INTO dpcli.entry VALUES ('visits', 2, '{}', 'x')",
    "INSERT INTO dpcli.dataset VALUES ('mine', NULL, NULL, 1, 'x')",
    "UPDATE dpcli.entry SET body = '{}'",
    "UPDATE dpcli.dataset SET seq = 2",
    "DELETE FROM dpcli.entry",
    "DELETE FROM dpcli.dataset",
    "TRUNCATE dpcli.entry, dpcli.dataset",
    "ALTER TABLE dpcli.entry DISABLE TRIGGER ALL",
    "DROP SCHEMA dpcli CASCADE",
    "SELECT dpcli.check_open('mine', '{}', 'x')",
    "SELECT dpcli.exceeded('visits', '{}')",
    "CREATE FUNCTION dpcli.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "SELECT FROM dpcli.dataset FOR UPDATE",
)


def test_nobody_touches_the_tables(fixed: tuple[Database, Head]) -> None:
    import psycopg.errors

    for user in ("vera", "sam", "ada"):
        with fixed[0].cluster.connect(fixed[0].name, user) as connection:
            for statement in STATEMENTS:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)


# What the function refuses, whoever calls it.

MOVE = dict.fromkeys(("pipeline", "delta", "cost", "detail"))  # what a move does not hold
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another number": ({"seq": 4}, "does not follow the end"),
    "another previous": ({"previous": "f" * 64}, "does not follow the end"),
    "no previous": ({"previous": None}, "expected previous"),
    "another format": ({"ledger": 2}, "expected format 1"),
    "another dataset": ({"dataset": "other"}, "belongs elsewhere"),
    "somebody else": ({"who": "ada"}, "expected an entry signed by sam"),
    "nobody": ({"who": None}, "expected an entry signed by sam"),
    "no time": ({"when": None}, "expected when: a time"),
    "a number as time": ({"when": 1}, "expected when: a time"),
    "unknown kind": ({"kind": "refund"}, "expected a known kind"),
    "no kind": ({"kind": None}, "expected a known kind"),
    "amend": ({"kind": "amend", "caps": {"epsilon": "9", "delta": "0"}}, "needs the role dpcli_admin"),
    "open": ({"kind": "open"}, "needs the role dpcli_admin"),
    "no key": ({"key": None}, f"expected key: {NAME}"),
    "a blank key": ({"key": " "}, f"expected key: {NAME}"),
    "a number as key": ({"key": 1}, f"expected key: {NAME}"),
    "a long key": ({"key": "x" * 201}, f"expected key: {NAME}"),
    "a key that a terminal acts on": ({"key": "a\x1b[2J"}, f"expected key: {NAME}"),
    "no delta": ({"delta": None}, "expected delta: the shortest spelling"),
    "another delta": ({"delta": "nan"}, "expected delta: the shortest spelling"),
    "a list as reason": ({"why": ["x"]}, "expected why: at most 20000 visible characters"),
    "no mechanisms": ({"pipeline": {**TABLES, "mechanism": []}}, PIPELINE),
    "other mechanisms": ({"pipeline": {**TABLES, "mechanism": ["x"]}}, PIPELINE),
    "no privacy": ({"pipeline": {"mechanism": TABLES["mechanism"]}}, PIPELINE),
    "no pipeline": ({"pipeline": None}, PIPELINE),
    "no cost": ({"cost": None}, AMOUNTS),
    "an empty cost": ({"cost": {}}, AMOUNTS),
    "a negative cost": ({"cost": {"epsilon": "-0.1"}}, AMOUNTS),
    "a cost that is no number": ({"cost": {"epsilon": "NaN"}}, AMOUNTS),
    "an infinite cost": ({"cost": {"epsilon": "Infinity"}}, AMOUNTS),
    "a cost as a number": ({"cost": {"epsilon": 0.1}}, AMOUNTS),
    "a cost that would lose digits": ({"cost": {"epsilon": "0.123456789012345678901"}}, AMOUNTS),
    "a cost too small for a double": ({"cost": {"epsilon": "1E-400"}}, AMOUNTS),
    "above the cap": ({"cost": {"epsilon": "0.90000000000000000001"}}, "over the cap on epsilon"),
    "another currency": ({"cost": {"rho": "0.1"}}, "over the cap on rho"),
    "another unit": ({"pipeline": {**TABLES, "privacy": {**TABLES["privacy"], "unit": "user"}}}, "a run under the ledger's unit"),
    "another adjacency": (
        {"pipeline": {**TABLES, "privacy": {**TABLES["privacy"], "adjacency": "zero-out"}}},
        "a run under the ledger's adjacency",
    ),
    "something more": ({"note": "x"}, "expected no note"),
    "a delta of 1": ({"delta": "1"}, "expected delta: the shortest spelling"),
    "a delta of 5": ({"delta": "5"}, "expected delta: the shortest spelling"),
    "a time to come": ({"when": "9999-12-31T23:59:59Z"}, "expected the time by the server's clock"),
    "a time long ago": ({"when": EARLIER}, "expected the time by the server's clock"),
    "a reservation for longer than the calendar": ({"kind": "reserve", "expires": "2030-02-30T00:00:00Z"}, "date"),
    "a move of nothing": ({"kind": "commit", "key": "unknown", **MOVE}, "expected the key of a reservation"),
    "a key twice": ({"key": "first"}, "that key is charged already"),
    "a move of a run": ({"kind": "void", "key": "first", "why": "x", **MOVE}, "expected the key of a reservation"),
}


def answers(database: Database, user: str, texts: Mapping[str, str], seq: int | None = None) -> dict[str, str]:
    """What the database says to each of these entries, over one connection; "taken" where it does not refuse it."""
    import psycopg

    found = dict.fromkeys(texts, "taken")
    with database.cluster.connect(database.name, user) as connection:
        for name, text in texts.items():
            number = json.loads(text)["seq"] if seq is None else seq
            try:
                connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (DATASET, number, text, digest(text)))
            except psycopg.Error as error:
                found[name] = str(error)
    return found


def test_a_lie_is_refused(fixed: tuple[Database, Head]) -> None:
    database, head = fixed
    before = rows(database)
    said = answers(database, "sam", {name: canonical(body("sam", head, changes)) for name, (changes, _) in LIES.items()})
    assert {name: words for name, words in said.items() if LIES[name][1] not in words} == {}
    assert rows(database) == before


def test_the_truth_is_taken(opened: Database) -> None:
    charge(ledger(opened, "sam"), "first", "0.1")
    head = ledger(opened, "vera").state().head
    by_hand(opened, "sam", canonical(body("sam", head, {"cost": {"epsilon": "0.9", "delta": "0"}})))
    assert ledger(opened, "vera").state().spent["epsilon"] == 1


def test_a_hash_that_is_not_the_entry_s(fixed: tuple[Database, Head]) -> None:
    database, head = fixed
    assert "the hash is not that of the entry" in refused(database, "sam", canonical(body("sam", head)), hash_="f" * 64)


def test_a_number_beside_the_entry_s(fixed: tuple[Database, Head]) -> None:
    database, head = fixed
    assert "belongs elsewhere" in refused(database, "sam", canonical(body("sam", head)), seq=4)


SPELLINGS = {
    "spaces": lambda text: text.replace(":", ": ", 1),
    "a name twice": lambda text: text.replace('"cost":', '"cost":{"epsilon":"0"},"cost":', 1),
    "another order": lambda text: '{"zzz":1,' + text[1:],
    "another escape": lambda text: text.replace('"stated"', r'"\u0073tated"'),
    "a longer number": lambda text: text.replace('"epsilon":0.01', '"epsilon":0.010'),
    "an exponent": lambda text: text.replace('"epsilon":0.01', '"epsilon":1e-2'),
    "an infinity": lambda text: text.replace('"epsilon":0.01', '"epsilon":1e999'),
    "no JSON": lambda text: text[:-1],
    "a list": lambda text: f"[{text}]",
    "no ASCII": lambda text: text.replace("stated", "stäted"),
    "a null character": lambda text: text.replace("stated", r"st\u0000ted"),
    "half a character": lambda text: text.replace("stated", r"st\ud800ted"),
    "depth": lambda text: text.replace('"stated"', "[" * 60 + "]" * 60),
}


def test_an_entry_has_one_spelling(fixed: tuple[Database, Head]) -> None:
    """A spelling that readers refuse must not get in, because entries cannot be removed."""
    database, head = fixed
    text, before = canonical(body("sam", head)), rows(database)
    changed = {name: change(text) for name, change in SPELLINGS.items()}
    assert text not in changed.values()
    assert "taken" not in answers(database, "sam", changed, head.seq + 1).values()
    assert rows(database) == before


ORDERS = (("start", "void"), ("start", "start"), ("commit", "void"), ("commit", "start"), ("commit", "commit"), ("void", "commit"))


@pytest.mark.long
def test_a_move_out_of_order(opened: Database) -> None:
    spender = ledger(opened, "sam")
    for before, kind in ORDERS:
        key = f"{before}, then {kind}"
        spender.reserve(run(0.1), key)
        getattr(spender, before)(key, *([] if before == "start" else ["a reason"]))
        text = canonical(body("sam", spender.state().head, {**MOVE, "kind": kind, "key": key, "why": "x"}))
        assert "expected a reservation" in refused(opened, "sam", text), key


def test_a_void_without_a_reason(opened: Database) -> None:
    spender = ledger(opened, "sam")
    spender.reserve(run(0.1), "long")
    text = canonical(body("sam", spender.state().head, {**MOVE, "kind": "void", "key": "long"}))
    assert "expected why: a reason" in refused(opened, "sam", text)


def test_a_commit_without_a_start_and_a_reason(opened: Database) -> None:
    spender = ledger(opened, "sam")
    for key in ("long", "other"):
        spender.reserve(run(0.1), key)
    for why in ({}, {"why": " "}):
        text = canonical(body("sam", spender.state().head, {**MOVE, "kind": "commit", "key": "long", **why}))
        assert "expected why, as the reservation was never started" in refused(opened, "sam", text)
    by_hand(opened, "sam", canonical(body("sam", spender.state().head, {**MOVE, "kind": "commit", "key": "long", "why": "it ran"})))
    spender.start("other")
    by_hand(opened, "sam", canonical(body("sam", spender.state().head, {**MOVE, "kind": "commit", "key": "other"})))
    assert [run.status for run in spender.state().runs.values()] == ["committed", "committed"]


@pytest.mark.long
def test_a_clock_that_was_set_back_voids_nothing(opened: Database) -> None:
    spender, soon = ledger(opened, "sam"), time_after(utc_now(), 1 / 86_400)
    spender.reserve(run(0.1), "long", expires=soon)
    assert until(lambda: utc_now() >= soon)
    with pytest.raises(LedgerError, match="found one that has expired"):
        spender.void("long", "it never started")
    spender.now = lambda: EARLIER
    with pytest.raises(LedgerError, match="expected the time by the server's clock"):
        spender.void("long", "it never started")
    head = spender.state().head
    text = canonical(body("sam", head, {**MOVE, "kind": "void", "key": "long", "why": "x"}))
    assert "expected a reservation within its time" in refused(opened, "sam", text)


def test_a_role_that_was_taken_on_signs_nothing(fixed: tuple[Database, Head]) -> None:
    database, head = fixed
    text = canonical(body("dpcli_spender", head))
    with database.cluster.connect(database.name, "sam") as connection:
        connection.execute("SET ROLE dpcli_spender")
        with pytest.raises(Exception, match="expected an entry signed by sam"):
            connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (DATASET, head.seq + 1, text, digest(text)))


def test_the_owner_cannot_change_a_row_either(fixed: tuple[Database, Head]) -> None:
    database, _ = fixed
    for statement in (
        "UPDATE dpcli.entry SET body = body",
        "DELETE FROM dpcli.entry",
        "TRUNCATE dpcli.entry",
        "DELETE FROM dpcli.dataset",
    ):
        with pytest.raises(Exception, match=r"never change and are never removed"):
            database.cluster.run(statement, database=database.name, user=OWNER)
    with pytest.raises(Exception, match="moves on by one"):
        database.cluster.run("UPDATE dpcli.dataset SET team = 'x'", database=database.name, user=OWNER)


@of_each("table", ["entry", "dataset", "format"])
def test_a_superuser_has_to_take_the_guards_away_by_name(fixed: tuple[Database, Head], table: str) -> None:
    """session_replication_role = replica, which a restore sets, does not disable these triggers."""
    database, _ = fixed
    column = {"entry": "seq", "dataset": "seq", "format": "version"}[table]
    with database.cluster.connect(database.name) as connection:
        connection.execute("SET session_replication_role = replica")
        for statement in (
            f"UPDATE dpcli.{table} SET {column} = {column}",
            f"DELETE FROM dpcli.{table}",
            f"TRUNCATE dpcli.{table} CASCADE",
        ):
            with pytest.raises(Exception, match=r"never change"):
                connection.execute(statement)


# Teams.


@pytest.fixture
def teams(opened: Database) -> Database:
    """Two datasets of two teams: rosa spends for the red one, bob and beth administrate the blue one."""
    for team in ("team_red", "team_blue"):
        with opened.cluster.connect() as connection:
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (team,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {team}")
    opened.cluster.login("rosa", "dpcli_spender", "team_red")
    opened.cluster.login("bob", "dpcli_admin", "team_blue")
    opened.cluster.login("both", "dpcli_admin", "team_red", "team_blue")
    for name, team in (("red", "team_red"), ("blue", "team_blue")):
        made = replace(terms(), team=team, fingerprint=digest(name))
        init(opened.cluster.url(opened.name, "both"), name, made).store.close()
    return opened


def test_a_team_sees_its_own(teams: Database) -> None:
    seen = {user: ledger(teams, user).store.datasets() for user in ("rosa", "bob", "both", "sam", OWNER)}
    assert seen == {
        "rosa": ("red", DATASET),
        "bob": ("blue", DATASET),
        "both": ("blue", "red", DATASET),
        "sam": (DATASET,),
        OWNER: (DATASET,),
    }
    for user, names in seen.items():
        with teams.cluster.connect(teams.name, user) as connection:
            rows = connection.execute("SELECT DISTINCT dataset FROM dpcli.entry").fetchall()
        assert sorted(name for (name,) in rows) == list(names)


def test_another_team_s_dataset_is_not_there(teams: Database) -> None:
    assert ledger(teams, "bob").store.after("red", 0) == []
    for user in ("sam", "bob"):
        with pytest.raises(LedgerError, match='no ledger for dataset "red"'):
            charge(ledger(teams, user, "red"), "run")
    charge(ledger(teams, "rosa", "red"), "run")
    assert len(ledger(teams, "both", "red").entries()) == 2


def test_whoever_appends_nothing_reads_nothing(teams: Database) -> None:
    """If a superuser owns the functions, no policy hides the rows that they return."""
    with teams.cluster.connect(teams.name, "sam") as connection:
        for bodies in ([], None):
            with pytest.raises(Exception, match="expected 1 to 1500 entries"):
                connection.execute(
                    "SELECT * FROM dpcli.append_all('red', 1, %s::text[], %s::text[], 1)", (bodies, bodies)
                ).fetchall()


HIDDEN = "that this login may see: it does not exist, or belongs to a team that the login is not in"
# Every command that reads a dataset, and what it takes besides.
READING: dict[str, tuple[str, ...]] = {
    "show": (),
    "log": (),
    "verify": (),
    "anchor": (),
    "export": (),
    "spend": ("run.toml", "--key", "first"),
    "reserve": ("run.toml", "--key", "first"),
    "plan": ("plan.toml",),
    "windows": ("run.toml",),
    "retire": ("2026-01-01", "--reason", "gone"),
    "approve": ("2", "--reason", "yes"),
    "refuse": ("2", "--reason", "no"),
    "void": ("first", "--reason", "no"),
    "start": ("first",),
    "commit": ("first",),
    "amend": ("--epsilon", "5", "--reason", "more", "--approver", "ada", "--no-output-seen"),
    "quota": ("--person", "sam", "--share", "0.5", "--reason", "less"),
    "acknowledge": ("a finding", "--reason", "known"),
    "correct": ("first", "run.toml", "--reason", "it was another"),
    "rate": ("--per-day", "5", "--reason", "less"),
}


@of_each("command", READING)
def test_what_is_hidden_is_not_called_absent(teams: Database, command: str, tmp_path: Path) -> None:
    """The message is the same for hidden and for missing datasets, and true of both."""
    (tmp_path / "run.toml").write_text(run_file())
    (tmp_path / "plan.toml").write_text(
        'format = 1\n[[run]]\nfile = "run.toml"\nevery = "week"\nfrom = 2026-01-05\nto = 2026-02-05\n'
    )
    said = []
    for dataset in ("red", "nothing"):
        url = teams.cluster.url(teams.name, "bob")
        done = dpcli("budget", command, url, *READING[command], "--dataset", dataset, folder=tmp_path)
        assert done.code == 4 and HIDDEN in done.err, done
        said.append(done.err.replace(dataset, "it"))
    assert said[0] == said[1]


def test_every_command_about_a_dataset_is_asked() -> None:
    """All but the commands that open or move a dataset, or read all datasets."""
    assert {*READING, "init", "import", "copy", "overview", "upgrade"} == SUBCOMMANDS.keys()


def test_the_function_looks_at_the_team_too(teams: Database) -> None:
    import psycopg

    head = ledger(teams, "rosa", "red").state().head
    text = canonical(body("bob", head, {"dataset": "red"}))
    with pytest.raises(psycopg.Error, match="no such dataset"):
        by_hand(teams, "bob", text, dataset="red")
    assert ledger(teams, "rosa", "red").state().head == head


def test_a_name_or_data_of_another_team_is_not_taken_twice(teams: Database) -> None:
    url = teams.cluster.url(teams.name, "bob")
    with pytest.raises(LedgerError, match="the name belongs to a dataset that this login may not see; nothing was written"):
        init(url, "red", terms())
    for fingerprint in (digest("red"), digest("red").upper()):
        with pytest.raises(LedgerError, match="the data are registered under another name"):
            init(url, "purple", replace(terms(), fingerprint=fingerprint))


@pytest.mark.long
@of_each("team", ["team_red", "no such role"])
def test_only_a_member_opens_for_a_team(teams: Database, team: str) -> None:
    with pytest.raises(LedgerError, match="expected a team whose member you are"):
        init(teams.cluster.url(teams.name, "bob"), "second", replace(terms(), team=team))


def test_operators_of_one_s_own_show_nothing_more(teams: Database) -> None:
    """A login may put its own schema before pg_catalog and redefine =, but this does not affect the policies."""
    teams.cluster.run("CREATE SCHEMA own AUTHORIZATION sam", database=teams.name)
    with teams.cluster.connect(teams.name, "sam") as connection:
        connection.execute("CREATE FUNCTION own.yes(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
        connection.execute("CREATE OPERATOR own.= (LEFTARG = name, RIGHTARG = text, FUNCTION = own.yes)")
        connection.execute("CREATE FUNCTION own.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
        connection.execute("SET search_path = own, pg_catalog")
        assert connection.execute("SELECT 'a'::name = 'b'::text").fetchone() == (True,)
        assert connection.execute("SELECT name FROM dpcli.dataset").fetchall() == [(DATASET,)]
        assert connection.execute("SELECT DISTINCT dataset FROM dpcli.entry").fetchall() == [(DATASET,)]
        connection.execute("DROP SCHEMA own CASCADE")


# Installing.


TRAP = "RETURNS {0} LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$"
TRAPS = {
    **{f"format(text, text{', bigint' * n})": "text" for n in range(4)},
    "set_config(text, text, boolean)": "text",
    "current_setting(text)": "text",
    "to_char(timestamp, text)": "text",
    "clock_timestamp()": "timestamptz",
    "pg_has_role(name, name, text)": "boolean",
    "pg_backend_pid()": "integer",
}
OPERANDS = ("oid", "integer", "bigint", "name", "text")


@pytest.mark.long
def test_functions_that_somebody_made_are_never_called_by_a_client(opened: Database) -> None:
    """If others may create functions in a schema of the search path, these could hide the server's own."""
    traps = [f"CREATE FUNCTION theirs.{name} {TRAP.format(kind)}" for name, kind in TRAPS.items()]
    for operand in OPERANDS:
        traps.append(f"CREATE FUNCTION theirs.compared({operand}, {operand}) {TRAP.format('boolean')}")
        traps += [
            f"CREATE OPERATOR theirs.{sign} (LEFTARG = {operand}, RIGHTARG = {operand}, FUNCTION = theirs.compared)"
            for sign in ("=", "<>")
        ]
    try:
        opened.cluster.run("CREATE SCHEMA theirs", *traps, "GRANT USAGE ON SCHEMA theirs TO PUBLIC", database=opened.name)
        opened.cluster.run(f"ALTER DATABASE {opened.name} SET search_path = theirs, pg_catalog")
        found = ledger(opened, OWNER)
        assert charge(found, "a").state.head.seq == 2
        assert (found.store.check(DATASET), found.store.who, upgrade(opened.url)) == ((), OWNER, ())
        assert digest(found.store.schema()) == found.state().schema
        # Who holds a row is asked after the transaction that waited for it.
        with opened.cluster.connect(opened.name) as other:
            other.execute("SET search_path = pg_catalog; BEGIN; SELECT FROM dpcli.dataset FOR UPDATE")
            with pytest.raises(LedgerError, match="held by cluster_owner"):
                charge(Ledger(PostgresStore(opened.url, 0.3), DATASET), "b")
        # What the check finds is worded by the server as well.
        opened.by_force("UPDATE dataset SET seq = seq + 1")
        assert "its entries end at" in str(found.store.check(DATASET))
    finally:
        opened.cluster.run(f"ALTER DATABASE {opened.name} RESET search_path", "SET search_path = pg_catalog")
        opened.cluster.run("SET search_path = pg_catalog", "DROP SCHEMA theirs CASCADE", database=opened.name)


@pytest.mark.long
def test_whoever_may_not_create_roles_is_told_what_to_ask_for(opened: Database) -> None:
    name = opened.cluster.database()
    opened.cluster.run(f"GRANT CREATE ON DATABASE {name} TO nick")
    try:
        with pytest.raises(
            LedgerError, match=r"ask an administrator to run: CREATE ROLE dpcli_viewer; .* GRANT dpcli_admin to this user"
        ):
            init(opened.cluster.url(name, "nick"), DATASET, terms())
        with pytest.raises(LedgerError, match="GRANT CREATE ON DATABASE"):
            init(opened.cluster.url(name, "ada"), DATASET, terms())
        opened.cluster.run(f"GRANT CREATE ON DATABASE {name} TO ada")
        assert init(opened.cluster.url(name, "ada"), DATASET, terms()).who == "ada"
        assert open_store(opened.cluster.url(name, "vera")).datasets() == (DATASET,)
    finally:
        opened.cluster.drop(name)
