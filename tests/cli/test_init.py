"""Tests of the templates of dpcli init."""

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


RECIPES = {
    "ci-github": (".github/workflows/privacy-budget.yml", "require the check gate"),
    "ci-gitlab": (".gitlab-ci.yml", "require pipelines to succeed"),
    "pre-commit": (".pre-commit-config.yaml", "pre-commit install"),
}


def test_a_recipe_is_written_where_it_belongs_and_the_next_step_is_told(tmp_path: Path) -> None:
    for name, (place, step) in RECIPES.items():
        written = dpcli("init", name, "-o", place, folder=tmp_path)
        assert written.code == 0 and written.err.startswith(f"wrote {place}; next: ") and step in written.err
        text = (tmp_path / place).read_text()
        assert text == dpcli("init", name).out and text.startswith(f"# dpcli init {name} -o {place}")
        assert dpcli("init", name, "-o", place, folder=tmp_path).code == 2  # nothing is written over
    assert dpcli("init", "ci-github", "-o", ".gitlab-ci.yml/x.yml", folder=tmp_path).code == 2
