"""Pipelines that were in the repository at the base, and that nobody judges any more: deleted, or moved to where no pattern looks."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.gate.judgement import Judged
from dpcli.gate.unjudged import inside, linked
from dpcli.gate.verdicts import Condition
from dpcli.git.history import ALIKE, gone_files, parts_of, says_pipeline, share_of, touched
from dpcli.git.work_tree import commit_of, link_of, listed, review_of, top_of

OtherParts = tuple[str, frozenset[Hashable]]  # path and parts


def gone(ref: str, paths: Sequence[str], renamed: Iterable[str]) -> Iterator[Judged]:
    """A warning for each pipeline of the base that is deleted, a no to each that was moved to a file that is not judged.

    paths: of the files that are judged; where there are none, the repository around the working directory is under review.
    renamed: what they were called at the base. Raises InputError as `dpcli.git.history.past` does.
    """
    judged, given = frozenset(map(os.path.realpath, paths)), frozenset(map(os.path.abspath, paths))
    known = frozenset(renamed)
    yield from _gone_inside(ref, paths)
    for (top, folder), tree in trees(ref, paths).items():
        if tree is None:
            continue
        pipelines = [
            (name, data)
            for within, data in gone_files(tree, folder, (".toml",))
            if (name := os.path.relpath(os.path.join(folder, within), top)) not in known and says_pipeline(data)
        ]
        others = list(_others(folder, tree, judged)) if pipelines else []
        for name, data in pipelines:
            place = os.path.join(top, name)
            spoken = place in given and (
                _linked(place, judged) or os.path.isfile(place)
            )  # its own verdict says what is wrong with it
            yield from _verdict(name, data, ref, top, others, spoken or _still(place))


def trees(ref: str, paths: Sequence[str]) -> dict[tuple[str, str], str | None]:
    """The commits to look through, by the repository under review and the folder that each is checked out in: also those inside.

    None for a repository inside that was not there. paths: of the files that are judged; where there are none, the repository around the
    working directory is under review. Raises InputError where git knows no such commit, or one that a repository inside is linked to is
    not there.
    """
    tops = list(dict.fromkeys(top for top, _ in map(review_of, paths))) or [top_of(os.getcwd())]
    found: dict[tuple[str, str], str | None] = {(top, top): commit_of(top, ref) for top in tops}
    for top in tops:
        for inner in inside(top):
            found[top, inner] = link_of(commit_of(top, ref), top, inner)
    return found


def _gone_inside(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """A warning for each repository inside that was linked at the base, and is not any more."""
    for top in dict.fromkeys(top for top, _ in trees(ref, paths)):
        now = {os.path.relpath(place, top) for place in linked(top)}
        for line in listed(top, "ls-tree", "-r", "-z", "--full-tree", commit_of(top, ref)):
            about, _, name = line.partition(b"\t")
            if about.startswith(b"160000") and os.fsdecode(name) not in now:
                place = os.path.relpath(os.path.join(top, os.fsdecode(name)))
                text = f"{escaped_path(place)}, a repository inside this one at {ref}, is gone: nothing counts what its pipelines released"
                yield Judged(place, None, (Condition("deleted", "warn", text, ()),))


def _linked(place: str, judged: frozenset[str]) -> bool:
    """Whether a link is there, itself or among its folders, to what is judged: under this name too."""
    real = os.path.realpath(place)
    return real != place and real in judged


def _still(place: str) -> bool:
    """Whether a file of its own, which is a pipeline, is there: the gate judges it, or says that nobody gave it."""
    try:
        return os.path.isfile(place) and os.path.realpath(place) == place and says_pipeline(read_bytes(place))
    except InputError:
        return False


def _others(top: str, tree: str, judged: frozenset[str]) -> Iterator[OtherParts]:
    """Path and parts of each file of the work tree that the change made what it is, committed or not, and that is not judged here."""
    now = set(map(os.fsdecode, listed(top, "ls-files", "-co", "--exclude-standard", "-z")))
    for name in sorted(now & touched(top, tree)):
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
        now = "is no pipeline any more" if os.path.isfile(os.path.join(top, name)) else "is deleted"
        text = f"{was}, {now}: what it has released stays released, and nothing counts it here"
        yield Judged(os.path.relpath(os.path.join(top, name)), None, (Condition("deleted", "warn", text, ()),))
