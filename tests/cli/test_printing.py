"""Standard output that is closed, or cannot take every character: the exit code stays the verdict's, and nothing is our bug."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT, dpcli
from tests.gate.samples import GATE, LARGE_DELTA, OVER

COMMANDS = [
    ("gate", "FILE"),
    ("gate", "FILE", "-f", "junit"),
    ("lint", "FILE"),
    ("lint", "FILE", "-f", "sarif"),
    ("account", "FILE"),
    ("account", "FILE", "-f", "json"),
    ("explain", "sampling"),
    ("plot", "trade-off", "FILE"),
    ("schema",),
    ("init",),
    ("completion", "bash"),
]


def code(*arguments: str, out: int | None = None, **variables: str) -> int:
    """The exit code of a process whose standard output is this descriptor, or closed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    program = [sys.executable, "-m", "dpcli", *arguments]
    closed = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])", *program]
    found = subprocess.run(
        closed if out is None else program, stdout=out, stderr=subprocess.PIPE, env=environment, cwd=ROOT, check=False
    )
    assert b"internal error" not in found.stderr
    return found.returncode


@pytest.fixture(params=[GATE, OVER, LARGE_DELTA, "x"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    place = tmp_path / "é.toml"
    place.write_text(request.param.replace("ads-ranking", "ads-ранг"))
    return str(place)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_exit_code_is_the_same_whoever_reads(command: tuple[str, ...], file: str) -> None:
    arguments = [file if word == "FILE" else word for word in command]
    expected = dpcli(*arguments).code
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb"):
        assert code(*arguments, out=writer) == expected
    assert code(*arguments) == expected
    for encoding in ("latin-1", "ascii", "utf-16"):
        assert code(*arguments, out=subprocess.DEVNULL, PYTHONIOENCODING=encoding) == expected


def test_two_outputs_to_one_file(tmp_path: Path) -> None:
    """Also where the same file is spelled in another way, and for pictures."""
    (tmp_path / "a.toml").write_text(GATE)
    (tmp_path / "link.xml").symlink_to("x.xml")
    for other in ("x.xml", "./x.xml", f"{tmp_path}/x.xml", "link.xml"):
        verdicts = dpcli("gate", "a.toml", "-o", "junit=x.xml", "-o", f"sarif={other}", folder=tmp_path)
        pictures = dpcli("plot", "rdp", "a.toml", "-o", "svg=x.xml", "-o", f"csv={other}", folder=tmp_path)
        for result in (verdicts, pictures):
            assert (result.code, result.err) == (2, "dpcli: --output: expected each path once, found 'x.xml' twice\n")
        assert "expected each path once" in (tmp_path / "x.xml").read_text()  # of the first, that none of an earlier pass is left
        (tmp_path / "x.xml").unlink()
    assert dpcli("gate", "a.toml", "-o", "junit=/dev/null", "-o", "sarif=/dev/null", folder=tmp_path).code == 0
