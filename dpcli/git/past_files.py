"""Files at a git revision: under their path, through links, or under an earlier name; and the files that a change touches."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import is_pipeline
from dpcli.file.pipeline.read import toml_document
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.git.command import commit_of, git, link_of, listed, review_of, tree_entries

Versions = Mapping[str, bytes | None]  # the name of an object: what it holds, None where git has no such file
_OBJECT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
ALIKE = 0.5  # share of what a file says that is still in the one it became


@dataclass(frozen=True, slots=True)
class Past:
    """The bytes of a file as they were committed. renamed: its earlier path in the repository, "" where that is the same."""

    data: bytes
    renamed: str = ""
    share: float = 1.0  # of what it said that is in the file that it became


Gone = tuple[str, bytes, frozenset[Hashable]]  # path, bytes and parts of a file that is none any more
Lost = dict[tuple[str, str, tuple[str, ...]], list[Gone]]  # by commit, repository and endings


def pasts(ref: str, paths: Sequence[str]) -> dict[str, Past | None]:
    """Return each file at the git revision `ref`, None where nothing there became it.

    A link is followed as it was then; a file under a new name, committed or not, is compared with the deleted file that shares most of its
    keys and values, and at least half. A file of a repository inside the one under review is compared with what stood in its place, else
    with the commit that was linked there: the names of branches inside are nothing that a review has seen.

    Raises:
        InputError: git knows no such commit around a file, or cannot say what was there.
    """
    reviews = {path: review_of(path) for path in paths}
    tops: dict[str, list[str]] = {}
    for path, (top, _) in reviews.items():
        tops.setdefault(top, []).append(path)
    versions = {top: _versions(commit_of(top, ref), inside, top) for top, inside in tops.items()}
    lost: Lost = {}
    files = {path: _past(ref, path, top, inner, versions[top][path], lost) for path, (top, inner) in reviews.items()}
    return _each_once(files, {path: top for path, (top, _) in reviews.items()})


def _each_once(files: dict[str, Past | None], tops: Mapping[str, str]) -> dict[str, Past | None]:
    """Let each deleted file become one other, the most like it; the others that are like it are new."""
    heirs: dict[tuple[str, str], str] = {}
    for path, past in files.items():
        if past is not None and past.renamed:
            other = heirs.setdefault((tops[path], past.renamed), path)
            rival = files[other]
            if rival is not None and past.share > rival.share:
                heirs[tops[path], past.renamed] = path
    kept = set(heirs.values())
    return {path: past if past is None or not past.renamed or path in kept else None for path, past in files.items()}


def _past(ref: str, path: str, top: str, inner: str | None, versions: Versions, lost: Lost) -> Past | None:
    tree = commit_of(top, ref)
    past = _committed(versions, top)
    linked = None if past is not None or inner is None else link_of(tree, top, inner)
    if past is not None or inner is None or linked is None:
        return past or _renamed(tree, path, top, lost)
    # The change may have another commit of the repository inside: what counts is the one that the base links to.
    within = _committed(_versions(linked, [path], inner)[path], inner) or _renamed(linked, path, inner, lost)
    renamed = within and within.renamed and os.path.relpath(os.path.join(inner, within.renamed), top)
    return within and Past(within.data, renamed or "", within.share)


def _versions(tree: str, paths: Sequence[str], top: str) -> dict[str, Versions]:
    """Return for each file what a commit has under each name that the file may have had; git is asked once for all of them."""
    names = {path: [f"{tree}:{name}" for name in dict.fromkeys(_names(path, top))] for path in paths}
    every = [name for own in names.values() for name in own]
    contents = dict(zip(every, blobs(top, every), strict=True))
    return {path: {name: contents[name] for name in own} for path, own in names.items()}


def _committed(versions: Versions, top: str) -> Past | None:
    for name, data in versions.items():
        if data is not None:
            return Past(data)
        # The tree may list what the clone lacks (a partial one, offline): a file that was there is not a new one.
        if git(top, "rev-parse", "--verify", "--quiet", name).returncode == 0:
            _require_object(top, name)
    return None


def _require_object(top: str, name: str) -> None:
    """Raise InputError where git knows the object of a name, but does not have it."""
    if git(top, "cat-file", "-e", name).returncode != 0:
        raise InputError(f"--base-ref: {escaped_path(name)} is missing from this clone: fetch it (git fetch --refetch)")


def _names(path: str, top: str) -> Iterator[str]:
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


def blobs(top: str, names: Sequence[str]) -> list[bytes | None]:
    """Return the files that git knows by these names, as they were committed: no filter of the repository's settings has a part in it."""
    plain = [name for name in names if "\n" not in name]
    known = dict(zip(plain, _answers(_batch(top, plain, b"\n"), len(plain)), strict=True))
    # git repeats the name of what it does not have, so that nothing can be read behind one of several lines.
    broken = {name: next(_answers(_batch(top, [name], b"\0", "-z"), 1)) for name in names if "\n" in name}
    return [broken[name] if name in broken else known[name] for name in names]


def _batch(top: str, names: Sequence[str], end: bytes, *flags: str) -> bytes:
    if not names:
        return b""
    answer = git(top, "cat-file", "--batch", "--follow-symlinks", *flags, stdin=b"".join(os.fsencode(name) + end for name in names))
    if answer.returncode != 0:
        raise InputError(f"--base-ref: git cannot read what was committed: {os.fsdecode(answer.stderr).strip()}")
    return answer.stdout


def _answers(text: bytes, count: int) -> Iterator[bytes | None]:
    at = 0
    for _ in range(count):
        end = text.index(b"\n", at)
        words = text[at:end].split(b" ")
        # "... missing" has nothing below it; a link that leads nowhere has a length as well, and then its own text.
        size = int(words[-1]) if words[-1].isdigit() else -1
        blob = words[1:2] == [b"blob"] and len(words) == 3 and _OBJECT.fullmatch(words[0])
        yield text[end + 1 : end + 1 + size] if blob else None
        at = end + 2 + size


def _renamed(tree: str, path: str, top: str, lost: Lost) -> Past | None:
    try:
        own_data = read_bytes(path)
        own, a_pipeline = parts_of(own_data), says_pipeline(own_data)
    except InputError:  # what is wrong with the file itself is its verdict
        return None
    key = (tree, top, tuple(sorted({".toml", os.path.splitext(path)[1].lower()} - {""})))
    if key not in lost:
        lost[key] = [(name, data, parts_of(data)) for name, data in gone_files(*key)]
    like = ((share_of(parts, own), name, data) for name, data, parts in lost[key] if says_pipeline(data) or not a_pipeline)
    share, name, data = max(like, default=(0.0, "", b""))
    return Past(data, name, share) if share >= ALIKE else None


def gone_files(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield (path, bytes) of each file of the commit that is no file of its own any more, or that keeps less than half of what it said.

    So is a pipeline that is none any more, whatever is left of it. What a link led to counts as what it said. What the commit has and
    the work tree never had, as somebody added it after they parted, is not gone. Raises InputError where the clone lacks one.
    """
    lost = list(_perhaps_gone(tree, top, endings))
    for (name, blob, present), data in zip(lost, blobs(top, [blob for _, blob, _ in lost]) if lost else (), strict=True):
        if data is None:
            _require_object(top, blob)
        elif not present or not _is_kept(data, os.path.join(top, name)):
            yield name, data


def _perhaps_gone(tree: str, top: str, endings: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield path, object, and whether it is still the file or link that it was, of what differs or is gone."""
    changed, common = differing(top, tree), _common(top, tree)
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
            yield name, f"{tree}:{name}" if link else os.fsdecode(blob), present


def _is_kept(data: bytes, place: str) -> bool:
    try:
        now = read_bytes(place)
    except InputError:
        return False
    return share_of(parts_of(data), parts_of(now)) >= ALIKE and (says_pipeline(now) or not says_pipeline(data))


def says_pipeline(data: bytes) -> bool:
    """Return whether a file is a pipeline, with a fault or without."""
    try:
        return is_pipeline(toml_document(data, "")[1])
    except InvalidFile:
        return False


def _common(top: str, tree: str) -> frozenset[str] | None:
    """Return the files at the merge bases of the work tree and `tree`; None where they are not known, or `tree` is one."""
    began = _began(top, tree)
    if not began or tree in began:
        return None
    return frozenset(name for one in began for _, _, name in tree_entries(top, one))


def _began(top: str, tree: str) -> list[str]:
    return git(top, "merge-base", "--all", tree, "HEAD").stdout.decode().split()


def touched(top: str, tree: str) -> frozenset[str]:
    """Return the paths of files that the work tree made new or other than at the commit: none that `tree` alone has changed since."""
    began = _began(top, tree) or [tree]
    own = frozenset().union(*(differing(top, one) for one in began)) & differing(top, tree)
    return own | frozenset(map(os.fsdecode, listed(top, "ls-files", "-z", "--others", "--exclude-standard")))


def differing(top: str, tree: str) -> frozenset[str]:
    """Return the paths whose files differ from a commit, committed or not; those that git does not know are none of them."""
    flags = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty")
    return frozenset(map(os.fsdecode, listed(top, "diff", *flags, tree)))


def parts_of(data: bytes) -> frozenset[Hashable]:
    """Return what a file says, in parts that can be counted: every key of TOML with its value, else the lines without spaces."""
    try:
        return frozenset(_leaves(toml_document(data, "")[1], ()))
    except InvalidFile:
        return frozenset(
            b"".join(line.split()) for line in data.splitlines() if line.strip() and not line.lstrip().startswith(b"#")
        )


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[Hashable]:
    """Yield keys with values; a table in a list stands under its name where it has one: order, comments and spelling mean nothing."""
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


def up_to_date(top: str, tree: str) -> bool:
    """Return whether the work tree goes on from the commit."""
    return tree in _began(top, tree)
