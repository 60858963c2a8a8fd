"""Files at a git revision: under their path, through links, or under an earlier name; and the files that a change touches."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import is_pipeline
from dpcli.file.pipeline.read import toml_document
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.git.command import commit_of, git, link_of, listed, review_of, tree_entries

Versions = Mapping[str, bytes | None]  # the name of an object: what it holds, None where git has no such file
_OBJECT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
LEAST_KEPT_SHARE = 0.5  # of a file's keys and values, in the file that it became


@dataclass(frozen=True, slots=True)
class PastFile:
    """A file as it was committed.

    renamed: its earlier path in the repository, "" where that is the same. share: of its keys and values, those in the file it became.
    """

    data: bytes
    renamed: str = ""
    share: float = 1.0


class GoneFile(NamedTuple):
    """A file of a commit that the work tree has no more."""

    path: str
    data: bytes
    parts: frozenset[Hashable]


class ChangedEntry(NamedTuple):
    """An entry of a commit that differs from the work tree or is gone from it. is_present: whether it is still a file or link."""

    path: str
    blob: str
    is_present: bool


GoneFiles = dict[tuple[str, str, tuple[str, ...]], list[GoneFile]]  # by commit, repository and endings


def files_at(ref: str, paths: Sequence[str]) -> dict[str, PastFile | None]:
    """Return each file as it was at the git revision `ref`, None where it is new.

    A link is followed as it was then. A file under a new name, committed or not, is compared with the deleted file that shares most of its
    keys and values, at least half. A file of a repository inside the one under review is compared with the file in its place then, else
    with that of the commit that was linked there; branches of the repository inside count for nothing, as no review has seen them.

    Raises:
        InputError: git knows no such commit around a file, or cannot say what was there.
    """
    reviews = {path: review_of(path) for path in paths}
    tops: dict[str, list[str]] = {}
    for path, (top, _) in reviews.items():
        tops.setdefault(top, []).append(path)
    versions = {top: _contents_by_name(commit_of(top, ref), inside, top) for top, inside in tops.items()}
    gone: GoneFiles = {}
    files = {path: _file_at(ref, path, top, inner, versions[top][path], gone) for path, (top, inner) in reviews.items()}
    return _with_one_heir_each(files, {path: top for path, (top, _) in reviews.items()})


def _with_one_heir_each(files: dict[str, PastFile | None], tops: Mapping[str, str]) -> dict[str, PastFile | None]:
    """Keep for each deleted file one renamed file, the most similar one; other similar files are new."""
    heirs: dict[tuple[str, str], str] = {}
    for path, past in files.items():
        if past is not None and past.renamed:
            other = heirs.setdefault((tops[path], past.renamed), path)
            rival = files[other]
            if rival is not None and past.share > rival.share:
                heirs[tops[path], past.renamed] = path
    kept = set(heirs.values())
    return {path: past if past is None or not past.renamed or path in kept else None for path, past in files.items()}


def _file_at(ref: str, path: str, top: str, inner: str | None, versions: Versions, gone: GoneFiles) -> PastFile | None:
    tree = commit_of(top, ref)
    past = _first_committed(versions, top)
    linked = None if past is not None or inner is None else link_of(tree, top, inner)
    if past is not None or inner is None or linked is None:
        return past or _renamed_file(tree, path, top, gone)
    # The change may have another commit of the repository inside: what counts is the one that the base links to.
    within = _first_committed(_contents_by_name(linked, [path], inner)[path], inner) or _renamed_file(linked, path, inner, gone)
    renamed = within and within.renamed and os.path.relpath(os.path.join(inner, within.renamed), top)
    return within and PastFile(within.data, renamed or "", within.share)


def _contents_by_name(tree: str, paths: Sequence[str], top: str) -> dict[str, Versions]:
    """Return for each file what a commit has under each name that the file may have had; git is asked once for all of them."""
    names = {path: [f"{tree}:{name}" for name in dict.fromkeys(_possible_names(path, top))] for path in paths}
    every = [name for own in names.values() for name in own]
    contents = dict(zip(every, contents_at(top, every), strict=True))
    return {path: {name: contents[name] for name in own} for path, own in names.items()}


def _first_committed(versions: Versions, top: str) -> PastFile | None:
    for name, data in versions.items():
        if data is not None:
            return PastFile(data)
        # The tree may list what the clone lacks (a partial one, offline): a file that was there is not a new one.
        if git(top, "rev-parse", "--verify", "--quiet", name).returncode == 0:
            _require_object(top, name)
    return None


def _require_object(top: str, name: str) -> None:
    """Raise InputError where git knows the object of a name, but does not have it."""
    if git(top, "cat-file", "-e", name).returncode != 0:
        raise InputError(f"--base-ref: {escaped_path(name)} is missing from this clone: fetch it (git fetch --refetch)")


def _possible_names(path: str, top: str) -> Iterator[str]:
    """Yield the names that the file may have had: as spelled, then without the links among its folders, then without any."""
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


def contents_at(top: str, names: Sequence[str]) -> list[bytes | None]:
    """Return the files that git knows by these names, as they were committed: no filter of the repository's settings has a part in it."""
    plain = [name for name in names if "\n" not in name]
    known = dict(zip(plain, _blobs_in(_cat_files(top, plain, b"\n"), len(plain)), strict=True))
    # git repeats the name of what it does not have, so that nothing can be read behind one of several lines.
    broken = {name: next(_blobs_in(_cat_files(top, [name], b"\0", "-z"), 1)) for name in names if "\n" in name}
    return [broken[name] if name in broken else known[name] for name in names]


def _cat_files(top: str, names: Sequence[str], end: bytes, *flags: str) -> bytes:
    if not names:
        return b""
    answer = git(top, "cat-file", "--batch", "--follow-symlinks", *flags, stdin=b"".join(os.fsencode(name) + end for name in names))
    if answer.returncode != 0:
        raise InputError(f"--base-ref: git cannot read what was committed: {os.fsdecode(answer.stderr).strip()}")
    return answer.stdout


def _blobs_in(text: bytes, count: int) -> Iterator[bytes | None]:
    at = 0
    for _ in range(count):
        end = text.index(b"\n", at)
        words = text[at:end].split(b" ")
        # "... missing" has nothing below it; a link that leads nowhere has a length as well, and then its own text.
        size = int(words[-1]) if words[-1].isdigit() else -1
        blob = words[1:2] == [b"blob"] and len(words) == 3 and _OBJECT.fullmatch(words[0])
        yield text[end + 1 : end + 1 + size] if blob else None
        at = end + 2 + size


def _renamed_file(tree: str, path: str, top: str, gone: GoneFiles) -> PastFile | None:
    try:
        own_data = read_bytes(path)
        own, is_pipeline_now = parts_of(own_data), is_pipeline_file(own_data)
    except InputError:  # what is wrong with the file itself is its verdict
        return None
    key = (tree, top, tuple(sorted({".toml", os.path.splitext(path)[1].lower()} - {""})))
    if key not in gone:
        gone[key] = [GoneFile(name, data, parts_of(data)) for name, data in gone_files(*key)]
    alike = (
        (kept_share(one.parts, own), one.path, one.data) for one in gone[key] if is_pipeline_file(one.data) or not is_pipeline_now
    )
    share, name, data = max(alike, default=(0.0, "", b""))
    return PastFile(data, name, share) if share >= LEAST_KEPT_SHARE else None


def gone_files(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of each file of the commit that is gone, or has less than half of its keys and values left.

    A pipeline that is a pipeline no more is gone too. The content of a link is that of its target. A file that the commit has and the work
    tree never had, as it was added after they parted, is not gone. Raises InputError where the clone lacks one.
    """
    entries = list(_changed_entries(tree, top, endings))
    for entry, data in zip(entries, contents_at(top, [entry.blob for entry in entries]) if entries else (), strict=True):
        if data is None:
            _require_object(top, entry.blob)
        elif not entry.is_present or not _is_kept(data, os.path.join(top, entry.path)):
            yield entry.path, data


def _changed_entries(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[ChangedEntry]:
    changed, common = differing_paths(top, tree), _common_files(top, tree)
    for mode, blob, name in tree_entries(top, tree):
        place, link = os.path.join(top, name), mode == b"120000"
        if (
            not place.lower().endswith(endings)
            or not (link or mode.startswith(b"100"))
            or (common is not None and name not in common)
        ):
            continue
        present = os.path.isfile(place) and (link or os.path.realpath(place) == place)
        if not present or name in changed:
            yield ChangedEntry(name, f"{tree}:{name}" if link else os.fsdecode(blob), present)


def _is_kept(data: bytes, place: str) -> bool:
    try:
        now = read_bytes(place)
    except InputError:
        return False
    return kept_share(parts_of(data), parts_of(now)) >= LEAST_KEPT_SHARE and (is_pipeline_file(now) or not is_pipeline_file(data))


def is_pipeline_file(data: bytes) -> bool:
    """Return whether a file is a pipeline, valid or not."""
    try:
        return is_pipeline(toml_document(data, "")[1])
    except InvalidFile:
        return False


def _common_files(top: str, tree: str) -> frozenset[str] | None:
    """Return the files at the merge bases of the work tree and the commit; None where those are unknown, or the commit is one."""
    began = _merge_bases(top, tree)
    if not began or tree in began:
        return None
    return frozenset(name for one in began for _, _, name in tree_entries(top, one))


def _merge_bases(top: str, tree: str) -> list[str]:
    return git(top, "merge-base", "--all", tree, "HEAD").stdout.decode().split()


def touched_paths(top: str, tree: str) -> frozenset[str]:
    """Return the paths of files that the work tree added or changed since it parted from the commit."""
    began = _merge_bases(top, tree) or [tree]
    own = frozenset().union(*(differing_paths(top, one) for one in began)) & differing_paths(top, tree)
    return own | frozenset(map(os.fsdecode, listed(top, "ls-files", "-z", "--others", "--exclude-standard")))


def differing_paths(top: str, tree: str) -> frozenset[str]:
    """Return the paths whose files differ from a commit, committed or not; without files that git does not know."""
    flags = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty")
    return frozenset(map(os.fsdecode, listed(top, "diff", *flags, tree)))


def parts_of(data: bytes) -> frozenset[Hashable]:
    """Return the parts of a file, by which files are compared: every key of TOML with its value, else the lines without spaces."""
    try:
        return frozenset(_key_values(toml_document(data, "")[1], ()))
    except InvalidFile:
        return frozenset(
            b"".join(line.split()) for line in data.splitlines() if line.strip() and not line.lstrip().startswith(b"#")
        )


def _key_values(value: Any, path: tuple[str, ...]) -> Iterator[Hashable]:
    """Yield keys with values; a table in a list is known by its name where it has one, so that order makes no difference."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _key_values(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        for index, inner in enumerate(value):
            yield from _key_values(inner, (*path, repr(inner.get("name", index))))
    else:
        yield path, repr(value) if isinstance(value, list) else value


def kept_share(old: frozenset[Hashable], new: frozenset[Hashable]) -> float:
    """Return the share of the old parts that are among the new ones."""
    return len(old & new) / len(old) if old else 0.0


def is_based_on(top: str, tree: str) -> bool:
    """Return whether the work tree's history contains the commit."""
    return tree in _merge_bases(top, tree)
