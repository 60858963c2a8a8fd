"""Verdicts on files that were not given to the gate, so that a change cannot escape review by leaving a file out.

judge.py calls these functions if the gate compares with a git revision, the *base*. The files are pipelines that were deleted or moved
(`removed_pipelines`), other pipelines that differ from the base (`missed_pipelines`), and workflows that call dpcli (`changed_workflows`).
The files that were given to the gate are called judged. A removed pipeline is recognised under another path by its *parts*, which are its
keys with their values: a file that contains at least half of them (`LEAST_KEPT_SHARE`) counts as the same pipeline.

`top` is the root of the repository under review, which may contain submodules. A `name` is a path relative to `top`, and a `place` is an
absolute path. `folder` is the root of the repository or of a submodule, and `tree` is its commit at the base.
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
from dpcli.git.command import commit_of, present_files, tree_entries
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
from dpcli.git.work_trees import holds

# The paths of files that can start the gate in CI.
WORKFLOWS = re.compile(r"\.github/.*\.ya?ml|\.gitlab-ci\.yml|\.gitlab/.*\.ya?ml|\.pre-commit-config\.yaml", re.DOTALL)


class OtherParts(NamedTuple):
    """A file that is not judged, with the parts of its content, by which it is recognised as a moved pipeline."""

    place: str
    parts: frozenset[Hashable]


def removed_pipelines(ref: str, paths: Sequence[str], earlier_names: Iterable[str]) -> Iterator[Judged]:
    """Yield a failure for each pipeline of the base that was moved to a file that is not judged.

    Yield a warning for each pipeline that was deleted or is no longer a pipeline, and for each submodule that was removed.

    Args:
        paths: The judged files. If there are none, the repository around the working directory is under review.
        earlier_names: The names that renamed judged files had at the base.

    Raises:
        InputError: Git does not know the revision, or the clone lacks a commit of a submodule or the content of a removed file.
    """
    # The judged files with their links resolved, and as they were given.
    judged_places, given_places = frozenset(map(os.path.realpath, paths)), frozenset(map(os.path.abspath, paths))
    renamed = frozenset(earlier_names)
    yield from _removed_submodules(ref, paths)
    for (top, folder), tree in reviewed_commits(ref, paths).items():
        if tree is None:  # a submodule that is new has no earlier pipelines
            continue
        pipelines = {}  # content by name
        for path_in_folder, data in removed_files(tree, folder, (".toml",)):
            name = os.path.relpath(os.path.join(folder, path_in_folder), top)
            if name not in renamed and is_pipeline_file(data):
                pipelines[name] = data
        # The files to which a removed pipeline may have been moved.
        others = list(_unjudged_files(folder, tree, judged_places)) if pipelines else []
        for name, data in pipelines.items():
            place = os.path.join(top, name)
            # A file that was given to the gate and still exists has a verdict of its own.
            is_judged = place in given_places and (_leads_to_judged(place, judged_places) or os.path.isfile(place))
            has_other_verdict = is_judged or _is_still_pipeline(place)
            yield from _verdicts_of_removed(name, data, ref, top, others, has_other_verdict)


def _verdict_on_path(path: str, name: str, text: str, verdict: Verdict = "warn") -> Judged:
    """Return a verdict on a file without an account, by one condition with this name and text."""
    return Judged(path, None, (Condition(name, verdict, text, ()),))


def _removed_submodules(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """Yield a warning for each submodule of the base that no longer exists."""
    for top in dict.fromkeys(top for top, _ in reviewed_commits(ref, paths)):
        present = {os.path.relpath(place, top) for place in submodule_folders(top)}
        for entry in tree_entries(top, commit_of(top, ref)):
            if entry.is_submodule and entry.path not in present:
                path = os.path.relpath(os.path.join(top, entry.path))
                text = f"{escaped_path(path)}, a repository inside this one at {ref}, was removed: nothing counts its pipelines' outputs"
                yield _verdict_on_path(path, "deleted", text)


def _leads_to_judged(place: str, judged_places: frozenset[str]) -> bool:
    """Return whether a path leads to a judged file through a link. The file or one of its folders may be the link."""
    real = os.path.realpath(place)
    return real != place and real in judged_places


def _is_still_pipeline(place: str) -> bool:
    """Return whether a path is a pipeline file and contains no links. The gate judges such a file, or warns that it was not given."""
    return os.path.isfile(place) and os.path.realpath(place) == place and is_pipeline_file(content_of(place) or b"")


def _unjudged_files(folder: str, tree: str, judged_places: frozenset[str]) -> Iterator[OtherParts]:
    """Yield each file of a repository or submodule that exists, that the change touched, and that is not judged.

    The file need not be committed.
    """
    for path_in_folder in sorted(present_files(folder) & touched_paths(folder, tree)):
        place = os.path.join(folder, path_in_folder)
        if os.path.isfile(place) and os.path.realpath(place) not in judged_places:
            data = content_of(place)
            if data is not None:
                yield OtherParts(place, parts_of(data))


def _verdicts_of_removed(
    name: str, data: bytes, ref: str, top: str, others: Sequence[OtherParts], has_other_verdict: bool
) -> Iterator[Judged]:
    """Yield a failure if a removed pipeline was moved to one of `others`, or else a warning, unless the path has another verdict."""
    parts, place = parts_of(data), os.path.join(top, name)
    share, similar_place = max(((kept_share(parts, other.parts), other.place) for other in others), default=(0.0, ""))
    subject = f"{escaped_path(name)}, a pipeline at {ref}"
    if share >= LEAST_KEPT_SHARE:
        new_name = escaped_path(os.path.relpath(similar_place, top))
        text = f"{subject}, was moved to {new_name}, which is not judged: give that file to the gate too"
        yield _verdict_on_path(os.path.relpath(similar_place), "moved", text, "fail")
    elif not has_other_verdict:
        change = "is no longer a pipeline" if os.path.isfile(place) else "is deleted"
        text = f"{subject}, {change}: its outputs remain released, and are not counted here"
        yield _verdict_on_path(os.path.relpath(place), "deleted", text)


def missed_pipelines(ref: str, paths: Sequence[str], places_with_verdict: frozenset[str]) -> Iterator[Judged]:
    """Yield one warning about all pipelines that differ from the revision and are not judged.

    Yield another one for each submodule that differs but is not checked out.

    Args:
        paths: The judged files. If there are none, the repository around the working directory is under review.
        places_with_verdict: The real paths of other files that already have a verdict.

    Raises:
        InputError: Git cannot list the files that differ.
    """
    # Without a judged file, any path in the working directory, even of no file, tells which repository is under review.
    around = list(paths) or [os.path.join(os.getcwd(), "pipeline.toml")]
    yield from _unchecked_submodules(ref, around)
    touched = {file.real_path: file for file in touched_files(ref, paths)}
    for place in places_with_verdict & touched.keys():  # such as the new place of a moved pipeline
        del touched[place]
    missed = _changed_paths([*other_pipelines(around), *pipelines_of_other_endings(touched, paths)], touched) if touched else []
    if missed:
        subject = "a pipeline that differs" if len(missed) == 1 else f"{len(missed)} pipelines that differ"
        verb = "was" if len(missed) == 1 else "were"
        text = f"{first_names(map(escaped_path, missed))}: {subject} from {ref} and {verb} not given to the gate"
        yield _verdict_on_path(missed[0], "missed", text)


def _changed_paths(files: Sequence[OtherFile], touched: Mapping[str, TouchedFile]) -> list[str]:
    """Return the paths of those files whose content has changed, and not only their mode. `touched` has the touched files by real path."""
    pairs = [(file, touched[os.path.realpath(file.path)]) for file in files if os.path.realpath(file.path) in touched]
    names: dict[tuple[str, str], list[str]] = {}  # by repository and its commit at the revision
    for _, at_base in pairs:
        if at_base.tree is not None:
            names.setdefault((at_base.folder, at_base.tree), []).append(at_base.name)
    old_contents = {(folder, tree): contents_in(folder, tree, paths) for (folder, tree), paths in names.items()}
    changed: dict[str, None] = {}
    for file, at_base in pairs:
        if at_base.tree is None or old_contents[at_base.folder, at_base.tree][at_base.name] != file.data:
            changed[file.path] = None
    return list(changed)


def _unchecked_submodules(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """Yield a warning for each submodule that is not checked out and whose commit differs from the revision."""
    for path in missing_from_checkout(paths):
        top = next(top for top in tops_of(paths) if holds(top, os.path.abspath(path)))
        if os.path.relpath(path, top) in differing_paths(top, commit_of(top, ref)):
            text = (
                f"{escaped_path(path)}: a repository inside this one, whose commit differs from {ref}, is not checked out: its files are "
                "not judged (git submodule update --init; submodules: recursive in CI)"
            )
            yield _verdict_on_path(path, "missed", text)


def changed_workflows(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """Yield a warning for each workflow that differs from the revision and calls dpcli, now or at the revision.

    The workflows of submodules are left out, because they are not run. Raises InputError if git cannot list the changed files.
    """
    for (top, folder), tree in reviewed_commits(ref, paths).items():
        if tree is None or top != folder:
            continue
        names = sorted(name for name in touched_paths(top, tree) if WORKFLOWS.fullmatch(name))
        for name, old in contents_in(top, tree, names).items():
            place = os.path.join(top, name)
            new = content_of(place)
            if new != old and (b"dpcli" in (new or b"") or b"dpcli" in (old or b"")):
                text = f"{escaped_path(name)} calls dpcli and differs from {ref}: it decides whether the gate runs and can block the change"
                yield _verdict_on_path(os.path.relpath(place), "workflow", text)
