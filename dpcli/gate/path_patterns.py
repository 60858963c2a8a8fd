"""Patterns of paths, such as "ads/*.toml", by which a policy names files.

"*" and "?" match within one folder, and "**" matches across folders. A file that is reached through links has several names: a rule of the
policy applies to the file if it matches any of them, a waiver only if it matches all (policy.py), so that a link loosens nothing.
"""

from __future__ import annotations

import os
import re

from dpcli.git.work_trees import folders_above, holds, roots


def matches(pattern: str, path: str, policy: str = "") -> bool:
    """Return whether a pattern of the policy file `policy` matches the file at `path`. Standard input matches only the pattern "**".

    The pattern is relative to a root folder, which is the first of the following folders that contains the file:

    * the root of the repository that contains the policy, where a repository inside it, such as a submodule, counts as a part of it;
    * the root of the repository around the working directory;
    * the root of the file's own repository;
    * the working directory.
    """
    return any(name_matches(pattern, path, name) for name in names_of(path, policy))


def names_of(path: str, policy: str = "") -> tuple[str, ...]:
    """Return the names of a file, which are its paths relative to the root folder that `matches` describes.

    If the path contains links, there are up to three names: with the links among the folders resolved, as it is, and with all links
    resolved.
    """
    if path == "-":
        return (path,)
    unresolved = os.path.abspath(path)
    real = os.path.join(os.path.realpath(os.path.dirname(unresolved)), os.path.basename(unresolved))
    root = next((top for top in roots(real, policy) if holds(top, real)), os.path.realpath(os.getcwd()))
    # The order does not matter to the callers, which ask whether any name or all names match.
    places = (real, _under(root, unresolved), os.path.realpath(unresolved))
    return tuple(dict.fromkeys(os.path.relpath(place, root) for place in places if place is not None))


def _under(root: str, unresolved: str) -> str | None:
    """Return the root joined with the part of a path below it, in which links are not resolved; None if the path is not below the root.

    The part of the path above the root may contain links.
    """
    for above in folders_above(unresolved):
        if os.path.realpath(above) == root:
            return os.path.join(root, os.path.relpath(unresolved, above))
    return None


def name_matches(pattern: str, path: str, name: str) -> bool:
    """Return whether a pattern matches the file at `path` by one of its names. An absolute pattern must match the path as it is given."""
    if path == "-":
        return pattern == "**"
    if os.path.isabs(pattern):
        return _matches_all(os.path.normpath(pattern), os.path.abspath(path))
    return _matches_all(os.path.normpath(pattern), name)


def _matches_all(pattern: str, path: str) -> bool:
    """Return whether a pattern matches all of a path.

    The search needs no backtracking, because it keeps the set of all positions at which the match of each part can end. The time is bounded
    by the product of the two lengths.
    """
    ends = {0}
    for part in re.findall(r"\*\*/|\*\*|\*|\?|.", pattern, re.DOTALL):
        ends = _ends_after(part, path, ends)
    return len(path) in ends


def _ends_after(part: str, path: str, starts: set[int]) -> set[int]:
    """Return the positions at which a match of one part of a pattern can end if it begins at one of `starts`.

    A part is "**/", "**", "*", "?" or a single character, which stands for itself.
    """
    if not starts:
        return starts
    if part == "**":
        return set(range(min(starts), len(path) + 1))
    if part == "**/":  # any number of folders, including none; a folder's name has at least one character
        first = min((start for start in starts if path[start : start + 1] != "/"), default=len(path))
        return starts | {index + 1 for index in range(first, len(path)) if path[index] == "/"}
    if part == "*":
        return _ends_within_folder(path, starts)
    inside = [start for start in starts if start < len(path)]
    if part == "?":
        return {start + 1 for start in inside if path[start] != "/"}
    return {start + 1 for start in inside if path[start] == part}


def _ends_within_folder(path: str, starts: set[int]) -> set[int]:
    """Return the start positions, and all later positions that are not separated from a start position by a "/"."""
    ends, inside = set(starts), False
    for index in range(min(starts), len(path)):
        inside = (inside or index in starts) and path[index] != "/"
        if inside:
            ends.add(index + 1)
    return ends
