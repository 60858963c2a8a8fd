"""Whether whoever answers for a waiver is another person than whoever wrote it, where the policy asks and git blame knows."""

from __future__ import annotations

import re

from dpcli.git.authors import Author, addresses_of, authors_of
from dpcli.pipeline.model import Pipeline
from dpcli.toml.looks import looks
from dpcli.toml.positions import locate

WHAT = ("rule", "approver", "expires", "epsilon", "mechanism")  # what a waiver grants: its reason may be put right by anybody


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
    return tuple(dict.fromkeys(known[line] for line in sorted(lines))) if lines <= set(known) else ()


def self_approved(approver: str, writers: tuple[Author, ...]) -> Author | None:
    """The writer who goes by the approver's name, or by one that people do not tell from it."""
    asked = {looks(each) for each in _called(approver)} - {""}
    return next((one for one in writers if any(looks(name) in asked for name in one.names)), None)


def _called(approver: str) -> tuple[str, ...]:
    """Whom an approver names: as it stands, and what the forms are made of in which people write names, addresses and logins.

    Those are "Name <address>", "Name (login)", @login, mailto:address, an address or a profile at a forge, and several of them: whoever
    wrote a waiver is none of its approvers.
    """
    bare = (_PREFIX.sub("", part.strip(_AROUND)).strip(_AROUND) for part in (approver, *_BETWEEN.split(approver)))
    found = [each for part in bare if part for each in addresses_of(part)]
    logins = (each.partition("@")[0] for each in found if "@users.noreply." in each.casefold())
    return tuple(dict.fromkeys((*found, *logins)))


_AROUND = " \t\"'`"
_BETWEEN = re.compile(r"[<>()\[\],;&]|\band\b")
_PREFIX = re.compile(r"(?i)^(?:mailto:|(?:https?://)?[a-z0-9-]+(?:\.[a-z0-9-]+)+/)?@?(?=[^/]*/?$)|/$")
