"""Which files a pattern of a policy means: whatever the spelling of a path and the folder it is given from."""

from __future__ import annotations

import os
import re

from dpcli.git.places import holds, roots


def matches(pattern: str, path: str, policy: str = "") -> bool:
    """Whether the file at `path` is meant by a pattern such as "ads/*.toml" of the policy file `policy`.

    The pattern counts from the root of the repository that holds both the policy and the file, so that a repository inside it (a
    submodule, a clone left behind) gets no patterns of its own; else of the one around the working directory, else of the file's own;
    from the working directory where there is none. "*" and "?" stay within one folder, "**" spans folders. Standard input matches no
    pattern but "**".
    """
    return any(meant(pattern, path, name) for name in names_of(path, policy))


def names_of(path: str, policy: str = "") -> tuple[str, ...]:
    """What patterns see of a path, from that root: it without the links among its folders, as spelled, and without any link.

    More than one only where links are in it: what holds for a file then is what holds for each of its names.
    """
    if path == "-":
        return (path,)
    whole = os.path.abspath(path)
    real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    root = _root(real, policy)
    places = (real, _under(root, whole), os.path.realpath(whole))
    return tuple(dict.fromkeys(os.path.relpath(place, root) for place in places if place is not None))


def _under(root: str, spelled: str) -> str | None:
    """The spelled path where it comes through the root, however the folders above the root are spelled."""
    above = spelled
    while above != (above := os.path.dirname(above)):
        if os.path.realpath(above) == root:
            return os.path.join(root, os.path.relpath(spelled, above))
    return None


def meant(pattern: str, path: str, name: str) -> bool:
    """Whether a pattern means the file at `path` by one of its names."""
    if path == "-":
        return pattern == "**"
    if os.path.isabs(pattern):
        return _means(os.path.normpath(pattern), os.path.abspath(path))
    return _means(os.path.normpath(pattern), name)


def _root(path: str, policy: str) -> str:
    return next((top for top in roots(path, policy) if holds(top, path)), os.path.realpath(os.getcwd()))


def _means(pattern: str, path: str) -> bool:
    """Whether the whole path is what the pattern says: all places that each part may end at, so that nothing is tried twice."""
    places = {0}
    for part in re.findall(r"\*\*/|\*\*|\*|\?|.", pattern, re.DOTALL):
        places = _after(part, path, places)
    return len(path) in places


def _after(part: str, path: str, places: set[int]) -> set[int]:
    """Where a part of a pattern may end that begins at one of the places."""
    if not places:
        return places
    if part == "**":
        return set(range(min(places), len(path) + 1))
    if part == "**/":
        start = min((at for at in places if path[at : at + 1] != "/"), default=len(path))
        return places | {at + 1 for at in range(start, len(path)) if path[at] == "/"}
    if part == "*":
        return _along(path, places)
    return {at + 1 for at in places if at < len(path) and (path[at] == part or (part == "?" and path[at] != "/"))}


def _along(path: str, places: set[int]) -> set[int]:
    """The places, and all that follow one of them within its folder."""
    found, inside = set(places), False
    for at in range(min(places), len(path)):
        inside = (inside or at in places) and path[at] != "/"
        if inside:
            found.add(at + 1)
    return found
