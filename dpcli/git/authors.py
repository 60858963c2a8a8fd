"""Who wrote the lines of a file, as far as git blame knows: names and addresses that whoever commits chooses."""

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

    beside: whom the commit's message names as authors too (Co-authored-by, as a forge writes it when it makes one commit of several).
    """

    name: str
    mail: str
    mapped: tuple[str, str] = ("", "")
    beside: tuple[Author, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What somebody may be called who goes by these: the names, the addresses, and what stands before their @.

        Of an address that a forge makes (12345+login@users.noreply.github.com) and of a tagged one also the login alone.
        """
        mails = [mail for mail in (self.mail, self.mapped[1]) if mail]
        return tuple(
            dict.fromkeys(
                each for each in (self.name, self.mapped[0], *mails, *chain(*map(_logins, mails), *map(addressed, mails))) if each
            )
        )


def _logins(mail: str) -> tuple[str, str]:
    whole = mail.partition("@")[0]
    number, plus, login = whole.partition("+")
    return whole, login if plus and number.isdigit() else number


def addressed(mail: str) -> tuple[str, ...]:
    """Other spellings of one address: without its tag, and the login alone where a forge made it."""
    whole, _, host = mail.partition("@")
    if not (whole and host):
        return ()
    login = _logins(mail)[1]
    return (login,) if looks(host).startswith(looks("users.noreply.")) else (f"{login}@{host}",)


def authors_of(path: str, lines: Sequence[int]) -> dict[int, Author]:
    """Who wrote each of some lines (from 1 on) of a file as it is now; without those that git does not know.

    Those are what was not committed yet, and what a shallow clone has from before its first commit. Of a link, it is what it leads to.
    """
    folder, name = os.path.split(os.path.realpath(path))
    ranges = [f"-L{line},{line}" for line in sorted({*lines})]
    try:
        shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        found = run_git(folder, "blame", "--line-porcelain", *(() if shallow else ("--root",)), *ranges, "--", name)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return _unmapped(folder, _read(found.stdout)) if ranges and found.returncode == 0 else {}


def _unmapped(folder: str, found: dict[int, tuple[str, Author]]) -> dict[int, Author]:
    """As the commits have them: blame says what .mailmap makes of that, which whoever changes the file may change too."""
    commits = sorted({commit for commit, _ in found.values()})
    try:
        said = run_git(folder, "log", "--no-walk", "--no-show-signature", _FORMAT, *commits).stdout if commits else b""
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    stated = {fields[0]: fields[1:] for line in said.split(b"\n") if len(fields := list(map(_text, line.split(b"\0")))) > 2}
    return {line: _stated(author, *stated[commit]) for line, (commit, author) in found.items() if commit in stated}


def _stated(mapped: Author, name: str, mail: str, *others: str) -> Author:
    other = (mapped.name, mapped.mail)
    beside = tuple(Author(*_parted(each)) for each in others if each.strip())
    return Author(name, mail, ("", "") if other == (name, mail) else other, beside)


def _parted(text: str) -> tuple[str, str]:
    """A name and an address, of "Name <address>"."""
    name, _, mail = text.partition("<")
    return name.strip(), mail.partition(">")[0].strip()


def _read(said: bytes) -> dict[int, tuple[str, Author]]:
    """By line: the commit that it is of, and its author as blame says."""
    found: dict[int, tuple[str, Author]] = {}
    facts: dict[bytes, bytes] = {}
    line = 0
    for text in said.split(b"\n"):
        header = _HEADER.fullmatch(text) if not facts else None
        if header is not None:
            line, facts = int(header[1]), {b"commit": text.partition(b" ")[0]}
        elif text.startswith(b"\t"):  # the line itself, at the end of what is said of it
            if facts.get(b"commit", b"0").strip(b"0") and b"boundary" not in facts:
                author = Author(_text(facts.get(b"author", b"")), _text(facts.get(b"author-mail", b"")).strip("<>"))
                found[line] = (_text(facts[b"commit"]), author)
            facts = {}
        else:
            key, _, value = text.partition(b" ")
            facts[key] = value
    return found


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
