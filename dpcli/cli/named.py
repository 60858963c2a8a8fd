"""What a file names that is read by commands: data, scores, votes, files of planned runs, which no output may replace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS, TAKEN_FOR_DATA
from dpcli.file.toml.limits import read_again
from dpcli.file.toml.render import InvalidFile

SCHEDULED = "run"  # of a schedule: the files that it plans
QUOTED = re.compile(r'"([^"\n]*)"|' + r"'([^'\n]*)'")


def names(given: str, path: str) -> bool:
    """Whether the file that a command was given names the one at `path`, or would take it for data. Paths count from its folder."""
    folder = os.getcwd() if given == "-" else os.path.dirname(os.path.abspath(given))
    tables = _tables(given)
    places = (os.path.join(folder, text) for text in _texts(tables))
    if os.path.exists(path) and any(os.path.exists(place) and os.path.samefile(path, place) for place in places):
        return True
    source = tables.get("source")
    pattern = source.get("path") if isinstance(source, Mapping) else None
    if not isinstance(pattern, str) or "\0" in pattern:
        return False
    return bool(load(TAKEN_FOR_DATA)(path, pattern, folder))


def _tables(given: str) -> Mapping[str, Any]:
    """The tables that commands read; of a pipeline file that is no TOML, all that is quoted in it."""
    from dpcli.file.pipeline.read import toml_document

    try:
        data = read_again(given)
    except InputError:
        return {}
    try:
        tables = toml_document(data, given)[1]
    except InvalidFile:
        if given != "-" and not given.endswith(".toml"):  # a ledger, scores: no pipeline file
            return {}
        return {"quoted": [found[1] or found[2] for found in QUOTED.finditer(os.fsdecode(data))]}
    return {name: tables[name] for name in (*SECTIONS, *RELEASED, SCHEDULED) if name in tables}


def _texts(value: Any) -> Iterator[str]:
    """Every text in it, whatever its key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
