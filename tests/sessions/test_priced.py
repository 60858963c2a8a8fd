"""Tests of sessions/priced.py: the cost of a session, the entry that it performs, its folder and its fingerprint."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dpcli.base.errors import CannotCertify, Denied, InputError
from dpcli.file.pipeline.read import parse
from dpcli.sessions.priced import FilePlan, one_entry, priced, priced_file
from tests.cases import of_each

HEAD = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
releases = "outputs"
delta = 1e-6
"""
PURE = '[[mechanism]]\nname = "{}"\ntype = "pure-dp"\nepsilon = 0.5\n'
RHO = '[[mechanism]]\nname = "{}"\ntype = "zcdp"\nrho = 0.01\n'
GROUP = '[[mechanism]]\nname = "{}"\ntype = "composed"\nmechanisms = ["{}"]\n'
TYPES = ("pure-dp",)


def test_all_of_the_file_is_priced_and_held_to_its_budget() -> None:
    file = HEAD + PURE.format("first") + PURE.format("second")
    pipeline = parse(file.encode(), "file.toml")
    found = priced_file("file.toml", pipeline)
    assert found.account.upper == pytest.approx(1.0, abs=1e-4)
    found.require_budget()
    for epsilon, allowed in ((0.99, False), (1.01, True)):
        capped = priced_file("file.toml", parse((file + f"[budget]\nepsilon = {epsilon}\n").encode(), "file.toml"))
        if allowed:
            capped.require_budget()
        else:
            with pytest.raises(Denied, match=r"file\.toml: budget: expected at most epsilon 0\.99"):
                capped.require_budget()
        budget = capped.account.budget
        assert budget is not None and budget.epsilon is not None
        unknown = replace(budget.epsilon, verdict="unknown")
        with pytest.raises(Denied):  # what cannot be certified is over any budget
            replace(capped, account=replace(capped.account, budget=replace(budget, epsilon=unknown))).require_budget()


def test_what_nobody_can_price_is_no_plan() -> None:
    file = HEAD.replace("delta = 1e-6", "delta = 0.0") + RHO.format("first")
    with pytest.raises(CannotCertify, match="no finite epsilon can be certified for this file"):
        priced_file("file.toml", parse(file.encode(), "file.toml"))


@of_each(
    "entries, named, found",
    [
        ([PURE.format("a")], None, "a"),
        ([PURE.format("a")], "a", "a"),
        ([PURE.format("a"), RHO.format("b")], None, "a"),
        ([PURE.format("a"), PURE.format("b")], "b", "b"),
        ([PURE.format("a"), PURE.format("b")], None, "found none of a, b"),
        ([PURE.format("a")], "c", "found c of a"),
        ([PURE.format("a"), RHO.format("b")], "b", "found b of a"),
        ([RHO.format("b")], None, "found none of that type"),
        ([PURE.format("a") + 'partition = "region"\n'], None, "expected no partition, found one"),
        ([PURE.format("a"), GROUP.format("b", "a")], None, "expected an entry that runs once and alone"),
        ([PURE.format("a"), GROUP.format("b", "a"), GROUP.format("c", "b")], "a", "expected an entry that runs once and alone"),
    ],
)
def test_one_entry_is_performed(entries: list[str], named: str | None, found: str) -> None:
    data = (HEAD + "".join(entries)).encode()
    if not found.startswith(("found", "expected")):
        assert one_entry("f", parse(data, "f"), TYPES, "table", named).name == found
        session = priced("f", data, TYPES, "table", named)
        assert session.entry.name == found and len(session.pipeline.mechanisms) == len(entries)
        return
    with pytest.raises(InputError, match=found):
        priced("f", data, TYPES, "table", named)


@of_each(
    "name, output, expected",
    [
        ("", None, "runs/file"),
        ('name = "visits"\n', None, "runs/visits"),
        ('name = "visits"\n', "out", "out"),
        ("", "/some/where", "/some/where"),
    ],
)
def test_a_folder_is_as_stated_or_named_for_the_file(
    name: str, output: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = FilePlan("some/file.toml", parse((name + HEAD + PURE.format("a")).encode(), "file.toml"))
    assert plan.stated_folder(output) == expected
    assert plan.folder_at(output) == os.path.join(tmp_path, expected)


@dataclass(frozen=True, slots=True)
class Told:
    data: str = "visits.csv"
    output: str = "out"


def test_a_fingerprint_is_of_all_that_an_answer_depends_on() -> None:
    def of(entry: str = PURE.format("a"), name: str = "table", table: Told = Told(), budget: str = "") -> str:
        pipeline = parse((HEAD + entry + budget).encode(), "file.toml")
        return FilePlan("file.toml", pipeline).fingerprint_with(name, table, {"output"})

    first = of()
    assert of(table=Told(output="elsewhere")) == of(budget="[budget]\nepsilon = 1.0\n") == first
    others = [of(RHO.format("a")), of(PURE.format("a").replace("0.5", "0.6")), of(name="other"), of(table=Told("other.csv"))]
    assert len({first, *others}) == 5
