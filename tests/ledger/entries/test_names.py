"""Tests of several datasets in one ledger: they do not disturb each other, and a run is charged to its own dataset only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.conftest import Database, File
from tests.ledger.filters.setting import charge, terms
from tests.ledger.pipelines import pipeline

HEAD = 'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\n'
QUERY = '[[mechanism]]\nname = "q"\ntype = "pure-dp"\nepsilon = 0.01\n'


def test_damage_in_one_dataset_is_not_another_s(place: File | Database) -> None:
    """The other dataset can be read, verified and charged, and a third one with a fingerprint can be opened."""
    for name in ("whole", "broken"):
        charge(init(place.url, name, terms()), "run")
    damage = "UPDATE entry SET body = replace(body, 'run', 'nur') WHERE dataset = 'broken' AND seq = 2"
    place.by_force_and_guarded(damage)  # guards keep the number of the last entry, without which nothing can be read back
    with pytest.raises(LedgerError):
        open_ledger(place.url, "broken").state()
    assert len(open_ledger(place.url, "whole").entries()) == 2
    charge(open_ledger(place.url, "whole"), "goes on")
    init(place.url, "third", replace(terms(), fingerprint="f" * 64)).store.close()


def test_the_end_of_another_chain_does_not_fail_verify(database: Database) -> None:
    for name in ("whole", "broken"):
        charge(init(database.url, name, terms()), "run")
    database.cluster.run(
        "BEGIN; ALTER TABLE dpcli.entry DISABLE TRIGGER never; DELETE FROM dpcli.entry WHERE dataset = 'broken' AND seq = 2; "
        "ALTER TABLE dpcli.entry ENABLE ALWAYS TRIGGER never; COMMIT",
        database=database.name,
    )
    assert verify(open_ledger(database.url, "whole")).problems == ()
    with pytest.raises(LedgerError, match="its entries end at 1"):
        verify(open_ledger(database.url, "broken"))


REQUESTS: dict[str, Callable[[Ledger, Pipeline], object]] = {
    "spend": lambda ledger, run: ledger.spend(run, "a"),
    "reserve": lambda ledger, run: ledger.reserve(run, "b"),
    "cost": lambda ledger, run: ledger.cost(run),
}


def test_a_file_of_one_dataset_is_charged_to_no_other(tmp_path: Path) -> None:
    """For every request and for names that look alike. A file that names no dataset may be charged to any."""
    url = str(tmp_path / "budget.db")
    with init(url, "ads", terms()) as ledger:
        for request in REQUESTS.values():
            for other in ("clicks", "ADS", "\u0430ds"):
                with pytest.raises(
                    InputError, match=r'privacy\.dataset: expected "ads", the dataset of this ledger, or none, found'
                ):
                    request(ledger, named(other))
        assert len(ledger.entries()) == 1
        for request in REQUESTS.values():
            request(ledger, pipeline(QUERY, f'{HEAD}dataset = "ads"\n'))
        ledger.spend(pipeline(QUERY, HEAD), "c")
    (tmp_path / "other.toml").write_text(f'{HEAD}delta = 1e-6\ndataset = "clicks"\n{QUERY}')
    judged = dpcli("gate", "other.toml", "--max-epsilon", "9", "--ledger", url, folder=tmp_path)
    assert judged.code == 2 and 'expected "ads", the dataset of this ledger' in judged.err


def named(dataset: str) -> Pipeline:
    found = pipeline(QUERY, HEAD)
    return replace(found, privacy=replace(found.privacy, dataset=dataset))
