"""The file that a calibration was asked about, with the answer in place of what it solved for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from dpcli.analysis.calibrate import Calibration
from dpcli.base.errors import InputError
from dpcli.file.pipeline.series import plain_entries, written
from dpcli.file.toml.findings import Path
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.syntax import tables_of, text_of
from dpcli.file.toml.write import edited


def solved_text(data: bytes, calibration: Calibration) -> str:
    """The text of the file, its comments kept, with every value that was solved for.

    Raises InputError where the file does not state such a key, as one that only follows from others (steps from epochs, a query's noise),
    or states it where entries read it that are to keep theirs.
    """
    text = text_of(data)
    stated = tables_of(text)
    entries = plain_entries(stated).get("mechanism", [])
    values = {_path(entries, name, key): value for name, key, value in calibration.values}
    found = edited(text, dict(zip(written(stated, values), values.values(), strict=True)))
    for entry, meant in zip(plain_entries(tables_of(found))["mechanism"], _solved(entries, values), strict=True):
        if entry != meant:
            raise InputError(
                f"--write: expected a place for the answer alone, found one that {quoted(entry['name'])} reads too ([defaults], or beside "
                "a list): state the value in its own table"
            )
    return found


def _solved(entries: list[dict[str, Any]], values: Mapping[Path, Any]) -> list[dict[str, Any]]:
    """The entries with each of these values at its place, and nowhere else."""
    found = copy.deepcopy(entries)
    for (_, at, *keys), value in values.items():
        table: Any = found[int(at)]
        for key in keys[:-1]:
            table = table[key]
        table[keys[-1]] = value
    return found


def _path(entries: list[dict[str, Any]], name: str, key: str) -> Path:
    at = next((position for position, entry in enumerate(entries) if entry["name"] == name), None)
    if at is None:
        raise InputError(
            f"--write: expected a [[mechanism]] of the name {quoted(name)} in the file, where the answer would go; found none"
        )
    sampling = entries[at].get("sampling")
    return ("mechanism", at, "sampling", key) if type(sampling) is dict and key in sampling else ("mechanism", at, key)
