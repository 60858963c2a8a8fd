"""Tests of the largest size of an entry, 64 KB of canonical text: a file and the SQL of a database refuse the same entries."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.ledger.chain import canonical
from dpcli.ledger.grammar import LONGEST_COPIED, LONGEST_ENTRY
from dpcli.ledger.stores.copying import move_dataset
from dpcli.ledger.stores.places import init, open_ledger
from tests.ledger.conftest import ON_BOTH, Database, Place
from tests.ledger.filters.setting import DATASET, TABLES, charge, terms
from tests.ledger.postgres.people import by, by_hand, signed, written

# A character that takes 12 bytes in the canonical text.
WIDE = "\N{EARTH GLOBE EUROPE-AFRICA}"


def body_of_size(content: dict[str, Any], size: int) -> str:
    """The canonical text of an entry whose reason fills it up to a size."""
    empty = len(canonical({**content, "detail": "", "why": ""}))
    wide, plain = divmod(size - empty, len(json.dumps(WIDE)) - 2)
    detail = min(wide, 1000)
    text = canonical({**content, "detail": WIDE * detail, "why": WIDE * (wide - detail) + "x" * plain})
    assert len(text) == size
    return text


@ON_BOTH
def test_a_longer_entry_is_refused_with_its_size_and_the_limit(place: Place) -> None:
    with init(place.url, DATASET, terms()) as ledger:
        charge(ledger, "short", why="x" * 20_000)
        with pytest.raises(
            InputError, match=r"at most 65,536 bytes \(64 KB\) in its canonical form, found 120,\d{3}: shorten"
        ) as refusal:
            charge(ledger, "long", why=WIDE * 10_000)
        assert str(refusal.value).endswith("; nothing was written")
    with open_ledger(place.url, DATASET) as ledger:
        assert [entry.key for entry in ledger.entries()] == ["", "short"]


def test_the_database_refuses_one_byte_more(database: Database) -> None:
    """Whatever client calls it. The size is checked before the text is parsed."""
    init(database.url, DATASET, terms()).close()
    sam = by(database, "sam", "dpcli_spender")
    content = {"kind": "spend", "key": "sam's", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.01", "delta": "0"}}
    content = signed(sam, content, "sam")
    with pytest.raises(Exception, match="expected an entry of at most 65536 bytes in its canonical form, found 65537"):
        by_hand(database, "sam", body_of_size(content, LONGEST_ENTRY + 1))
    by_hand(database, "sam", body_of_size(content, LONGEST_ENTRY))
    assert len(by(database, "vera", "dpcli_viewer").entries()[-1].row.body) == LONGEST_ENTRY
    seed = random.randrange(2**32)
    huge = "x" * random.Random(seed).randrange(LONGEST_ENTRY + 1, LONGEST_COPIED)
    with pytest.raises(Exception, match=f"found {len(huge)}"):  # no JSON, and not even looked at
        by_hand(database, "sam", huge, seq=3)


def test_a_longer_entry_of_an_earlier_version_is_read_and_copied(database: Database, tmp_path: Path) -> None:
    old = str(tmp_path / "old.db")
    with init(old, DATASET, terms()) as ledger:
        content = {"kind": "spend", "key": "long", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.01", "delta": "0"}}
        written(ledger, {**content, "why": WIDE * 10_000}, ledger.who)
    move_dataset(old, database.url, DATASET)
    with open_ledger(database.url, DATASET) as ledger:
        assert len(ledger.entries()[1].row.body) > LONGEST_ENTRY
        charge(ledger, "next")
