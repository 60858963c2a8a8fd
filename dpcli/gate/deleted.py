"""Pipelines that were in the repository at the base, and that nobody judges any more: deleted, or moved to where no pattern looks."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence

from dpcli.errors import InputError
from dpcli.gate.judgement import Judged
from dpcli.gate.verdicts import Condition
from dpcli.git.history import ALIKE, differing, gone_files, parts_of, share_of
from dpcli.git.work_tree import commit_of, link_of, listed, review_of, top_of
from dpcli.pipeline.document import is_pipeline
from dpcli.pipeline.read import toml_document
from dpcli.toml.limits import escaped_path, read_bytes
from dpcli.toml.render import InvalidFile

OtherParts = tuple[str, frozenset[Hashable]]  # path and parts


def gone(ref: str, paths: Sequence[str], renamed: Iterable[str]) -> Iterator[Judged]:
    """A warning for each pipeline of the base that is deleted, a no to each that was moved to a file that is not judged.

    paths: of the files that are judged; where there are none, the repository around the working directory is under review.
    renamed: what they were called at the base. Raises InputError as `dpcli.git.history.past` does.
    """
    judged = frozenset(map(os.path.realpath, paths))
    known = frozenset(renamed)
    for (top, folder), tree in _trees(ref, paths).items():
        pipelines = [
            (name, data)
            for inside, data in gone_files(tree, folder, (".toml",))
            if (name := os.path.relpath(os.path.join(folder, inside), top)) not in known and _is_pipeline(data)
        ]
        others = list(_others(folder, tree, judged)) if pipelines else []
        for name, data in pipelines:
            place = os.path.join(top, name)
            yield from _verdict(name, data, ref, top, others, _still(place) or _linked(place, judged))


def _trees(ref: str, paths: Sequence[str]) -> dict[tuple[str, str], str]:
    """The commits to look through, by the repository under review and the folder that each is checked out in: also those inside."""
    reviews = dict.fromkeys(map(review_of, paths)) or {(top_of(os.getcwd()), None): None}
    found = {(top, top): commit_of(top, ref) for top, _ in reviews}
    for top, inner in reviews:
        linked = None if inner is None else link_of(found[top, top], top, inner)
        if inner is not None and linked is not None:
            found[top, inner] = linked
    return found


def _is_pipeline(data: bytes) -> bool:
    try:
        return is_pipeline(toml_document(data, "")[1])
    except InvalidFile:
        return False


def _linked(place: str, judged: frozenset[str]) -> bool:
    """Whether a link is there, itself or among its folders, to what is judged: under this name too."""
    real = os.path.realpath(place)
    return real != place and real in judged


def _still(place: str) -> bool:
    """Whether a file of its own, which is a pipeline, is there: the gate judges it, or says that nobody gave it."""
    try:
        return os.path.isfile(place) and not os.path.islink(place) and _is_pipeline(read_bytes(place))
    except InputError:
        return False


def _others(top: str, tree: str, judged: frozenset[str]) -> Iterator[OtherParts]:
    """Path and parts of each file of the work tree, committed or not, that differs from `tree`, and is not judged here."""
    now = set(map(os.fsdecode, listed(top, "ls-files", "-co", "--exclude-standard", "-z")))
    before = set(map(os.fsdecode, listed(top, "ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)))
    before -= set(map(os.fsdecode, differing(top, tree)))
    for name in sorted(now - before):
        place = os.path.join(top, name)
        if os.path.isfile(place) and os.path.realpath(place) not in judged:
            try:
                yield place, parts_of(read_bytes(place))
            except InputError:
                continue


def _verdict(name: str, data: bytes, ref: str, top: str, others: Sequence[OtherParts], still: bool) -> Iterator[Judged]:
    """still: whether another pipeline is at its place now, so that there is nothing to say but to which new file it went."""
    parts = parts_of(data)
    share, place = max(((share_of(parts, lines), place) for place, lines in others), default=(0.0, ""))
    was = f"{escaped_path(name)}, a pipeline at {ref}"
    if share >= ALIKE:
        text = f"{was}, was moved to {escaped_path(os.path.relpath(place, top))}, which is not judged here: give it to the gate too"
        yield Judged(os.path.relpath(place), None, (Condition("moved", "fail", text, ()),))
    elif not still:
        text = f"{was}, is deleted: what it has released stays released, and nothing counts it here"
        yield Judged(os.path.relpath(os.path.join(top, name)), None, (Condition("deleted", "warn", text, ()),))
