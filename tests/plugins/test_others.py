"""A mechanism of another package, by an entry point: read, explained, priced as what it is; and plugins that cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT

HERE = Path(__file__).parent / "staircase"
FILE = """\
format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 1
[[mechanism]]
name = "mean"
type = "{kind}"
epsilon = 0.5
steps = 3
"""


def run(folder: Path, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """dpcli in a process of its own, in which the packages at `place` are installed."""
    paths = os.pathsep.join((str(place), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "dpcli", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )


@pytest.mark.long
def test_a_mechanism_of_another_package(tmp_path: Path) -> None:
    for kind in ("staircase", "pure-dp"):
        (tmp_path / f"{kind}.toml").write_text(FILE.format(kind=kind))
    costs = {}
    for kind in ("staircase", "pure-dp"):
        done = run(tmp_path, HERE, "account", f"{kind}.toml", "--delta", "1e-6", "-f", "total")
        assert done.returncode == 0, done.stderr
        costs[kind] = float(done.stdout)
    assert costs["staircase"] == pytest.approx(costs["pure-dp"], rel=1e-9)
    assert "share of a step" in run(tmp_path, HERE, "explain", "staircase").stdout
    assert "staircase" in run(tmp_path, HERE, "schema").stdout
    alone = run(tmp_path, tmp_path, "account", "staircase.toml", "--delta", "1e-6")
    assert alone.returncode == 2 and 'found "staircase"' in alone.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("raise RuntimeError('planted')", "staircase: its plugin staircase:PLUGIN cannot be imported (RuntimeError: planted)"),
        ("PLUGIN = 3", "expected a Plugin at the entry point 'staircase' of dpcli.plugins, found 3"),
        (
            'PLUGIN = Plugin(mechanisms={"gaussian": "staircase:StaircaseSpec"})',
            "expected a name that no other plugin has, found 'gaussian' twice",
        ),
    ],
)
def test_a_plugin_that_cannot_be_one_is_named(changed: str, said: str, tmp_path: Path) -> None:
    place = tmp_path / "packages"
    shutil.copytree(HERE, place)
    code = (place / "staircase.py").read_text()
    (place / "staircase.py").write_text(code[: code.index("PLUGIN =")] + changed + "\n")
    (tmp_path / "file.toml").write_text(FILE.format(kind="pure-dp"))
    done = run(tmp_path, place, "account", "file.toml", "--delta", "1e-6")
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
