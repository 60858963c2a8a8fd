"""Import from and export to Tumult Analytics 0.21. The budget of a Session corresponds to a stated guarantee in a pipeline file.

A *Session* answers queries until its budget is spent; a *protected change* says what one unit may change in each table: some rows, or all
rows of one identifier. As one unit may change all tables at once, their rows are added up; tables whose identifiers mean the same things
share an *identifier space*, which is counted once. The queries themselves are not part of the record, so the file states the whole budget,
spent or not. `dpcli import tumult` calls `file_of_session`, and `dpcli export tumult` calls `session_of`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import (
    COMMENTS,
    Asserted,
    ForeignTable,
    dp_entry,
    file_of,
    in_words,
    name_in_words,
    read_fields,
    with_asserted,
    zcdp_entry,
)
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.shown import quoted
from dpcli.mechanisms.sampling.schemes import Unsampled

BUDGETS: dict[str, tuple[str, ...]] = {  # fields of each class of budgets
    "PureDPBudget": ("epsilon",),
    "ApproxDPBudget": ("epsilon", "delta"),
    "RhoZCDPBudget": ("rho",),
}
# Meanings of a record, for comments
ROWS, IDENTIFIERS = "rows of all tables together", "identifiers: one record is all rows of one"

REFUSED = {  # classes of protected changes that a pipeline file cannot state, with the reason
    "AddMaxRowsInMaxGroups": "a pipeline file cannot bound the groups of a unit: use AddMaxRows with the largest number of rows of a unit"
}
DEFAULT_SPACE = "default_id_space"  # Tumult's name of the identifier space of tables that name none
# The class of budgets by mechanism type.
BUDGET_OF = {"pure-dp": "PureDPBudget", "approx-dp": "ApproxDPBudget", "zcdp": "RhoZCDPBudget"}


class ChangeClass(NamedTuple):
    """A class of protected changes: its required and optional fields, and the meaning of a record."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    record: str


CHANGES: dict[str, ChangeClass] = {
    "AddOneRow": ChangeClass((), ("max_rows",), ROWS),
    "AddMaxRows": ChangeClass(("max_rows",), (), ROWS),
    "AddRowsWithID": ChangeClass(("id_column",), ("id_space",), IDENTIFIERS),
}


def file_of_session(data: bytes, asserted: Asserted, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file for a Session, given as JSON with the names of Tumult's classes and fields.

    A Session protects the changes of one unit in all of its tables at once. The rows of all tables are therefore added up. `asserted` has
    the keys of [privacy] that the user states, `ignored` the fields that --ignore names, and `place` names the record in messages.
    """
    session = read_fields(data, place)
    session.require_fields(("privacy_budget", "protected_changes"), (), ignored)
    name, budget = _typed(session.table("privacy_budget"), BUDGETS)
    budget.require_fields(BUDGETS[name], (), ignored)
    changes = session.table("protected_changes")
    counted = [_change(changes.table(table, f"{place}: {name_in_words(table)}"), table, ignored) for table in changes.fields]
    records = {change.record for change in counted}
    if len(records) != 1:
        raise session.refused(
            "expected protected_changes only of rows or only of identifiers, found " + ("both" if records else "none")
        )
    (record,) = records
    counts_by_space = {change.space: change.record_count for change in counted}
    # An identifier has rows in every table of its space, so that each space counts once.
    known = {"adjacency": "add-remove", "max_contributions": sum(counts_by_space.values())}
    privacy = {**with_asserted(known, asserted, place), "releases": "outputs"}
    heading = ("From a Session of Tumult Analytics: its whole budget, which may not all be spent.",)
    tables = {"format": 1, "privacy": privacy, "mechanism": [{"name": "tumult", **_guarantee(name, budget)}]}
    return file_of(tables, heading, {**COMMENTS, "max_contributions": record}, place)


def _guarantee(name: str, budget: ForeignTable) -> dict[str, Any]:
    """Return the keys of the entry that states the guarantee of a budget. name: class of the budget."""
    if name == "RhoZCDPBudget":
        return zcdp_entry(budget.number("rho"))
    return dp_entry(budget.number("epsilon"), budget.number("delta") if name == "ApproxDPBudget" else 0.0)


class ProtectedChange(NamedTuple):
    """The records of one table that a unit changes.

    Attributes:
        space: Name of the identifier space or, for rows, of the table. The records of each space are counted once.
        record: Meaning of a record: ROWS or IDENTIFIERS.
        record_count: Number of records.
    """

    space: str
    record: str
    record_count: int


def _change(change: ForeignTable, table: str, ignored: Collection[str]) -> ProtectedChange:
    """Return the protected change of a table. Raises InputError for a change that a pipeline file cannot state."""
    name, change = _typed(change, {**CHANGES, **REFUSED})
    if name in REFUSED:
        raise change.refused(REFUSED[name])
    known = CHANGES[name]
    change.require_fields(known.required, known.optional, ignored)
    rows = change.count("max_rows") if "max_rows" in change.fields else 1
    if "max_rows" in known.optional and rows != 1:
        raise change.refused(f"expected max_rows of 1, found {rows}")
    space = change.fields.get("id_space", DEFAULT_SPACE) if known.record == IDENTIFIERS else table
    if type(space) is not str:
        raise change.refused(f"expected id_space to be a name, found {in_words(space)}")
    return ProtectedChange(space, known.record, rows)


def _typed(table: ForeignTable, classes: Collection[str]) -> tuple[str, ForeignTable]:
    """Return the class that a table names, and the table of its fields. Raises InputError if the class is not one of `classes`."""
    name = table.fields.get("type")
    if type(name) is not str or name not in classes:
        raise table.refused(f"expected type among {', '.join(classes)}, found {name_in_words(str(name))}")
    fields = {field: value for field, value in table.fields.items() if field != "type"}
    return name, ForeignTable(f"{table.name}: {name}", fields)


def session_of(pipeline: Pipeline, table: str) -> str:
    """Return the JSON of a Session with the guarantee that a pipeline states for its unit, which may change the rows of the named table.

    Raises InputError, with the reason, if a Session cannot express the pipeline.
    """
    for problem in _session_problems(pipeline):  # the first one is reported
        raise InputError(f"a Session of Tumult Analytics has one budget, for rows that are added or removed: {problem}")
    (entry,) = (entry for entry in pipeline.mechanisms if not entry.spec.free)
    for problem in _budget_problems(entry, pipeline):
        raise InputError(f"mechanism {quoted(entry.name)} cannot be the budget of a Session: {problem}")
    rows = pipeline.privacy.max_contributions or 1
    change = {"type": "AddOneRow"} if rows == 1 else {"type": "AddMaxRows", "max_rows": rows}
    name = BUDGET_OF[entry.type]
    budget = {"type": name, **{field: getattr(entry.spec, field) for field in BUDGETS[name]}}
    return json.dumps({"privacy_budget": budget, "protected_changes": {table: change}}, indent=2) + "\n"


def _session_problems(pipeline: Pipeline) -> Iterator[str]:
    """Yield the reasons why a pipeline as a whole cannot be a Session."""
    charged = [entry for entry in pipeline.mechanisms if not entry.spec.free]
    if pipeline.privacy.adjacency.value != "add-remove":
        yield f"expected add-remove, found {pipeline.privacy.adjacency.value}"
    if pipeline.privacy.adaptive:
        yield "expected adaptive = false, found true: the Session itself composes adaptive queries"
    if len(charged) != 1:
        yield f"expected one mechanism that reads private data, found {len(charged)}"


def _budget_problems(entry: Entry, pipeline: Pipeline) -> Iterator[str]:
    """Yield the reasons why the guarantee of an entry cannot be the budget of a Session."""
    spec: Any = entry.spec
    if entry.type not in BUDGET_OF:
        yield f"its type is {entry.type}; the type of a budget is one of {', '.join(BUDGET_OF)}"
        return
    if entry.steps != 1 or entry.epochs is not None:
        yield "it runs more than once, but a budget is one guarantee"
    if not isinstance(entry.sampling, Unsampled | None):
        yield f"it is sampled ({entry.sampling.scheme}), but a Session reads all rows"
    if entry.partition is not None or entry.sample is not None:
        yield "it names a partition or a sample, but a Session has neither"
    budget = BUDGET_OF[entry.type]
    for key in ("xi", "delta"):
        if getattr(spec, key, None) and key not in BUDGETS[budget]:
            yield f"it states {key} = {getattr(spec, key)!r}, which {budget} cannot state"
    if getattr(spec, "adjacency", None) not in (None, pipeline.privacy.adjacency):
        yield f"its guarantee is stated under {spec.adjacency.value}"
    if spec.stated_for == "record" and (pipeline.privacy.max_contributions or 1) > 1:
        yield 'its guarantee is stated for a record: expected stated_for = "unit"'
