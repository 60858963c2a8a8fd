"""Tests of files that read other data under the same name: no number shows it, so the gate reports it."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.difference import Priced
from dpcli.analysis.table_changes import Change, Edit
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.gate.claims import claim_warnings
from dpcli.gate.input_data import other_data_warnings
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.repositories import committed, git
from tests.gate.samples import GATE, conditions

TABLES = {name: members_of(load(target)) for name, target in {**SECTIONS, **RELEASED}.items() if name not in ("query", "audit")}
# What a table calls data, whatever it calls them; a place where answers are counted is none.
CALLED = ("data", "votes", "public", "queries", "test", "path", "url", "table")
COUNTERS = (("pmixed", "queries"), ("prompt", "count"), ("generate", "count"))
SOURCES = [(name, key) for name, members in TABLES.items() for key in CALLED if key in members and (name, key) not in COUNTERS]
TRAINED = (ROOT / "examples" / "breast-cancer.toml").read_text()


def changed(*edits: tuple[tuple[str, ...], Any, Any]) -> list[Priced]:
    return [Priced(Change((Edit(*edit),)), None, math.nan) for edit in edits]


def pipeline(dataset: str | None = None) -> Pipeline:
    named = "" if dataset is None else f'[privacy]\ndataset = "{dataset}"'
    return parse(GATE.replace("[privacy]", named or "[privacy]").encode(), "train.toml")


@of_each("table, key", SOURCES)
def test_every_key_that_says_what_is_read_is_told(table: str, key: str) -> None:
    for edit in (
        ((table, key), "a", "b"),
        ((table, key), None, "b"),
        ((table,), {key: "a"}, {key: "b"}),
        ((table,), None, {key: "b"}),
    ):
        (found,) = other_data_warnings(changed(edit), pipeline())
        assert (found.name, found.verdict, found.key) == ("data", "warn", (table, key))
        assert f"{table}.{key} " in found.message
        assert '-> "b": other data are read, and the file names no dataset' in found.message


@of_each("table, key", SOURCES)
def test_what_is_read_no_more_or_as_before_is_not_told(table: str, key: str) -> None:
    for edit in (((table, key), "a", None), ((table,), {key: "a"}, {key: "a", "output": "x"}), ((table,), {key: "a"}, None)):
        assert not list(other_data_warnings(changed(edit), pipeline()))


def test_no_other_key_says_what_is_read() -> None:
    reading = {(name, key) for name, members in TABLES.items() for key, member in members.items() if member.names_data}
    assert reading == set(SOURCES)


def test_a_dataset_that_keeps_its_name_is_named_and_one_that_does_not_is_told_elsewhere() -> None:
    edit = (("train", "data"), "a", "b")
    (kept,) = other_data_warnings(changed(edit), pipeline("clicks"))
    assert kept.message.endswith('under the dataset "clicks" as before')
    (moved,) = other_data_warnings(changed(edit, (("privacy", "dataset"), "clicks", "views")), pipeline("views"))
    assert moved.message.endswith("other data are read")


@pytest.mark.parametrize(
    ("table", "key"), [(name, "units") for name in ("train", "pate", "pmixed", "prompt", "generate")] + list(COUNTERS)
)
def test_whose_a_record_is_and_where_answers_are_counted_are_claims(table: str, key: str) -> None:
    for edit in (((table, key), "a", "b"), ((table, key), "a", None), ((table,), {key: "a"}, None)):
        (found,) = claim_warnings(changed(edit), pipeline())
        assert found.name == "claim"
    assert not list(claim_warnings(changed(((table, "output"), "a", "b"), ((table,), None, {"output": "x"})), pipeline()))


def repository_of(folder: Path, text: str) -> Path:
    return committed(folder, train=text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["data", "covers"])
def test_a_change_that_no_number_shows_is_told_by_gate_and_comment(tmp_path: Path, key: str) -> None:
    file = repository_of(tmp_path, TRAINED) / "train.toml"
    old, new = {
        "data": ('data = "breast-cancer.csv"', 'data = "others.csv"'),
        "covers": ('covers = { tuning = "on this table, which is public" }', 'covers = { tuning = "elsewhere" }'),
    }[key]
    assert old in TRAINED
    file.write_text(TRAINED.replace(old, new))
    (said,) = [one for one in conditions(file, "--base-ref", "main") if one["verdict"] == "warn"]
    assert said["name"] == {"data": "data", "covers": "claim"}[key]
    assert said["line"] == TRAINED.split("\n").index(old) + 1
    comment = dpcli("comment", "github", "train.toml", "--base-ref", "main", "--dry-run", folder=tmp_path)
    assert f"gate/{said['name']}" in comment.out


def test_a_query_that_becomes_a_stated_sensitivity_is_told_and_priced(tmp_path: Path) -> None:
    """What bounds a query is seen to; what bounds an entry, somebody says."""
    whole = (ROOT / "examples" / "clinic-weeks.toml").read_text()
    file = repository_of(tmp_path, whole) / "train.toml"
    tables, text = tomllib.loads(whole), whole.partition("[source]")[0]
    entry = f'name = "{tables["query"][0]["name"]}"\ntype = "discrete-laplace"\nscale = 900.0\nsensitivity = 1\n'
    file.write_text(f"{text}\n[[mechanism]]\n{entry}")
    assert "claim" in [one["name"] for one in conditions(file, "--base-ref", "main") if one["verdict"] == "warn"]


@of_each("command", ["account", "lint", "gate"])
def test_an_empty_list_of_queries_is_no_pipeline(tmp_path: Path, command: str) -> None:
    text = (ROOT / "examples" / "clinic-weeks.toml").read_text()
    (tmp_path / "f.toml").write_text("query = []\n" + text.partition("[[query]]")[0])
    result = dpcli(command, "f.toml", folder=tmp_path)
    assert result.code == 2
    assert "expected at least one [[mechanism]] table, found nothing" in result.err


WEEKS = (ROOT / "examples" / "clinic-weeks.toml").read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("train.toml", "./clinic-weeks.csv", False),
        ("train.toml", "sub/../clinic-weeks.csv", False),
        ("train.toml", "sub/clinic-weeks.csv", True),
        ("sub/train.toml", "../clinic-weeks.csv", False),
        ("sub/train.toml", "./../sub/../clinic-weeks.csv", False),
        ("sub/train.toml", "clinic-weeks.csv", True),
        ("sub/train.toml", "other.csv", True),
        ("moved.toml", "clinic-weeks.csv", False),
    ],
)
def test_a_place_counts_and_not_its_spelling(tmp_path: Path, place: str, value: str, told: bool) -> None:
    """From where the file is: one that was moved and says what it said reads something else."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "clinic-weeks.csv").write_text("patient,day,reason\n")
    repository_of(tmp_path, WEEKS)
    git(tmp_path, "mv", "train.toml", place) if place != "train.toml" else None
    (tmp_path / place).write_text(WEEKS.replace('path = "clinic-weeks.csv"', f'path = "{value}"'))
    assert ("data" in [one["name"] for one in conditions(tmp_path / place, "--base-ref", "main")]) == told


def test_data_that_were_moved_along_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "clinic-weeks.csv").write_text("patient,day,reason\n")
    repository_of(tmp_path, WEEKS)
    (tmp_path / "sub").mkdir()
    git(tmp_path, "mv", "train.toml", "clinic-weeks.csv", "sub")
    assert "data" not in [one["name"] for one in conditions(tmp_path / "sub" / "train.toml", "--base-ref", "main")]
