"""The exam of a mechanism from another package: it passes as it is, and each of six bugs planted in its code is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT

PACKAGE = Path(__file__).parent / "staircase"
BUGS = {
    "half of epsilon is stated": ("return Staircase(self.epsilon, self.gamma)", "return Staircase(self.epsilon / 2.0, self.gamma)"),
    "epsilon at a delta is too small": (
        "return Pure(self.epsilon).approx_dp(delta)",
        "return 0.9 * Pure(self.epsilon).approx_dp(delta)",
    ),
    "rho is too small": ("return Pure(self.epsilon).zcdp()", "return Pure(self.epsilon).zcdp() / 4.0"),
    "losses are half of what they are": ("(-self.epsilon, self.epsilon)", "(-self.epsilon / 2.0, self.epsilon / 2.0)"),
    "the smaller loss is the likelier": ("(-self.epsilon, self.epsilon)", "(self.epsilon, -self.epsilon)"),
    "a lower bound is claimed": (
        "    def zcdp(self)",
        "    def attained(self) -> bool:\n        return True\n\n    def zcdp(self)",
    ),
}


def examined(place: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """The exam in a process of its own, in which the package at `place` is installed."""
    return subprocess.run(
        [sys.executable, "-m", "dpcli.exam", *names],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(place), str(ROOT))), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )


@pytest.mark.long
def test_a_name_that_nothing_has_is_refused() -> None:
    done = examined(PACKAGE, "stairs")
    assert done.returncode == 2 and "found 'stairs'" in done.stderr and "staircase" in done.stderr


@pytest.mark.long
def test_a_mechanism_of_another_package_passes() -> None:
    done = examined(PACKAGE, "staircase")
    assert done.returncode == 0 and done.stdout.count(" ok ") == 7, done.stdout + done.stderr


@pytest.mark.sampled(0, 0)
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_it_is_seen(bug: str, tmp_path: Path) -> None:
    place = tmp_path / "packages"
    shutil.copytree(PACKAGE, place)
    code = (place / "staircase.py").read_text()
    right, wrong = BUGS[bug]
    assert code.count(right) == 1
    (place / "staircase.py").write_text(code.replace(right, wrong))
    done = examined(place, "staircase")
    assert done.returncode == 1 and "fault" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_a_type_without_references_does_not_pass(tmp_path: Path) -> None:
    place = tmp_path / "packages"
    shutil.copytree(PACKAGE, place)
    code = (place / "staircase.py").read_text()
    (place / "staircase.py").write_text(code.replace(', references={"staircase": "staircase_exam:REFERENCES"}', ""))
    done = examined(place, "staircase")
    assert done.returncode == 1 and "its plugin must set references" in done.stdout, done.stdout + done.stderr
