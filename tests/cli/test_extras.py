"""Tests without the packages of an extra: one line says what to install, before anything is charged."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpcli.base.extras import EXTRAS
from tests.command import ROOT

# The packages are made to be missing: an entry of None is how Python remembers that a module cannot be imported.
BARE = f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)})); from dpcli.cli.main import run; run()"


@pytest.mark.long
@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize(
    "command",
    [
        ("train", "examples/digits.toml"),
        ("train", "examples/digits-ftrl.toml"),
        ("sweep", "examples/digits-sweep.toml"),
        ("prompt", "examples/prompt-pate.toml"),
        ("generate", "examples/private-text.toml"),
        ("audit", "examples/digits.toml", "--kind", "replay"),
        ("audit", "examples/audit/worst-case.toml", "--kind", "replay"),
        ("plot", "rdp", "examples/mnist.toml", "-o", "x.png"),
        ("budget", "show", "postgresql://localhost/nowhere"),
    ],
    ids=" ".join,
)
def test_what_is_missing_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = subprocess.run(
        [sys.executable, "-c", BARE, *command],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2, found.stderr
    assert "pip install 'dpcli[" in found.stderr.splitlines()[-1]
    assert {place.name for place in tmp_path.iterdir()} == {"examples"}


@pytest.mark.long
def test_every_extra_that_a_message_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in (ROOT / "dpcli").rglob("*.py"):
        for extra in re.findall(r"dpcli\[([a-z-]+)\]", path.read_text(encoding="utf-8")):
            assert extra in extras, (path, extra)


def test_every_package_of_an_extra_is_known() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    imported = {"scikit-learn": "sklearn"}
    for name in ("train", "lm", "opacus", "plot", "postgres"):
        for requirement in extras[name]:
            package = requirement.partition(">")[0]
            extra = EXTRAS[imported.get(package, package)]
            assert requirement.partition(">")[0] in {stated.partition(">")[0] for stated in extras[extra]}
