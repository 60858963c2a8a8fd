"""The authors of a file's lines by git blame: names and addresses that committers choose themselves."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from dpcli.file.toml.looks import looks
from dpcli.git.command import run_git

_HEADER = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})? \d+ (\d+)(?: \d+)?")

_FORMAT = "--format=%H%x00%an%x00%ae%x00%(trailers:key=Co-authored-by,valueonly,unfold,separator=%x00)"


@dataclass(frozen=True, slots=True)
class Author:
    """name, mail: of a line's commit. mail: without its brackets. mapped: another name and address that .mailmap has for them.

    co_authors: whom the commit's message names as authors too (Co-authored-by, as a forge writes it when it makes one commit of several).
    """

    name: str
    mail: str
    mapped: tuple[str, str] = ("", "")
    co_authors: tuple[Author, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the author: the names, the addresses, what stands before their @, and the login in an address of a forge."""
        mails = [mail for mail in (self.mail, self.mapped[1]) if mail]
        return tuple(
            dict.fromkeys(
                each for each in (self.name, self.mapped[0], *mails, *chain(*map(_logins, mails), *map(addressed, mails))) if each
            )
        )


def _logins(mail: str) -> tuple[str, str]:
    local = mail.partition("@")[0]
    number, plus, login = local.partition("+")
    return local, login if plus and number.isdigit() else number


def addressed(mail: str) -> tuple[str, ...]:
    """Return other spellings of one address: without its tag, and only the login if a forge made it."""
    local, _, host = mail.partition("@")
    if not (local and host):
        return ()
    login = _logins(mail)[1]
    return (login,) if looks(host).startswith(looks("users.noreply.")) else (f"{login}@{host}",)


def authors_of(path: str, lines: Sequence[int]) -> dict[int, Author]:
    """Return the author of each of some lines (from 1 on) of a file as it is now, following links.

    Lines are left out that are not committed yet, or that a shallow clone has from before its first commit.
    """
    folder, name = os.path.split(os.path.realpath(path))
    ranges = [f"-L{line},{line}" for line in sorted({*lines})]
    try:
        shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        blame = run_git(folder, "blame", "--line-porcelain", *(() if shallow else ("--root",)), *ranges, "--", name)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return _unmapped(folder, _read(blame.stdout)) if ranges and blame.returncode == 0 else {}


def _unmapped(folder: str, blamed: dict[int, tuple[str, Author]]) -> dict[int, Author]:
    """Return authors as the commits have them: blame applies .mailmap, which whoever changes the file may change too."""
    commits = sorted({commit for commit, _ in blamed.values()})
    try:
        log = run_git(folder, "log", "--no-walk", "--no-show-signature", _FORMAT, *commits).stdout if commits else b""
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    stated = {fields[0]: fields[1:] for line in log.split(b"\n") if len(fields := list(map(_text, line.split(b"\0")))) > 2}
    return {line: _stated(author, *stated[commit]) for line, (commit, author) in blamed.items() if commit in stated}


def _stated(mapped: Author, name: str, mail: str, *others: str) -> Author:
    other = (mapped.name, mapped.mail)
    co_authors = tuple(Author(*_parted(each)) for each in others if each.strip())
    return Author(name, mail, ("", "") if other == (name, mail) else other, co_authors)


def _parted(text: str) -> tuple[str, str]:
    """Return name and address of "Name <address>"."""
    name, _, mail = text.partition("<")
    return name.strip(), mail.partition(">")[0].strip()


def _read(blame: bytes) -> dict[int, tuple[str, Author]]:
    """Return by line its commit, and its author as blame says."""
    authors: dict[int, tuple[str, Author]] = {}
    facts: dict[bytes, bytes] = {}
    line = 0
    for text in blame.split(b"\n"):
        header = _HEADER.fullmatch(text) if not facts else None
        if header is not None:
            line, facts = int(header[1]), {b"commit": text.partition(b" ")[0]}
        elif text.startswith(b"\t"):  # the line itself, at the end of what is said of it
            if facts.get(b"commit", b"0").strip(b"0") and b"boundary" not in facts:
                author = Author(_text(facts.get(b"author", b"")), _text(facts.get(b"author-mail", b"")).strip("<>"))
                authors[line] = (_text(facts[b"commit"]), author)
            facts = {}
        else:
            key, _, value = text.partition(b" ")
            facts[key] = value
    return authors


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
