"""Tests of standard output that is closed or cannot encode a character: the exit code stays, and there is no internal error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
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


ENCODINGS = ("latin-1", "ascii", "utf-16")

# A process in which everything is imported and every answer was given once. Of each line, arguments, what becomes of standard output, and
# where to put standard error, it makes a child that is as one that begins so; it leaves as the interpreter would, which writes what is left
# and says 120 where that fails, but does not take down all modules first. Then the child's exit code is said.
FORKING = """
import contextlib, io, json, os, sys
import dpcli.cli.main
from tests.answer_cache import remembering
once = remembering()
once.__enter__()
for line in sys.stdin:
    arguments, way, said = json.loads(line)
    if way == "closed":
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            dpcli.cli.main.main(arguments)
    child = os.fork()
    if not child:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        if way == "closed":
            os.close(1)
            sys.stdout = sys.__stdout__ = None
        else:
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer if way == "unread" else os.open(os.devnull, os.O_WRONLY), 1)
            sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8" if way == "unread" else way)
        try:
            dpcli.cli.main.run(arguments)
        except SystemExit as leaving:
            code = leaving.code
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except Exception:
            code = 120
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as server:
        yield server
        assert server.stdin is not None
        server.stdin.close()


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


@pytest.mark.sampled(4, 8)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_exit_code_is_the_same_whoever_reads(
    command: tuple[str, ...], file: str, forking: subprocess.Popen[str], tmp_path: Path
) -> None:
    arguments = [file if word == "FILE" else word for word in command]
    expected = dpcli(*arguments).code
    assert forking.stdin is not None and forking.stdout is not None
    for way in ("closed", "unread", *ENCODINGS):
        print(json.dumps((arguments, way, str(tmp_path / "said"))), file=forking.stdin, flush=True)
        assert int(forking.stdout.readline()) == expected, way
        assert "internal error" not in (tmp_path / "said").read_text(errors="replace")


@pytest.mark.long
def test_the_exit_code_of_a_process_is_the_same_whoever_reads(tmp_path: Path) -> None:
    """The same of processes that are started one by one."""
    (tmp_path / "é.toml").write_text(OVER.replace("ads-ranking", "ads-ранг"))
    arguments = ("account", str(tmp_path / "é.toml"))
    expected = dpcli(*arguments).code
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb"):
        assert code(*arguments, out=writer) == expected
    assert code(*arguments) == expected
    for encoding in ENCODINGS:
        assert code(*arguments, out=subprocess.DEVNULL, PYTHONIOENCODING=encoding) == expected


@pytest.mark.long
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
