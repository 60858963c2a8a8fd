"""The authors of a file's lines, by git blame. Committers choose their names and addresses themselves, so these prove nothing.

A *waiver* lets one condition of `dpcli gate` fail until a day, and names who approved it. If its policy asks for this, the gate refuses a
waiver whose approver wrote it (dpcli/gate/waivers.py). .mailmap may rename an author, and the change under review may edit .mailmap: so the
names in the commits count as well (`_with_committed_names`). A line whose author is unknown is left out, and the caller must treat it as
unknown.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dpcli.file.toml.confusables import skeleton
from dpcli.git.command import run_git

# The first line of an entry in the output of git blame --line-porcelain: the commit, the line at the commit, and the current line. The name
# of a commit has 40 hexadecimal digits, or 64 in a repository with SHA-256.
_HEADER = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})? \d+ (\d+)(?: \d+)?")

# A commit, its author's name and address, and its co-authors, separated by null characters.
_FORMAT = "--format=%H%x00%an%x00%ae%x00%(trailers:key=Co-authored-by,valueonly,unfold,separator=%x00)"


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a commit.

    Attributes:
        mail: The address in the commit, without brackets.
        mapped_name, mapped_mail: The name and the address that .mailmap states, if they differ from the commit; else "".
        co_authors: The authors in lines "Co-authored-by" of the message. A forge adds such lines when it squashes several commits into one.
    """

    name: str
    mail: str
    mapped_name: str = ""
    mapped_mail: str = ""
    co_authors: tuple[Author, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the author: names, addresses and their other spellings, the parts of addresses before "@", and logins."""
        names = [self.name, self.mapped_name]
        for mail in (self.mail, self.mapped_mail):
            names += [mail, mail.partition("@")[0], _login(mail), *spellings_of_address(mail)]
        return tuple(dict.fromkeys(name for name in names if name))


def _login(mail: str) -> str:
    """Return the part of an address before "@", without a number and "+" before it, or without "+" and a tag after it."""
    first, plus, last = mail.partition("@")[0].partition("+")
    return last if plus and first.isdigit() else first


def spellings_of_address(mail: str) -> tuple[str, ...]:
    """Return another spelling of an address: only the login if it is an address of a forge, or else the address without a tag.

    The result is empty if the text is not an address.
    """
    local, _, host = mail.partition("@")
    if not (local and host):
        return ()
    login = _login(mail)
    return (login,) if skeleton(host).startswith(skeleton("users.noreply.")) else (f"{login}@{host}",)


def authors_of(path: str, lines: Sequence[int]) -> dict[int, Author]:
    """Return the author of each of these lines of the current file. Lines are counted from 1, and links are followed.

    A line is left out if it is not committed yet, or if its commit is missing from a shallow clone.
    """
    folder, name = os.path.split(os.path.realpath(path))
    ranges = [f"-L{line},{line}" for line in sorted({*lines})]
    if not ranges:
        return {}
    try:
        shallow = run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        root = [] if shallow else ["--root"]  # else git marks the lines of the first commit as it marks a missing commit
        blame = run_git(folder, "blame", "--line-porcelain", *root, *ranges, "--", name)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return _with_committed_names(folder, _blamed_lines(blame.stdout)) if blame.returncode == 0 else {}


class BlamedLine(NamedTuple):
    """The commit of a line, and the author that git blame states for it, with the names in .mailmap."""

    commit: str
    author: Author


def _with_committed_names(folder: str, blamed_lines: dict[int, BlamedLine]) -> dict[int, Author]:
    """Return the authors with the names in their commits, in place of which git blame states those in .mailmap."""
    commits = sorted({blamed.commit for blamed in blamed_lines.values()})
    if not commits:
        return {}
    try:
        log = run_git(folder, "log", "--no-walk", "--no-show-signature", _FORMAT, *commits).stdout
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    names_of_commit = {}
    for line in log.split(b"\n"):
        commit, *names = map(_text, line.split(b"\0"))
        if len(names) >= 2:  # name and address, then co-authors; the line after the last commit is empty
            names_of_commit[commit] = names
    return {
        line: _author_of_commit(blamed.author, *names_of_commit[blamed.commit])
        for line, blamed in blamed_lines.items()
        if blamed.commit in names_of_commit
    }


def _author_of_commit(mapped: Author, name: str, mail: str, *co_authors: str) -> Author:
    """Return the author with the name and the address in the commit. `mapped` has those that .mailmap states."""
    authors = tuple(map(_co_author, filter(str.strip, co_authors)))
    if (mapped.name, mapped.mail) == (name, mail):
        return Author(name, mail, co_authors=authors)
    return Author(name, mail, mapped.name, mapped.mail, authors)


def _co_author(text: str) -> Author:
    """Return the author in a text "Name <address>"."""
    name, _, mail = text.partition("<")
    return Author(name.strip(), mail.partition(">")[0].strip())


def _blamed_lines(blame: bytes) -> dict[int, BlamedLine]:
    """Return the commit and the author of each line, by its number, from the output of git blame."""
    result: dict[int, BlamedLine] = {}
    facts: dict[bytes, bytes] = {}  # of the entry that is being read
    line_number = 0
    for text in blame.split(b"\n"):
        header = _HEADER.fullmatch(text) if not facts else None
        if header is not None:
            line_number, facts = int(header[1]), {b"commit": text.partition(b" ")[0]}
        elif text.startswith(b"\t"):  # the text of the line, which ends its entry
            is_committed = facts.get(b"commit", b"0").strip(b"0") != b""
            if is_committed and b"boundary" not in facts:
                author = Author(_text(facts.get(b"author", b"")), _text(facts.get(b"author-mail", b"")).strip("<>"))
                result[line_number] = BlamedLine(_text(facts[b"commit"]), author)
            facts = {}
        else:
            key, _, value = text.partition(b" ")
            facts[key] = value
    return result


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
