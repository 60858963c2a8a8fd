"""Folders given in place of files: every file below that is dpcli's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.document import is_pipeline
from dpcli.file.pipeline.read import toml_document
from dpcli.file.toml.limits import escaped_path, read_bytes

OTHERS = frozenset({".git"})  # folders in which no file is anybody's own


def unfolded(paths: Sequence[str], wanted: Callable[[Mapping[str, Any]], bool]) -> tuple[str, ...]:
    """The paths, each folder replaced by the wanted *.toml files anywhere below it, in order; no file twice.

    Links are followed, hidden folders are looked into, and a file that is not TOML, or cannot be read, is wanted: nobody can say that it
    is none. A folder without any stays a path, which nobody can read as a file. Raises InputError for a folder that cannot be listed.
    """
    found: dict[str, str] = {}
    for path in paths:
        for name in (list(_wanted(path, wanted)) if os.path.isdir(path) else []) or [path]:
            found.setdefault(name if name == "-" else os.path.abspath(name), name)
    return tuple(found.values())


def may_be_pipeline(tables: Mapping[str, Any]) -> bool:
    """Whether a file is a pipeline, with its tables spelt right or wrong: who means to give one must not see it passed over."""
    if is_pipeline(tables) or "format" not in tables:
        return is_pipeline(tables)
    from dpcli.file.pipeline.other_files import misspelt_pipeline

    return misspelt_pipeline(tables)


def toml_name(name: str) -> bool:
    """Whether a file is named as TOML is, in any case of letters: a file system may know only one of them."""
    return name.lower().endswith(".toml")


def below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, links followed; neither need be there."""
    inside, around = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((inside, around)) == around


def _wanted(folder: str, wanted: Callable[[Mapping[str, Any]], bool]) -> Iterator[str]:
    for name in _below(folder):
        try:
            _, tables = toml_document(read_bytes(name), name)
        except InputError:
            yield name
            continue
        if wanted(tables):
            yield name


def _below(folder: str) -> Iterator[str]:
    """Every *.toml file, each folder once however it is linked to."""
    known = {os.path.realpath(folder)}

    def refuse(error: OSError) -> None:
        raise InputError(f"{escaped_path(os.fsdecode(error.filename))}: expected a folder that can be listed; {error.strerror}")

    for place, inner, names in os.walk(folder, onerror=refuse, followlinks=True):
        fresh = [name for name in sorted(inner) if name not in OTHERS and os.path.realpath(os.path.join(place, name)) not in known]
        known.update(os.path.realpath(os.path.join(place, name)) for name in fresh)
        inner[:] = fresh
        yield from (os.path.join(place, name) for name in sorted(names) if toml_name(name))
