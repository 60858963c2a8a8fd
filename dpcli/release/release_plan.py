"""The plan of a release: its file, its queries with their mechanisms, and the rows it may read, before any data are touched."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from dpcli.base.errors import InputError
from dpcli.file.keys.tables import plain
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.read import parse, section
from dpcli.file.toml.limits import read_bytes
from dpcli.ledger.blocks.rows import RowWindow, rows_of_blocks
from dpcli.release.data_source import Source, declared_keys_of, folder_of
from dpcli.release.query_answer import ANSWERS, STATEMENT, QueryAnswer
from dpcli.release.query_entries import PricedQuery, priced_queries
from dpcli.sessions.charged import RUN
from dpcli.sessions.folder import LOCK
from dpcli.sessions.priced import PricedFile, fingerprint, priced_file

if TYPE_CHECKING:
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.ledger.ledger import Ledger

UNREAD = "conditions and expressions were not read: that needs pip install 'dpcli[release]'"
WITHOUT_LEDGER = "expected --ledger with it, which knows which rows are in a block, or no window, found no ledger"


@dataclass(frozen=True, slots=True)
class ReleasePlan(PricedFile):
    """A priced file with queries, its pipeline holding them as mechanisms.

    Attributes:
        window: The rows that may be read, all if None.
    """

    source: Source
    queries: tuple[PricedQuery, ...]
    window: RowWindow | None = None

    def reading(self, ledger: Ledger | None) -> Self:
        """Return the plan with its window as a condition on rows, by the blocks of the ledger.

        Raises:
            InputError: If dpcli cannot tell which rows are in the window, or where the unit that is bounded is not the one that the file
                claims to protect, as far as names tell.
        """
        from dpcli.sessions.window import require_bounded

        privacy, whose = self.pipeline.privacy, self.source.unit
        if ledger is None:
            if privacy.window is not None:
                raise InputError(f"{self.path}: privacy.window: {WITHOUT_LEDGER}")
            require_bounded(privacy.unit, whose, None, self.path)
            return self
        blocks, family = ledger.stated_window(self.pipeline), ledger.state().open_terms().family
        require_bounded(privacy.unit, whose, family, self.path)
        return self if family is None else replace(self, window=row_window(family, blocks, self.source, self.path))

    @property
    def folder(self) -> str:
        """The folder of the answers."""
        return self.folder_at(self.source.output)

    @property
    def data(self) -> str:
        """The path of the data, or the folder of a pattern: absolute, without links; "" for a database."""
        path = self.source.path
        if path is None:
            return ""
        fixed, *magic = re.split(r"[*?[]", os.path.join(folder_of(self.path), path), maxsplit=1)
        return os.path.realpath(os.path.dirname(fixed) if magic else fixed)

    def fingerprint(self) -> str:
        """Return the digest of everything that the answers depend on but the data: another fingerprint is another release."""
        keys = {
            name: declared_keys_of(column, name, folder_of(self.path))
            for name, column in self.source.columns.items()
            if column.domain_file
        }
        questions: list[Any] = [plain(priced.query) for priced in self.queries]
        source = {name: value for name, value in plain(self.source).items() if name != "output"}
        rows = {} if self.window is None else {"window": {"blocks": list(self.window.blocks), **self.window.family}}
        return fingerprint(
            {"pipeline": tables_of(self.pipeline), "source": source, "query": questions, "keys": plain(keys), **rows}
        )


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """Answers, and whether they are fresh: drawn now, or stored when the release was charged before."""

    plan: ReleasePlan
    folder: str
    run: str
    answers: tuple[QueryAnswer, ...]
    fresh: bool


def plan_of(path: str) -> ReleasePlan:
    """Return the plan of a file with [source] and [[query]].

    Raises:
        InputError: If it cannot be read or asks for what cannot be done.
        CannotCertify: If nobody can say what it costs.
    """
    data = read_bytes(path)
    source, queries = section(data, path, "source"), section(data, path, "query")
    if source is None or not queries:
        raise InputError(f"{path}: no [source] or no [[query]]; dpcli init release writes a file with both")
    pipeline = parse(data, path)
    performed = priced_queries(source, queries, pipeline.privacy, pipeline.budget, folder_of(path))
    others = len(pipeline.mechanisms) - sum(len(one.releases) for one in performed)
    if others:
        raise InputError(
            f"{path}: mechanism: expected queries alone, found {others} mechanisms that dpcli release does not perform: they belong in "
            "another file"
        )
    if reads_expressions():
        require_expressions(source, performed, path)
    return ReleasePlan(path, pipeline, priced_file(path, pipeline).account, source, performed)


def reads_expressions() -> bool:
    """Tell whether the parser of SQL is installed."""
    return importlib.util.find_spec("sqlglot") is not None


def require_expressions(source: Source, queries: Sequence[PricedQuery], path: str) -> None:
    """Raise InputError if a `where` or an `expression` of the file is refused; Unavailable if nothing reads it."""
    from dpcli.release.expressions.sql_grammar import Expressions

    columns, place = source.columns, path
    try:
        for name, column in columns.items():
            if column.expression is not None:
                Expressions(columns).column(name, name)
        for priced in queries:
            if priced.query.where is not None:
                place = f'{path}: query "{priced.query.name}"'
                Expressions(columns).condition(priced.query.where, "where")
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def row_window(family: BlockFamily, window: tuple[str, ...], source: Source, place: str) -> RowWindow:
    """Return the window as a condition on rows: a row of another block is not read, whatever a query asks.

    Where the ledger's max_blocks is 1, a query bounds the rows of one (source.unit, block), not of one source.unit in the whole window. The
    protected unit then has all its rows in one block: it is what one source.unit has in it (a patient-week), or a source.unit without rows
    in others. Take two tables that differ by the rows of such a unit. They are in one (source.unit, block), as the block of a row follows
    from that row alone. What is chosen of any other (source.unit, block) depends on its own rows and on the hash's key, and is the same in
    both. So at most max_groups keys differ, each by at most max_rows rows and by 1 in the count of units: all that the sensitivity of any
    measure is derived from (aggregate.py). The unit's loss is what its one block is charged. Bounds over the whole window would not do:
    without the rows of one week others of the patient may be chosen in their place, which is a second change of that size.

    Where max_blocks is more, a unit is a whole source.unit, and is bounded in the whole window: its loss is at most what one block is
    charged. A unit that is neither is refused (sessions/whose.py), as far as its name tells.

    Args:
        place: Place of the file.

    Raises:
        InputError: If dpcli cannot tell a row's block: of parts of a hash, which is computed elsewhere, and where the file computes the
            column anew, as what decides a block must be the same in every file.
    """
    rows = rows_of_blocks(family, family.window(window))
    if rows is None:
        raise InputError(
            f"{place}: expected a ledger whose blocks a column tells (day, week, region), found blocks by {family.by}: dpcli does not know "
            "how it was computed, and cannot read the window alone. Put these blocks into a table of their own, release without --ledger "
            "and without privacy.window, and charge it by dpcli budget spend --window"
        )
    declared = source.columns.get(family.column)
    if declared is not None and declared.expression is not None:
        raise InputError(
            f"{place}: source.columns.{family.column}: expected a column of the data, as the blocks of the ledger are cut by it, found one "
            "that is computed"
        )
    return rows


def kept_files(plan: ReleasePlan) -> tuple[str, ...]:
    """Return the paths that no output may overwrite: files of the release, and the folders that will be made for it."""
    return (*(os.path.join(plan.folder, name) for name in (ANSWERS, STATEMENT, RUN, LOCK)), *_missing_folders(plan.folder))


def _missing_folders(folder: str) -> Iterator[str]:
    """Yield the folder and those above it that do not exist yet."""
    while not os.path.lexists(folder):
        yield folder
        folder = os.path.dirname(folder)
