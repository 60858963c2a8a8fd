"""What a run is made of beside the numbers of its file: the user's Python and the files that its table names, by content."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from dpcli.audit.user_code import code_files, digest_of_files
from dpcli.train.plan.sources import FUNCTION

SOURCES = ("data", "public", "model", "tokenizer", "loss", "metric", "canary")  # keys that may name code, a file or a folder


def made_of(table: Mapping[str, Any], path: str) -> dict[str, str]:
    """SHA-256 by key. Not to be shown: those of private files tell whoever knows all other records of the one that is left.

    Of a function: the source of its module and of all modules of the user's own that it imports, none of which is run. Of a file or a
    folder: its content. What functions read while they run is not in it. table: of the file at `path`.
    """
    named = {key: table[key] for key in SOURCES if isinstance(table.get(key), str)}
    return {key: found for key, value in named.items() if (found := _digest(value, os.path.dirname(os.path.abspath(path))))}


def _digest(value: str, folder: str) -> str:
    if FUNCTION.holds(value):
        return digest_of_files(code_files(value, (folder, os.getcwd())))
    place = os.path.join(folder, value)
    return digest_of_files({"": place} if os.path.isfile(place) else dict(_inside(place)))


def _inside(folder: str) -> Iterator[tuple[str, str]]:
    """Files of a folder, by their paths in it."""
    for place, _, names in os.walk(folder):
        yield from ((os.path.relpath(os.path.join(place, name), folder), os.path.join(place, name)) for name in names)
