"""Who wrote the lines of a file, as far as git blame knows: names and addresses that whoever commits chooses."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from dpcli.git.command import run_git

_HEADER = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})? \d+ (\d+)(?: \d+)?")


@dataclass(frozen=True, slots=True)
class Author:
    """name, mail: of a line's commit. mail: without its brackets."""

    name: str
    mail: str

    @property
    def names(self) -> tuple[str, ...]:
        """What somebody may be called who goes by these: the name, the address, and what stands before its @."""
        return tuple(dict.fromkeys(each for each in (self.name, self.mail, self.mail.partition("@")[0]) if each))


def authors_of(path: str, lines: Sequence[int]) -> dict[int, Author]:
    """Who wrote each of some lines (from 1 on) of a file as it is now; without those that git does not know.

    Those are what was not committed yet, and what a shallow clone has from before its first commit.
    """
    folder, name = os.path.split(os.path.abspath(path))
    ranges = [f"-L{line},{line}" for line in sorted({*lines})]
    try:
        shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        found = run_git(folder, "blame", "--line-porcelain", *(() if shallow else ("--root",)), *ranges, "--", name)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return _read(found.stdout) if ranges and found.returncode == 0 else {}


def _read(said: bytes) -> dict[int, Author]:
    found: dict[int, Author] = {}
    facts: dict[bytes, bytes] = {}
    line = 0
    for text in said.split(b"\n"):
        header = _HEADER.fullmatch(text) if not facts else None
        if header is not None:
            line, facts = int(header[1]), {b"commit": text.partition(b" ")[0]}
        elif text.startswith(b"\t"):  # the line itself, at the end of what is said of it
            if facts.get(b"commit", b"0").strip(b"0") and b"boundary" not in facts:
                found[line] = Author(_text(facts.get(b"author", b"")), _text(facts.get(b"author-mail", b"")).strip("<>"))
            facts = {}
        else:
            key, _, value = text.partition(b" ")
            facts[key] = value
    return found


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
