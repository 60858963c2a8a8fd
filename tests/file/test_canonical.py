"""Tests of pipelines as tables and back: nothing is lost, and two spellings of one file give one text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import pipeline_from, tables_of
from dpcli.file.pipeline.read import load, parse
from dpcli.ledger.chain import canonical
from tests.command import ROOT
from tests.strategies import pipelines

EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
FILE = """
format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 1
[[mechanism]]
name = "a"
type = "laplace"
scale = 20.0
sensitivity = 1.0
"""


def test_every_example_comes_back() -> None:
    for path in EXAMPLES:
        pipeline = load(path, 1.0)
        back = pipeline_from(json.loads(canonical(tables_of(pipeline))))
        assert (back.privacy, back.mechanisms) == (pipeline.privacy, pipeline.mechanisms), path.stem


@given(pipeline=pipelines())
def test_every_pipeline_comes_back(pipeline) -> None:
    back = pipeline_from(json.loads(canonical(tables_of(pipeline))))
    assert (back.privacy, back.mechanisms) == (pipeline.privacy, pipeline.mechanisms)


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("scale = 20.0\nsensitivity = 1.0", "sensitivity = 1\nscale = 2e1", 1),
        ("scale = 20.0", "# a comment\nscale = 20.0\nsteps = 1", 1),
        ("[[mechanism]]", "[budget]\nepsilon = 3.0\n[[mechanism]]", 1),
        ("format = 1", 'format = 1\nname = "renamed"', 1),
        ("20.0", "20.000001", 2),
        ('"user"', '"household"', 2),
        ('"a"', '"b"', 2),
        ("add-remove", "zero-out", 2),
    ],
)
def test_another_spelling_is_the_same_run_and_another_run_another_text(old: str, new: str, runs: int) -> None:
    assert old in FILE
    assert len({canonical(tables_of(parse(text.encode(), "x"))) for text in (FILE, FILE.replace(old, new))}) == runs


def test_tables_of_a_later_version_are_refused_by_name() -> None:
    tables = tables_of(parse(FILE.encode(), "x"))
    tables["mechanism"][0]["novelty"] = 1
    with pytest.raises(InputError, match="novelty"):
        pipeline_from(tables)
