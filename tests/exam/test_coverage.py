"""Tests that the exam covers every registered type, adjacency, sampling scheme and accountant that a file may combine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.exam import __main__ as command
from dpcli.exam import exam_coverage
from dpcli.exam import examine as exam
from dpcli.exam.enumeration import bracket
from dpcli.exam.enumeration.references import REFERENCES
from dpcli.exam.exam_coverage import (
    combinations_under_laws,
    combinations_without_enumeration,
    sound_accountants,
    table,
    valid_combinations,
)
from dpcli.exam.mechanism_laws import ACCOUNTANTS as UNDER_LAWS
from dpcli.exam.questions import questions_about
from dpcli.exam.subjects import SEED
from tests.cases import in_turn, tiered


@pytest.mark.sampled(3, 8)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_nothing_that_makes_sense_is_examined_by_nothing(kind: str) -> None:
    assert valid_combinations(kind), f"nothing of type {kind} makes sense (seed {SEED})"
    assert sorted(combinations_without_enumeration(kind)) == [], f"seed {SEED}"
    assert (
        set(UNDER_LAWS) <= {one.accountant for one in combinations_under_laws(kind)} <= set(sound_accountants()) <= set(ACCOUNTANTS)
    )


EACH_ONCE = in_turn(MECHANISMS, ("references", "schemes"))
OTHERS = in_turn(MECHANISMS, ("schemes", "references"))


@pytest.mark.parametrize(("kind", "lost"), [*tiered(EACH_ONCE, 6, 22), *tiered(OTHERS, 0)])
def test_what_is_not_examined_is_seen(kind: str, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exam_coverage, "questions_about", questions_about.__wrapped__)  # not remembered
    if lost == "references":
        monkeypatch.setattr(bracket, "REFERENCES", tuple(one for one in REFERENCES if one.type != kind))
    else:
        monkeypatch.setattr(bracket, "SCHEMES", {name: draws for name, draws in bracket.SCHEMES.items() if name != "none"})
    assert combinations_without_enumeration(kind)


@pytest.mark.long
def test_the_report_has_a_line_for_each() -> None:
    kind = tuple(MECHANISMS)[-1]
    heading, *lines = table([kind])
    assert heading.split()[3:] == list(ACCOUNTANTS)
    assert len(lines) == len({(one.adjacency, one.scheme) for one in valid_combinations(kind)})
    assert not any("!" in line for line in lines)


def one_line(name: str, seed: str) -> Iterator[exam.ExamLine]:
    yield exam.ExamLine(f"{name} at {seed}", 1)


def test_every_subject_of_a_name_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = {subject: (names, one_line) for subject, (names, _) in exam.EXAMINERS.items()}
    monkeypatch.setattr(exam, "EXAMINERS", subjects)
    for subject, (names, _) in subjects.items():
        for name in names():
            assert f"{subject}: {name} at 1" in [line.question for line in exam.examine(name, 1)]


def test_an_unknown_name_is_refused_before_any_examination(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["gaussian", "gausian"]) == 2
    written = capsys.readouterr()
    assert not written.out and "found 'gausian'" in written.err
