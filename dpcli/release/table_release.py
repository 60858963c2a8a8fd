"""The Python interface to releases: the queries of a pipeline about a table that the program has in memory.

`dpcli.release(table, pipeline)` does what the command does, in the same order (release_run.py): plan, charge, compute, store, commit.
`plan_release` costs nothing and reads no data. A repeated call returns the stored answers, even if the table has changed: fresh noise on
the same question would cost again. `ReleasedAnswers` holds no exact number. What the caller must guarantee, because no code here can check
it, is in the docstring of `release`.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.file.toml.shown import first_names, quoted
from dpcli.ledger.budget import path_or_url, text_of, texts_of
from dpcli.release.engines.given_table import given_table
from dpcli.release.query_answer import STATEMENT, QueryAnswer
from dpcli.release.release_plan import ReleaseOutcome, ReleasePlan, plan_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger

PANDAS_TYPES = {bool: "boolean", int: "Int64", float: "float64"}  # pandas' type of a column, by Python's type of its values


@dataclass(frozen=True, slots=True)
class ReleasedAnswers(Displayed):
    """The noisy answers of a release. They hold no exact data of the table.

    outcome: the plan, the folder, the run and the answers.
    """

    outcome: ReleaseOutcome = field(repr=False)

    __repr__ = Displayed.__repr__  # the class's name with `_line`; otherwise `dataclass` would define another one

    def _line(self) -> str:
        fresh = "" if self.fresh else ", stored by an earlier call"
        return f"{_cost(self.outcome.plan)}, {len(self.answers):,} queries{fresh}, folder: {self.folder!r}"

    @property
    def answers(self) -> tuple[QueryAnswer, ...]:
        """The answers, in the order of the queries."""
        return self.outcome.answers

    @property
    def epsilon(self) -> float:
        """An upper bound on epsilon of all queries together, at `delta`. It is not rounded."""
        return self.outcome.plan.account.epsilon

    @property
    def delta(self) -> float:
        """The delta at which `epsilon` holds."""
        return self.outcome.plan.account.delta

    @property
    def folder(self) -> str:
        """The folder in which the answers and the statement are stored."""
        return self.outcome.folder

    @property
    def key(self) -> str:
        """The key of the charge in the ledger."""
        return self.outcome.run

    @property
    def fresh(self) -> bool:
        """Return whether the answers were drawn by this call. If not, an earlier call drew them, and this call charged nothing."""
        return self.outcome.fresh

    @property
    def statement(self) -> str:
        """The content of the statement's file, in Markdown. Raises OSError if the file was removed."""
        with open(os.path.join(self.folder, STATEMENT), encoding="utf-8") as file:
            return file.read()

    def rows(self, query: str | None = None) -> list[dict[str, Any]]:
        """Return each row of the answers as a dictionary, with the columns of `frame`. A missing value is None.

        query: name of a query, for its rows alone. Raises InputError if there is no such query.
        """
        columns = self._columns(query)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def frame(self, query: str | None = None) -> Any:
        """Return the answers, or those to one query, as a pandas DataFrame or, if pandas is not installed, as `rows` does.

        There is one row for each key of each query. The columns are the keys of these queries, then query, measure, value, lower, upper and
        confidence. A key that a query does not have is missing in its rows. `value` is text where a query chooses a text. `lower` and
        `upper` are missing where there is no interval.
        """
        if importlib.util.find_spec("pandas") is None:
            return self.rows(query)
        import pandas

        return pandas.DataFrame(
            {name: pandas.Series(values, dtype=_dtype(values)) for name, values in self._columns(query).items()}
        )

    def _columns(self, query: str | None) -> dict[str, list[Any]]:
        """Return the columns of `frame` by name. The keys come first."""
        from dpcli.release.documents.answers import QUERY_COLUMNS, VALUE_COLUMNS, sheet_of

        answers = [answer for answer in self.answers if query in (None, answer.query)]
        if not answers:
            raise InputError(
                f"query: expected one of {first_names(quoted(answer.query) for answer in self.answers)}, found {query!r}"
            )
        sheet = sheet_of(answers)  # its columns are QUERY_COLUMNS, those of the keys, and VALUE_COLUMNS
        first_key, after_keys = len(QUERY_COLUMNS), len(sheet.columns) - len(VALUE_COLUMNS)
        places = (*range(first_key, after_keys), *range(first_key), *range(after_keys, len(sheet.columns)))
        return {sheet.columns[place]: [row[place] for row in sheet.rows] for place in places}


def _dtype(values: Sequence[object]) -> str:
    """Return the pandas type that keeps these values as they are: one type of numbers, or else objects."""
    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        return "float64"
    if types == {int} and any(isinstance(value, int) and value.bit_length() > 63 for value in values):
        return "object"  # pandas has no integers of more bits
    return PANDAS_TYPES.get(types.pop(), "object") if len(types) == 1 else "object"


@dataclass(frozen=True, slots=True)
class PlannedRelease(Displayed):
    """The cost and the expected errors of a release, known without any data."""

    plan: ReleasePlan = field(repr=False)

    __repr__ = Displayed.__repr__  # otherwise `dataclass` would define another one

    def _line(self) -> str:
        return f"{_cost(self.plan)}, {len(self.plan.queries):,} queries, pipeline: {self.plan.path!r}"

    @property
    def epsilon(self) -> float:
        """An upper bound on epsilon of all queries together, at `delta`. It is not rounded."""
        return self.plan.account.epsilon

    @property
    def delta(self) -> float:
        """The delta at which `epsilon` holds."""
        return self.plan.account.delta

    @property
    def over_budget(self) -> bool:
        """Return whether the budget in the file refuses the release."""
        return self.plan.over_budget

    @property
    def expected_errors(self) -> dict[str, str]:
        """The error of each query in words, by its name, as far as it is known without the data."""
        return {priced.query.name: priced.expected_error for priced in self.plan.queries}


def _cost(plan: ReleasePlan) -> str:
    """Return the cost in words, with epsilon rounded up."""
    return f"epsilon <= {up(plan.account.epsilon)} at delta = {plan.account.delta!r}"


def plan_release(pipeline: str | os.PathLike[str] | Pipeline) -> PlannedRelease:
    """Return what a release would cost, and the errors to expect. No data are read, and nothing is charged.

    Args:
        pipeline: The path of a file with [source] and [[query]], or the pipeline that `dpcli.load` read from it.

    Raises:
        InputError: The file cannot be read, or asks for something that cannot be done.
        CannotCertify: No accountant can bound the cost.
    """
    return PlannedRelease(_plan(pipeline))


def release(
    table: object,
    pipeline: str | os.PathLike[str] | Pipeline,
    *,
    ledger: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    window: str | Sequence[str] = (),
    key: str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> ReleasedAnswers:
    """Answer the queries of a pipeline about a table in memory, with noise, once, and remember the answers.

    The plan, the charge, the order of events, the folder and the refusals are those of `dpcli release`. A repeated call returns the stored
    answers and charges nothing, whatever the table then holds. The columns that the queries use are copied once, after the charge.

    The caller guarantees three things, which dpcli cannot check. The table holds the data that the dataset of the ledger names, and all
    rows of each unit. The types of its columns do not depend on the data of one unit: read a csv with stated types, because pandas infers
    them from all values otherwise. And nothing else about the table is shown.

    Args:
        table: A pandas or polars DataFrame, a pyarrow Table, a DuckDB relation, or a DataFrame of a Spark session in this process. The
            index of a pandas DataFrame is ignored. A value of a column of objects or categories counts as its text would in a csv;
            3.0 counts as 3.
        pipeline: The path of the file, or the pipeline that `dpcli.load` read from it. The file needs [[query]] and [source] with
            `columns`. Its `path` or `url` is not read, and may be missing.
        ledger: The file or URL of a ledger, which is charged in full before the table is read. None for no ledger.
        dataset: The name of the dataset in the ledger, if the ledger holds several.
        window: The blocks of the dataset whose rows are read, if the dataset is divided into blocks. By default privacy.window of the file.
        key: The key of the charge in the ledger, unique for each release; a random one if None.
        out: The folder of the answers and the statement. The default is the folder that the file names, or runs/NAME.

    Returns:
        The answers. `frame()` returns them as a table.

    Raises:
        InputError: The file or the table asks for something that cannot be done, or an argument is not as described.
        Denied: The budget in the file or the ledger refuses the charge.
        LedgerError: The ledger or the folder is not reliable, or the release was charged and its answers are lost.
        CannotCertify, NotRepresentable: No accountant can bound the cost, or it has none under the terms of the ledger.
        Unavailable: A package of the extra `release` or `spark` is not installed.
        InternalError: A library raised an error of its own, whose message is not shown because it may quote the data.
    """
    given = given_table(table)
    blocks, charge_key = texts_of("window", window), None if key is None else text_of("key", key)
    plan = _plan(pipeline, None if out is None else path_or_url("out", out))
    # The given table takes the place of the data that the file names. These are not read, and are not part of the fingerprint.
    plan = replace(plan, source=replace(plan.source, path=None, url=None, table=None, engine=None), given=given)
    from dpcli.release.release_run import release as run_release
    from dpcli.sessions.window import over_window

    with _opened_or_none(ledger, dataset) as opened:
        # `over_window` writes the window into the plan's pipeline.
        outcome = run_release(over_window(plan, opened, blocks), opened, charge_key)
        if outcome.fresh and opened is not None:
            _warn(opened, outcome.run)
    return ReleasedAnswers(replace(outcome, plan=replace(outcome.plan, given=None)))  # the answers must not hold the private table


def _plan(pipeline: str | os.PathLike[str] | Pipeline, out: str | None = None) -> ReleasePlan:
    """Return the plan of a pipeline whose answers are stored in the folder `out`, or in the folder that the file names if it is None.

    Raises InputError if the pipeline was not read from a file, or is not what the file holds now.
    """
    from dpcli.file.pipeline.model import Pipeline

    loaded = pipeline if isinstance(pipeline, Pipeline) else None
    path = loaded.path if loaded is not None else path_or_url("pipeline", pipeline)
    if path is None or path == "-":
        raise InputError(
            "pipeline: expected the path of a file, or what dpcli.load read from a file, found a pipeline without a file"
        )
    plan = plan_of(path)
    if loaded is not None and loaded != plan.pipeline:
        raise InputError(
            f"pipeline: expected what dpcli.load reads from {path} now, found a change of the file or of the pipeline since"
        )
    return plan if out is None else replace(plan, source=replace(plan.source, output=out))


def _opened_or_none(ledger: str | os.PathLike[str] | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """Return a context manager that yields the ledger, opened, or None if none is named."""
    if ledger is None:
        return nullcontext()
    from dpcli.ledger.stores.places import open_ledger

    return open_ledger(path_or_url("ledger", ledger), None if dataset is None else text_of("dataset", dataset))


def _warn(ledger: Ledger, run: str) -> None:
    """Warn about a release that used most of the ledger's delta."""
    from dpcli.ledger.documents.ledger_balance import delta_warning

    state = ledger.state()
    text = delta_warning(state, state.run(run))
    if text:
        warnings.warn(f"dpcli: {text}", stacklevel=4)  # the caller of dpcli.release, above `release` and CallablePackage.__call__
