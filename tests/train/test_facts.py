"""The statement of a run answers the questions of [disclosure] that the run can answer, and keeps the file's own answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.train.plan.plan import plan_of
from dpcli.train.run.training_run import train
from tests.train.entries import MAIN, PER_UNIT, UNITS, USERS
from tests.train.samples import FILE


def statement(folder: Path, text: str) -> str:
    (folder / "tiny.toml").write_text(text)
    (folder / "users.py").write_text(USERS)
    outcome = train(plan_of(str(folder / "tiny.toml")))
    return (Path(outcome.folder) / "statement.md").read_text()


pytestmark = pytest.mark.usefixtures("folder")  # each test has a current folder of its own


@pytest.mark.long
def test_what_the_run_knows_is_not_asked_again(tmp_path: Path) -> None:
    found = statement(tmp_path, FILE)
    assert "clipped sums by book-keeping" in found
    assert "OpenSSL" in found
    for question in (
        "disclosure.implementation",
        "disclosure.randomness",
        "disclosure.clipping",
        "disclosure.sampler",
        "disclosure.utility",
    ):
        assert question not in found
    assert "disclosure.controller" in found.replace("\\", "")  # this nobody but the user knows


def test_how_a_bound_is_split_is_said(tmp_path: Path) -> None:
    split = FILE.replace("norm = 1.0", 'norm = 1.0, style = "per-group", groups = { "1.weight" = 3.0, "*" = 4.0 }')
    found = statement(tmp_path, split.replace("steps = 30", "steps = 1"))
    assert "to L2 norm 1 (per-group), each part separately: 1.weight to 0.6, \\* to 0.8" in found


def test_the_files_own_answers_stay(tmp_path: Path) -> None:
    assert "dice, thrown by hand" in statement(tmp_path, FILE + '[disclosure]\nrandomness = "dice, thrown by hand"\n')


@pytest.mark.long
def test_a_unit_that_is_clipped_as_one_is_said_to_be(tmp_path: Path) -> None:
    rare = MAIN.replace("batch_size = 50", "rate = 0.2")
    found = statement(tmp_path, PER_UNIT + rare + UNITS + "records_per_unit = 2\n")
    assert "At most 2 records of each user were used. They are drawn together and clipped as one" in found
