"""Pipelines that were in the repository at the base, and that nobody judges any more: deleted, or moved to where no pattern looks."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence

from dpcli.errors import InputError
from dpcli.gate.history import ALIKE, blobs, gone_files, parts_of, share_of
from dpcli.gate.repository import commit_of, git, review_of
from dpcli.gate.verdicts import Condition, Judged
from dpcli.pipeline.diagnostics import InvalidFile
from dpcli.pipeline.limits import escaped_path, read_bytes
from dpcli.pipeline.read import toml_document


def gone(ref: str, paths: Sequence[str], renamed: Iterable[str]) -> Iterator[Judged]:
    """A warning for each pipeline of the base that is deleted, a no to each that was moved to a file that is not judged.

    renamed: what files that are judged were called at the base. Raises InputError as `dpcli.gate.history.past` does.
    """
    judged = frozenset(map(os.path.realpath, paths))
    known = frozenset(renamed)
    for top in dict.fromkeys(review_of(path)[0] for path in paths):
        tree = commit_of(top, ref)
        lost = [
            (name, blob)
            for name, blob in gone_files(tree, top, (".toml",))
            if name not in known and os.path.realpath(os.path.join(top, name)) not in judged
        ]
        texts = zip(lost, blobs(top, [blob for _, blob in lost]), strict=True) if lost else ()
        pipelines = [(name, data) for (name, _), data in texts if data is not None and _is_pipeline(data)]
        others = list(_others(top, tree, judged)) if pipelines else []
        yield from (_told(name, data, ref, top, others) for name, data in pipelines)


def _is_pipeline(data: bytes) -> bool:
    try:
        return "mechanism" in toml_document(data, "")[1]
    except InvalidFile:
        return False


def _others(top: str, tree: str, judged: frozenset[str]) -> Iterator[tuple[str, frozenset[Hashable]]]:
    """Path and parts of each file of the work tree, committed or not, that is TOML or new since `tree`, and is not judged here."""
    listed = set(_listed(git(top, "ls-files", "-co", "--exclude-standard", "-z").stdout))
    before = set(_listed(git(top, "ls-tree", "-r", "-z", "--name-only", "--full-tree", tree).stdout))
    for name in sorted(name for name in listed if name.endswith(".toml") or name not in before):
        place = os.path.join(top, name)
        if os.path.isfile(place) and os.path.realpath(place) not in judged:
            try:
                yield place, parts_of(read_bytes(place))
            except InputError:
                continue


def _listed(names: bytes) -> list[str]:
    return [os.fsdecode(name) for name in names.split(b"\0")[:-1]]


def _told(name: str, data: bytes, ref: str, top: str, others: Sequence[tuple[str, frozenset[Hashable]]]) -> Judged:
    share, place = max(((share_of(parts_of(data), lines), place) for place, lines in others), default=(0.0, ""))
    was = f"{escaped_path(name)}, a pipeline at {ref}"
    if share >= ALIKE:
        text = f"{was}, was moved to {escaped_path(os.path.relpath(place, top))}, which is not judged here: give it to the gate too"
        return Judged(os.path.relpath(place), None, (Condition("moved", "fail", text, ()),))
    text = f"{was}, is deleted: what it has released stays released, and nothing counts it here"
    return Judged(os.path.relpath(os.path.join(top, name)), None, (Condition("deleted", "warn", text, ()),))
