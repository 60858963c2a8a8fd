"""What git has of a file at a revision: under its path, through the links that lead there, or under the name that it had."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.errors import InputError
from dpcli.git.work_tree import commit_of, git, link_of, listed, review_of
from dpcli.pipeline.read import toml_document
from dpcli.toml.limits import escaped_path, read_bytes
from dpcli.toml.render import InvalidFile
from dpcli.values import dataclass

Versions = Mapping[str, bytes | None]  # the name of an object: what it holds, None where git has no such file
ALIKE = 0.5  # share of what a file says that is still in the one it became


@dataclass(frozen=True, slots=True)
class Past:
    """The bytes of a file as they were committed; renamed: its path in the repository where that was another, else ""."""

    data: bytes
    renamed: str = ""


def pasts(ref: str, paths: Sequence[str]) -> dict[str, Past | None]:
    """Each file at the git revision `ref`, None where nothing there became it.

    A link is followed as it was then; a file under a new name, committed or not, is the one that is gone of whose keys and values it
    has the most, and at least half. A file of a repository inside the one under review is compared with what stood in its place there,
    else with the commit that was linked there: the names of branches inside are nothing that a review has seen.

    Raises:
        InputError: git knows no such commit around a file, or cannot say what was there.
    """
    reviews = {path: review_of(path) for path in paths}
    tops: dict[str, list[str]] = {}
    for path, (top, _) in reviews.items():
        tops.setdefault(top, []).append(path)
    versions = {top: _versions(commit_of(top, ref), inside, top) for top, inside in tops.items()}
    return {path: _past(ref, path, top, inner, versions[top][path]) for path, (top, inner) in reviews.items()}


def _past(ref: str, path: str, top: str, inner: str | None, versions: Versions) -> Past | None:
    tree = commit_of(top, ref)
    found = _committed(versions, top)
    linked = None if found is not None or inner is None else link_of(tree, top, inner)
    if found is not None or inner is None or linked is None:
        return found or _renamed(tree, path, top)
    # The change may have another commit of the repository inside: what counts is the one that the base links to.
    within = _committed(_versions(linked, [path], inner)[path], inner) or _renamed(linked, path, inner)
    renamed = within and within.renamed and os.path.relpath(os.path.join(inner, within.renamed), top)
    return within and Past(within.data, renamed or "")


def _versions(tree: str, paths: Sequence[str], top: str) -> dict[str, Versions]:
    """For each file what a commit has under each name that the file may have had; git is asked once for all of them."""
    names = {path: [f"{tree}:{name}" for name in dict.fromkeys(_names(path, top))] for path in paths}
    every = [name for own in names.values() for name in own]
    found = dict(zip(every, blobs(top, every), strict=True))
    return {path: {name: found[name] for name in own} for path, own in names.items()}


def _committed(versions: Versions, top: str) -> Past | None:
    for name, data in versions.items():
        if data is not None:
            return Past(data)
        # The tree may list what the clone lacks (a partial one, offline): a file that was there is not a new one.
        if git(top, "rev-parse", "--verify", "--quiet", name).returncode == 0:
            _whole(top, name)
    return None


def _whole(top: str, name: str) -> None:
    """Raise InputError where git knows the object of a name, but does not have it."""
    if git(top, "cat-file", "-e", name).returncode != 0:
        raise InputError(f"--base-ref: {escaped_path(name)} is missing from this clone: fetch it (git fetch --refetch)")


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
    try:
        own = parts_of(read_bytes(path))
    except InputError:  # what is wrong with the file itself is its verdict
        return None
    gone = gone_files(tree, top, tuple({".toml", os.path.splitext(path)[1]} - {""}))
    alike = [(share_of(parts_of(data), own), name, data) for name, data in gone]
    share, name, data = max(alike, default=(0.0, "", b""))
    return Past(data, name) if share >= ALIKE else None


def gone_files(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of each file of the commit that is no file of its own any more, or that keeps less than half of what it said.

    What a link led to counts as what it said. Raises InputError where the clone lacks one.
    """
    lost = [(name, blob, there) for name, blob, there in _perhaps_gone(tree, top, endings)]
    for (name, blob, there), data in zip(lost, blobs(top, [blob for _, blob, _ in lost]) if lost else (), strict=True):
        if data is None:
            _whole(top, blob)
        elif not there or share_of(parts_of(data), _parts_now(os.path.join(top, name))) < ALIKE:
            yield name, data


def _perhaps_gone(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Path, object, and whether it is there as the file or link that it was: of what differs or is not."""
    changed = frozenset(differing(top, tree))
    for line in listed(top, "ls-tree", "-r", "-z", "--full-tree", tree):
        about, _, name = line.partition(b"\t")
        mode, _, blob = about.split(b" ")
        place, link = os.path.join(top, os.fsdecode(name)), mode == b"120000"
        if not place.endswith(endings) or not (link or mode.startswith(b"100")):
            continue
        there = os.path.isfile(place) and (link or os.path.realpath(place) == place)
        if not there or name in changed:
            yield os.fsdecode(name), f"{tree}:{os.fsdecode(name)}" if link else os.fsdecode(blob), there


def _parts_now(place: str) -> frozenset[Hashable]:
    try:
        return parts_of(read_bytes(place))
    except InputError:
        return frozenset()


def differing(top: str, tree: str) -> list[bytes]:
    """The paths of a repository whose files differ from a commit, committed or not; those that git does not know are none of them."""
    return listed(top, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", tree)


def parts_of(data: bytes) -> frozenset[Hashable]:
    """What a file says, in parts that can be counted: every key of TOML with its value, else the lines without the spaces in them."""
    try:
        return frozenset(_leaves(toml_document(data, "")[1], ()))
    except InvalidFile:
        return frozenset(
            b"".join(line.split()) for line in data.splitlines() if line.strip() and not line.lstrip().startswith(b"#")
        )


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[Hashable]:
    """A table in a list stands under its name where it has one: order, comments and spelling mean nothing."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, repr(inner.get("name", index))))
    else:
        yield path, repr(value) if isinstance(value, list) else value


def share_of(old: frozenset[Hashable], new: frozenset[Hashable]) -> float:
    return len(old & new) / len(old) if old else 0.0
