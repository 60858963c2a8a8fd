"""Verdicts on files that are not given to the gate.

They concern pipelines that the change removes or moves, other changed pipelines, and changed workflows that call dpcli.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import first_names
from dpcli.gate.repository import (
    OtherFile,
    TouchedFile,
    content_of,
    missing_from_checkout,
    other_pipelines,
    pipelines_of_other_endings,
    reviewed_commits,
    submodule_folders,
    tops_of,
    touched_files,
)
from dpcli.gate.verdicts import Condition, Judged, Verdict
from dpcli.git.command import commit_of, holds, present_files, tree_entries
from dpcli.git.past_files import (
    LEAST_KEPT_SHARE,
    contents_in,
    differing_paths,
    is_pipeline_file,
    kept_share,
    parts_of,
    removed_files,
    touched_paths,
)

# The paths of files that can start the gate in CI.
WORKFLOWS = re.compile(r"\.github/.*\.ya?ml|\.gitlab-ci\.yml|\.gitlab/.*\.ya?ml|\.pre-commit-config\.yaml", re.DOTALL)


class OtherParts(NamedTuple):
    """A file that is not judged, with the parts of its content. Removed files are compared with these parts to recognise a move."""

    path: str
    parts: frozenset[Hashable]


def removed_pipelines(ref: str, paths: Sequence[str], renamed: Iterable[str]) -> Iterator[Judged]:
    """Yield verdicts on pipelines of the base that are gone: a failure for each that was moved to a file that is not judged.

    The others are warnings: a pipeline that was deleted or is no longer one, and a submodule that was removed.

    Args:
        ref: The git revision of the base.
        paths: The judged files. If there are none, the repository around the working directory is under review.
        renamed: The paths of judged files at the base, if they were renamed.

    Raises:
        InputError: As `dpcli.git.past_files.files_at`.
    """
    judged, given = frozenset(map(os.path.realpath, paths)), frozenset(map(os.path.abspath, paths))
    known = frozenset(renamed)
    yield from _removed_submodules(ref, paths)
    for (top, folder), tree in reviewed_commits(ref, paths).items():
        if tree is None:
            continue
        pipelines = {}  # content by path in the repository under review
        for within, data in removed_files(tree, folder, (".toml",)):
            name = os.path.relpath(os.path.join(folder, within), top)
            if name not in known and is_pipeline_file(data):
                pipelines[name] = data
        others = list(_unjudged_files(folder, tree, judged)) if pipelines else []
        for name, data in pipelines.items():
            place = os.path.join(top, name)
            is_judged = place in given and (_leads_to_judged(place, judged) or os.path.isfile(place))
            yield from _verdicts_of_removed(name, data, ref, top, others, is_judged or _is_still_pipeline(place))


def _verdict_on_path(path: str, name: str, text: str, verdict: Verdict = "warn") -> Judged:
    """Return a verdict with one condition and no account."""
    return Judged(path, None, (Condition(name, verdict, text, ()),))


def _removed_submodules(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """Yield a warning for each submodule of the base that no longer exists."""
    for top in dict.fromkeys(top for top, _ in reviewed_commits(ref, paths)):
        present = {os.path.relpath(place, top) for place in submodule_folders(top)}
        for entry in tree_entries(top, commit_of(top, ref)):
            if entry.is_submodule and entry.path not in present:
                place = os.path.relpath(os.path.join(top, entry.path))
                text = f"{escaped_path(place)}, a repository inside this one at {ref}, was removed: nothing counts its pipelines' outputs"
                yield _verdict_on_path(place, "deleted", text)


def _leads_to_judged(place: str, judged: frozenset[str]) -> bool:
    """Return whether a path leads to a judged file through a link. The file or one of its folders may be the link."""
    real = os.path.realpath(place)
    return real != place and real in judged


def _is_still_pipeline(place: str) -> bool:
    """Return whether a path is a pipeline file and contains no links. The gate judges such a file, or warns that it was not given."""
    return os.path.isfile(place) and os.path.realpath(place) == place and is_pipeline_file(content_of(place) or b"")


def _unjudged_files(top: str, tree: str, judged: frozenset[str]) -> Iterator[OtherParts]:
    """Yield each file that the change touched, committed or not, and that is not judged."""
    for name in sorted(present_files(top) & touched_paths(top, tree)):
        place = os.path.join(top, name)
        if os.path.isfile(place) and os.path.realpath(place) not in judged:
            data = content_of(place)
            if data is not None:
                yield OtherParts(place, parts_of(data))


def _verdicts_of_removed(
    name: str, data: bytes, ref: str, top: str, others: Sequence[OtherParts], has_verdict: bool
) -> Iterator[Judged]:
    """Yield a failure if a removed pipeline was moved, or else a warning, unless another verdict is about its path (`has_verdict`)."""
    parts, place = parts_of(data), os.path.join(top, name)
    share, similar_path = max(((kept_share(parts, other.parts), other.path) for other in others), default=(0.0, ""))
    subject = f"{escaped_path(name)}, a pipeline at {ref}"
    if share >= LEAST_KEPT_SHARE:
        new_name = escaped_path(os.path.relpath(similar_path, top))
        text = f"{subject}, was moved to {new_name}, which is not judged: give that file to the gate too"
        yield _verdict_on_path(os.path.relpath(similar_path), "moved", text, "fail")
    elif not has_verdict:
        change = "is no longer a pipeline" if os.path.isfile(place) else "is deleted"
        text = f"{subject}, {change}: its outputs remain released, and are not counted here"
        yield _verdict_on_path(os.path.relpath(place), "deleted", text)


def missed_pipelines(ref: str, paths: Sequence[str], known: frozenset[str]) -> Iterator[Judged]:
    """Yield one warning about all pipelines that differ from the revision and are not judged, and one for each unchecked submodule.

    Args:
        ref: The git revision of the base.
        paths: The judged files. If there are none, the repository around the working directory is under review.
        known: The real paths of other files that already have a verdict.

    Raises:
        InputError: Git cannot list the files that differ.
    """
    around = list(paths) or [os.path.join(os.getcwd(), "pipeline.toml")]
    yield from _unchecked_submodules(ref, around)
    places = {file.real_path: file for file in touched_files(ref, paths)}
    for place in known & places.keys():
        del places[place]
    files = _changed_paths([*other_pipelines(around), *pipelines_of_other_endings(places, paths)], places) if places else []
    if files:
        subject = "a pipeline that differs" if len(files) == 1 else f"{len(files)} pipelines that differ"
        was = "was" if len(files) == 1 else "were"
        text = f"{first_names(map(escaped_path, files))}: {subject} from {ref} and {was} not given to the gate"
        yield _verdict_on_path(files[0], "missed", text)


def _changed_paths(files: Sequence[OtherFile], places: Mapping[str, TouchedFile]) -> list[str]:
    """Return the paths of the files whose content has changed. A file is not returned if only its mode has changed."""
    touched = {}
    names: dict[tuple[str, str], list[str]] = {}  # by repository and its commit at the revision
    for file in files:
        place = places.get(os.path.realpath(file.path))
        if place is not None:
            touched[file.path] = place
            if place.tree is not None:
                names.setdefault((place.folder, place.tree), []).append(place.name)
    old_contents = {(folder, tree): contents_in(folder, tree, paths) for (folder, tree), paths in names.items()}
    data = {file.path: file.data for file in files}
    return [
        path
        for path, place in touched.items()
        if place.tree is None or old_contents[place.folder, place.tree][place.name] != data[path]
    ]


def _unchecked_submodules(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """Yield a warning for each submodule that is not checked out and whose commit differs from the revision."""
    for place in missing_from_checkout(paths):
        top = next(top for top in tops_of(paths) if holds(top, os.path.abspath(place)))
        if os.path.relpath(place, top) in differing_paths(top, commit_of(top, ref)):
            text = (
                f"{escaped_path(place)}: a repository inside this one, whose commit differs from {ref}, is not checked out: its files are "
                "not judged (git submodule update --init; submodules: recursive in CI)"
            )
            yield _verdict_on_path(place, "missed", text)


def changed_workflows(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """Yield a warning for each workflow that differs from the revision and calls dpcli, now or at the revision.

    Those of submodules are left out, because they are not run. Raises InputError if git cannot list the changed files.
    """
    for (top, folder), tree in reviewed_commits(ref, paths).items():
        if tree is None or top != folder:  # the workflows of a submodule are not run
            continue
        names = sorted(name for name in touched_paths(top, tree) if WORKFLOWS.fullmatch(name))
        for name, old in contents_in(top, tree, names).items():
            place = os.path.join(top, name)
            new = content_of(place)
            if new != old and (b"dpcli" in (new or b"") or b"dpcli" in (old or b"")):
                text = f"{escaped_path(name)} calls dpcli and differs from {ref}: it decides whether the gate runs and can block the change"
                yield _verdict_on_path(os.path.relpath(place), "workflow", text)
