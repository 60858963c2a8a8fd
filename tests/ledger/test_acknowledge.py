"""Tests of `dpcli budget acknowledge`, by which an administrator answers a finding of `verify`, in a file and in a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import canonical
from dpcli.ledger.grammar import LONGEST_ENTRY
from dpcli.ledger.stores.places import init, open_ledger, upgrade
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.cases import VECTORS
from tests.ledger.conftest import ON_BOTH, Database, Place
from tests.ledger.entries.versions import restore
from tests.ledger.filters.setting import DATASET, TABLES, charge, terms
from tests.ledger.postgres.people import by, by_hand, signed


def acknowledge(place: Place, finding: str, *, why: str = "the board knows") -> tuple[int, str]:
    done = dpcli("budget", "acknowledge", place.url, finding, "--reason", why)
    return done.code, done.out + done.err


@pytest.mark.long
@ON_BOTH
def test_a_finding_is_answered_word_for_word_and_stays_in_sight(place: Place) -> None:
    with init(place.url, DATASET, terms()) as ledger:
        charge(ledger, "cheap", "0.001")  # the run costs 0.01
        charge(ledger, "right", "0.01")
        charge(ledger, "cheaper", "0.0001")
        spent = ledger.state().spent
        first, second = verify(ledger).problems
    assert dpcli("budget", "verify", place.url).code == 1
    for other in (first[:-1], first.upper(), first.replace("0.001", "0.0010"), f"{first} and more", second[: len(first)], ""):
        code, words = acknowledge(place, other)
        assert code == 2 and "word for word" in words and "open findings: 2" in words, other
    assert acknowledge(place, first, why=" ")[0] == 2
    code, words = acknowledge(place, first)
    assert code == 0 and "acknowledged, entry 5" in words
    code, words = acknowledge(place, first)
    assert code == 2 and "that entry 5 acknowledges" in words
    one = dpcli("budget", "verify", place.url, "-f", "json")
    assert one.code == 1
    assert (json.loads(one.out)["problems"], json.loads(one.out)["acknowledged"]) == ([second], [{"finding": first, "entry": 5}])
    assert acknowledge(place, second)[0] == 0
    done = dpcli("budget", "verify", place.url)
    assert done.code == 0 and "2 problems answered" in done.out and first in done.out and second in done.out
    log = dpcli("budget", "log", place.url, "-f", "json").out
    assert "the board knows" in log and log.count('"acknowledge"') == 2
    with open_ledger(place.url, DATASET) as ledger:
        assert ledger.state().spent == spent
        charge(ledger, "cheapest", "0.00001")  # a new finding is open
    assert dpcli("budget", "verify", place.url).code == 1


def test_only_an_administrator_answers_and_only_after_an_upgrade(database: Database) -> None:
    restore(database, (VECTORS / "postgres-7.sql").read_bytes())
    with (
        by(database, "ada", dataset="visits") as ada,
        pytest.raises(LedgerError, match="version 7, which knows no acknowledgement"),
    ):
        ada.acknowledge("a finding", "known")
    upgrade(database.url)
    sam = by(database, "sam", "dpcli_spender", dataset="visits")
    with pytest.raises(LedgerError, match="acknowledge needs the role dpcli_admin, which sam has not"):
        sam.acknowledge("a finding", "known")
    with by(database, "ada", dataset="visits") as ada:
        ada.acknowledge("a finding that is none", "it changes nothing")
        assert (verify(ada).problems, verify(ada).acknowledged) == ((), ())


@pytest.mark.long
def test_no_finding_is_too_long_to_be_answered(database: Database) -> None:
    """A finding repeats texts of an entry, which a spender may make as long as an entry can be."""
    init(database.url, DATASET, terms()).close()
    sam = by(database, "sam", "dpcli_spender")
    false = {"privacy": TABLES["privacy"], "mechanism": [{"name": "counts", "type": "unknown"}]}
    cost = {"epsilon": "0", "delta": "0"}
    content = {"kind": "spend", "key": "sam//k", "pipeline": false, "delta": "0.0", "cost": cost}
    entry = {**signed(sam, content, "sam"), "dpcli": ""}
    entry["dpcli"] = "\u00e9" * ((LONGEST_ENTRY - len(canonical(entry))) // len("\\u00e9"))
    by_hand(database, "sam", canonical(entry))
    with by(database, "ada") as ada:
        (finding,) = verify(ada).problems
        assert acknowledge(database, finding)[0] == 0
        assert verify(ada).problems == ()


def test_an_answer_before_the_finding_is_none(tmp_path: Path) -> None:
    """An acknowledgement that was written before the charge, by hand, has no effect."""
    with init(str(tmp_path / "ledger.db"), DATASET, terms()) as ledger:
        charge(ledger, "cheap", "0.001")
        (finding,) = verify(ledger).problems
        ledger.acknowledge(finding.replace("entry 2", "entry 4"), "in advance")
        charge(ledger, "cheap again", "0.001")
        later = verify(ledger).problems[1]
        ledger.acknowledge(later.replace("entry 4", "entry 6").replace("cheap again", "third"), "in advance")
        charge(ledger, "third", "0.001")
        third = verify(ledger).problems[2]
        assert third == ledger.entries()[4].content["finding"] and verify(ledger).acknowledged == ()
        ledger.acknowledge(third, "now")
        assert verify(ledger).acknowledged == ((third, 7),)
