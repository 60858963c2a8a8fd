"""A change that mends a file whose earlier version has no epsilon is judged as a new file, and is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate.repositories import committed, git
from tests.gate.samples import GATE, conditions

BROKEN = {
    "no TOML": "format = 1\nname = ",
    "an unknown key": GATE.replace("noise_multiplier", "noise_multiplyer"),
    "no mechanism": GATE.partition("[[mechanism]]")[0],
    "no cap": GATE.replace("[budget]\nepsilon = 3.0\nwarn_at = 0.9\n", ""),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_mended_file_passes_with_a_warning(tmp_path: Path, broken: str) -> None:
    assert BROKEN[broken] != GATE
    repository = committed(tmp_path / "r", f=BROKEN[broken])
    (repository / "f.toml").write_text(GATE)
    (told,) = [one for one in conditions(repository / "f.toml", "--base-ref", "main") if one["name"] == "increase"]
    assert told["verdict"] == "warn"
    assert told["message"].startswith(("the version at the base has no epsilon to compare with (", "new file"))
    assert "max_increase = 0.25 was not applied" in told["message"]


def test_a_change_that_breaks_a_file_is_refused_all_the_same(tmp_path: Path) -> None:
    """So no second change finds a base without an epsilon that the gate let through."""
    repository = committed(tmp_path / "r", f=GATE)
    for text in BROKEN.values():
        (repository / "f.toml").write_text(text)
        assert {one["verdict"] for one in conditions(repository / "f.toml", "--base-ref", "main")} & {"invalid", "fail"}
    assert git(repository, "status", "--porcelain")
