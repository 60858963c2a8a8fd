"""Pipelines of a repository that nobody gave to the gate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.document import is_pipeline
from dpcli.file.pipeline.read import toml_document, toml_name
from dpcli.file.toml.limits import read_bytes
from dpcli.git.command import work_tree
from dpcli.git.work_tree import listed, review_of


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A pipeline file: its path from the working directory, its bytes, and the tables in it, of which nothing is checked."""

    path: str
    data: bytes
    tables: Mapping[str, Any]


def unjudged(paths: Sequence[str]) -> Iterator[OtherFile]:
    """Each other pipeline (*.toml) in the repositories of these files, in order.

    What git ignores is none of a repository's; the files of submodules are. Nothing where no repository is around a file.

    Raises:
        InputError: git cannot list the files of a repository.
    """
    known = {os.path.realpath(path) for path in paths}
    for top in tops_of(paths):
        for name in sorted(_names(top)):
            place = os.path.join(top, name)
            real = os.path.realpath(place)
            if real not in known and os.path.isfile(real):
                known.add(real)
                yield from _pipeline(real, os.path.relpath(place))


def dataset_of(tables: Mapping[str, Any]) -> str:
    """The dataset that a file names, however little else of it can be read; "" where it names none."""
    privacy = tables.get("privacy")
    name = privacy.get("dataset") if isinstance(privacy, dict) else None
    return name if isinstance(name, str) else ""


def linked(top: str) -> Iterator[str]:
    """The folders of the repositories inside, checked out or not."""
    for line in listed(top, "ls-files", "-z", "--stage"):
        about, _, name = line.partition(b"\t")
        if about.startswith(b"160000"):
            yield os.path.join(top, os.fsdecode(name))


def inside(top: str) -> Iterator[str]:
    """Of these, those that are checked out."""
    yield from (os.path.realpath(place) for place in linked(top) if os.path.lexists(os.path.join(place, ".git")))


def absent(paths: Sequence[str]) -> Iterator[str]:
    """What git knows and the work tree does not have: repositories inside that are not checked out, and pipelines outside of a sparse
    checkout. Nobody sees what is in them."""
    for top in tops_of(paths):
        yield from (os.path.relpath(place) for place in linked(top) if not os.path.lexists(os.path.join(place, ".git")))
        for line in listed(top, "ls-files", "-z", "-t"):
            place = os.path.join(top, os.fsdecode(line[2:]))
            if line.startswith(b"S ") and toml_name(place) and not os.path.lexists(place):
                yield os.path.relpath(place)


def tops_of(paths: Sequence[str]) -> list[str]:
    """The roots of the repositories under review, and of those inside them that the files are in."""
    found: dict[str, None] = {}
    for path in paths:
        if work_tree(os.path.dirname(os.path.abspath(path))) is None and work_tree(os.path.realpath(os.getcwd())) is None:
            continue
        top, inner = review_of(path)
        found.update(dict.fromkeys(place for place in (top, inner) if place is not None))
    return list(found)


def _names(top: str) -> set[str]:
    committed = listed(top, "ls-files", "-z", "--cached", "--recurse-submodules")
    fresh = listed(top, "ls-files", "-z", "--others", "--exclude-standard")
    return {name for name in map(os.fsdecode, (*committed, *fresh)) if toml_name(name)}


def _pipeline(place: str, path: str) -> Iterator[OtherFile]:
    """A pipeline; nothing of a file that is something else, or that nobody can read."""
    with suppress(InputError):
        data = read_bytes(place)
        tables = toml_document(data, path)[1]
        if is_pipeline(tables):
            yield OtherFile(path, data, tables)
