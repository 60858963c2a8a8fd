"""Pipelines that a change touches, and that nobody gave to the gate."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dpcli.base.errors import DpcliError, InputError
from dpcli.file.pipeline.read import parse, toml_document, toml_name
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.file.toml.looks import looks
from dpcli.file.toml.shown import first_names
from dpcli.gate.deleted import trees
from dpcli.gate.judgement import Judged
from dpcli.gate.unjudged import OtherFile, absent, dataset_of, tops_of, unjudged
from dpcli.gate.verdicts import Condition
from dpcli.git.history import blobs, differing, says_pipeline, touched
from dpcli.git.places import holds
from dpcli.git.work_tree import commit_of, listed

Touched = tuple[str, str | None, str]  # folder of a repository, its commit at the revision, path of a file in it


def missed(ref: str, paths: Sequence[str], known: frozenset[str]) -> Iterator[Judged]:
    """A warning that names those that differ from the revision and are not judged.

    Args:
        paths: of the files that are judged; where there are none, the repository around the working directory is under review.
        known: real paths of others that the gate has spoken of.

    Raises InputError where git cannot say what differs.
    """
    here = _around(paths)
    yield from _moved_inside(ref, here)
    places = {os.path.realpath(os.path.join(one[0], one[2])): one for one in touched_files(ref, paths)}
    for place in known & places.keys():
        del places[place]
    found = _other([*unjudged(here), *of_other_endings(places, paths)], places) if places else []
    if found:
        names = first_names(map(escaped_path, found))
        which = "a pipeline that differs" if len(found) == 1 else f"{len(found)} pipelines that differ"
        text = f"{names}: {which} from {ref} and {'was' if len(found) == 1 else 'were'} not given to the gate"
        yield Judged(found[0], None, (Condition("missed", "warn", text, ()),))


def _other(files: Sequence[OtherFile], places: Mapping[str, Touched]) -> list[str]:
    """Those of the files that hold something else than they did: more than their mode is other."""
    asked: dict[tuple[str, str], list[tuple[OtherFile, str]]] = {}
    found = {}
    for file in files:
        if (touched := places.get(os.path.realpath(file.path))) is not None:
            folder, tree, name = touched
            found[file.path] = file.data
            if tree is not None:
                asked.setdefault((folder, tree), []).append((file, name))
    for (folder, tree), each in asked.items():
        for (file, _), was in zip(each, blobs(folder, [f"{tree}:{name}" for _, name in each]), strict=True):
            if was == file.data:
                del found[file.path]
    return list(found)


def of_other_endings(places: Mapping[str, Touched], paths: Sequence[str]) -> Iterator[OtherFile]:
    """Pipelines that git knows by other names than *.toml: every command reads them as well."""
    given = frozenset(map(os.path.realpath, paths))
    tracked = {folder: frozenset(map(os.fsdecode, listed(folder, "ls-files", "-z"))) for folder, _, _ in places.values()}
    for place, (folder, _, name) in sorted(places.items()):
        if toml_name(name) or name not in tracked[folder] or place in given or not os.path.isfile(place):
            continue
        data = _now(place) or b""
        # "privacy" as it stands, or with an escape in it: what has neither need not be read as TOML.
        if (b"privacy" in data or b"\\" in data) and says_pipeline(data):
            yield OtherFile(os.path.relpath(place), data, _tables(data))


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
    for folder, tree, name in sorted(touched_files(ref, paths), key=str) if wanted else ():
        place = os.path.join(folder, name)
        if not toml_name(name) or not os.path.isfile(place) or os.path.realpath(place) in judged:
            continue
        was = blobs(folder, [f"{tree}:{name}"])[0] if tree is not None else None
        if {_dataset(was), _dataset(_now(place))} & wanted and _is_read(was):
            yield os.path.relpath(place)


def named_by(paths: Iterable[str]) -> Iterator[str]:
    """The datasets that files name, as far as they can be read: those that the cap of a flag holds for."""
    found = (_tables(_now(path)) for path in paths if path != "-")
    yield from filter(None, map(dataset_of, found))


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
    name = dataset_of(_tables(data))
    return looks(name) if name else None


def _tables(data: bytes | None) -> Mapping[str, Any]:
    with suppress(InvalidFile):
        return toml_document(data or b"", "")[1]
    return {}


def _is_read(was: bytes | None) -> bool:
    """Whether a file can be compared with what it was: one that was broken, and is mended now, cannot."""
    try:
        return was is None or bool(parse(was, ""))
    except DpcliError:
        return False


def touched_files(ref: str, paths: Sequence[str]) -> Iterator[Touched]:
    """Each file that is new or changed by the work tree's doing."""
    for (_, folder), tree in trees(ref, paths).items():
        if tree is None:  # a repository inside that was not there
            names = frozenset(map(os.fsdecode, listed(folder, "ls-files", "-z", "-co", "--exclude-standard")))
        else:
            names = touched(folder, tree)
        yield from ((folder, tree, name) for name in names)
