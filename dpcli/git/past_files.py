"""Files at a git revision, and the files that a change touches.

The gate (dpcli/gate) compares a file with its *base*, the same file at the revision. A current file is found there under its path, through
links, or under an earlier name: a renamed file is compared with a deleted file of which it keeps at least half of the keys and values. A
file also counts as deleted if less than half of it is left under its name, or if it was a pipeline and no longer is. A new file has no
base, and no limit on a rise of its cost. So if a clone lacks the content of a file, this is an error, and the file is not called new.
Contents are read as committed, without filters of the repository's settings.

`top` is the root of the repository under review, and `inner` that of a repository inside it, such as a submodule. `tree` is the object name
of a commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import is_pipeline
from dpcli.file.pipeline.read import toml_document
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.git.command import Review, commit_of, git, link_of, list_entries, review_of, tree_entries
from dpcli.git.work_trees import folders_above

Versions = Mapping[str, bytes | None]  # the content of each named object; None if git has no such file
# The name of a git object, by SHA-1 or SHA-256.
_OBJECT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Least share of a file's keys and values that a file must contain to count as its renamed version. Half is also git's own limit for
# renames. A larger share would let an edited file count as new, to which no limit on its rise applies; a smaller one would pair unrelated
# files.
LEAST_KEPT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class PastFile:
    """A file as it was committed.

    Attributes:
        earlier_path: The earlier path in the repository, if the file was renamed; else "".
        share: The share of its keys and values that the current file contains.
    """

    data: bytes
    earlier_path: str = ""
    share: float = 1.0


class RemovedFile(NamedTuple):
    """A file of a commit that the work tree no longer has, with its parts (`parts_of`)."""

    path: str
    data: bytes
    parts: frozenset[Hashable]


RemovedFiles = dict[tuple[str, str, tuple[str, ...]], list[RemovedFile]]  # by commit, repository and endings of names


def files_at(ref: str, paths: Sequence[str]) -> dict[str, PastFile | None]:
    """Return each file as it was at the git revision `ref`; None for a new file.

    Links are followed as they were at the revision. A file under a new name, committed or not, is matched with the deleted file that shares
    most of its keys and values.

    A file of a repository inside the one under review is matched with the file at its path at the revision. If there is none, it is matched
    with the file in the commit to which the revision links. The branches of the inner repository are ignored: nobody has reviewed them.

    Raises InputError if git does not know the commit in the repository of a file, or cannot read it.
    """
    reviews = {path: review_of(path) for path in paths}
    paths_by_repository: dict[str, list[str]] = {}
    for path, review in reviews.items():
        paths_by_repository.setdefault(review.top, []).append(path)
    versions: dict[str, Versions] = {}
    for top, paths_inside in paths_by_repository.items():
        versions |= _contents_by_name(commit_of(top, ref), paths_inside, top)
    removed: RemovedFiles = {}
    files = {path: _file_at(ref, path, review, versions[path], removed) for path, review in reviews.items()}
    return _with_unique_renames(files, reviews)


def _with_unique_renames(files: dict[str, PastFile | None], reviews: Mapping[str, Review]) -> dict[str, PastFile | None]:
    """Return the files with at most one renamed file for each deleted file, the most similar one. Other similar files count as new."""
    renamed = {path: past for path, past in files.items() if past is not None and past.earlier_path}
    paths_by_deleted_file: dict[tuple[str, str], list[str]] = {}
    for path, past in renamed.items():
        paths_by_deleted_file.setdefault((reviews[path].top, past.earlier_path), []).append(path)
    result = dict(files)
    for paths in paths_by_deleted_file.values():
        most_similar = max(paths, key=lambda path: renamed[path].share)
        result |= {path: None for path in paths if path != most_similar}
    return result


def _file_at(ref: str, path: str, review: Review, versions: Versions, removed: RemovedFiles) -> PastFile | None:
    """Return one file at the revision; None for a new file. `removed` caches the removed files between calls."""
    top, inner = review
    tree = commit_of(top, ref)
    past = _first_committed(versions, top)
    if past is not None:
        return past
    linked = None if inner is None else link_of(tree, top, inner)
    if inner is None or linked is None:
        return _renamed_file(tree, path, top, removed)
    # The change may link to another commit of the inner repository. The commit to which the base links counts.
    inner_versions = _contents_by_name(linked, [path], inner)[path]
    past = _first_committed(inner_versions, inner) or _renamed_file(linked, path, inner, removed)
    if past is None or not past.earlier_path:
        return past
    return replace(past, earlier_path=os.path.relpath(os.path.join(inner, past.earlier_path), top))


def _contents_by_name(tree: str, paths: Sequence[str], top: str) -> dict[str, Versions]:
    """Return, for each file, the contents in a commit under each name that the file may have had. Git is called once for all files."""
    names = {path: [f"{tree}:{name}" for name in dict.fromkeys(_possible_names(path, top))] for path in paths}
    all_names = [name for names_of_file in names.values() for name in names_of_file]
    contents = dict(zip(all_names, contents_at(top, all_names), strict=True))
    return {path: {name: contents[name] for name in names_of_file} for path, names_of_file in names.items()}


def _first_committed(versions: Versions, top: str) -> PastFile | None:
    """Return the first of these versions that git has; None if there is none. Raises InputError if the clone lacks its content."""
    for name, data in versions.items():
        if data is not None:
            return PastFile(data)
        # A partial clone may lack the object of a file that the tree lists. Such a file is not new, so this is an error.
        if git(top, "rev-parse", "--verify", "--quiet", name).returncode == 0:
            _require_object(top, name)
    return None


def _require_object(top: str, name: str) -> None:
    """Raise InputError if git knows the object with this name but does not have its content."""
    if git(top, "cat-file", "-e", name).returncode != 0:
        raise InputError(f"--base-ref: {escaped_path(name)} is missing from this clone: fetch it (git fetch --refetch)")


def _possible_names(path: str, top: str) -> Iterator[str]:
    """Yield the names that a file may have had: with its links, with the links among its folders resolved, and with all links resolved."""
    absolute = os.path.abspath(path)
    for above in folders_above(absolute):
        if os.path.realpath(above) == top:
            yield os.path.relpath(absolute, above)
            break
    folder, name = os.path.split(absolute)
    for real in (os.path.join(os.path.realpath(folder), name), os.path.realpath(absolute)):
        if os.path.commonpath((top, real)) == top:
            yield os.path.relpath(real, top)


def contents_at(top: str, names: Sequence[str]) -> list[bytes | None]:
    """Return the contents of the objects with these names as they were committed, without any filter of the repository's settings.

    The result has None for a name that is not a file that git knows.
    """
    one_line_names = [name for name in names if "\n" not in name]
    answer = _cat_files(top, one_line_names, b"\n")
    contents = dict(zip(one_line_names, _blobs_in(answer, len(one_line_names)), strict=True))
    # Git repeats the name of a missing object in its answer. After a name with several lines, the next answers could not be separated. So
    # such names are requested one by one.
    for name in names:
        if "\n" in name:
            contents[name] = next(_blobs_in(_cat_files(top, [name], b"\0", "-z"), 1))
    return [contents[name] for name in names]


def contents_in(top: str, tree: str, paths: Sequence[str]) -> dict[str, bytes | None]:
    """Return the content of each file in a commit, by its path; None for a file that the commit does not have."""
    return dict(zip(paths, contents_at(top, [f"{tree}:{path}" for path in paths]), strict=True))


def _cat_files(top: str, names: Sequence[str], end: bytes, *flags: str) -> bytes:
    """Return the output of git cat-file for these names, each of which is sent with the terminator `end`."""
    if not names:
        return b""
    answer = git(top, "cat-file", "--batch", "--follow-symlinks", *flags, stdin=b"".join(os.fsencode(name) + end for name in names))
    if answer.returncode != 0:
        raise InputError(f"--base-ref: git cannot read the committed files: {os.fsdecode(answer.stderr).strip()}")
    return answer.stdout


def _blobs_in(text: bytes, count: int) -> Iterator[bytes | None]:
    """Yield the contents in the output of git cat-file --batch for `count` names; None for a name that is not a file."""
    start = 0
    for _ in range(count):
        line_end = text.index(b"\n", start)
        words = text[start:line_end].split(b" ")  # of a file: the name of the object, "blob", and the length of the content
        if not words[-1].isdigit():  # an answer "... missing", without content after it
            yield None
            start = line_end + 1
            continue
        content_start = line_end + 1
        content_end = content_start + int(words[-1])
        # A link that leads nowhere has a length and a text, too.
        is_blob = len(words) == 3 and words[1] == b"blob" and _OBJECT.fullmatch(words[0]) is not None
        yield text[content_start:content_end] if is_blob else None
        start = content_end + 1  # after the line feed that ends the content


def _renamed_file(tree: str, path: str, top: str, removed: RemovedFiles) -> PastFile | None:
    """Return the removed file that became the file at `path`; None if no removed file is similar enough."""
    try:
        data = read_bytes(path)
        parts, is_pipeline_now = parts_of(data), is_pipeline_file(data)
    except InputError:  # the verdict on the current file states this error
        return None
    # Only deleted files whose names end as the present one does, or in .toml, are compared with it.
    key = (tree, top, tuple(sorted({".toml", os.path.splitext(path)[1].lower()} - {""})))
    if key not in removed:
        removed[key] = [RemovedFile(name, content, parts_of(content)) for name, content in removed_files(*key)]
    # A pipeline is compared with earlier pipelines alone.
    candidates = [file for file in removed[key] if is_pipeline_file(file.data) or not is_pipeline_now]
    if not candidates:
        return None
    # Of several files with one share, the last by path is taken.
    nearest = max(candidates, key=lambda file: (kept_share(file.parts, parts), file.path))
    share = kept_share(nearest.parts, parts)
    return PastFile(nearest.data, nearest.path, share) if share >= LEAST_KEPT_SHARE else None


def removed_files(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file of the commit that counts as deleted.

    The content of a link is the content of its target. A file that was added to the history of the commit after the histories parted does
    not count. Raises InputError if the clone lacks the content of a file.
    """
    entries = list(_changed_entries(tree, top, endings))
    for entry, data in zip(entries, contents_at(top, [entry.blob for entry in entries]), strict=True):
        if data is None:
            _require_object(top, entry.blob)
        elif not entry.is_present or not _is_kept(data, os.path.join(top, entry.path)):
            yield entry.path, data


class ChangedEntry(NamedTuple):
    """A file or link of a commit that the change under review may have changed or removed.

    Attributes:
        blob: A name of its content, for git.
        is_present: Whether the work tree still has a file or link at the path.
    """

    path: str
    blob: str
    is_present: bool


def _changed_entries(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[ChangedEntry]:
    """Yield the changed entries of a commit with one of these endings."""
    changed, common = differing_paths(top, tree), _common_files(top, tree)
    for entry in tree_entries(top, tree):
        place = os.path.join(top, entry.path)
        is_common = common is None or entry.path in common
        if not ((entry.is_file or entry.is_link) and is_common and place.lower().endswith(endings)):
            continue
        # A file that is reached only through a link among its folders is another file now.
        is_present = os.path.isfile(place) and (entry.is_link or os.path.realpath(place) == place)
        if not is_present or entry.path in changed:
            # The object of a link is a path. The name COMMIT:PATH leads to the target.
            blob = f"{tree}:{entry.path}" if entry.is_link else os.fsdecode(entry.blob)
            yield ChangedEntry(entry.path, blob, is_present)


def _is_kept(data: bytes, place: str) -> bool:
    """Return whether the file at `place` still contains enough of an earlier content, and is a pipeline if the content was."""
    try:
        current = read_bytes(place)
    except InputError:
        return False
    if is_pipeline_file(data) and not is_pipeline_file(current):
        return False
    return kept_share(parts_of(data), parts_of(current)) >= LEAST_KEPT_SHARE


def is_pipeline_file(data: bytes) -> bool:
    """Return whether a content is a pipeline, which may be invalid."""
    try:
        return is_pipeline(toml_document(data, "").tables)
    except InvalidFile:
        return False


def _common_files(top: str, tree: str) -> frozenset[str] | None:
    """Return the files at the merge bases of the work tree and the commit; None if there is no merge base, or if the commit is one.

    If the commit is a merge base, all of its files are common to both histories.
    """
    merge_bases = _merge_bases(top, tree)
    if not merge_bases or tree in merge_bases:
        return None
    return frozenset(entry.path for base in merge_bases for entry in tree_entries(top, base))


def _merge_bases(top: str, tree: str) -> list[str]:
    """Return the last common commits of the work tree and a commit; an empty list if they have no common history."""
    return git(top, "merge-base", "--all", tree, "HEAD").stdout.decode().split()


def touched_paths(top: str, tree: str) -> frozenset[str]:
    """Return the paths of files that the work tree has added, changed or removed since its last common commits with `tree`.

    A tracked file that is equal to its version in `tree` is left out. Untracked files are included, except files that git ignores.
    """
    merge_bases = _merge_bases(top, tree) or [tree]
    tracked = frozenset().union(*(differing_paths(top, base) for base in merge_bases)) & differing_paths(top, tree)
    return tracked | frozenset(map(os.fsdecode, list_entries(top, "ls-files", "-z", "--others", "--exclude-standard")))


def differing_paths(top: str, tree: str) -> frozenset[str]:
    """Return the paths of tracked files that differ from a commit, whether the difference is committed or not."""
    flags = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty")
    return frozenset(map(os.fsdecode, list_entries(top, "diff", *flags, tree)))


def parts_of(data: bytes) -> frozenset[Hashable]:
    """Return the parts of a file by which files are compared.

    The parts of a TOML file are its keys with their values. The parts of any other file are its lines without white space, except lines
    that are empty or begin with "#".
    """
    try:
        return frozenset(_key_values(toml_document(data, "").tables, ()))
    except InvalidFile:
        lines = [b"".join(line.split()) for line in data.splitlines()]
        return frozenset(line for line in lines if line and not line.startswith(b"#"))


def _key_values(value: Any, path: tuple[str, ...]) -> Iterator[Hashable]:
    """Yield each key with its value. A table in a list is identified by its name if it has one, so that the order does not matter."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _key_values(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        for index, inner in enumerate(value):
            yield from _key_values(inner, (*path, repr(inner.get("name", index))))
    else:
        yield path, repr(value) if isinstance(value, list) else value


def kept_share(old: frozenset[Hashable], new: frozenset[Hashable]) -> float:
    """Return the share of the old parts that are also new parts; 0 if there are no old parts."""
    return len(old & new) / len(old) if old else 0.0


def is_based_on(top: str, tree: str) -> bool:
    """Return whether the history of the work tree contains the commit."""
    return tree in _merge_bases(top, tree)
