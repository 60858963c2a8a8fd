"""Pipelines that a change touches, and that nobody gave to the gate."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from dpcli.errors import InputError
from dpcli.gate.judgement import Judged
from dpcli.gate.unjudged import absent, dataset_of, tops_of, unjudged
from dpcli.gate.verdicts import Condition
from dpcli.git.history import blobs, differing
from dpcli.git.places import holds
from dpcli.git.work_tree import commit_of, git, listed
from dpcli.pipeline.read import toml_document
from dpcli.toml.limits import escaped_path, read_bytes
from dpcli.toml.looks import looks
from dpcli.toml.render import InvalidFile

NAMED = 5  # files that are named in a sentence


def missed(ref: str, paths: Sequence[str], known: frozenset[str]) -> Iterator[Judged]:
    """A warning that names those that differ from the revision and are not judged; a refusal where nothing at all is judged.

    Args:
        paths: of the files that are judged; where there are none, the repository around the working directory is under review.
        known: real paths of others that the gate has spoken of.

    Raises InputError where git cannot say what differs.
    """
    here = _around(paths)
    yield from _moved_inside(ref, here)
    touched = {os.path.realpath(os.path.join(top, name)) for top in tops_of(here) for name in _touched(top, ref)} - known
    found = [one.path for one in unjudged(here) if os.path.realpath(one.path) in touched] if touched else []
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        names = f"{', '.join(map(escaped_path, found[:NAMED]))}{more}"
        which = "a pipeline that differs" if len(found) == 1 else f"{len(found)} pipelines that differ"
        text = f"{names}: {which} from {ref} and {'was' if len(found) == 1 else 'were'} not given to the gate"
        yield Judged(found[0], None, (Condition("missed", "warn" if paths else "invalid", text, ()),))


def _moved_inside(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """A warning for each repository inside that is linked to another commit and not checked out."""
    for place in absent(paths):
        top = next(top for top in tops_of(paths) if holds(top, os.path.abspath(place)))
        if os.fsencode(os.path.relpath(place, top)) in differing(top, commit_of(top, ref)):
            text = (
                f"{escaped_path(place)}: a repository inside this one, linked to another commit than at {ref}, and not checked out: "
                "nothing in it is judged (git submodule update --init; submodules: recursive in CI)"
            )
            yield Judged(place, None, (Condition("missed", "warn", text, ()),))


def drawn_in(ref: str, paths: Sequence[str], datasets: Iterable[str]) -> Iterator[str]:
    """Files that the change touches, that were not given, and that name one of these datasets or did at the revision.

    What is added up under a cap is compared with what it was, whichever files are given. Raises InputError where git cannot say.
    """
    wanted, judged = frozenset(map(looks, datasets)), frozenset(map(os.path.realpath, paths))
    for top in tops_of(_around(paths)) if wanted else ():
        tree = commit_of(top, ref)
        places = {name: os.path.join(top, name) for name in sorted(_touched(top, ref)) if name.endswith(".toml")}
        open_ = {name: place for name, place in places.items() if os.path.isfile(place) and os.path.realpath(place) not in judged}
        before = blobs(top, [f"{tree}:{name}" for name in open_]) if open_ else ()
        for place, was in zip(open_.values(), before, strict=True):
            if {_dataset(was), _dataset(_now(place))} & wanted:
                yield os.path.relpath(place)


def _around(paths: Sequence[str]) -> list[str]:
    """The files, or one of the working directory where there are none."""
    return list(paths) or [os.path.join(os.getcwd(), "pipeline.toml")]


def _now(place: str) -> bytes | None:
    try:
        return read_bytes(place)
    except InputError:
        return None


def _dataset(data: bytes | None) -> str | None:
    """As people see its name."""
    with suppress(InvalidFile):
        name = dataset_of(toml_document(data, "")[1]) if data is not None else ""
        return looks(name) if name else None
    return None


def _touched(top: str, ref: str) -> Iterator[str]:
    """Paths of the files that are new or changed, committed or not; none that the revision alone has changed since the branch began."""
    tree = commit_of(top, ref)
    began = git(top, "merge-base", tree, "HEAD").stdout.decode().strip() or tree
    names = frozenset.intersection(*(frozenset(differing(top, one)) for one in {tree, began}))
    yield from map(os.fsdecode, names)
    yield from map(os.fsdecode, listed(top, "ls-files", "-z", "--others", "--exclude-standard"))
