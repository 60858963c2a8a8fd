"""Tests of a connection that is lost at any moment: the message about the charge is true, and a repeated request charges once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import DpcliError
from dpcli.ledger.grammar import rules
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores import postgres
from dpcli.ledger.stores.places import init, open_dataset, open_ledger, open_store, upgrade
from dpcli.ledger.stores.postgres_install import VERSION
from dpcli.ledger.stores.store import NOTHING, STANDS, UNSURE
from tests.cases import of_each
from tests.ledger.conftest import Database
from tests.ledger.filters.setting import charge, terms
from tests.ledger.postgres.proxy import DOWN, UP, Proxy

AROUND = 14  # messages at the end, where a request is written and acknowledged


def on(ask: Callable[[Ledger], object]) -> Callable[[str, str], None]:

    def asked(url: str, dataset: str) -> None:
        with open_ledger(url, dataset) as ledger:
            ask(ledger)

    return asked


def opened(url: str, dataset: str, two_person: bool | None = None) -> None:
    init(url, dataset, replace(terms(), blocks=BLOCKS, two_person=two_person)).close()


BLOCKS = {"by": "day", "column": "day", "max_blocks": 1}
DAYS = ["2026-01-01"]
ASKED: dict[str, Callable[[str, str], object]] = {
    "open": lambda url, dataset: opened(url, dataset),
    "spend": on(lambda ledger: charge(ledger, "key", window=DAYS)),
    "reserve": on(lambda ledger: charge(ledger, "key", kind="reserve", window=DAYS)),
    "start": on(lambda ledger: ledger.start("kept")),
    "commit": on(lambda ledger: ledger.commit("kept", "it was started elsewhere")),
    "void": on(lambda ledger: ledger.void("kept", "it never began")),
    "amend": on(lambda ledger: ledger.amend(2.0, "more is needed", "the board", unseen=True)),
    "retire": on(lambda ledger: ledger.retire(DAYS, "deleted")),
    "upgrade": lambda url, dataset: upgrade(url),
    "moved": on(lambda ledger: ledger.leave("/elsewhere.db")),
    "quota": on(lambda ledger: ledger.quota("person", "sam", "0.5", why="a fair share")),
    "rate": on(lambda ledger: ledger.rate(5, "nobody needs more")),
    "acknowledge": on(lambda ledger: ledger.acknowledge("entry 2 costs more", "it was a test")),
    "propose": on(lambda ledger: ledger.amend(2.0, "more is needed")),
    "refuse": on(lambda ledger: ledger.refuse(3, "it is not")),
    "count": on(lambda ledger: ledger.count("kept", "answers", 1, 5)),
}
TWO = ("propose", "refuse")  # of a ledger of two persons
# Written again where it is asked for again: what it comes to is the same.
OFTEN = ("amend", "quota", "rate", "acknowledge", "propose", "count")


@pytest.fixture
def between(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(postgres, "OLDEST_READ", 5)
    proxy = Proxy(tmp_path, database)
    yield proxy
    proxy.listener.close()


class Moments:
    """One request, asked of a new dataset each time, with a cut somewhere."""

    def __init__(self, kind: str, way: str, database: Database, between: Proxy) -> None:
        self.kind, self.way, self.database, self.between, self.count = kind, way, database, between, 0

    def __enter__(self) -> Moments:
        self.store = open_store(self.database.url)
        self.watching = self.database.cluster.connect(self.database.name)
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()
        self.watching.close()

    def prepared(self) -> str:
        """The dataset that is asked for. An upgrade goes through all that there are: it has one, or each moment would cost more."""
        self.count += 1
        name = f"{self.kind} {self.way} {self.count}"
        if self.kind == "upgrade":
            self.database.by_hand(
                "ALTER TABLE format DISABLE TRIGGER ALL; DELETE FROM format; INSERT INTO format VALUES (5);"
                "ALTER TABLE format ENABLE ALWAYS TRIGGER never"
            )
            return "the first"
        if self.kind != "open":
            two = True if self.kind in TWO else None
            ledger = open_dataset(self.store, name, replace(terms(), blocks=BLOCKS, two_person=two))
            charge(ledger, "kept", kind="reserve", window=DAYS)
            if self.kind == "count":
                ledger.start("kept")
            if self.kind == "refuse":
                ledger.amend(2.0, "more is needed")
        return name

    def entries(self, dataset: str) -> int:
        """So many of the kind, once nobody writes any more; of an upgrade, whether the definitions are new."""
        busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpcli' AND state <> 'idle' AND datname = %s"
        query = "SELECT count(*) FROM dpcli.entry WHERE dataset = %s AND kind = %s AND body NOT LIKE %s"
        connection = self.watching
        while connection.execute(busy, (self.database.name,)).fetchone() != (0,):
            time.sleep(0.005)
        if self.kind == "upgrade":
            return int(connection.execute("SELECT max(version) = %s FROM dpcli.format", (VERSION,)).fetchone()[0])
        kept = '%"key":"kept"%' if self.kind == "reserve" else ""
        return int(connection.execute(query, (dataset, self.kind, kept)).fetchone()[0])

    def cut(self, most: int | None, half: bool = False) -> int:
        """Ask with one cut, compare what was said with what is there, and ask again without; how many messages there were."""
        way, name, said = self.way, self.prepared(), ""
        self.between.arm(way, most, half)
        try:
            ASKED[self.kind](self.between.url, name)
        except DpcliError as error:
            said = str(error)
        passed = self.between.messages[way]
        self.between.arm(way, None)
        there, at = self.entries(name), f"{self.kind}, cut {way} after {most}: {said or 'acknowledged'}"
        assert there in (0, 1), at
        assert said or there, at
        assert sum(words in said for words in (NOTHING, STANDS, UNSURE, "cannot connect: ")) in ((1, 2) if said else (0,)), at
        assert not (NOTHING in said and there), at
        assert not ("cannot connect: " in said and there and STANDS not in said), at
        assert not (STANDS in said and not there), at
        if said:
            with (
                suppress(DpcliError) if there and self.kind in ("open", "start", "refuse") else nullcontext()
            ):  # of what is there once only
                ASKED[self.kind](self.database.url, name)
        assert self.entries(name) == 1 or (self.kind in OFTEN and there), at
        return passed


WAYS = [(kind, way) for kind in ("upgrade", *(kind for kind in ASKED if kind != "upgrade")) for way in (UP, DOWN)]


@pytest.fixture
def begun(database: Database) -> Database:
    opened(database.url, "the first")
    return database


def cut_off(kind: str, way: str, database: Database, between: Proxy, early: int, around: int) -> None:
    """A request that is cut off at so many moments before it writes, and at so many where it does and is acknowledged."""
    chance = random.Random(f"{0 if os.environ.get('CI') else random.random()} {kind} {way}")
    with Moments(kind, way, database, between) as moments:
        last = moments.cut(None)
        first = max(last - AROUND, 0)
        for most in (*few(chance, range(first), early), *few(chance, range(first, last + 1), around)):
            moments.cut(most, half=chance.random() < 0.3)


def few(chance: random.Random, moments: range, count: int) -> list[int]:
    return sorted(chance.sample(moments, min(count, len(moments))))


@pytest.mark.long
@of_each("kind, way", [WAYS[2 * at + at % 2] for at in range(len(ASKED))])
def test_what_is_said_of_a_charge_is_true(kind: str, way: str, begun: Database, between: Proxy) -> None:
    cut_off(kind, way, begun, between, 0, 2 if kind == "spend" else 1)


@pytest.mark.nightly
@of_each("kind, way", WAYS)
def test_what_is_said_of_a_charge_is_true_at_every_moment(kind: str, way: str, begun: Database, between: Proxy) -> None:
    cut_off(kind, way, begun, between, 8, AROUND + 1)


def test_every_kind_of_entry_is_asked_for() -> None:
    assert {*ASKED, "copied"} == set(rules()["entries"])  # what is copied is written as a whole, by a command of its own
