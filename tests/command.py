"""Run the command line of dpcli in the process of the tests, which is faster than a new process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.json_documents import require_published

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Result:
    """The exit code of a command, and what it printed to standard output and standard error."""

    code: int
    out: str
    err: str


def dpcli(*arguments: str, stdin: bytes = b"", folder: Path = ROOT) -> Result:
    """Run `dpcli arguments...` in the root of the project, or in another folder.

    A failure must print something to standard error, and JSON must agree with the published schema (json_documents.py). Variables that
    change the width or the colours of the output are not passed on.
    """
    from dpcli.cli.main import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True), io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(stdin))
    settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    with (
        mock.patch.dict(os.environ, settings, clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", source),
        contextlib.chdir(folder),
    ):
        code = main(list(arguments))
    out.flush()
    assert code == 0 or err.getvalue().strip(), f"exit code {code} of {arguments} without a word on standard error"
    text = out.buffer.getvalue().decode(errors="replace")
    if text.startswith('{\n  "schema": "dpcli/'):
        require_published(text)
    return Result(code, text, err.getvalue())


def needed(parameter: Any) -> bool:
    """Return whether a command needs this parameter: click requires it, or the help of the command says "[required]"."""
    return bool(parameter.required) or "[required]" in (getattr(parameter, "help", None) or "")
