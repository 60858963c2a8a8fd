"""The file that a calibration was asked about, with the answer in place of what it solved for."""

from __future__ import annotations

from typing import Any

from dpcli.analysis.calibrate import Calibration
from dpcli.pipeline.series import plain_entries, written
from dpcli.toml.edit import edited
from dpcli.toml.findings import Path
from dpcli.toml.syntax import tables_of, text_of


def solved_text(data: bytes, calibration: Calibration) -> str:
    """The text of the file, its comments kept, with every value that was solved for.

    Raises InputError where the file does not state such a key: one that only follows from others (steps from epochs) is not written.
    """
    text = text_of(data)
    stated = tables_of(text)
    entries = plain_entries(stated).get("mechanism", [])
    values = {_path(entries, name, key): value for name, key, value in calibration.values}
    return edited(text, dict(zip(written(stated, values), values.values(), strict=True)))


def _path(entries: list[dict[str, Any]], name: str, key: str) -> Path:
    at = next((position for position, entry in enumerate(entries) if entry.get("name") == name), 0)
    sampling = entries[at].get("sampling") if at < len(entries) else None
    return ("mechanism", at, "sampling", key) if type(sampling) is dict and key in sampling else ("mechanism", at, key)
