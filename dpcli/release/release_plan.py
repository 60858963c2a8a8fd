"""The plan of a release: its file, its queries with their mechanisms, and the rows that it may read. Planning reads no private data.

The command (commands/release.py) and the Python interface (table_release.py) plan with `plan_of`, and release_run.py runs the plan. A
*unit* is whom the release protects, with all of its rows. A ledger may divide a dataset into *blocks*, such as weeks, each with a budget of
its own; a *window* is the blocks that a release reads, as a condition on rows. A ledger without blocks has no window.

The *fingerprint* is a digest of everything on which the answers depend, except private data. (Of a joined table in a database it has only
the name.) A release with the same fingerprint in the same folder returns its stored answers. Another fingerprint is refused there, and is a
new charge elsewhere. So nothing that changes the noise or the question may be left out of it.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.keys.tables import plain
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.read import parse, section
from dpcli.file.toml.limits import read_bytes
from dpcli.ledger.blocks.rows import RowWindow, rows_of_blocks
from dpcli.release.column_values import declared_keys_of, folder_of
from dpcli.release.data_source import Source
from dpcli.release.engines.source_files import public_digest
from dpcli.release.query_answer import ANSWERS, CROISSANT, STATEMENT, QueryAnswer
from dpcli.release.query_entries import PricedQuery, priced_queries
from dpcli.sessions.charged import RUN
from dpcli.sessions.folder import LOCK, missing_folders
from dpcli.sessions.priced import PricedFile, fingerprint, priced_file

if TYPE_CHECKING:
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.ledger.ledger import Ledger
    from dpcli.release.engines.given_table import GivenTable, SparkFrame

# A note on a plan that was made without the SQL parser (sqlglot).
EXPRESSIONS_UNREAD = "conditions and expressions were not checked: this needs pip install 'dpcli[release]'"
WITHOUT_LEDGER = "expected --ledger, whose blocks define the rows of the window, or no window, found no ledger"


@dataclass(frozen=True, slots=True)
class ReleasePlan(PricedFile):
    """A priced file with queries. The pipeline contains the mechanisms of the queries.

    queries: the [[query]] tables with their mechanisms.
    window: condition on the rows that may be read; None if all may be read.
    given: table that a program gave in place of a path or an address; None if the file names the data.
    """

    source: Source
    queries: tuple[PricedQuery, ...]
    window: RowWindow | None = None
    given: GivenTable | SparkFrame | None = field(default=None, repr=False, compare=False)

    def with_window(self, ledger: Ledger | None) -> Self:
        """Return the plan with the window that the ledger's blocks define, as a condition on rows.

        The plan is returned unchanged without a ledger, or if the ledger has no blocks.

        Raises InputError if the file states a window and there is no ledger, or if dpcli cannot decide which rows are in the window. It is
        raised too if the name of the column whose rows are bounded (source.unit) shows that it is not the unit that the file claims to
        protect (privacy.unit).
        """
        from dpcli.sessions.unit_check import require_bounded

        privacy, unit_column = self.pipeline.privacy, self.source.unit
        if ledger is None:
            if privacy.window is not None:
                raise InputError(f"{self.path}: privacy.window: {WITHOUT_LEDGER}")
            require_bounded(privacy.unit, unit_column, None, self.path)
            return self
        # The `family` in the ledger's terms says how the blocks of its dataset are defined, such as days of a column; None without blocks.
        blocks, family = ledger.stated_window(self.pipeline), ledger.state().open_terms().family
        require_bounded(privacy.unit, unit_column, family, self.path)
        return self if family is None else replace(self, window=row_window(family, blocks, self.source, self.path))

    @property
    def folder(self) -> str:
        """The folder in which the answers are stored."""
        return self.folder_at(self.source.output)

    @property
    def data(self) -> str:
        """The absolute path of the data without symbolic links, or the folder of a pattern; "" for a database or a table in memory."""
        path = self.source.path
        if path is None:
            return ""
        before_pattern, *pattern = re.split(r"[*?[]", os.path.join(folder_of(self.path), path), maxsplit=1)
        return os.path.realpath(os.path.dirname(before_pattern) if pattern else before_pattern)

    @property
    def joined(self) -> dict[str, str]:
        """The SHA-256 digests of the public files that are joined with the source, by their paths. Raises InputError as `public_digest`."""
        paths = [join.path for join in self.source.join if join.path is not None]
        return {path: public_digest(path, folder_of(self.path)) for path in paths}

    def fingerprint(self) -> str:
        """Return a digest of everything, except private data, on which the answers depend. Another digest means another release."""
        keys_in_files = {
            name: declared_keys_of(column, name, folder_of(self.path))
            for name, column in self.source.columns.items()
            if column.domain_file
        }
        dependencies: dict[str, Any] = {
            "pipeline": tables_of(self.pipeline),
            "source": {name: value for name, value in plain(self.source).items() if name != "output"},  # a folder changes no answer
            "query": [plain(priced.query) for priced in self.queries],
            "keys": plain(keys_in_files),
        }
        if self.joined:
            dependencies["joined"] = self.joined
        if self.window is not None:
            dependencies["window"] = {"blocks": list(self.window.blocks), **self.window.family}
        return fingerprint(dependencies)


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """The answers of a release.

    folder: folder in which the answers are stored.
    run: key of the run.
    fresh: whether the answers were drawn now; if not, an earlier call stored them.
    """

    plan: ReleasePlan
    folder: str
    run: str
    answers: tuple[QueryAnswer, ...]
    fresh: bool


def plan_of(path: str) -> ReleasePlan:
    """Return the plan of a file with [source] and [[query]].

    Raises:
        InputError: The file cannot be read, or asks for something that cannot be done.
        CannotCertify: No accountant can bound the cost.
    """
    data = read_bytes(path)
    source, queries = section(data, path, "source"), section(data, path, "query")
    if source is None or not queries:
        raise InputError(f"{path}: no [source] or no [[query]]; dpcli init release writes a file with both")
    pipeline = parse(data, path)
    priced = priced_queries(source, queries, pipeline.privacy, pipeline.budget, folder_of(path))
    # The pipeline has an entry for each mechanism of a query and for each [[mechanism]] table.
    unperformed = len(pipeline.mechanisms) - sum(len(query.mechanisms) for query in priced)
    if unperformed:
        raise InputError(
            f"{path}: mechanism: expected only queries, found {unperformed} mechanisms that dpcli release does not perform: move them to "
            "another file"
        )
    if can_read_expressions():
        require_expressions(source, priced, path)
    return ReleasePlan(path, pipeline, priced_file(path, pipeline).account, source, priced)


def can_read_expressions() -> bool:
    """Return whether the SQL parser is installed."""
    return importlib.util.find_spec("sqlglot") is not None


def require_expressions(source: Source, queries: Sequence[PricedQuery], path: str) -> None:
    """Check every `where` and `expression` of a file.

    Raises:
        InputError: An expression is refused.
        Unavailable: The SQL parser is not installed.
    """
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
        error_class = Unavailable if isinstance(error, Unavailable) else InputError  # Unavailable is a subclass of InputError
        raise error_class(f"{place}: {error}") from None


def row_window(family: BlockFamily, window: tuple[str, ...], source: Source, place: str) -> RowWindow:
    """Return the window as a condition on rows. No query reads a row of a block outside the window.

    If the ledger's max_blocks is 1, a query bounds the rows of each pair (source.unit, block), not the rows of a source.unit in the whole
    window. The protected unit then has all its rows in one block: it is the part of a source.unit in one block (a patient-week), or a
    source.unit that has rows in one block only.

    Proof: Take two tables that differ by the rows of such a unit. The block of a row follows from the row alone, so all these rows belong
    to one pair (source.unit, block). The rows chosen from any other pair depend only on the rows of that pair and on the key of the hash,
    and are equal in both tables. So at most max_groups keys differ, each by at most max_rows rows, or by one clipped total, and by 1 in the
    count of units. The sensitivity of every measure follows from these bounds (aggregate.py). The unit's privacy loss is what its one block
    is charged.

    Bounds over the whole window would not be enough. If the rows of one week are removed, other rows of the patient may be chosen in their
    place, which is a second change of the same size.

    If max_blocks is larger, the protected unit is a whole source.unit, whose rows are bounded in the whole window. Its privacy loss is at
    most what one block is charged. Any other unit is refused if its name shows this (sessions/unit_check.py).

    Raises InputError if dpcli cannot decide the block of a row. Either the blocks are parts of a hash that is computed elsewhere, or the
    file itself computes the column or joins it, while a row's block must be the same in every file.
    """
    rows = rows_of_blocks(family, family.window(window))
    if rows is None:
        raise InputError(
            f"{place}: expected a ledger whose blocks follow from a column (day, week, region), found blocks by {family.by}: dpcli does "
            "not know how the blocks were computed, and cannot read only the window. Put these blocks into a table of their own, release "
            "without --ledger and without privacy.window, and charge the release by dpcli budget spend --window"
        )
    declared = source.columns.get(family.column)
    joined = any(family.column in join.columns for join in source.join)
    if joined or (declared is not None and declared.expression is not None):
        raise InputError(
            f"{place}: source.columns.{family.column}: expected a column of the data, since it defines the blocks of the ledger, found a "
            f"{'joined' if joined else 'computed'} column"
        )
    return rows


def protected_files(plan: ReleasePlan) -> tuple[str, ...]:
    """Return the paths that no other output may use: the files of the release, and the folders that it will create."""
    files = (os.path.join(plan.folder, name) for name in (ANSWERS, STATEMENT, CROISSANT, RUN, LOCK))
    return (*files, *missing_folders(plan.folder))
