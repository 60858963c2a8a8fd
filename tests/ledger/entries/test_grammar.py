"""Tests of the grammar of entries: what a file or database accepts, every reader can read; candidates are valid, changed and hostile."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.gate.gate_terms import ledger_conditions
from dpcli.ledger.chain import GENESIS, canonical, digest, seal, time_after, utc_now
from dpcli.ledger.grammar import ENTRIES, PATTERNS, TYPES, WORDS, wrong_entry
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.cases import every
from tests.ledger.conftest import Database
from tests.ledger.filters.families import FAMILIES
from tests.ledger.filters.families import terms as of_blocks
from tests.ledger.filters.folding import rehearsed
from tests.ledger.filters.setting import DATASET, TABLES, run, terms
from tests.ledger.postgres.cluster import Cluster

HUGE = 10**400
NUMERALS = "1 5 0 0.0 -0.0 0.5 1e-06 1e-6 5e-324 1e-400 0.99999999999999999999 0.30000000000000004 nan inf Infinity -1 1.0"
SCIENTIFIC = "1E+5 1E5 1E-330 1E-331 1E+310 1E+311 9E+999 0E+999 1_0"
TIMES = "9999-12-31T23:59:59Z 2030-02-30T00:00:00Z 0000-01-01T00:00:00Z 2030-01-01T24:00:00Z 2030-01-01T00:00:60Z"
STRINGS = (
    *(
        "",
        " ",
        "\xa0",
        "\u3000 \u2003",
        "\u3164",
        "a\x1b[2J",
        "\u202eevil",
        "\u200b",
        "\x9b2J",
        "\x7f",
        "\x00",
        "x" * 200,
        "x" * 201,
    ),
    *("x" * 20_001, "é̂", "日本 😀", 'a"b\\c', "\U000e0041", "\ufeff"),
    *NUMERALS.split(),
    *SCIENTIFIC.split(),
    *(" 1", "1 ", "0x1", "\u0661", "\u06f5", "1.", ".1", "00000000.1", "0." + "1" * 20, "0." + "1" * 21, "1" * 41),
    *TIMES.split(),
    *("2030-01-01", "2030-01-01T00:00:00Z", "soon", "a" * 64, "A" * 64, "add-remove", "declared", "gdp", "epsilon"),
)
BLOCKS = tuple(block for _, blocks in FAMILIES.values() for block in blocks)
DATES = "2027-12-29..2027-12-30 2027-02-29 2021-W53 0000-W01 0001-01-01 9999-12-31 9999-W52 9999-W53 12 01"
WINDOWS = (
    *DATES.split(),
    *("+1", "1 ", "epsilon@eu", "@", "eu@", "a@b@c", "E\u0301", "\u00c9", "2027-12-29\n", "\uff12", "\u0662"),
)
NUMBERS = (0, 1, -1, 2, 1.0, 2.5, -0.0, 5e-324, 1e308, 10**18, 10**18 + 1, 10**30, 10**309, HUGE, 0.999, 1e-300)
OTHERS = (None, True, False, [], {}, ["x"], {"a": "b"}, [[]], {"epsilon": "0.01"}, {"epsilon": 0.01}, {"": "1"})
DEEP = json.loads("[" * 45 + "]" * 45)
TOO_DEEP = json.loads("[" * 60 + "]" * 60)


def values(chance: random.Random) -> Iterator[Any]:
    """Hostile values, without end."""
    while True:
        yield copy.deepcopy(chance.choice(chance.choice((STRINGS, BLOCKS, WINDOWS, NUMBERS, OTHERS, (DEEP, TOO_DEEP)))))


def places_in(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value, a few levels down."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        if depth < 4:
            yield from places_in(value[key], depth + 1)


def mutated(content: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A content with a few hostile changes: a value replaced, taken out or added, at any depth."""
    found, hostile = copy.deepcopy(content), values(chance)
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        container, key = chance.choice(list(places_in(found)) or [({}, None)])
        what = chance.random()
        if what < 0.7:
            container[key] = next(hostile)
        elif what < 0.8 and isinstance(container, dict):
            container.pop(key, None)
        elif isinstance(container, dict):
            container[chance.choice(("note", "expires", "why", "unit", "", "epsilon", "steps", "\x1b"))] = next(hostile)
    return found


def right(ledger: Ledger, chance: random.Random, number: int) -> dict[str, Any]:
    charge = {
        "key": f"key {number}",
        "pipeline": TABLES,
        "delta": "0.0",
        "cost": {"epsilon": "1E-9", "delta": "0"},
        "detail": "stated",
        **windowed(ledger, chance),
    }
    reserved = [run.key for run in ledger.state().runs.values() if run.status == "reserved"] or ["none"]
    begun = [run for run in ledger.state().runs.values() if run.status in ("started", "committed")]
    counted = chance.choice(begun) if begun else None
    keys = [*(run.key for run in begun), reserved[0]]
    kinds: dict[str, dict[str, Any]] = {
        "count": {
            "key": "none" if counted is None else counted.key,
            "of": "answers",
            "count": 1 if counted is None else counted.counts.get("answers", 0) + chance.choice((0, 1, 3)),
        },
        "spend": {**charge, "why": "because", **({"corrects": chance.choice(keys)} if chance.random() < 0.3 else {})},
        "reserve": {**charge, "expires": time_after(utc_now(), days=3)},
        "start": {"key": chance.choice(reserved)},
        "commit": {"key": chance.choice(reserved), "why": "it ended"},
        "void": {"key": chance.choice(reserved), "why": "it never started"},
        "amend": {
            "epsilon": 2.0,
            "caps": {"epsilon": "2", "delta": "0"},
            "why": "wider",
            "approver": "the board",
            **({"unseen": True} if chance.random() < 0.5 else {}),
        },
        "retire": {**windowed(ledger, chance), "why": "deleted"},
        "upgrade": {"schema": "a" * 64, "version": 2},
        "quota": {"of": "team", "name": "ads", "members": ["ada", "sam"], "share": "0.9", "alert_at": "0.8", "why": "a fair share"},
        "rate": {"per_day": chance.choice((1000, 10**6)), "why": "a quiet dataset"},
        "acknowledge": {"finding": "entry 2: a finding", "why": "known"},
    }
    usual = ("spend", "spend", "spend", "reserve", "reserve", "start", "commit", "count", "void", "amend", "retire", "quota")
    kind = chance.choice((*usual, "rate", "acknowledge"))
    if ledger.state().open_terms().two_person:
        return right_of_two(ledger, chance, kind, kinds)
    return {"kind": kind, **kinds[kind], "dpcli": "0"}


def windowed(ledger: Ledger, chance: random.Random) -> dict[str, Any]:
    """Blocks of the dataset, where it has any: few enough that some are retired late."""
    family = ledger.state().open_terms().family
    blocks = [] if family is None else sorted(chance.sample(FAMILIES[family.by][1], chance.choice((1, 1, 2))))
    return {"window": blocks} if blocks else {}


def opened(url: str, by: str, two: bool | None = None) -> Ledger:
    """A ledger of a dataset that is cut that way, or not at all; two: of two persons."""
    init(url, DATASET, replace(of_blocks(by) if by else terms(), two_person=two)).store.close()
    return open_ledger(url, DATASET)


def goes_on(ledger: Ledger, by: str) -> None:
    """A right request is still granted, on blocks that nobody retired; and denied, not misunderstood, on one that somebody did."""
    ledger.amend(10.0, "room for one more", "the board", acknowledged=True)
    free = [block for block in FAMILIES[by][1] if block not in ledger.state().retired] if by else [""]
    for block in free[:1]:
        assert not ledger.reserve(run(0.001), "the next", window=[block] if block else ()).repeated
    for block in sorted(ledger.state().retired)[:1]:
        with pytest.raises(Denied):
            ledger.reserve(run(0.001), "the last", window=[block])


def right_of_two(ledger: Ledger, chance: random.Random, kind: str, kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = [each for each in ledger.state().proposals.values() if chance.random() < 0.5]
    if found and chance.random() < 0.3:
        return {"kind": "refuse", "proposal": found[0].seq, "why": "no", "dpcli": "0"}
    if found:
        approver = {"approver": chance.choice(("sam", "ada"))} if found[0].asks["kind"] == "amend" else {}
        return {**found[0].asks, **approver, "proposal": found[0].seq, "approval": "fine", "dpcli": "0"}
    if kind not in ("void", "amend", "quota"):
        return {"kind": kind, **kinds[kind], "dpcli": "0"}
    asks = {"kind": kind, **{name: value for name, value in kinds[kind].items() if name not in ("approver", "unseen")}}
    return {"kind": "propose", "asks": asks, "expires": time_after(utc_now(), days=3), "dpcli": "0"}


def chained(ledger: Ledger, content: dict[str, Any], who: str, dataset: str = DATASET) -> dict[str, Any]:
    head = ledger.state().head
    return {**content, "who": who, "when": utc_now(), "ledger": 1, "dataset": dataset, "seq": head.seq + 1, "previous": head.hash}


def everybody_reads(url: str, dataset: str, number: int) -> None:
    """Every reader, in every machine form; verify may find the spending understated, but reads."""
    for command, *formats in (
        ("show", "text", "json", "markdown", "csv", "total"),
        ("log", "text", "json"),
        ("export", "json", "csv"),
    ):
        for form in formats[number % len(formats) :][:1]:
            done = dpcli("budget", command, url, "--dataset", dataset, "-f", form)
            assert done.code == 0, (command, done)
    assert dpcli("lint", "--ledger", url, "--dataset", dataset).code in (0, 1)
    verified = dpcli("budget", "verify", url, "--dataset", dataset)
    assert verified.code in (0, 1), verified
    assert ledger_conditions([(run(0.01), 1)], url, dataset)[0].verdict in ("pass", "fail", "invalid")


CUT = ("", *FAMILIES)


def candidates(ledger: Ledger, who: str, count: int, seed: int) -> Iterator[tuple[int, dict[str, Any]]]:
    chance = random.Random(seed)
    for number in range(count):
        yield number, mutated(chained(ledger, right(ledger, chance, number), who), chance)


@pytest.mark.nightly
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(
    ("by", "two"),
    [
        *(pytest.param(by, None, marks=pytest.mark.long if by == "region" else pytest.mark.nightly) for by in CUT),
        pytest.param("", True, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("seed", range(1))
def test_what_the_database_lets_in_everybody_reads(database: Database, seed: int, by: str, two: bool | None) -> None:
    """Called by hand, it accepts exactly what keeps the grammar, from spenders and administrators."""
    import psycopg

    reader = opened(database.url, by, two)
    sam, ada = database.cluster.login("sam", "dpcli_spender"), database.cluster.login("ada", "dpcli_admin")
    eve = database.cluster.login("eve", "dpcli_admin")
    written = 0
    for turn, who in enumerate((sam, ada) if two is None else (sam, ada, eve, ada, eve)):
        with database.cluster.connect(database.name, who) as connection:
            for _, content in candidates(reader, who, 200 if two is None else 80, 7 * seed + turn):
                try:
                    text = canonical(content)
                    connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (DATASET, content.get("seq"), text, digest(text)))
                except (psycopg.Error, ValueError):
                    continue
                written += 1
                assert wrong_entry(content) is None, content
                if written % 16 == 0:
                    everybody_reads(database.url, DATASET, written)
                else:
                    reader.state()
    everybody_reads(database.url, DATASET, 0)
    assert written > 30
    if two:
        assert {"propose", "refuse"} <= {entry.kind for entry in reader.entries()}
        assert any("proposal" in entry.content and entry.kind != "refuse" for entry in reader.entries())
        return
    goes_on(reader, by)


@pytest.mark.sampled(0, 2)
@pytest.mark.long
@pytest.mark.parametrize("by", CUT)
@pytest.mark.parametrize("seed", range(1))
def test_what_dpcli_lets_in_everybody_reads(tmp_path: Any, seed: int, by: str) -> None:
    """On a file, where dpcli checks each row before it is written."""
    url = str(tmp_path / "ledger.db")
    ledger = opened(url, by)
    written = 0
    for _, content in candidates(ledger, ledger.who, 300, seed):
        state = ledger.state()
        try:
            with ledger.store.writing(DATASET) as tail:
                entry = seal(content, DATASET, state.head)
                rehearsed(state, entry)
                tail.append(entry.row)
        except (LedgerError, InputError, ValueError):
            continue
        written += 1
        if written % 16 == 0:
            everybody_reads(url, DATASET, written)
    everybody_reads(url, DATASET, 0)
    assert written > 30
    goes_on(ledger, by)


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Any]:
    """A connection to a ledger's functions, as its owner."""
    name = cluster.database()
    init(cluster.url(name), DATASET, terms()).store.close()
    with cluster.connect(name) as connection:
        yield connection
    cluster.drop(name)


def by_database(connection: Any, kind: str, texts: list[str]) -> list[bool]:
    """Which of these values the database takes for a `kind`: what makes it raise is none, and is looked for by halves."""
    import psycopg

    asked = "SELECT dpcli.is_a(%s, each.value::jsonb) FROM unnest(%s::text[]) WITH ORDINALITY AS each (value, at) ORDER BY each.at"
    try:
        return [found for (found,) in connection.execute(asked, (kind, texts)).fetchall()]
    except psycopg.Error:
        half = len(texts) // 2
        return [*by_database(connection, kind, texts[:half]), *by_database(connection, kind, texts[half:])] if half else [False]


@pytest.mark.long
def test_python_and_the_database_know_the_same_types(installed: Any) -> None:
    """For each type, both accept the same texts, of those that the database can hold."""
    texts = tried()

    def agree(kind: str) -> None:
        found = dict(zip(texts, by_database(installed, kind, list(texts)), strict=True))
        assert {text: taken for text, taken in found.items() if taken != TYPES[kind](texts[text])} == {}
        assert any(found.values())

    every(TYPES, agree)


def tried() -> dict[str, Any]:
    """Values of every type, right, changed and hostile, by their JSON."""
    chance = random.Random(5)
    seeds = [TABLES, terms().content() | {"schema": "a" * 64}, {"epsilon": "0.01"}, [{"pipeline": TABLES, "runs": 2}]]
    seeds += [{"epsilon": 1.0, "accountant": "exact"}, {"order": 6.1}]
    seeds += [{"kind": "amend", "epsilon": 2.0, "caps": {"epsilon": "2"}, "why": "wider"}, {"kind": "void", "key": "a", "why": "b"}]
    shared = {
        "kind": "quota",
        "of": "team",
        "name": "ads",
        "members": ["ana", "ben"],
        "share": "0.25",
        "alert_at": "0.8",
        "why": "x",
    }
    seeds += [shared, "person", "team", "0", "1", "0.25", "0.123456", "0.1234567", "1.5", "00.5", "1E-1"]
    seeds += ["week", DAYS, {**DAYS, "by": "region", "names": ["eu", "us"]}, ["2026-01-01", "2026-01-02"], ["b", "a"], ["a", "a"]]
    found = [*STRINGS, *NUMBERS, *OTHERS, DEEP, *seeds, *(mutated({"x": seed}, chance).get("x") for seed in seeds * 60)]
    found += [repr(chance.random() * 10.0 ** -chance.randrange(320)) for _ in range(100)]
    return {text: value for value in found if "\\u0000" not in (text := json.dumps(value))}  # the database has no such text


def test_every_kind_and_type_is_in_the_table() -> None:
    used = {kind.rstrip("?") for names in ENTRIES.values() for kind in names.values()}
    assert used <= set(TYPES) == set(WORDS)
    assert set(ENTRIES) == {
        "open",
        *("spend", "reserve", "start", "commit", "void", "amend", "retire", "upgrade", "moved", "copied"),
        *("propose", "refuse", "quota", "count", "rate", "acknowledge"),
    }
    assert not any("\\" in pattern for pattern in PATTERNS.values())


DAYS = {"by": "day", "column": "event_date", "max_blocks": 3}
OPENINGS: tuple[dict[str, Any], ...] = (
    {"terms": {**terms().content(), "blocks": DAYS}, "caps": {"epsilon": "0.3", "delta": "0"}},
    {
        "terms": {**terms().content(), "filter": "gdp", "delta": 1e-6, "blocks": {**DAYS, "by": "region", "names": ["eu", "us"]}},
        "caps": {"mu_squared": "0.5"},
    },
    {
        "terms": {
            **terms().content(),
            "filter": "rdp",
            "parameters": {"order": 6.1},
            "delta": 1e-6,
            "blocks": {"by": "hash", "column": "user", "max_blocks": 1, "count": 16},
        },
        "caps": {"rdp": "0.5"},
    },
    {"terms": terms().content(), "caps": {"epsilon": "1", "delta": "0"}},
    {"terms": {**terms().content(), "two_person": True}, "caps": {"epsilon": "1", "delta": "0"}},
    {"terms": {**terms().content(), "filter": "rdp", "parameters": {"order": 6.1}, "delta": 1e-6}, "caps": {"rdp": "0.5"}},
    {"terms": {**terms().content(), "filter": "gdp", "delta": 1e-6, "dataset_size": 1000}, "caps": {"mu_squared": "0.5"}},
    {
        "terms": {**terms().content(), "filter": "advanced", "parameters": {"slack": 1e-7}, "delta": 1e-6},
        "caps": {"half_squares": "0.5", "delta": "9E-7"},
    },
    {
        "terms": {
            "unit": "example",
            "adjacency": "add-remove",
            "epsilon": 1.0,
            "delta": 1e-6,
            "mode": "declared",
            "declared": [{"pipeline": TABLES, "runs": 2}],
            "certified": {"epsilon": 0.02, "accountant": "exact"},
        },
        "caps": {"run 1": "2"},
    },
)


@pytest.mark.nightly
@pytest.mark.long
def test_every_opening_that_is_let_in_can_be_read(database: Database) -> None:
    """An administrator writes openings by hand, in every mode and with every filter."""
    import psycopg

    schema = digest(init(database.url, DATASET, terms()).store.schema())
    ada, chance = database.cluster.login("ada", "dpcli_admin"), random.Random(1)
    opened = refused = 0
    with database.cluster.connect(database.name, ada) as connection:
        for number, opening in enumerate(itertools.chain(OPENINGS, (chance.choice(OPENINGS) for _ in range(150)))):
            name = f"dataset {number}" + chance.choice(("", "", "\u0378", "\u1680x", "\u2800", "\U0001fae8", '"%s{}', "\ufdd0"))
            content = {"kind": "open", "dpcli": "0", **opening, "who": ada, "when": utc_now(), "ledger": 1}
            content = {**content, "dataset": name, "seq": 1, "previous": GENESIS}
            content["terms"] = {**content["terms"], "schema": schema, "version": 2}
            content = content if number < len(OPENINGS) else mutated(content, chance)
            try:
                text = canonical(content)
                connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (name, 1, text, digest(text)))
            except (psycopg.Error, ValueError):
                assert number >= len(OPENINGS), content
                refused += 1
                continue
            opened += 1
            assert wrong_entry(content) is None, content
            shown = dpcli("budget", "show", database.url, "--dataset", name)
            assert shown.code == 0, (content, shown)
            for command in ("log", "export"):
                assert dpcli("budget", command, database.url, "--dataset", name).code == 0
            assert dpcli("budget", "verify", database.url, "--dataset", name).code in (0, 1)
            assert ledger_conditions([(run(0.01), 1)], database.url, name)[0].verdict in ("pass", "fail", "unknown", "invalid")
    assert opened > 10 < refused


def test_a_state_reads_no_less_than_the_grammar() -> None:
    """An opening that keeps the grammar can be read, also where no database checked it."""
    chance, read = random.Random(2), 0
    for _ in range(3000):
        opening = mutated({"kind": "open", "dpcli": "0", **chance.choice(OPENINGS), "who": "ana", "when": utc_now()}, chance)
        opening["terms"] = {**opening["terms"], "schema": "a" * 64} if isinstance(opening.get("terms"), dict) else None
        entry = None
        try:
            entry = seal(opening, "visits", LedgerState("visits").head)
        except ValueError:
            continue
        if wrong_entry(entry.content) is None:
            LedgerState("visits").apply(entry)
            read += 1
    assert read > 300


ACTS = "\x1b[31mred\x1b]8;;http://example.org\x07\u202e\u200b\x9b"  # on a terminal
# What a spender may write into a pipeline by hand: the grammar leaves its inside to whoever prices it.
PIPELINES: dict[str, dict[str, Any]] = {
    "wrong in many places": {"mechanism": [{"name": "x", "kind": 1}] * 100},
    "wrong in many places of privacy": {"privacy": {**TABLES["privacy"], **{f"key {i}": i for i in range(100)}}},
    "names that a terminal acts on": {"mechanism": [{**TABLES["mechanism"][0], "name": ACTS}]},
    "keys that a terminal acts on": {"mechanism": [{**TABLES["mechanism"][0], ACTS: 1}]},
    "sizes that a terminal acts on": {"privacy": {**TABLES["privacy"], "dataset_size": ACTS}},
    "a type that a terminal acts on": {"mechanism": [{"name": "x", "type": ACTS}]},
    "long names": {"mechanism": [{**TABLES["mechanism"][0], "name": "x" * 3000}] * 20},
    "names that are none": {"mechanism": [{"name": [[ACTS]]}, {"name": {ACTS: 1}}, {"name": HUGE // 10}, {}]},
    "large numbers": {"mechanism": [{"name": "x", "type": "gaussian", "noise_multiplier": 1e-300, "steps": 10**18}]},
}


@pytest.mark.sampled(0, 1)
@pytest.mark.long
def test_whatever_a_pipeline_holds_everybody_reads(place: Any) -> None:
    """No content of a pipeline stops a reader, fills a screen or sends control characters to a terminal."""
    ledger = init(place.url, DATASET, terms())
    for number, (why, inside) in enumerate(PIPELINES.items()):
        tables = {**TABLES, **inside}
        charged = {
            "key": f"key {number}",
            "delta": "0.0",
            "cost": {"epsilon": "1E-9", "delta": "0"},
            "detail": "stated",
            "why": why,
        }
        content = {"kind": "spend", **charged, "pipeline": tables, "who": ledger.who, "when": ledger.now(), "dpcli": "0"}
        with ledger.store.writing(DATASET) as tail:
            entry = seal(content, DATASET, ledger.state().head)
            rehearsed(ledger.state(), entry)
            tail.append(entry.row)
    for command in (("show",), ("show", "-f", "table"), ("log", "-f", "text"), ("verify",), ("verify", "-f", "table")):
        done = dpcli("budget", command[0], place.url, *command[1:])
        assert done.code in (0, 1), (command, done.err)
        assert printed(done.out + done.err) and len(done.out) < 100_000, command
    for command, form in itertools.product(("show", "log", "export", "verify"), ("json", "jsonl", "csv", "markdown")):
        done = dpcli("budget", command, place.url, "-f", form)
        assert done.code in (0, 1) and printed(done.out.replace("\r\n", "\n")), (command, form)
        if form == "json":
            assert json.loads(done.out)["dataset"] == DATASET
    linted = dpcli("lint", "--ledger", place.url)
    assert linted.code in (0, 1) and printed(linted.out + linted.err)
    problems = verify(ledger).problems
    assert len(problems) == len(PIPELINES) and all(
        "cannot be computed" in text or "this version finds" in text for text in problems
    )


def printed(text: str) -> bool:
    return all(c == "\n" or c.isprintable() for c in text)


def test_an_error_reaches_a_terminal_without_what_that_acts_on(tmp_path: Any) -> None:
    """Messages quote files that anybody may have written, so control characters are escaped."""
    url = str(tmp_path / "ledger.db")
    ledger = init(url, DATASET, terms())
    entry = seal({"kind": ACTS, "who": "x", "when": utc_now(), "dpcli": "0"}, DATASET, ledger.state().head)
    with ledger.store.writing(DATASET) as tail:
        tail.append(entry.row)
    done = dpcli("budget", "show", url)
    assert done.code == 4 and "is unknown to this version" in done.err and printed(done.err)
