"""The progress of a run (train/commands/train.py) in a file, where nobody looks at a terminal."""

from __future__ import annotations

from types import SimpleNamespace

import click
import pytest

from dpcli.train.commands.train import Progress, _due
from dpcli.train.plan.plan import plan_of
from tests.command import ROOT


@pytest.mark.parametrize(("seconds", "fewest", "most"), [(9, 0, 0), (60, 4, 6), (3600, 30, 60), (86_400, 60, 100)])
def test_a_line_now_and_then(seconds: int, fewest: int, most: int) -> None:
    """Neither silence nor thousands of lines, however long it takes."""
    lines, last = 0, 0
    for now in range(1, seconds + 1):
        if _due(now - last, now, now == seconds):
            lines, last = lines + 1, now
    assert fewest <= lines <= most


def test_what_is_left_is_told_from_the_steps_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not from the minutes before them: ten steps of 8 s each after 500 s of preparation."""
    clock = iter(500.0 + 8.0 * step for step in range(10))
    monkeypatch.setattr("dpcli.train.commands.train.time.monotonic", lambda: next(clock))
    with click.Context(click.Command("train"), obj=SimpleNamespace(quiet=False)):
        report = Progress(plan_of(str(ROOT / "examples" / "digits.toml")))
        for step in range(1, 11):
            report(step, None)
    said = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in said] == [f"step {step} of 120" for step in (3, 5, 7, 9)]
    assert [line.rsplit(", ", 1)[1] for line in said] == [f"{8 * (120 - step)} s left" for step in (3, 5, 7, 9)]
