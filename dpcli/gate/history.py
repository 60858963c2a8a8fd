"""What git has of a file at a revision: under its path, through the links that lead there, or under the name that it had."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dpcli.errors import InputError
from dpcli.gate.repository import commit_of, git, top_of
from dpcli.pipeline.limits import read_bytes

ALIKE = 0.5  # share of a file's lines that are still in the one it became


@dataclass(frozen=True, slots=True)
class Past:
    """The bytes of a file as they were committed; renamed: its path in the repository where that was another, else ""."""

    data: bytes
    renamed: str = ""


def past(ref: str, path: str) -> Past | None:
    """The file at the git revision `ref`, None where nothing there became it.

    A link is followed as it was then; a file under a new name, committed or not, is the one that is gone of whose lines it has the
    most, and at least half.

    Raises:
        InputError: git knows no such commit around the file, or cannot say what was there.
    """
    folder = os.path.dirname(os.path.abspath(path))
    tree, top = commit_of(folder, ref), top_of(folder)
    for name in dict.fromkeys(_names(path, top)):
        (found,) = blobs(top, [f"{tree}:{name}"])
        if found is not None:
            return Past(found)
    return _renamed(tree, path, top)


def _names(path: str, top: str) -> Iterator[str]:
    """What the file may have been called: as spelled, then without the links among its folders, then without any."""
    spelled = os.path.abspath(path)
    above = spelled
    while above != (above := os.path.dirname(above)):
        if os.path.realpath(above) == top:
            yield os.path.relpath(spelled, above)
            break
    folder, name = os.path.split(spelled)
    for real in (os.path.join(os.path.realpath(folder), name), os.path.realpath(spelled)):
        if os.path.commonpath((top, real)) == top:
            yield os.path.relpath(real, top)


def blobs(top: str, names: Sequence[str]) -> list[bytes | None]:
    """The files that git knows by these names, as they were committed: no filter of the repository's settings has a part in it."""
    if any("\n" in name for name in names):
        raise InputError(f"--base-ref: expected paths on one line, found {next(name for name in names if chr(10) in name)!r}")
    asked = b"".join(os.fsencode(name) + b"\n" for name in names)
    answer = git(top, "cat-file", "--batch", "--follow-symlinks", asked=asked)
    if answer.returncode != 0:
        raise InputError(f"--base-ref: git cannot read what was committed: {os.fsdecode(answer.stderr).strip()}")
    return list(_answers(answer.stdout, len(names)))


def _answers(text: bytes, count: int) -> Iterator[bytes | None]:
    at = 0
    for _ in range(count):
        end = text.index(b"\n", at)
        words = text[at:end].split(b" ")
        # "... missing" has nothing below it; a link that leads nowhere has a length as well, and then its own text.
        size = int(words[-1]) if words[-1].isdigit() else -1
        yield text[end + 1 : end + 1 + size] if words[1:2] == [b"blob"] and len(words) == 3 else None
        at = end + 2 + size


def _renamed(tree: str, path: str, top: str) -> Past | None:
    with suppress(InputError):  # what is wrong with the file itself is its verdict
        own = lines_of(read_bytes(path))
        gone = list(gone_files(tree, top, tuple({".toml", os.path.splitext(path)[1]} - {""})))
        texts = zip(blobs(top, [blob for _, blob in gone]), gone, strict=True)
        alike = [(share_of(lines_of(data), own), name, data) for data, (name, _) in texts if data is not None]
        share, name, data = max(alike, default=(0.0, "", b""))
        return Past(data, name) if share >= ALIKE else None
    return None


def gone_files(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(path, object) of each file of the commit that is no file of its own any more."""
    listed = git(top, "ls-tree", "-r", "-z", "--full-tree", tree).stdout
    for line in listed.split(b"\0")[:-1]:
        about, _, name = line.partition(b"\t")
        mode, _, blob = about.split(b" ")
        place = os.path.join(top, os.fsdecode(name))
        there = os.path.isfile(place) and os.path.realpath(place) == place
        if mode.startswith(b"100") and place.endswith(endings) and not there:
            yield os.fsdecode(name), os.fsdecode(blob)


def lines_of(data: bytes) -> frozenset[bytes]:
    """The lines that say something, without the spaces in them."""
    return frozenset(b"".join(line.split()) for line in data.splitlines() if line.strip() and not line.lstrip().startswith(b"#"))


def share_of(old: frozenset[bytes], new: frozenset[bytes]) -> float:
    return len(old & new) / len(old) if old else 0.0
