"""Tests of the definitions that guard a ledger in PostgreSQL, and of the spelling of entries that they require."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.ledger.chain import canonical
from dpcli.ledger.stores import postgres
from dpcli.ledger.stores.places import init
from dpcli.ledger.stores.postgres import PostgresStore
from tests.cases import of_each
from tests.ledger.conftest import Database
from tests.ledger.filters.setting import DATASET, terms
from tests.ledger.postgres.cluster import Cluster

CHANGES = [
    "DROP TRIGGER never ON dpcli.entry",
    "ALTER TABLE dpcli.entry DISABLE TRIGGER never",
    "ALTER TABLE dpcli.entry ENABLE TRIGGER never",
    "ALTER TABLE dpcli.entry DISABLE TRIGGER ALL",
    "CREATE TRIGGER more BEFORE INSERT ON dpcli.entry EXECUTE FUNCTION dpcli.never()",
    "CREATE OR REPLACE FUNCTION dpcli.require(holds boolean, otherwise text) RETURNS void LANGUAGE plpgsql AS 'BEGIN END'",
    "ALTER FUNCTION dpcli.append(text, bigint, text, text) SECURITY INVOKER",
    "ALTER FUNCTION dpcli.append(text, bigint, text, text) RESET search_path",
    "ALTER FUNCTION dpcli.is_member(text) VOLATILE",
    "CREATE FUNCTION dpcli.more() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "GRANT EXECUTE ON FUNCTION dpcli.check_open(text, jsonb, text) TO PUBLIC",
    "GRANT INSERT ON dpcli.entry TO dpcli_spender",
    "GRANT UPDATE (head) ON dpcli.dataset TO dpcli_spender",
    "GRANT CREATE ON SCHEMA dpcli TO dpcli_viewer",
    "REVOKE SELECT ON dpcli.entry FROM dpcli_viewer",
    "DROP POLICY team ON dpcli.entry",
    "CREATE POLICY more ON dpcli.entry USING (true)",
    "ALTER POLICY team ON dpcli.dataset USING (true)",
    "ALTER TABLE dpcli.entry NO FORCE ROW LEVEL SECURITY",
    "ALTER TABLE dpcli.dataset DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE dpcli.entry DROP CONSTRAINT entry_pkey",
    "ALTER TABLE dpcli.dataset DROP CONSTRAINT dataset_fingerprint_key",
    "ALTER TABLE dpcli.entry SET UNLOGGED",
    "ALTER TABLE dpcli.entry ALTER COLUMN hash SET DEFAULT ''",
    "ALTER TABLE dpcli.entry ALTER COLUMN hash DROP NOT NULL",
    "ALTER TABLE dpcli.entry ALTER COLUMN cost DROP EXPRESSION",
    "CREATE RULE nothing AS ON INSERT TO dpcli.entry DO INSTEAD NOTHING",
    "CREATE VIEW dpcli.everything AS SELECT * FROM dpcli.entry",
]


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Database]:
    name = cluster.database()
    init(cluster.url(name), DATASET, terms()).store.close()
    yield Database(cluster, name)
    cluster.drop(name)


@pytest.fixture(scope="module")
def store(installed: Database) -> Iterator[PostgresStore]:
    found = PostgresStore(installed.cluster.url(installed.name))
    yield found
    found.close()


@pytest.mark.long
def test_a_change_of_any_guard_shows(store: PostgresStore) -> None:
    before, seen = store.schema(), {}
    for change in CHANGES:
        with store.connection.transaction(force_rollback=True):
            store.connection.execute(change)
            seen[change] = store.schema()
    assert [change for change in CHANGES if seen[change] == before] == []
    assert store.schema() == before


@of_each("harmless", ["SET search_path = dpcli", "ANALYZE dpcli.entry", "CREATE ROLE somebody", "SET quote_all_identifiers = off"])
def test_a_change_of_other_objects_does_not_show(store: PostgresStore, harmless: str) -> None:
    before = store.schema()
    with store.connection.transaction(force_rollback=True):
        store.connection.execute(harmless)
        assert store.schema() == before


def test_everybody_finds_the_same_definitions(installed: Database, store: PostgresStore) -> None:
    name = installed.cluster.login("vera", "dpcli_viewer")
    assert PostgresStore(installed.cluster.url(installed.name, name)).schema() == store.schema()


def test_two_databases_have_the_same_definitions(database: Database, store: PostgresStore) -> None:
    """Whoever owns the database, and whatever superuser created the roles."""
    assert init(database.url, DATASET, terms()).store.schema() == store.schema()


def test_no_function_is_everybody_s(store: PostgresStore) -> None:
    lines = store.schema().splitlines()
    assert not [line for line in lines if line.startswith("grant") and "to public" in line]
    assert [line for line in lines if line.startswith("grant on function append")] == [
        "grant on function append(of_dataset text, new_seq bigint, new_body text, new_hash text) EXECUTE to dpcli_spender grantable f",
        "grant on function append_all(of_dataset text, first_seq bigint, bodies text[], hashes text[], milliseconds integer) EXECUTE to "
        "dpcli_spender grantable f",
    ]


def test_definitions_hold_no_backslash() -> None:
    """The meaning of a backslash depends on settings of the session."""
    for path in Path(postgres.__file__).parent.glob("*.sql"):
        assert "\\" not in path.read_text()


def test_every_function_fixes_where_it_looks_for_names(store: PostgresStore) -> None:
    query = "SELECT proname FROM pg_proc WHERE pronamespace = 'dpcli'::regnamespace AND NOT coalesce(proconfig && %s, false)"
    assert store.connection.execute(query, (["search_path=pg_catalog, dpcli, pg_temp"],)).fetchall() == []


def spelled(store: PostgresStore, text: str) -> str:
    found: str = store.connection.execute("SELECT dpcli.canonical(%s::json, 0)", (text,)).fetchone()[0]
    return found


CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXTS = st.text(CHARACTERS, max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | FLOATS | TEXTS
DOCUMENTS = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


@pytest.mark.long
@given(documents=st.lists(DOCUMENTS, min_size=20, max_size=20))
def test_python_and_the_database_spell_alike(store: PostgresStore, documents: list[Any]) -> None:
    whole = {str(i): document for i, document in enumerate(documents)}
    assert spelled(store, canonical(whole)) == canonical(whole)


@of_each(
    "number",
    [
        *(1e22, 1e23, 9.5e22, 1e15, 1e16, 123456789012345680.0, 9007199254740993.0, 2.0**70, 1e100, 1.7976931348623157e308),
        *(5e-324, 2.0**-1074 * 3, 2.2250738585072014e-308, 1e-5, 9.999e-5, 1e-4, 2.0**-30, 0.1, 1 / 3, 4.35, 100.0, -0.0, 0.0),
        *(10, -3, 10**30),
    ],
)
def test_numbers_are_spelled_alike(store: PostgresStore, number: float) -> None:
    assert spelled(store, json.dumps(number)) == json.dumps(number)


@of_each(
    "text", ["1.50", "1e5", "1E-7", "1e-7", "1e-007", "0.00001", "-0", "1e16", "10000000000000000.0", "0e0", "0.30000000000000001"]
)
def test_other_spellings_of_a_number_are_refused(store: PostgresStore, text: str) -> None:
    assert json.dumps(json.loads(text)) != text
    with pytest.raises(Exception, match="expected the shortest spelling of every number"):
        spelled(store, text)


def spellings(x: float) -> Iterator[str]:
    """One double in every number of digits that JSON has, and beside it."""
    yield json.dumps(x)
    for digits in range(18):
        text, _, power = f"{x:.{digits}e}".partition("e")
        yield f"{text}e{power}"
        yield f"{text.rstrip('0').rstrip('.')}e{power}"
    if 1e-7 < abs(x) < 1e20:
        yield from (f"{x:.{digits}f}" for digits in range(1, 20))


@pytest.mark.long
def test_one_spelling_of_each_double_is_let_in(store: PostgresStore) -> None:
    """The spelling of Python, which readers require. Numbers such as 1e+23 lie halfway between two doubles."""
    chance = random.Random(11)
    tried = [float(f"{chance.randrange(1, 1000)}e{chance.randrange(-30, 45)}") for _ in range(2000)]
    tried += [struct.unpack("d", chance.randbytes(8))[0] for _ in range(300)]
    tried += [sign * 2.0**power for power in range(-1074, 1024, 7) for sign in (1, -1)]
    texts = sorted({text for x in tried if abs(x) < float("inf") for text in spellings(x) if abs(float(text)) < float("inf")})
    rows = store.connection.execute("SELECT t FROM unnest(%s::text[]) t WHERE dpcli.is_number(t)", (texts,)).fetchall()
    assert {text for (text,) in rows} == {text for text in texts if json.dumps(json.loads(text)) == text}
