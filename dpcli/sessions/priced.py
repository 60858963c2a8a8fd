"""The plan of a session. It consists of a pipeline file, its privacy cost, and the entry of the file that the session performs.

A *session* is what one charge pays for, such as a training run or a set of answers (charged.py). Its plan is made before private data are
read. An *entry* is a [[mechanism]] table of the file, and an *account* is the certified epsilon and delta of a file. The *fingerprint*
covers everything that must be unchanged when the session goes on: keys that are left out of it (`free`) must affect neither the noise nor
the cost. A *window* restricts the session to some *blocks* of the dataset, parts such as days (window.py): `on_blocks` states them in the
pipeline, and `on_rows` limits the rows that are read. Neither changes the cost.

The plans of train, release, pate, pmixed, prompt and generate are subclasses of these classes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Container
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
        accounts: Names of the fields of the class that hold an account (dpcli.analysis.account). `on_blocks` restricts their pipelines too.
        path: Path of the file.
        pipeline: Pipeline of the file. Each value "calibrate" of the file is replaced by a number that dpcli computes.
        rows: Window of rows of the private data that may be read; None for all rows.
    """

    accounts: ClassVar[tuple[str, ...]] = ()
    path: str
    pipeline: Pipeline
    rows: RowWindow | None = field(default=None, kw_only=True)

    @property
    def private_file(self) -> str | None:
        """The path of the private data, as in the pipeline file, if the data are a table; None for other sources."""
        return None

    @property
    def bounded(self) -> tuple[str, str] | None:
        """The key of the file that names the column with the owners of records, and the column: ("train.units", "patient").

        It is None if contributions are not bounded. unit_check.py compares the column with the unit that the file claims to protect.
        """
        return None

    def on_rows(self, rows: RowWindow | None) -> Self:
        """Return the plan restricted to these rows of its private data."""
        return replace(self, rows=rows)

    def on_blocks(self, window: tuple[str, ...]) -> Self:
        """Return the plan restricted to some blocks of its dataset. The cost does not change."""
        restricted = {}
        for name in self.accounts:
            account = getattr(self, name)
            if account is not None:
                restricted[name] = replace(account, pipeline=_over_window(account.pipeline, window))
        return replace(self, pipeline=_over_window(self.pipeline, window), **restricted)

    def stated_folder(self, output: str | None) -> str:
        """Return the folder `output`, or by default "runs/NAME" with the name of the pipeline or else of the file ("week" of week.toml)."""
        return output or os.path.join("runs", self.pipeline.name or os.path.splitext(os.path.basename(self.path))[0])

    def folder_at(self, output: str | None) -> str:
        """Return the absolute path of `stated_folder`."""
        return os.path.join(os.getcwd(), self.stated_folder(output))

    def fingerprint_with(self, name: str, table: Any, free: Container[str]) -> str:
        """Return the SHA-256 of everything that must be unchanged when a session is resumed.

        Args:
            name: Name of the command's table in the file.
            free: Keys of the table that may change, because neither the noise nor the cost depends on them.
        """
        fixed = {key: value for key, value in dataclasses.asdict(table).items() if key not in free}
        return fingerprint({"pipeline": tables_of(self.pipeline), name: fixed, **self.row_data})

    @property
    def row_data(self) -> dict[str, Any]:
        """The rows that are read, as JSON values; an empty table if all rows are read."""
        return {} if self.rows is None else {"rows": self.rows.content()}


def _over_window(pipeline: Pipeline, window: tuple[str, ...]) -> Pipeline:
    """Return the pipeline with the blocks of a window in privacy.window."""
    return replace(pipeline, privacy=replace(pipeline.privacy, window=window))


def fingerprint(content: object) -> str:
    """Return the SHA-256 of a value as JSON. The result does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PricedFile(FilePlan):
    """A pipeline file with an account that certifies a finite epsilon."""

    accounts: ClassVar[tuple[str, ...]] = ("account",)
    account: Account

    @property
    def over_budget(self) -> bool:
        """True if the file has a budget and the plan exceeds it, or its cost in the budget's terms cannot be certified."""
        return self.account.budget is not None and self.account.budget.over

    def require_budget(self) -> None:
        """Check that the plan is within the budget in the file. Raises Denied if it is not."""
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

        # `listed` is the cost of the entries in the file. If later entries may depend on outputs, only a cap bounds their cost.
        why = f": {UNCAPPED}" if pipeline.privacy.adaptive and result.listed is not None else ""
        raise CannotCertify(f"{path}: no finite epsilon can be certified for this file{why}")
    return PricedFile(path, pipeline, result)


def priced(path: str, data: bytes, types: Collection[str], table: str, named: str | None) -> PricedSession:
    """Return a file with its account and the entry that the session performs. Each "calibrate" is replaced by a number first.

    `one_entry` finds the entry, and explains the other arguments.

    Raises:
        InputError: The file cannot be read, or `one_entry` refuses the entry.
        CannotCertify: No finite epsilon can be certified.
    """
    from dpcli.analysis.calibrate_file import solved_pipeline

    pipeline = solved_pipeline(data, path)
    entry = one_entry(path, pipeline, types, table, named)
    return PricedSession(path, pipeline, priced_file(path, pipeline).account, entry)


def one_entry(path: str, pipeline: Pipeline, types: Collection[str], table: str, named: str | None) -> Entry:
    """Return the entry of the file that the session performs. The session performs it once, on all of the data.

    Args:
        types: Types of mechanisms that the session can perform.
        table: Table whose key `mechanism` names the entry, for messages.
        named: Value of this key; None if the file must have a single entry of these types.

    Raises:
        InputError: There is no such entry, or there are several. Or the entry belongs to a partition, to a sample that other entries read,
            or to another entry. Its cost may then be smaller than the cost of a run on all of the data.
    """
    fitting = [entry for entry in pipeline.mechanisms if entry.type in types]
    named_entries = [entry for entry in fitting if named in (None, entry.name)]
    if len(named_entries) != 1:
        names = first_names([entry.name for entry in fitting])
        choice = f"{named or 'none'} of {names}" if fitting else "none of that type"
        kinds = " or ".join(sorted(types))
        raise InputError(f"{path}: {table}.mechanism: expected the name of the entry of type {kinds} to run, found {choice}")
    (entry,) = named_entries
    place = f'{path}: mechanism["{entry.name}"]'
    if entry.partition is not None:
        raise InputError(f"{place}: expected no partition, found one: it runs on all of the data")
    if shares_its_price(entry, pipeline):
        raise InputError(
            f"{place}: expected an entry that runs once and alone, found one that another entry names or shares a sample with"
        )
    return entry


def require_budget(budget: BudgetVerdict | None, place: str) -> None:
    """Check that a file is within the budget that it states. Raises Denied if it is not, or if its cost cannot be certified."""
    if budget is not None and budget.over:
        raise Denied(f"{place}: budget: {budget.wanted()}")
