"""Whether whoever answers for a waiver is another person than whoever wrote it, where the policy asks and git blame knows."""

from __future__ import annotations

import re

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.looks import looks
from dpcli.file.toml.positions import locate
from dpcli.git.authors import Author, addressed, authors_of

WHAT = ("rule", "approver", "expires", "epsilon", "mechanism")  # what a waiver grants: its reason may be put right by anybody
_BETWEEN = re.compile(
    r"[<>()\[\]{},;&|:]|\s(?:and|or|for|by|[-\u2013\u2014])\s|^by\s", re.IGNORECASE
)  # names and what stands beside them
_AROUND = " \t\r\n.\"'`<>()[]"


def writers_of(pipeline: Pipeline, path: str, data: bytes) -> tuple[tuple[Author, ...], ...]:
    """For each waiver of a file, everybody who wrote what it grants; nobody where git does not know of one of its lines."""
    count = len(pipeline.gate.waiver)
    if path == "-" or not count:
        return ((),) * count
    keys = [("gate", "waiver", index, key) for index in range(count) for key in WHAT]
    places = locate(data.decode("utf-8", "replace").replace("\r\n", "\n"), keys)
    known = authors_of(path, [line for line, _ in places.values()])
    return tuple(_all({places["gate", "waiver", index, key][0] for key in WHAT}, known) for index in range(count))


def _all(lines: set[int], known: dict[int, Author]) -> tuple[Author, ...]:
    if not lines <= set(known):
        return ()
    return tuple(dict.fromkeys(one for line in sorted(lines) for one in (known[line], *known[line].beside)))


def self_approved(approver: str, writers: tuple[Author, ...]) -> Author | None:
    """The writer who goes by a name that the approver's text holds, or by one that people do not tell from it."""
    asked = {looks(each) for each in _called(approver)} - {""}  # what shows nothing names nobody
    return next((one for one in writers if any(looks(name) in asked for name in one.names)), None)


def _called(approver: str) -> tuple[str, ...]:
    """Whom an approver's text names, taken apart: "Name <address>", "@login", "Last, First", "Name (office)", several people.

    Of several the writer may be none: nobody can say whether the other one approved.
    """
    pieces = [piece for part in _BETWEEN.split(approver) for piece in (part, *part.split("/"))]
    last, comma, first = approver.partition(",")
    pieces += [approver, *([f"{first.strip()} {last.strip()}"] if comma else [])]
    mails = [word.strip(_AROUND).removeprefix("mailto:") for word in re.split(r"[\s<>(),;]", approver) if "@" in word]
    pieces += [approver.replace(word, " ") for word in mails if word]
    logins = [login for mail in mails for login in addressed(mail)]
    return tuple(plain for each in (*pieces, *mails, *logins) if (plain := each.strip(_AROUND).removeprefix("@")))
