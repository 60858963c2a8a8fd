"""Votes of functions, and texts of models that need no torch, are had without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpcli.base.extras import EXTRAS
from tests.command import ROOT
from tests.predict import generate_files, prompt_files

BARE = f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)})); from dpcli.cli.main import run; run()"


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "file", "module", "code"),
    [("prompt", prompt_files.FILE, "stub", prompt_files.STUB), ("generate", generate_files.FILE, "notes", generate_files.NOTES)],
)
def test_a_session_of_functions_needs_no_extra(command: str, file: str, module: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "session.toml").write_text(file)
    (tmp_path / f"{module}.py").write_text(code)
    found = subprocess.run(
        [sys.executable, "-c", BARE, command, "session.toml", "-f", "total"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr.count("\n")) == (0, 1) and "charged to no ledger" in found.stderr
    assert float(found.stdout) > 0.0
