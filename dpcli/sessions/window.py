"""The blocks that a session reads, of a dataset that is cut into blocks: settled before anything is read or charged.

They are those of the file, or of --window where the file states none. They then stand in its pipeline, and so in its fingerprint, its
charge, what is charged when it goes on, and its statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow, kept_rows, told_rows
from dpcli.ledger.blocks.spelling import spelled
from dpcli.sessions.tables import in_table
from dpcli.sessions.whose import require_bounded

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.ledger.ledger import Ledger


class Windowed(Protocol):
    """What can be done on some blocks of its dataset."""

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def private_file(self) -> str | None: ...

    @property
    def path(self) -> str: ...

    @property
    def rows(self) -> RowWindow | None: ...

    @property
    def bounded(self) -> tuple[str, str] | None: ...

    def over(self, window: tuple[str, ...]) -> Self: ...

    def on_rows(self, rows: RowWindow | None) -> Self: ...


class Resumable(Windowed, Protocol):
    """What is known again by its fingerprint."""

    def fingerprint(self) -> str: ...


Plan = TypeVar("Plan", bound=Windowed)
Begun = TypeVar("Begun", bound=Resumable)


def over_window(plan: Plan, ledger: Ledger | None, given: Sequence[str] = ()) -> Plan:
    """The plan with its window in its pipeline, on the rows of the window where its data are a table that tells them.

    As it is where the dataset is not cut into blocks.

    given: of --window. Raises InputError where it is missing, is another than the file's, or there is no ledger that has blocks; and,
    with a ledger or without, where what is bounded of an owner is not the file's unit, as far as names tell.
    """
    if ledger is None:
        if given:
            raise InputError(f"--window: expected --ledger with it, whose blocks it names, found none beside {given[0][:60]!a}")
        _require_bounded(plan, None)
        return plan
    blocks, family = ledger.stated_window(plan.pipeline, ledger.dated(given)), ledger.state().open_terms().family
    if family is None:
        _require_bounded(plan, None)
        return plan
    plan = plan if plan.pipeline.privacy.window is not None else plan.over(spelled(family, blocks))
    plan = plan.on_rows(in_table(plan.private_file, plan.path, told_rows(family, blocks)))
    _require_bounded(plan, family if plan.rows is not None or len(blocks) == 1 else None)
    return plan


def _require_bounded(plan: Windowed, family: BlockFamily | None) -> None:
    """Raise InputError where what is bounded of an owner is not what the file claims to protect, as far as names tell.

    family: None where nobody can tell which of several blocks a record is in: an owner is then bounded in all of them together.
    """
    if plan.bounded is not None:
        key, column = plan.bounded
        require_bounded(plan.pipeline.privacy.unit, column, family, plan.path, key, "this run")


def as_begun(plan: Begun, window: Sequence[str], rows: object) -> Begun:
    """The plan of a session that was begun with this window and these rows, for what reads what it has left.

    window: it holds where the file leaves the window to a flag, which what comes after does not take. rows: as RowWindow.content has them,
    None where all were read. Raises ValueError where they are something else.
    """
    left = plan.pipeline.privacy.window is None and len(window) > 0
    return (plan.over(tuple(window)) if left else plan).on_rows(kept_rows(rows, tuple(window)))
