"""Which files a pattern of a policy means: whatever the spelling of a path and the folder it is given from."""

from __future__ import annotations

import os
import re


def matches(pattern: str, path: str) -> bool:
    """Whether the file at `path` is meant by a pattern such as "ads/*.toml".

    The pattern counts from the root of the repository that holds the file (the nearest folder above it with a .git), from the working
    directory where there is none; "*" and "?" stay within one folder, "**" spans folders. Standard input matches no pattern but "**".
    """
    if path == "-":
        return pattern == "**"
    whole = os.path.abspath(path)
    subject = whole if os.path.isabs(pattern) else os.path.relpath(whole, _root(whole))
    return re.fullmatch(_expression(os.path.normpath(pattern)), subject, re.DOTALL) is not None


def _root(path: str) -> str:
    folder = os.path.dirname(path)
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return os.getcwd()
    return folder


def _expression(pattern: str) -> str:
    """The pattern as a regular expression."""
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))
