"""The costs of queries, and the [[mechanism]] entries that queries add to a pipeline.

Since the mechanisms are entries of the pipeline, every command can price them, and a ledger can record them.
"""

from __future__ import annotations

import math
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
from dpcli.release.cost import QueryCost
from dpcli.release.data_source import Source
from dpcli.release.group_keys import limited_to_keys
from dpcli.release.query import Query, QueryRelease, QuerySetting

# Bounds that default to 1 if a unit has one row (max_contributions = 1). The engine excludes further rows and keys.
BOUNDS_OF_ONE_ROW = (("max_rows",), ("max_groups",))


@dataclass(frozen=True, slots=True)
class PricedQuery:
    """A query with its source, its cost and its mechanisms."""

    query: Query
    setting: QuerySetting
    releases: tuple[QueryRelease, ...]

    @property
    def expected_error(self) -> str:
        """A description of the error of the answer, as far as it is known without the data."""
        return self.query.expected_error(self.setting)

    def name_of(self, release: QueryRelease) -> str:
        """Return the name of the [[mechanism]] entry that prices a mechanism of the query."""
        return f"{self.query.name}.{release.suffix}" if release.suffix else self.query.name


def entries(values: Mapping[str, Any], findings: Findings) -> tuple[tuple[int, Entry], ...]:
    """Return the entries of all queries in order, each with the index of its query; an empty tuple if a finding was added.

    Args:
        values: The tables of the file.
        findings: Findings, to which the problems of queries are added.
    """
    before = len(findings)
    for key, expected, wrong in _problems(values):
        findings.add("DP005", key, expected, wrong)
    if len(findings) > before:
        return ()
    try:
        priced_all = priced_queries(values["source"], values["query"], values["privacy"], values.get("budget"))
        priced = tuple((index, entry) for index, query in enumerate(priced_all) for entry in _entries(query))
    except InputError as error:
        findings.add("DP005", ("query",), "queries that can be priced", str(error))
        return ()
    names = {entry.name for entry in values.get("mechanism", ()) if entry is not None}
    for index, entry in priced:
        if entry.name in names:
            findings.add(
                "DP005", ("query", index, "name"), "a name that no mechanism of another query has", f'"{entry.name}" again'
            )
        names.add(entry.name)
    return priced if len(findings) == before else ()


def priced_queries(
    source: Source, queries: Sequence[Query], privacy: Privacy, budget: Budget | None, folder: str = ""
) -> tuple[PricedQuery, ...]:
    """Return the queries with their mechanisms. Raises InputError if a query cannot be priced."""
    queries = [limited_to_keys(query, source) for query in queries]
    shares = query_costs(queries, source, privacy, budget)
    return tuple(
        _priced_query(query, QuerySetting(source, privacy.adjacency, cost, folder, privacy.dataset_size))
        for query, cost in zip(queries, shares, strict=True)
    )


def _priced_query(query: Query, setting: QuerySetting) -> PricedQuery:
    return PricedQuery(query, setting, query.releases(setting))


def _entries(priced: PricedQuery) -> Iterator[Entry]:
    """Yield the entry that prices each mechanism of a query."""
    for release in priced.releases:
        kind = load(MECHANISMS[release.type])
        stated_for = {"stated_for": "unit"} if issubclass(kind, StatedSpec) else {}  # queries bound units, not rows
        table = {"name": priced.name_of(release), "type": release.type, "steps": release.steps, **release.keys, **stated_for}
        yield _read_entry(priced.query.name, table)


def _read_entry(query: str, table: Mapping[str, Any]) -> Entry:
    """Return the entry of a [[mechanism]] table, which is read by the rules of pipeline files, as a ledger will read it.

    Raises:
        InputError: The table breaks one of the rules.
    """
    findings = Findings()
    entry = Mechanisms().entry(dict(table), KeyPlace((), findings))
    problems = [(fault.key, fault.expected, fault.actual) for fault in findings.items]
    problems += [] if entry is None else [((key,), expected, wrong) for key, expected, wrong in entry.spec.problems()]
    for key, expected, wrong in problems:
        raise InputError(f'query "{query}": {table["type"]}: {".".join(map(str, key))}: expected {expected}, found {wrong}')
    assert entry is not None
    return entry


def _problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    source, privacy = values.get("source"), values.get("privacy")
    if source is None or privacy is None:
        yield ("source",), "a [source] table with [[query]]", "none"
        return
    names = {entry.name for entry in values.get("mechanism", ()) if entry is not None}
    for position, query in enumerate(values["query"]):
        query_key = ("query", position)
        if query.name in names:
            yield (*query_key, "name"), "a name that no other query or mechanism has", f'"{query.name}" again'
        names.add(query.name)
        for key, expected, wrong in query.needs(source):
            if not (privacy.max_contributions == 1 and key in BOUNDS_OF_ONE_ROW and getattr(query, key[0]) is None):
                yield (*query_key, *key), expected, wrong
    spent_delta = math.fsum(getattr(query, "delta", None) or 0.0 for query in values["query"])
    if privacy.delta is not None and spent_delta > privacy.delta * (1 + 1e-12):
        yield ("privacy", "delta"), f"at least {spent_delta:g}, the sum of the deltas of the queries", f"{privacy.delta:g}"
    if privacy.unit == "example" and source.unit is not None:
        yield ("source", "unit"), 'no unit column with privacy.unit = "example", where each row is a unit', f'"{source.unit}"'
    elif privacy.unit not in (None, "example") and source.unit is None:
        yield (
            ("source", "unit"),
            f'the column that names the "{privacy.unit}" of a row, or privacy.unit = "example" if each row is a unit',
            "none",
        )


def query_costs(queries: Sequence[Query], source: Source, privacy: Privacy, budget: Budget | None) -> Iterator[QueryCost | None]:
    """Yield the cost of each query; None if the query states an error, which determines its cost.

    Queries with a weight share the part of the budget that the other queries leave. The part is rho if there is a delta, and a pure epsilon
    otherwise. These costs only determine the noise. The guarantee is the account of the pipeline, which prices all mechanisms again.

    Raises:
        InputError: Queries have weights, and there is no budget or nothing is left of it.
    """
    weights = {index: query.weight for index, query in enumerate(queries) if query.weight is not None}
    _, power = math.frexp(max(weights.values(), default=0.0))
    scaled = {index: math.ldexp(weight, -power) for index, weight in weights.items()}  # the sum of unscaled weights might overflow
    total = math.fsum(scaled.values())
    available = _cost_left(queries, source, privacy, budget) if scaled else None
    for index, query in enumerate(queries):
        if index in scaled and available is not None:
            yield available.share(scaled[index] / total * (1.0 - 1e-12))
        elif query.epsilon is not None:
            yield QueryCost(epsilon=query.epsilon)
        else:
            yield None if query.rho is None else QueryCost(rho=query.rho)


def _cost_left(queries: Sequence[Query], source: Source, privacy: Privacy, budget: Budget | None) -> QueryCost:
    """Return the part of the budget that the queries with a weight share. Raises InputError if nothing is left."""
    if budget is None:
        raise InputError("weight: there is no [budget] to share: state budget.epsilon")
    if any(getattr(query, "error", None) is not None for query in queries):
        raise InputError(
            "weight: another query states an error, so its cost is unknown when the weights are applied: state rho or epsilon in "
            "one of the two"
        )
    stated = [QueryCost(query.epsilon, query.rho) for query in queries if query.weight is None]
    delta = _delta(queries, privacy.delta if budget.delta is None else budget.delta)
    if delta is None and budget.epsilon is not None:
        left = budget.epsilon - math.fsum(cost.epsilon if cost.epsilon is not None else math.inf for cost in stated)
        if not 0.0 < left < math.inf:
            raise InputError("weight: the other queries use the whole budget, which has no delta")
        return QueryCost(epsilon=left)
    caps = (
        rho_within(budget.epsilon, delta) if budget.epsilon is not None and delta is not None else math.inf,
        math.inf if budget.rho is None else budget.rho,
    )
    left = min(caps) - math.fsum(_rho(cost) for cost in stated)
    if left <= 0.0:
        raise InputError("weight: the other queries use the whole [budget]")
    return QueryCost(rho=left)


def _delta(queries: Sequence[Query], delta: float | None) -> float | None:
    """Return delta minus the deltas of the queries; None if there is no delta. Raises InputError if nothing is left."""
    if not delta:
        return None
    left = delta - math.fsum(getattr(query, "delta", None) or 0.0 for query in queries)
    if left <= 0.0:
        raise InputError(f"weight: the deltas of the queries use all of delta = {delta:g}")
    return left


def _rho(cost: QueryCost) -> float:
    return cost.rho if cost.rho is not None else cost.pure_epsilon**2 / 2.0


def rho_within(epsilon: float, delta: float) -> float:
    """Return the largest rho of zCDP that implies at most this epsilon at delta, rounded down.

    The conversion is inverted by bisection. Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13.
    """
    from dpcli.numerics.closed.conversion import zcdp_epsilon

    low, high = 0.0, epsilon + 2.0 * math.log(1.0 / delta) + 2.0 * math.sqrt(epsilon * math.log(1.0 / delta))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low
