"""Tests with random histories (machine.py): a ledger in a file or database, with any kind of blocks, answers as a dictionary does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.ledger import checkpoint
from dpcli.ledger.checkpoint import agrees_with
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.stores.places import init, open_store
from dpcli.ledger.stores.store import Store
from tests.ledger.conftest import Database, made
from tests.ledger.filters.families import FAMILIES, family
from tests.ledger.filters.folding import NOW, folded
from tests.ledger.filters.setting import DATASET, terms
from tests.ledger.machine import FRESH, PEOPLE, STEPS, Model, Step, play
from tests.ledger.postgres.cluster import Cluster
from tests.ledger.postgres.people import EVERY, by

KINDS = st.sampled_from([None, *sorted(BLOCKS)])


def opened(url: str, name: str, kind: str | None) -> Model:
    """Open a dataset that is cut into blocks of a kind, or into none."""
    init(url, name, replace(terms(), schema="", blocks=family(kind) if kind else None)).close()
    return Model(FAMILIES[kind][1][:3] if kind else ())


def readers(stores: Callable[[str], Store], name: str, now: Callable[[], str] | None) -> Callable[[str, str], Ledger]:
    """Return a function that gives each person's ledger as a reader has it."""
    kept: dict[tuple[str, str], Ledger] = {}

    def open_as(who: str, reader: str) -> Ledger:
        if (who, reader) not in kept or reader == FRESH:
            kept[who, reader] = Ledger(stores(reader), name, who=who, now=now)
        return kept[who, reader]

    return open_as


def played_on_a_file(kind: str | None, quotas: bool, steps: list[Step], path: str) -> None:
    model = opened(path, DATASET, kind)
    with pytest.MonkeyPatch.context() as patched, ExitStack() as stack:
        patched.setattr(checkpoint, "EVERY", 3)

        def store(reader: str) -> Store:
            made_now = open_store(path)
            stack.callback(made_now.close)
            return made_now

        play(readers(store, DATASET, lambda: NOW), model, steps, quotas)


@given(kind=KINDS, quotas=st.booleans(), steps=STEPS)
def test_a_file_does_what_a_dictionary_does(
    kind: str | None, quotas: bool, steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    played_on_a_file(kind, quotas, steps, str(tmp_path_factory.mktemp("machine") / "ledger.db"))


@pytest.mark.nightly
@settings(max_examples=60)
@given(kind=KINDS, quotas=st.booleans(), steps=STEPS)
def test_more_histories_of_a_file(
    kind: str | None, quotas: bool, steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    played_on_a_file(kind, quotas, steps, str(tmp_path_factory.mktemp("machine") / "ledger.db"))


@pytest.fixture(scope="module")
def many(cluster: Cluster) -> Iterator[tuple[Database, dict[str, Ledger]]]:
    """A server that notes its totals at every third entry, and a connection of each person."""
    with made(cluster) as database, ExitStack() as stack:
        init(database.url, DATASET, terms()).close()
        database.by_hand(EVERY)
        yield database, {who: stack.enter_context(by(database, who)) for who in PEOPLE}


@pytest.mark.nightly
@given(kind=KINDS, quotas=st.booleans(), steps=STEPS)
def test_the_server_does_what_a_dictionary_does(
    kind: str | None, quotas: bool, steps: list[Step], many: tuple[Database, dict[str, Ledger]]
) -> None:
    database, people = many
    name = f"data {uuid.uuid4().hex}"
    model = opened(database.url, name, kind)
    kept: dict[tuple[str, str], Ledger] = {}

    def open_as(who: str, reader: str) -> Ledger:
        if (who, reader) not in kept or reader == FRESH:
            kept[who, reader] = Ledger(people[who].store, name)
        return kept[who, reader]

    play(open_as, model, steps[:16], quotas, own_clock=True)
    truth = folded(open_as(PEOPLE[0], FRESH))
    with database.cluster.connect(database.name) as connection:
        (body,) = connection.execute("SELECT dpcli.standing(%s)", (name,)).fetchone()
        assert agrees_with(body, truth), body
        for window in (model.blocks[:1], model.blocks[1:3], model.blocks) if kind else ():
            (part,) = connection.execute("SELECT dpcli.standing(%s, %s)", (name, json.dumps(window))).fetchone()
            assert {**part, **{sums: body[sums] for sums in ("spent", "reserved", "retired", "people") if sums in body}} == body
            for sums in ("spent", "reserved"):  # of these blocks, and of no others
                assert part[sums] == {each: said for each, said in body[sums].items() if each.partition("@")[2] in window}
            assert part["retired"] == [block for block in body["retired"] if block in window]
