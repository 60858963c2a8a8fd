"""The exercise of a lecture: the sensitivity in its file follows from what the file says of the data."""

from __future__ import annotations

import re

import pytest

import dpcli
from tests.command import ROOT


def test_the_exercise_of_the_average_salary() -> None:
    path = ROOT / "examples" / "average-salary.toml"
    pipeline = dpcli.load(path)
    (size, top) = re.findall(r"salary of ([\d,]+) employees, each clamped to \[0, (\d+)\]", path.read_text())[0]
    people, most = int(size.replace(",", "")), float(top)
    (entry,) = pipeline.mechanisms
    assert pipeline.privacy.dataset_size == people
    assert pipeline.privacy.adjacency.value == "replace-one"
    assert entry.spec.sensitivity == most / people == 200.0  # type: ignore[attr-defined]
    assert dpcli.account(pipeline).upper == pytest.approx(entry.spec.sensitivity / entry.spec.scale)  # type: ignore[attr-defined]
