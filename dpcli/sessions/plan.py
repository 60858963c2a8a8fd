"""What a command performs of a file: where it leaves what, and by what it is known again when it goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from dpcli.file.pipeline.document import tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.blocks.rows import RowWindow


@dataclass(frozen=True, slots=True)
class FilePlan:
    """pipeline: with every number in place of "calibrate". accounts: the fields that hold an account of a pipeline.

    rows: of the table of private data that may be read; all where None.
    """

    accounts: ClassVar[tuple[str, ...]] = ()
    path: str
    pipeline: Pipeline
    rows: RowWindow | None = field(default=None, kw_only=True)

    @property
    def private_file(self) -> str | None:
        """The file of private data, as `path` names it, where it is of a kind that is read as a table; None for whatever else they are."""
        return None

    @property
    def bounded(self) -> tuple[str, str] | None:
        """The key that says whose a record is, and what it says, where what each owner adds is bounded; None where nothing is."""
        return None

    def on_rows(self, rows: RowWindow | None) -> Self:
        """The same on these rows of its private data alone."""
        return replace(self, rows=rows)

    def over(self, window: tuple[str, ...]) -> Self:
        """The same on some blocks of its dataset: what it costs does not change, and what is said of it does."""
        found = {name: getattr(self, name) for name in self.accounts}
        accounts = {name: replace(one, pipeline=_over(one.pipeline, window)) for name, one in found.items() if one is not None}
        return replace(self, pipeline=_over(self.pipeline, window), **accounts)

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
        return fingerprint({"pipeline": tables_of(self.pipeline), name: kept, **self.row_data})

    @property
    def row_data(self) -> dict[str, Any]:
        """Which rows are read, as JSON values; nothing where all are."""
        return {} if self.rows is None else {"rows": self.rows.content()}


def _over(pipeline: Pipeline, window: tuple[str, ...]) -> Pipeline:
    return replace(pipeline, privacy=replace(pipeline.privacy, window=window))


def fingerprint(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
