"""From [source] and [[query]] to the mechanisms that they come to: what every command prices, and the ledger remembers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.pipeline.document import Mechanisms
from dpcli.file.pipeline.model import Budget, Entry, Privacy
from dpcli.file.toml.findings import Findings, Problem
from dpcli.mechanisms.stated.stated import StatedSpec
from dpcli.release.keys import within_keys
from dpcli.release.query import Query, QueryRelease, QuerySetting
from dpcli.release.settings import Source
from dpcli.release.weights import weighted

# Of a unit with one row, one row and one key count: what is not stated is 1, and the engine leaves out whatever is more.
BOUNDS = (("max_rows",), ("max_groups",))


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A query, what it is asked of, and its mechanisms."""

    query: Query
    setting: QuerySetting
    releases: tuple[QueryRelease, ...]

    def name_of(self, release: QueryRelease) -> str:
        """The name of the entry that prices one of them."""
        return f"{self.query.name}.{release.suffix}" if release.suffix else self.query.name


def entries(values: Mapping[str, Any], findings: Findings) -> tuple[tuple[int, Entry], ...]:
    """The entries of the queries, in their order, each with the place of its query.

    None where something is wrong, which is then among the findings.
    """
    before = len(findings)
    for key, expected, found in _problems(values):
        findings.add("DP005", key, expected, found)
    if len(findings) > before:
        return ()
    try:
        performed = asked(values["source"], values["query"], values["privacy"], values.get("budget"))
        priced = tuple((place, entry) for place, one in enumerate(performed) for entry in _entries(one))
    except InputError as error:
        findings.add("DP005", ("query",), "queries that can be priced", str(error))
        return ()
    taken = {entry.name for entry in values.get("mechanism", ()) if entry is not None}
    for place, entry in priced:
        if entry.name in taken:
            findings.add(
                "DP005", ("query", place, "name"), "a name that no mechanism of another query has", f'"{entry.name}" again'
            )
        taken.add(entry.name)
    return priced if len(findings) == before else ()


def asked(
    source: Source, queries: Sequence[Query], privacy: Privacy, budget: Budget | None, folder: str = ""
) -> tuple[AskedQuery, ...]:
    """Every query with its mechanisms. Raises InputError where one cannot be priced."""
    queries = [within_keys(query, source) for query in queries]
    shares = weighted(queries, source, privacy, budget)
    return tuple(
        _asked(query, QuerySetting(source, privacy.adjacency, cost, folder, privacy.dataset_size))
        for query, cost in zip(queries, shares, strict=True)
    )


def _asked(query: Query, setting: QuerySetting) -> AskedQuery:
    return AskedQuery(query, setting, query.releases(setting))


def _entries(one: AskedQuery) -> Iterator[Entry]:
    for release in one.releases:
        kind = load(MECHANISMS[release.type])
        whose = {"stated_for": "unit"} if issubclass(kind, StatedSpec) else {}  # a query bounds what a unit does, not a row
        table = {"name": one.name_of(release), "type": release.type, "steps": release.steps, **release.keys, **whose}
        yield _read(one.query.name, table)


def _read(query: str, table: Mapping[str, Any]) -> Entry:
    """A [[mechanism]] table, by the rules of the file: what they refuse, a ledger could not read again."""
    findings = Findings()
    entry = Mechanisms().entry(dict(table), KeyPlace((), findings))
    problems = [(fault.key, fault.expected, fault.found) for fault in findings.items]
    problems += [] if entry is None else [((key,), expected, found) for key, expected, found in entry.spec.problems()]
    for key, expected, found in problems:
        raise InputError(f'query "{query}": {table["type"]}: {".".join(map(str, key))}: expected {expected}, found {found}')
    assert entry is not None
    return entry


def _problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    source, privacy = values.get("source"), values.get("privacy")
    if source is None or privacy is None:
        yield ("source",), "a [source] table with [[query]]", "none"
        return
    taken = {entry.name for entry in values.get("mechanism", ()) if entry is not None}
    for position, query in enumerate(values["query"]):
        here = ("query", position)
        if query.name in taken:
            yield (*here, "name"), "a name that no other query or mechanism has", f'"{query.name}" again'
        taken.add(query.name)
        for key, expected, found in query.needs(source):
            if not (privacy.max_contributions == 1 and key in BOUNDS and getattr(query, key[0]) is None):
                yield (*here, *key), expected, found
    own = math.fsum(getattr(query, "delta", None) or 0.0 for query in values["query"])
    if privacy.delta is not None and own > privacy.delta * (1 + 1e-12):
        yield ("privacy", "delta"), f"at least the {own:g} that the deltas of the queries come to", f"{privacy.delta:g}"
    if privacy.unit == "example" and source.unit is not None:
        yield ("source", "unit"), 'no unit column with privacy.unit = "example": each row is one', f'"{source.unit}"'
    elif privacy.unit not in (None, "example") and source.unit is None:
        yield (
            ("source", "unit"),
            f'the column that says which "{privacy.unit}" a row belongs to, or privacy.unit = "example" where each row is one',
            "none",
        )
