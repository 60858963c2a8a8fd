"""The shipped example, from teachers to student, on the digits of scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import ROOT, dpcli

pytestmark = [pytest.mark.needs("sklearn"), pytest.mark.long]


def test_the_example_from_teachers_to_student(tmp_path: Path) -> None:
    """Of twenty runs the least accurate student was at .893, the mean .927."""
    path = tmp_path / "pate-digits.toml"
    path.write_text((ROOT / "examples" / "pate-digits.toml").read_text())
    fitted = dpcli("pate", "fit", str(path), "--jobs", "1", "-f", "json", folder=tmp_path)
    assert (fitted.code, json.loads(fitted.out)["pool"]) == (0, 300)
    assert json.loads(dpcli("pate", "label", str(path), "-f", "json", folder=tmp_path).out)["answered"] == 100
    student = json.loads(dpcli("pate", "student", str(path), "-f", "json", folder=tmp_path).out)
    assert (student["labelled"], student["pseudo_labelled"]) == (100, 200)
    assert student["metrics"]["accuracy"] >= 0.86
    costs = json.loads(dpcli("pate", "account", str(path), "-f", "json", folder=tmp_path).out)
    assert 15.4 < costs["result"]["epsilon_upper"] < 15.5  # one Gaussian, mu = sqrt(200) / 5
    private = costs["unsanitised_do_not_publish"]
    assert 7.0 < private["realised"]["epsilon"] < 9.0 and private["realised"]["queries"] == 100
    again = dpcli("pate", "fit", str(path), "--jobs", "1", "-f", "json", folder=tmp_path)
    assert json.loads(again.out)["fitted_before"] == 50
