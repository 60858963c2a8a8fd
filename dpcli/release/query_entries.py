"""Queries with their mechanisms, and the [[mechanism]] entries that queries add to a pipeline.

A *mechanism* of a query is the noise or the choice that answers it, or a part of it. An *entry* is the [[mechanism]] table by which a
pipeline file states a mechanism. When a file with [[query]] is read, the reader of files calls `entries`. It checks the queries against
[source], gives each its share of the budget, and returns an entry for each of their mechanisms. From then on they are mechanisms like any
others: every command can price them, and a ledger can record them. The plan of a release (release_plan.py) gets the queries with the same
mechanisms from `priced_queries`. A *unit* is whom the release protects, with all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.pipeline.canonical import Mechanisms
from dpcli.file.pipeline.model import Budget, Entry, Privacy
from dpcli.file.toml.findings import Findings, Problem
from dpcli.mechanisms.stated.stated_spec import StatedSpec
from dpcli.release.budget_shares import query_costs, sum_of_deltas
from dpcli.release.data_source import Source
from dpcli.release.group_keys import limited_to_keys
from dpcli.release.query import Query, QueryMechanism, QuerySetting

# Paths of the settings that default to 1 if a unit has one row (max_contributions = 1). The engine leaves out further rows and keys.
BOUNDS_OF_ONE_ROW = (("max_rows",), ("max_groups",))
# Factor for rounding errors in a sum of deltas. It affects whether a file is refused, not the deltas that are charged.
DELTA_ROUNDING = 1.0 + 1e-12
INCONSISTENT = "DP005"  # the code of all findings here: keys that contradict each other, or that lack another one


@dataclass(frozen=True, slots=True)
class PricedQuery:
    """A query with its source, its cost and its mechanisms."""

    query: Query
    setting: QuerySetting
    mechanisms: tuple[QueryMechanism, ...]

    @property
    def expected_error(self) -> str:
        """A description of the error of the answer, as far as it is known without the data."""
        return self.query.expected_error(self.setting)

    def name_of(self, mechanism: QueryMechanism) -> str:
        """Return the name of the [[mechanism]] entry that prices a mechanism of the query."""
        return f"{self.query.name}.{mechanism.suffix}" if mechanism.suffix else self.query.name


def entries(values: Mapping[str, Any], findings: Findings) -> tuple[tuple[int, Entry], ...]:
    """Return the entries of all queries in order, each with the index of its query; an empty tuple if a finding was added.

    values: the tables that the file states, as dataclasses, by name. The reader of a file calls this only if it has no finding so far.
    findings: collection to which the problems of the queries are added.
    """
    before = len(findings)
    for key, expected, wrong in _problems(values):
        findings.add(INCONSISTENT, key, expected, wrong)
    if len(findings) > before:  # with such problems, the price of a query might not be defined
        return ()
    try:
        priced = priced_queries(values["source"], values["query"], values["privacy"], values.get("budget"))
        numbered = tuple((index, entry) for index, query in enumerate(priced) for entry in _entries(query))
    except InputError as error:
        findings.add(INCONSISTENT, ("query",), "queries that can be priced", str(error))
        return ()
    # `_problems` compared the names of queries. An entry may have a longer name, such as "age.sum", which another query may have.
    names = _mechanism_names(values)
    for index, entry in numbered:
        if entry.name in names:
            key = ("query", index, "name")
            findings.add(INCONSISTENT, key, "a name that no mechanism of another query has", f'"{entry.name}" again')
        names.add(entry.name)
    return numbered if len(findings) == before else ()


def _mechanism_names(values: Mapping[str, Any]) -> set[str]:
    return {entry.name for entry in values.get("mechanism", ()) if entry is not None}


def priced_queries(
    source: Source, queries: Sequence[Query], privacy: Privacy, budget: Budget | None, folder: str = ""
) -> tuple[PricedQuery, ...]:
    """Return the queries with their costs and mechanisms, in order. Raises InputError if a query cannot be priced.

    `folder` is the folder of the pipeline file, in which domain files are found. No price depends on it.
    """
    limited = [limited_to_keys(query, source) for query in queries]
    priced = []
    for query, cost in zip(limited, query_costs(limited, privacy, budget), strict=True):
        setting = QuerySetting(source, privacy.adjacency, cost, folder, privacy.dataset_size)
        priced.append(PricedQuery(query, setting, query.mechanisms(setting)))
    return tuple(priced)


def _entries(priced: PricedQuery) -> Iterator[Entry]:
    """Yield the entry that prices each mechanism of a query, such as one of type discrete-laplace with a scale and a sensitivity."""
    for mechanism in priced.mechanisms:
        spec_class = load(MECHANISMS[mechanism.type])
        # A type whose keys are a guarantee, such as an epsilon, must say for whom it is stated: for a unit, whose rows a query bounds.
        stated_for = {"stated_for": "unit"} if issubclass(spec_class, StatedSpec) else {}
        table = {
            "name": priced.name_of(mechanism),
            "type": mechanism.type,
            "steps": mechanism.runs,
            **mechanism.keys,
            **stated_for,
        }
        yield _read_entry(priced.query.name, table)


def _read_entry(query: str, table: Mapping[str, Any]) -> Entry:
    """Return the entry of a [[mechanism]] table, which is read by the rules of pipeline files, as a ledger will read it.

    Raises InputError if the table breaks one of the rules.
    """
    findings = Findings()
    entry = Mechanisms().entry(dict(table), KeyPlace((), findings))  # None if a key has a value of the wrong type or range
    problems = [(fault.key, fault.expected, fault.actual) for fault in findings.items]
    if entry is not None:
        # The spec, which holds the keys of the type, finds those that contradict each other.
        problems += [((key,), expected, wrong) for key, expected, wrong in entry.spec.problems()]
    if problems:
        key, expected, wrong = problems[0]
        raise InputError(f'query "{query}": {table["type"]}: {".".join(map(str, key))}: expected {expected}, found {wrong}')
    assert entry is not None
    return entry


def _problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the queries, of [source] and of [privacy] that can be found without pricing a query."""
    source, privacy = values.get("source"), values.get("privacy")
    if source is None or privacy is None:
        yield ("source",), "a [source] table with [[query]]", "none"
        return
    names = _mechanism_names(values)
    for position, query in enumerate(values["query"]):
        query_key = ("query", position)
        if query.name in names:
            yield (*query_key, "name"), "a name that no other query or mechanism has", f'"{query.name}" again'
        names.add(query.name)
        for key, expected, wrong in query.needs(source):
            # A problem about a bound that is left out is dropped if the bound has a default.
            has_default = privacy.max_contributions == 1 and key in BOUNDS_OF_ONE_ROW and getattr(query, key[0]) is None
            if not has_default:
                yield (*query_key, *key), expected, wrong
    spent_delta = sum_of_deltas(values["query"])
    if privacy.delta is not None and spent_delta > privacy.delta * DELTA_ROUNDING:
        yield ("privacy", "delta"), f"at least {spent_delta:g}, the sum of the deltas of the queries", f"{privacy.delta:g}"
    yield from _unit_problems(privacy, source)


def _unit_problems(privacy: Privacy, source: Source) -> Iterator[Problem]:
    """Yield a problem if [privacy] and [source] contradict each other about whether each row is a unit of its own."""
    if privacy.unit == "example" and source.unit is not None:
        yield ("source", "unit"), 'no unit column with privacy.unit = "example", where each row is a unit', f'"{source.unit}"'
    elif privacy.unit not in (None, "example") and source.unit is None:
        naming = f'the column that names the "{privacy.unit}" of a row, or privacy.unit = "example" if each row is a unit'
        yield ("source", "unit"), naming, "none"
