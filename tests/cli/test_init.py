"""The files that people start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import of_each
from tests.command import ROOT, dpcli

TEMPLATES = sorted(path.stem for path in (ROOT / "dpcli" / "templates").glob("*.toml"))


@pytest.mark.long
@of_each("name", TEMPLATES)
def test_a_template_is_offered_and_breaks_no_rule(name: str, tmp_path: Path) -> None:
    """It is priced, within its budget, and lint has nothing to say."""
    assert dpcli("init", name, "-o", "mine.toml", folder=tmp_path).code == 0
    linted = dpcli("lint", "mine.toml", folder=tmp_path)
    assert (linted.code, linted.out.startswith("0 errors, 0 warnings")) == (0, True), linted.out
    priced = dpcli("account", "mine.toml", folder=tmp_path)
    assert priced.code == 0 and "epsilon <= " in priced.out


def test_every_template_that_is_offered_is_there() -> None:
    told = dpcli("init", "--help").out
    assert all(name in told for name in TEMPLATES)
    assert dpcli("init", "nothing").code == 2
