"""Plans of sessions: a pipeline file, its privacy cost, and the entry of the file that the session performs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpcli.base.errors import CannotCertify, Denied, InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import shares_its_price
from dpcli.file.toml.shown import first_names
from dpcli.ledger.blocks.rows import RowWindow

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.analysis.budget_verdict import BudgetVerdict


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A pipeline file that a command performs.

    Attributes:
        accounts: Names of the fields that hold an account of the pipeline.
        path: Path of the file.
        pipeline: The pipeline, in which a number replaces each "calibrate" of the file.
        rows: The rows of the private data that may be read; None for all rows.
    """

    accounts: ClassVar[tuple[str, ...]] = ()
    path: str
    pipeline: Pipeline
    rows: RowWindow | None = field(default=None, kw_only=True)

    @property
    def private_file(self) -> str | None:
        """The path of the private data, as the pipeline file states it, if the data are a table; None for other sources."""
        return None

    @property
    def bounded(self) -> tuple[str, str] | None:
        """The key of the file that names the column with the owners of records, and the column; None if no contributions are bounded."""
        return None

    def on_rows(self, rows: RowWindow | None) -> Self:
        """Return the plan restricted to these rows of its private data."""
        return replace(self, rows=rows)

    def over(self, window: tuple[str, ...]) -> Self:
        """Return the plan restricted to some blocks of its dataset. The cost does not change."""
        stated = {name: getattr(self, name) for name in self.accounts}
        accounts = {
            name: replace(account, pipeline=_over_window(account.pipeline, window))
            for name, account in stated.items()
            if account is not None
        }
        return replace(self, pipeline=_over_window(self.pipeline, window), **accounts)

    def stated_folder(self, output: str | None) -> str:
        """Return the folder `output` or, if none is stated, a folder in "runs" with the name of the pipeline or file.

        A relative folder is relative to the current one.
        """
        return output or os.path.join("runs", self.pipeline.name or os.path.splitext(os.path.basename(self.path))[0])

    def folder_at(self, output: str | None) -> str:
        """Return the absolute path of `stated_folder`."""
        return os.path.join(os.getcwd(), self.stated_folder(output))

    def fingerprint_with(self, name: str, table: Any, free: Container[str]) -> str:
        """Return the SHA-256 of everything that must be unchanged when a session is resumed.

        Args:
            name, table: The name and the content of the file's table for the command, a dataclass.
            free: Keys of the table that may change, as no answer depends on them.
        """
        fixed = {key: value for key, value in dataclasses.asdict(table).items() if key not in free}
        return fingerprint({"pipeline": tables_of(self.pipeline), name: fixed, **self.row_data})

    @property
    def row_data(self) -> dict[str, Any]:
        """The rows that are read, as JSON values; an empty table if all rows are read."""
        return {} if self.rows is None else {"rows": self.rows.content()}


def _over_window(pipeline: Pipeline, window: tuple[str, ...]) -> Pipeline:
    """Return the pipeline with this window."""
    return replace(pipeline, privacy=replace(pipeline.privacy, window=window))


def fingerprint(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object. It does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PricedFile(FilePlan):
    """A pipeline file with its account, which certifies a finite epsilon."""

    accounts: ClassVar[tuple[str, ...]] = ("account",)
    account: Account

    @property
    def over_budget(self) -> bool:
        """True if the plan exceeds the file's own budget, or its cost cannot be certified."""
        return self.account.budget is not None and self.account.budget.over

    def require_budget(self) -> None:
        """Check that the plan is within the file's own budget. Raises Denied if not."""
        require_budget(self.account.budget, self.path)


@dataclass(frozen=True, slots=True)
class PricedSession(PricedFile):
    """A pipeline file with its account, and the entry that the session performs."""

    entry: Entry


def priced_file(path: str, pipeline: Pipeline) -> PricedFile:
    """Return a pipeline file with its account. Raises CannotCertify if no finite epsilon can be certified."""
    from dpcli.analysis.account import account

    result = account(pipeline)
    if result.winner is None:
        from dpcli.analysis.adaptive_cap import UNCAPPED

        why = f": {UNCAPPED}" if pipeline.privacy.adaptive and result.listed is not None else ""
        raise CannotCertify(f"{path}: no finite epsilon can be certified for this file{why}")
    return PricedFile(path, pipeline, result)


def priced(path: str, data: bytes, types: Collection[str], table: str, named: str | None) -> PricedSession:
    """Return a file with its account and its entry of one of these types. Each "calibrate" is replaced by a number first.

    Args:
        path: Path of the file.
        data: Content of the file.
        types, table, named: As in `one_entry`.

    Raises:
        InputError: The file cannot be read, or as `one_entry`.
        CannotCertify: As `priced_file`.
    """
    from dpcli.analysis.calibrate_file import solved

    pipeline = solved(data, path)
    entry = one_entry(path, pipeline, types, table, named)
    return PricedSession(path, pipeline, priced_file(path, pipeline).account, entry)


def one_entry(path: str, pipeline: Pipeline, types: Collection[str], table: str, named: str | None) -> Entry:
    """Return the entry of one of these types that is performed, on all of the data.

    Args:
        types: Types of mechanisms.
        table: The table whose key `mechanism` is `named`, for messages.
        named: Name of the entry; None if the file has only one of these types.

    Raises:
        InputError: There is not exactly one such entry. Or the entry is a part of a partition, of a sample that others read, or of another
            entry, so that its cost may be smaller than that of a run on all of the data.
    """
    known = [entry.name for entry in pipeline.mechanisms if entry.type in types]
    fitting = [entry for entry in pipeline.mechanisms if entry.type in types and named in (None, entry.name)]
    if len(fitting) != 1:
        choice = f"{named or 'none'} of {first_names(known)}" if known else "none of that type"
        kinds = " or ".join(sorted(types))
        raise InputError(f"{path}: {table}.mechanism: expected the name of the entry of type {kinds} that is run, found {choice}")
    place = f'{path}: mechanism["{fitting[0].name}"]'
    if fitting[0].partition is not None:
        raise InputError(f"{place}: expected no partition, found one: it runs on all of the data")
    if shares_its_price(fitting[0], pipeline):
        raise InputError(
            f"{place}: expected an entry that no other one names or shares a sample with, found one that does: it runs once, alone"
        )
    return fitting[0]


def require_budget(budget: BudgetVerdict | None, place: str) -> None:
    """Check that a file is within its own budget. Raises Denied if it is not, or if its cost cannot be certified."""
    if budget is not None and budget.over:
        raise Denied(f"{place}: budget: {budget.wanted()}")
