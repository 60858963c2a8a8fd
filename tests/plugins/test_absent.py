"""Without the folder of any one feature the core, and every feature that does not name it, do what they did."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dpcli.base.lazy import load
from dpcli.base.registry import FOLDERS
from tests.command import ROOT
from tests.layers import FEATURES

REMOVED = [feature for feature in FEATURES if feature in FOLDERS]
# What is run with a folder absent: the imports of that folder fail as if it were not there, before anything of dpcli is imported.
CODE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "dpcli.{feature}" or name.startswith("dpcli.{feature}."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from dpcli.cli.main import main
for arguments in {commands!r}:
    code = main(arguments)
    if code:
        print("FAILED", arguments, code)
"""
CORE = [
    ["account", "examples/survey-count.toml", "-f", "total"],
    ["account", "examples/mnist.toml", "-f", "json"],
    ["calibrate-sigma", "examples/dp-sgd.toml", "--target-epsilon", "2", "-f", "total"],
    ["diff", "examples/mnist.toml", "examples/mnist.toml"],
    ["plot", "delta-epsilon", "examples/survey-count.toml", "-f", "csv"],
    ["schema"],
    ["init", "query"],
    ["lint", "-h"],
]


def reached(feature: str) -> set[str]:
    """The features that name this one, themselves or by others."""
    found = {feature}
    while more := {other for other, names in FEATURES.items() if names & found} - found:
        found |= more
    return {name.partition(".")[0] for name in found}


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("feature", REMOVED)
def test_without_a_feature_the_others_do_what_they_did(feature: str) -> None:
    others = [folder for folder in FOLDERS if folder in FEATURES and folder not in reached(feature)]
    helps = [[name, "-h"] for folder in others for name in load(f"dpcli.{folder}.plugin:PLUGIN").commands]
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(feature=feature, commands=[*CORE, *helps])],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    failed = [line for line in done.stdout.split("\n") if line.startswith("FAILED")]
    assert (done.returncode, failed) == (0, []), done.stderr
