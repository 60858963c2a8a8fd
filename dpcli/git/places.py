"""Where a file stands in the repository around it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dpcli.git.command import work_tree


def in_repository(path: str) -> str:
    """The path from the root of the repository, with forward slashes, as CI systems show places; REVISION:PATH is its PATH.

    As it is where no repository is around it, or where it names no file: standard input, the address of a ledger.
    """
    whole = os.path.abspath(path)
    if path.startswith(("-", "<")) or "://" in path:
        return path
    if not os.path.lexists(whole) and ":" in path:
        revision, _, inside = path.partition(":")
        return in_repository(inside) if inside.startswith("./") else inside or revision
    real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    for place in (real, whole):
        root = next((top for top in roots(place, "") if holds(top, place)), None)
        if root is not None:
            return os.path.relpath(place, root).replace(os.sep, "/")
    return path.replace(os.sep, "/")


def roots(path: str, policy: str) -> Iterator[str]:
    """The work trees that a path may count from: around the policy, the working directory, the file itself."""
    here = os.path.realpath(os.getcwd())
    beside = os.path.dirname(os.path.realpath(policy)) if os.path.isfile(policy) else here
    yield from (top for top in map(work_tree, (beside, here, os.path.dirname(path))) if top is not None)


def holds(top: str, path: str) -> bool:
    """Whether the path is in the folder, or is it; both absolute."""
    return os.path.commonpath((top, path)) == top
