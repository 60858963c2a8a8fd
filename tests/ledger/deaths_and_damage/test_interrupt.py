"""Tests of Ctrl-C during a charge: the message says whether the charge was written, as far as dpcli can know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.stores.postgres import PostgresStore
from dpcli.ledger.stores.sqlite import SqliteStore
from dpcli.ledger.stores.store import UNSURE, Tail
from tests.command import dpcli
from tests.ledger.conftest import Place
from tests.ledger.filters.setting import DATASET, run_file, terms

MOMENTS = {"waiting": "nothing was written", "writing": UNSURE, "committed": UNSURE}


@pytest.mark.sampled
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_charge_says_what_it_leaves(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    init(place.url, DATASET, terms()).store.close()
    file = tmp_path / "run.toml"
    file.write_text(run_file())
    asked = ("budget", "spend", place.url, str(file), "--dataset", DATASET, "--key", "a")
    with monkeypatch.context() as patch:
        for store in (SqliteStore, PostgresStore):
            patch.setattr(store, "writing", interrupted(store.writing, moment))
        done = dpcli(*asked)
    assert (done.code, done.out) == (130, "")
    assert f"dpcli: interrupted: {MOMENTS[moment]}" in done.err
    ledger = open_ledger(place.url, DATASET)
    assert (ledger.own_key("a") in ledger.state().runs) == (moment == "committed")
    assert dpcli(*asked).code == 0
    assert len(open_ledger(place.url, DATASET).entries()) == 2  # once


def interrupted(real: object, moment: str) -> object:
    """`writing`, with Ctrl-C at one moment."""

    @contextmanager
    def writing(self: object, dataset: str) -> Iterator[Tail]:
        if moment == "waiting":
            raise KeyboardInterrupt
        with real(self, dataset) as tail:  # type: ignore[operator]
            yield tail
            if moment == "writing":
                raise KeyboardInterrupt
        raise KeyboardInterrupt

    return writing
