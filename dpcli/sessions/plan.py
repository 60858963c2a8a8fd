"""What a command performs of a file: where it leaves what, and by what it is known again when it goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class FilePlan:
    """pipeline: with every number in place of "calibrate"."""

    path: str
    pipeline: Pipeline

    def stated_folder(self, output: str | None) -> str:
        """As a key of the file says, or by the file's name: where it is not absolute, from the current folder."""
        return output or os.path.join("runs", self.pipeline.name or os.path.splitext(os.path.basename(self.path))[0])

    def folder_at(self, output: str | None) -> str:
        """The same, absolute."""
        return os.path.join(os.getcwd(), self.stated_folder(output))

    def fingerprint_with(self, name: str, table: Any, free: Container[str]) -> str:
        """SHA-256 of everything that a session which goes on must not have changed.

        Args:
            name, table: of the file, a dataclass that says what is done. free: keys of it that may change, as no answer depends on them.
        """
        kept = {key: value for key, value in dataclasses.asdict(table).items() if key not in free}
        return fingerprint({"pipeline": tables_of(self.pipeline), name: kept})


def fingerprint(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
