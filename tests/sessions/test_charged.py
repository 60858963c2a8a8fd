"""A run that is charged once, whatever interrupts it, and known to its folder before the ledger knows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.errors import LedgerError
from dpcli.sessions.charged import require_charged
from tests.ledger.setting import DATASET, terms


@pytest.mark.parametrize(("moves", "granted"), [((), False), (("start",), True), (("start", "commit"), True), (("void",), False)])
def test_the_ledger_must_hold_the_run_as_started(moves: tuple[str, ...], granted: bool, tmp_path: Path) -> None:
    from dpcli.ledger.stores.places import init
    from tests.ledger.setting import run

    ledger = init(str(tmp_path / "ledger.db"), DATASET, terms())
    ledger.reserve(run(), "run")
    for move in moves:
        getattr(ledger, move)("run", why="because")
    if granted:
        require_charged(ledger, "run")
    else:
        with pytest.raises(LedgerError, match="nothing is answered"):
            require_charged(ledger, "run")
    with pytest.raises(LedgerError, match="no entry has"):
        require_charged(ledger, "another")
    ledger.close()
