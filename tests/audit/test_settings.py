"""[audit]: a key that no audit of the file's kind reads is refused, and every other one is read by such an audit."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np
import pytest

from dpcli.audit.run import audit, request
from dpcli.audit.settings import AuditSettings, overridden, read_settings
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
        made = request(str(folder / "p.toml"), {}, None, None, None, 1, lambda *_: None)
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
            assert found[0].startswith(f"audit.{key}: expected no such key without kind = ")


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
        assert overridden(found, {"kind": other, "sensitivity": 3.0, "guesses": 3}).kind == other

    require_each(list(itertools.permutations(KINDS, 2)), check)
