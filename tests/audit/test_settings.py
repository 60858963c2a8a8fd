"""The [audit] table and its flags, and what is a library's and what a user's own code, wherever either was put."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np
import pytest

import dpcli
from dpcli.audit.audit_run import audit, audit_request
from dpcli.audit.audit_settings import AuditSettings, read_settings, with_flags
from dpcli.audit.evidence import read_evidence
from dpcli.audit.own_code import is_library, is_own_code
from dpcli.audit.trials import TrialPlan, Worker, _stored_scores, trial_plan
from dpcli.base.errors import InputError
from dpcli.file.keys.annotations import members_of
from dpcli.file.toml.write import value_text
from dpcli.lint.run import lint_bytes
from dpcli.mechanisms.neighbours import Adjacency
from tests.audit.sums import FILE, People
from tests.cases import require_each

KINDS: tuple[str, ...] = get_args(get_args(get_type_hints(AuditSettings)["kind"])[0])
KEYS = [key for key in members_of(AuditSettings) if key != "kind"]
BY_TRAINING = {"canaries", "canary"}  # which are inserted whatever the audit is
HEAD = FILE[: FILE.index("[audit]")]
EVERY: dict[str, Any] = {
    "confidence": 0.9,
    "scores": "s.csv",
    "canaries": 40,
    "canary": "gradient",
    "guesses": 10,
    "one_sided": True,
    "threshold": 0.5,
    "choose": "bonferroni",
    "function": "tests.audit.sums:right",
    "data": "tests.audit.sums:pair",
    "trials": 5,
    "seed": 7,
    "neighbours": "replace-one",
    "sensitivity": 1.0,
    "noise": 1.0,
}


def stated(**keys: Any) -> str:
    return HEAD + "[audit]\n" + "".join(f"{key} = {value_text(value)}\n" for key, value in keys.items())


def errors(text: str) -> list[str]:
    return [f"{found.key}: {found.message}" for found in lint_bytes(text.encode(), "p.toml") if found.severity == "error"]


class Watched(AuditSettings):
    """Settings that remember which of their keys the audit asked for."""

    asked: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        module = sys._getframe(1).f_globals["__name__"]
        if module.startswith("dpcli.audit.") and module != AuditSettings.__module__:
            Watched.asked.add(name)
        return super().__getattribute__(name)


def scored(people: People, rng: np.random.Generator) -> float:
    """A score of one run."""
    return float(people.present[0] + rng.normal())


def read_by_audits_of(kind: str, folder: Path) -> set[str]:
    """The keys that audits of a kind ask for: of scores, by a stated threshold and one that is chosen, and of a function."""
    (folder / "s.csv").write_text("member,score\n" + "".join(f"{index % 2},{index / 40}\n" for index in range(40)))
    (folder / "p.toml").write_text(HEAD.replace("steps = 200", "steps = 20"))
    program = EVERY["function"] if kind == "replay" else "tests.audit.test_settings:scored"
    plain = {**EVERY, "kind": kind, "scores": str(folder / "s.csv"), "function": None, "neighbours": None}
    Watched.asked = set()
    for way in ({}, {"threshold": None}, {"function": program, "scores": None, "neighbours": Adjacency.ADD_REMOVE}):
        made = audit_request(str(folder / "p.toml"), {}, None, None, None, 1, lambda *_: None)
        with suppress(InputError):
            audit(dataclasses.replace(made, settings=Watched(**{**plain, **way})))
    return Watched.asked & set(KEYS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_kind_states_what_audits_of_the_kind_read(kind: str, tmp_path: Path) -> None:
    read = read_by_audits_of(kind, tmp_path) | BY_TRAINING
    assert len(read) > 4
    read -= {"function"} if kind == "one-run" else set()  # asked for, and refused
    for key in KEYS:
        found = errors(stated(kind=kind, **{key: EVERY[key]}))
        assert (not found) == (key in read), (key, found)
        if found and key != "function":  # which is refused beside --kind too
            assert found[0].startswith(f"audit.{key}: expected this key only with kind = ")


def test_without_a_kind_every_key_may_be_stated() -> None:
    """Which audit is made, the command line may say."""

    def check(key: str) -> None:
        assert not errors(stated(**{key: EVERY[key]}))

    require_each(KEYS, check)


def test_the_command_line_may_ask_for_another_kind() -> None:
    def check(case: tuple[str, str]) -> None:
        kind, other = case
        keys = {key: EVERY[key] for key in KEYS if key != "function" and not errors(stated(kind=kind, **{key: EVERY[key]}))}
        found = read_settings(stated(kind=kind, **keys).encode(), "p.toml")
        assert with_flags(found, {"kind": other, "sensitivity": 3.0, "guesses": 3}).kind == other

    require_each(list(itertools.permutations(KINDS, 2)), check)


OWN = "job.py"


def layout(folder: Path, record: str | None) -> Path:
    """A library beside a user's own file and the user's own package, with what an installer has left of the library."""
    for name in ("library/__init__.py", "library/inner/part.py", "mine/__init__.py", OWN):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    if record is not None:
        (folder / "library-1.0.dist-info").mkdir()
        (folder / "library-1.0.dist-info/METADATA").write_text("Name: library\nVersion: 1.0\n")
        (folder / "library-1.0.dist-info/RECORD").write_text(record)
    return folder


RECORD = "library/__init__.py,sha256=x,0\nlibrary/inner/part.py,,\nlibrary-1.0.dist-info/RECORD,,\n../../bin/library,,\n"
EDITABLE = "__editable__.library-1.0.pth,sha256=x,20\nlibrary-1.0.dist-info/RECORD,,\n"


@pytest.mark.parametrize(
    ("name", "record", "library", "own"),
    [
        ("other/site-packages", RECORD, True, False),  # nothing in such a folder is a user's own
        ("dist-packages", None, True, False),
        ("target", RECORD, True, True),
        ("target", None, False, True),
        ("target", EDITABLE, False, True),
    ],
)
def test_where_a_library_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, record: str | None, library: bool, own: bool
) -> None:
    folder = layout(Path(mkdtemp(dir=tmp_path), name), record)  # a path that no other test has had
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    assert is_library(str(folder / "library/inner/part.py")) is library
    for file in (OWN, "mine/__init__.py"):
        assert is_own_code(str(folder / file)) is own
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(folder)])
    assert is_own_code(str(folder / "library/inner/part.py"))  # nobody imports it from there


def test_a_project_that_is_developed_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said beside its source lists its own files: they stay the user's."""
    folder = layout(tmp_path / "project", None)
    (folder / "mine.egg-info").mkdir()
    (folder / "mine.egg-info/PKG-INFO").write_text("Name: mine\nVersion: 1.0\n")
    (folder / "mine.egg-info/SOURCES.txt").write_text("mine/__init__.py\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    assert is_own_code(str(folder / "mine/__init__.py"))


def test_pythons_own_ours_and_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_library(dpcli.__file__) and is_library(pytest.__file__) and is_library(importlib.util.__file__)
    assert is_own_code(str(tmp_path / OWN)) and not is_own_code("<string>")
    for file in ("torch/__init__.py", "torch/nn/modules/linear.py", OWN):  # its source, with nothing beside it
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert is_library(str(tmp_path / "torch/nn/modules/linear.py")) and is_own_code(str(tmp_path / OWN))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("huge.json", '[{"member": 1, "score": ' + "1" * 400 + "}]", "row 1: score: expected a number, found '111"),
        ("long.csv", "member,score\n1," + "1" * 200_000 + "\n", "after line 1: not valid csv: field larger than field limit"),
        ("comma.csv", "member,score\n1,3,1\n0,0,5\n", "row 1 has 3 columns; the header has 2"),
        ("twice.csv", "member,score,Member\n1,1,0\n0,1,1\n", "expected each column once, found member more than once"),
    ],
)
def test_a_malformed_file_of_scores_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as refusal:
        read_evidence(str(tmp_path / name))
    assert message in str(refusal.value)


def test_a_csv_may_end_its_lines_with_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_bytes(b"member,score\r1,2.5\r0,-1\r")
    scores = read_evidence(str(tmp_path / "scores.csv")).scores
    assert scores is not None and scores.members.tolist() == [True, False] and scores.values.tolist() == [2.5, -1.0]


@pytest.mark.parametrize("name", ["threshold", "noise", "sensitivity", "confidence"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_flag_is_a_finite_number(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"^--{name}: expected a finite number, found "):
        with_flags(AuditSettings(), {name: value})


class NoFloat:
    def __float__(self) -> float:
        raise RuntimeError("several elements")


@pytest.mark.parametrize("score", [10**400, NoFloat(), "1e", None])
def test_a_score_that_is_no_float_is_refused(score: object) -> None:
    worker = object.__new__(Worker)
    worker.plan = TrialPlan("own:score", "own:data", 1, 0)
    worker.function = lambda dataset, rng: score
    with pytest.raises(InputError, match=r"^own:score: expected a number as score, found "):
        worker.score(None, True, 0)


@pytest.mark.parametrize("part", ['"first": "x", "scores": [1]', '"first": 0, "scores": 3', '"first": 0, "scores": [null]'])
def test_a_malformed_line_of_stored_trials_is_refused(tmp_path: Path, part: str) -> None:
    (tmp_path / "trials.jsonl").write_text(f'{{}}\n{{"member": true, {part}}}\n')
    with pytest.raises(InputError, match=r"line 2: expected the scores of trials, found '\{\"member"):
        _stored_scores(str(tmp_path / "trials.jsonl"))


def test_a_file_that_is_no_text_holds_no_trials(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    path.write_bytes(b"\xff\n\xfe\n")
    assert _stored_scores(str(path)) == {}
    with pytest.raises(InputError, match="holds trials of another audit"):
        trial_plan("math:sqrt", "math:sqrt", 1, None, (), str(path))
