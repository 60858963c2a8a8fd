"""The price of a session: the whole file, and the one entry in it that is performed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import CannotCertify, Denied, InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import shares_its_price
from dpcli.file.toml.shown import first_names
from dpcli.sessions.plan import FilePlan

if TYPE_CHECKING:
    from dpcli.analysis.account import Account, BudgetVerdict


@dataclass(frozen=True, slots=True)
class PricedFile(FilePlan):
    """account: of the whole pipeline, with an epsilon that is certified."""

    accounts: ClassVar[tuple[str, ...]] = ("account",)
    account: Account

    @property
    def over_budget(self) -> bool:
        """Whether the file's own budget does not pay for all of it; what cannot be certified it does not."""
        return self.account.budget is not None and self.account.budget.over

    def require_budget(self) -> None:
        """Raise Denied where the file's own budget does not pay for all of it."""
        require_budget(self.account.budget, self.path)


@dataclass(frozen=True, slots=True)
class PricedSession(PricedFile):
    """entry: what is performed, and may be charged with the rest of the file."""

    entry: Entry


def priced_file(path: str, pipeline: Pipeline) -> PricedFile:
    """The account of a pipeline, before anything of it is done. Raises CannotCertify where nobody can say what it costs."""
    from dpcli.analysis.account import account

    found = account(pipeline)
    if found.winner is None:
        from dpcli.analysis.promised import UNCAPPED

        why = f": {UNCAPPED}" if pipeline.privacy.adaptive and found.listed is not None else ""
        raise CannotCertify(f"{path}: no finite epsilon can be certified for this file{why}")
    return PricedFile(path, pipeline, found)


def priced(path: str, data: bytes, types: Collection[str], table: str, named: str | None) -> PricedSession:
    """The account of a file, its noise solved for where it says "calibrate", and its entry of one of these types.

    Raises as `one_entry` and `priced_file` do, and InputError where the file cannot be read.
    """
    from dpcli.analysis.calibrate_file import solved

    pipeline = solved(data, path)
    entry = one_entry(path, pipeline, types, table, named)
    return PricedSession(path, pipeline, priced_file(path, pipeline).account, entry)


def one_entry(path: str, pipeline: Pipeline, types: Collection[str], table: str, named: str | None) -> Entry:
    """The entry of one of these types that is performed, on all of the data.

    Args:
        table: the table whose key `mechanism` is `named`, for messages.

    Raises InputError where it is not clear which one is meant, or it is charged as a part of something else: of a partition, of a sample
    that others read, or of another entry, which may cost less than the run that is made here.
    """
    known = [entry.name for entry in pipeline.mechanisms if entry.type in types]
    fitting = [entry for entry in pipeline.mechanisms if entry.type in types and named in (None, entry.name)]
    if len(fitting) != 1:
        found = f"{named or 'none'} of {first_names(known)}" if known else "none of that type"
        kinds = " or ".join(sorted(types))
        raise InputError(f"{path}: {table}.mechanism: expected the name of the entry of type {kinds} that is run, found {found}")
    place = f'{path}: mechanism["{fitting[0].name}"]'
    if fitting[0].partition is not None:
        raise InputError(f"{place}: expected no partition, found one: it runs on all of the data")
    if shares_its_price(fitting[0], pipeline):
        raise InputError(
            f"{place}: expected an entry that no other one names or shares a sample with, found one that does: it runs once, alone"
        )
    return fitting[0]


def require_budget(budget: BudgetVerdict | None, place: str) -> None:
    """Hold a file to its own cap: what cannot be certified is over it. Raises Denied."""
    if budget is not None and budget.over:
        raise Denied(f"{place}: budget: {budget.wanted()}")
