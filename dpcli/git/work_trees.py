"""Git work trees and the paths of files in them, found in the file system without running git.

A work tree is the folder with the checked-out files of a repository. Its root contains `.git`. Reports name files relative to that root, as
a forge does (`path_in_repository`), also on a machine without git.
"""

from __future__ import annotations

import os
from collections.abc import Iterator


def work_tree(folder: str) -> str | None:
    """Return the root of the git work tree that contains a folder, which may be the folder itself; None if there is no work tree."""
    return next((place for place in (folder, *folders_above(folder)) if _is_work_tree(place)), None)


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders that contain a path, from the innermost to the root of the file system."""
    folder = os.path.dirname(path)
    while folder != path:
        yield folder
        folder, path = os.path.dirname(folder), folder


def _is_work_tree(folder: str) -> bool:
    # Git ignores an empty folder .git. In a submodule and in a work tree that was added to a repository, .git is a file.
    place = os.path.join(folder, ".git")
    return os.path.isfile(place) or os.path.lexists(os.path.join(place, "HEAD"))


def path_in_repository(path: str) -> str:
    """Return the path relative to the root of its repository, with forward slashes, as CI systems expect it.

    For REVISION:PATH, the result is PATH. A path outside of every repository, standard input and the address of a ledger are unchanged.
    """
    absolute = os.path.abspath(path)
    if path.startswith(("-", "<")) or "://" in path:
        return path
    if not os.path.lexists(absolute) and ":" in path:
        revision, _, inside = path.partition(":")
        return path_in_repository(inside) if inside.startswith("./") else inside or revision
    real = os.path.join(os.path.realpath(os.path.dirname(absolute)), os.path.basename(absolute))
    for place in (real, absolute):
        for root in roots(place):
            if holds(root, place):
                return os.path.relpath(place, root).replace(os.sep, "/")
    return path.replace(os.sep, "/")


def roots(path: str, policy: str | None = None) -> Iterator[str]:
    """Yield the work trees to which a path may be relative: those around the policy, the working directory and the file itself.

    Work trees may be repeated. `policy`, the path of the gate's policy (dpcli/gate/policy.py), may be no file, such as REVISION:PATH.
    """
    folders = [os.path.realpath(os.getcwd()), os.path.dirname(path)]
    if policy is not None and os.path.isfile(policy):
        folders.insert(0, os.path.dirname(os.path.realpath(policy)))
    for folder in folders:
        root = work_tree(folder)
        if root is not None:
            yield root


def holds(top: str, path: str) -> bool:
    """Return whether a path lies in the folder `top`, or is this folder. Both paths must be absolute."""
    return os.path.commonpath((top, path)) == top
