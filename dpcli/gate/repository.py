"""The pipelines of a repository and its submodules, and the pipelines that a change touches.

A *pipeline* is a TOML file that states mechanisms and what they protect. The gate *judges* pipelines: it checks each against caps and, with
a git revision, what a *change* did to it. The change is everything that the work tree has added, changed or removed since its last common
commits with the revision; a submodule is compared with the commit to which the revision links. The repository *under review* is the one
around the working directory, or that of a judged file outside of it.

judge.py asks here which files the gate must judge if none are named, coverage.py which ones nobody named, and totals.py which ones belong
to a sum over a dataset. No pipeline may pass because nobody judged it. So three more kinds of files are listed:

* a .toml file that is not valid TOML, if it looks like a pipeline or was one at the revision;
* a .toml file that is a Git LFS pointer, which stands for a content outside of git;
* a tracked file with another ending, if it is a pipeline.

Names of datasets are compared by their *skeletons*, which are equal if the names look alike, so that a confusable letter hides no file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dpcli.base.errors import DpcliError, InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import is_pipeline
from dpcli.file.pipeline.other_files import LFS_POINTER
from dpcli.file.pipeline.read import may_be_pipeline, parse, toml_document, toml_name
from dpcli.file.toml.confusables import skeleton
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.git.command import SUBMODULE, commit_of, link_of, list_entries, present_files, review_of, top_of
from dpcli.git.past_files import contents_in, files_at, is_pipeline_file, touched_paths
from dpcli.git.work_trees import work_tree

# The start of a table that only pipelines have, by which a pipeline that is not valid TOML is recognised. The word "privacy" alone can also
# occur in the files of other programs.
_TABLE = re.compile(rb"^[ \t]*(?:\[[ \t]*privacy|\[\[[ \t]*mechanism)", re.MULTILINE)


class TouchedFile(NamedTuple):
    """A file of a repository that a change touches.

    Attributes:
        folder: Root of the repository.
        tree: Commit of the repository at the revision, whose tree of files is compared; None if it did not exist at the revision.
        name: Path of the file in the repository.
    """

    folder: str
    tree: str | None
    name: str

    @property
    def real_path(self) -> str:
        return os.path.realpath(os.path.join(self.folder, self.name))


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A pipeline file that the gate was not asked to judge.

    Attributes:
        path: Path of the file, relative to the working directory.
        tables: Its tables, which were not checked; empty if the file is not valid TOML.
    """

    path: str
    data: bytes
    tables: Mapping[str, Any]


def tops_of(paths: Sequence[str]) -> list[str]:
    """Return the roots of the repositories under review, and of the repositories inside them that contain one of the files.

    Of git/command.py, `top_of` returns the root of one folder's work tree, and `review_of` the two roots of one file: that of the
    repository under review, and that of a repository inside it which contains the file. Files outside of every repository are passed over.
    """
    tops: dict[str, None] = {}
    current = work_tree(os.path.realpath(os.getcwd()))
    for path in paths:
        if current is None and work_tree(os.path.dirname(os.path.abspath(path))) is None:
            continue
        tops |= dict.fromkeys(top for top in review_of(path) if top is not None)
    return list(tops)


def submodule_folders(top: str) -> Iterator[str]:
    """Yield the folders of all submodules of a repository, including submodules that are not checked out."""
    for line in list_entries(top, "ls-files", "-z", "--stage"):
        mode_and_object, _, name = line.partition(b"\t")
        if mode_and_object.startswith(SUBMODULE):
            yield os.path.join(top, os.fsdecode(name))


def _is_checked_out(submodule: str) -> bool:
    """Return whether the folder of a submodule has a work tree. Git leaves the folder empty until the submodule is checked out."""
    return os.path.lexists(os.path.join(submodule, ".git"))


def missing_from_checkout(paths: Sequence[str]) -> Iterator[str]:
    """Yield the submodules and pipelines that git tracks but that are not checked out in the work tree."""
    for top in tops_of(paths):
        yield from (os.path.relpath(place) for place in submodule_folders(top) if not _is_checked_out(place))
        for line in list_entries(top, "ls-files", "-z", "-t"):  # "S" marks a file that a sparse checkout leaves out
            place = os.path.join(top, os.fsdecode(line[2:]))  # a line has a letter, a space and the path
            if line.startswith(b"S ") and toml_name(place) and not os.path.lexists(place):
                yield os.path.relpath(place)


def reviewed_commits(ref: str, paths: Sequence[str]) -> dict[tuple[str, str], str | None]:
    """Return the commit at the revision of each repository under review and of each submodule that is checked out inside it.

    The keys consist of the root of the repository under review and the root of the repository or submodule. The value is None for a
    submodule that did not exist at the revision.

    Args:
        ref: The git revision, in the repository under review.
        paths: The judged files. If there are none, the repository around the working directory is under review.

    Raises:
        InputError: Git does not know the revision, or does not have the commit of a submodule.
    """
    tops = list(dict.fromkeys(review_of(path).top for path in paths)) or [top_of(os.getcwd())]
    commits: dict[tuple[str, str], str | None] = {(top, top): commit_of(top, ref) for top in tops}
    for top in tops:
        for place in submodule_folders(top):
            if _is_checked_out(place):
                inner = os.path.realpath(place)
                commits[top, inner] = link_of(commit_of(top, ref), top, inner)
    return commits


def other_pipelines(paths: Sequence[str]) -> Iterator[OtherFile]:
    """Yield each other pipeline (*.toml) in the repositories of these files and their submodules, sorted by path.

    A file that is not valid TOML is yielded without tables if it looks like a pipeline. A file that cannot be read is left out, as is one
    that git ignores. For files outside of every repository the result is empty. Raises InputError if git cannot list the files of a
    repository.
    """
    known = {os.path.realpath(path) for path in paths}
    for top in tops_of(paths):
        tracked = list_entries(top, "ls-files", "-z", "--cached", "--recurse-submodules")
        untracked = list_entries(top, "ls-files", "-z", "--others", "--exclude-standard")
        for name in sorted({*map(os.fsdecode, (*tracked, *untracked))}):
            place = os.path.join(top, name)
            real = os.path.realpath(place)
            if not toml_name(name) or real in known or not os.path.isfile(real):
                continue
            known.add(real)
            data = content_of(real) or b""
            tables = _tables(data)
            if is_pipeline(tables) or (not tables and _looks_like_pipeline(data)):
                yield OtherFile(os.path.relpath(place), data, tables)


def pipelines_of_other_endings(places: Mapping[str, TouchedFile], paths: Sequence[str]) -> Iterator[OtherFile]:
    """Yield the tracked pipelines among these files whose names do not end in .toml. Commands read such files as well.

    Args:
        places: The files, by their real paths.
        paths: Files to leave out.
    """
    given = frozenset(map(os.path.realpath, paths))
    folders = {file.folder for file in places.values()}
    tracked = {folder: frozenset(map(os.fsdecode, list_entries(folder, "ls-files", "-z"))) for folder in folders}
    for place, file in sorted(places.items()):
        if toml_name(file.name) or file.name not in tracked[file.folder] or place in given or not os.path.isfile(place):
            continue
        data = content_of(place) or b""
        # Every pipeline contains the word "privacy", possibly with escaped letters. Other files need not be parsed.
        if (b"privacy" in data or b"\\" in data) and is_pipeline_file(data):
            yield OtherFile(os.path.relpath(place), data, _tables(data))


def touched_files(ref: str, paths: Sequence[str]) -> Iterator[TouchedFile]:
    """Yield each file that the work tree has added or changed since its last common commit with the revision."""
    for (_, folder), tree in reviewed_commits(ref, paths).items():
        if tree is None:  # a submodule that did not exist at the revision
            names = present_files(folder)
        else:
            names = touched_paths(folder, tree)
        yield from (TouchedFile(folder, tree, name) for name in names)


def touched_pipelines(ref: str) -> list[str]:
    """Return the tracked pipelines that the work tree has added or changed since the revision. A file with several names is listed by each.

    The repository around the working directory and its submodules are searched. Untracked files are not part of the change, but
    `dpcli.gate.coverage` warns about them. Raises InputError if git does not know the revision.
    """
    top = top_of(os.getcwd())
    names = sorted(map(os.fsdecode, list_entries(top, "ls-files", "-z", "--cached", "--recurse-submodules")))
    places = {file.real_path: file for file in touched_files(ref, ())}
    unresolved = {os.path.join(file.folder, file.name) for file in places.values()}
    pipelines = []
    for path in [os.path.join(top, name) for name in names if toml_name(name)]:
        is_touched = path in unresolved or os.path.realpath(path) in places
        if is_touched and os.path.isfile(path) and _is_pipeline(ref, os.path.relpath(path)):
            pipelines.append(os.path.relpath(path))
    return [*pipelines, *(file.path for file in pipelines_of_other_endings(places, ()))]


def _is_pipeline(ref: str, path: str) -> bool:
    """Return whether a file is a pipeline, or cannot be read as TOML but looks like a pipeline or was one at the revision."""
    data = b""
    try:
        data = read_bytes(path)
        return may_be_pipeline(toml_document(data, path).tables)
    except InputError as error:
        earlier = files_at(ref, [path])[path]
        was_pipeline = earlier is not None and is_pipeline_file(earlier.data)
        return (isinstance(error, InvalidFile) and _looks_like_pipeline(data)) or was_pipeline


def _looks_like_pipeline(data: bytes) -> bool:
    """Return whether a content that is not valid TOML has a line that begins a table of pipelines, or is a Git LFS pointer."""
    return _TABLE.search(data) is not None or data.startswith(LFS_POINTER)


def touched_members(ref: str, paths: Sequence[str], datasets: Iterable[str]) -> Iterator[str]:
    """Yield the touched files, other than `paths`, that are or were members of a sum: they name one of its datasets now or at the revision.

    The gate judges these files too, so that the sum over a dataset can be compared with the sum at the revision. Raises InputError if git
    cannot list the touched files.
    """
    skeletons, judged = frozenset(map(skeleton, datasets)), frozenset(map(os.path.realpath, paths))
    if not skeletons:
        return
    for folder, tree, name in sorted(touched_files(ref, paths), key=str):  # as texts, because a tree may be None
        place = os.path.join(folder, name)
        if not toml_name(name) or not os.path.isfile(place) or os.path.realpath(place) in judged:
            continue
        old = None if tree is None else contents_in(folder, tree, [name])[name]
        stated = {skeleton(dataset_of(_tables(data))) for data in (old, content_of(place))} - {""}
        if stated & skeletons and _can_be_compared(old):
            yield os.path.relpath(place)


def _can_be_compared(old: bytes | None) -> bool:
    """Return whether a file is new, or has a valid pipeline as its earlier content. Only then can its epsilon be compared."""
    try:
        return old is None or bool(parse(old, ""))  # `parse` raises if the pipeline is not valid
    except DpcliError:
        return False


def datasets_of(paths: Iterable[str]) -> Iterator[str]:
    """Yield the datasets that files name. Files that cannot be read are left out."""
    for path in paths:
        # Standard input can be read only once, by judge.py, and not here.
        name = "" if path == "-" else dataset_of(_tables(content_of(path)))
        if name:
            yield name


def dataset_of(tables: Mapping[str, Any]) -> str:
    """Return the dataset that a file names, even if other parts of the file are invalid; "" if it names no dataset."""
    privacy = tables.get("privacy")
    name = privacy.get("dataset") if isinstance(privacy, dict) else None
    return name if isinstance(name, str) else ""


def content_of(place: str) -> bytes | None:
    try:
        return read_bytes(place)
    except InputError:
        return None


def _tables(data: bytes | None) -> Mapping[str, Any]:
    """Return the tables of a TOML file; an empty table if the file is not valid TOML."""
    with suppress(InvalidFile):
        return toml_document(data or b"", "").tables
    return {}
