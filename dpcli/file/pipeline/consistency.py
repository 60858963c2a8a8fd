"""Checks of the keys of a pipeline file against each other (rule DP005): within an entry, across entries, and against [privacy].

read.py calls `values_of` with the tables of a file. It reads each value alone (canonical.py), compares the values that could be read, and
adds the mechanisms of the queries of a release. A *problem* is a triple: the path of a key, the text after "expected", and the text after
"found"; it becomes a finding. A contradiction refuses the file, because dpcli and the program that runs might each believe another key. An
*entry* is one [[mechanism]] table as it was read, and its *spec* holds the keys of its mechanism type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from dpcli.file.pipeline.canonical import read_document
from dpcli.file.pipeline.gate_keys import NO_GATE, gate_problems
from dpcli.file.pipeline.model import Budget, Entry, Privacy
from dpcli.file.pipeline.parts import part_problems, sample_problems
from dpcli.file.pipeline.section import entries_of_queries, judge_sections, section_problems
from dpcli.file.toml.findings import Findings, Path, Problem
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import closest
from dpcli.mechanisms.sampling.schemes import Batched

Entries = Mapping[int, Entry]
# Smallest similarity, as difflib measures it, of a unit that is taken for a mistyped "example", if max_contributions is missing. With
# [[mechanism]] tables it decides only about the message; a file with queries alone is refused for such a unit and no other.
LIKELY = 0.8


def values_of(tables: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return the top-level values that can be read, by key, and add a finding for every problem.

    The mechanisms of queries come after the mechanisms of the file. The value `queries` has the index of the query for each of them.

    Raises TooMany if there are more problems than `MAX_FINDINGS`.
    """
    values = read_document(tables, findings)
    check(tables, values, findings)
    query_entries = entries_of_queries(values, findings)
    if not query_entries:
        return values
    entries = (*values.get("mechanism", ()), *(entry for _, entry in query_entries))
    return {**values, "mechanism": entries, "queries": tuple(position for position, _ in query_entries)}


def check(tables: Mapping[str, Any], values: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for every inconsistency among the top-level values that can be read."""
    privacy = values.get("privacy")
    entries = {index: entry for index, entry in enumerate(values.get("mechanism", ())) if entry is not None}
    # All [[mechanism]] tables, also those that could not be read. So a name of such a table is known, and is not reported as missing.
    entry_tables: list[Mapping[str, Any]] = []
    if "mechanism" in values:
        entry_tables = [table if type(table) is dict else {} for table in tables["mechanism"]]
    names = [table["name"] for table in entry_tables if type(table.get("name")) is str]
    has_only_queries = bool(tables.get("query")) and not tables.get("mechanism")
    problems = chain(
        _privacy_problems(privacy, has_only_queries),
        _budget_problems(values.get("budget")),
        _table_problems(entry_tables),
        _entry_problems(entries, privacy),
        part_problems(entries, entry_tables),
        sample_problems(entries, entry_tables),
        gate_problems(values.get("gate", NO_GATE), names),
        section_problems(values),
    )
    for key, expected, actual in problems:
        findings.add("DP005", key, expected, actual)
    if not findings.items:  # a section is compared with the rest of the file only if the rest is valid
        judge_sections(values, tables, findings)


def _privacy_problems(privacy: Privacy | None, has_only_queries: bool) -> Iterator[Problem]:
    """Yield the problems of [privacy].

    Args:
        has_only_queries: Whether the file has queries of a release and no [[mechanism]] table. Queries bound the records of a unit by keys
            of their own, so that max_contributions may be absent.
    """
    if privacy is None:
        return
    if privacy.dataset is not None:
        from dpcli.file.pipeline.datasets import dataset_problems

        yield from dataset_problems(privacy.dataset)
    if privacy.window == ():
        yield ("privacy", "window"), "at least one block (leave the key out if the dataset has no blocks)", "none"
    if privacy.unit is not None:
        yield from _unit_problems(privacy.unit, privacy.max_contributions, has_only_queries)


def _unit_problems(unit: str, max_contributions: int | None, has_only_queries: bool) -> Iterator[Problem]:
    """Yield a problem if the unit and the largest number of its records contradict each other, or if the number is missing."""
    key = ("privacy", "max_contributions")
    if unit == "example":
        if max_contributions not in (None, 1):
            yield key, 'at most 1 where unit = "example"', str(max_contributions)
    elif max_contributions is not None:
        return
    elif closest(unit, ["example"], cutoff=LIKELY):
        actual = f'{quoted(unit)}; did you mean unit = "example"?'
        yield ("privacy", "unit"), 'unit = "example", or max_contributions with another unit', actual
    elif not has_only_queries:
        expected = f"the largest number of records that one {quoted(unit)} contributes"
        yield key, expected, f"nothing; write max_contributions = 1 if one {quoted(unit)} owns one record"


def _budget_problems(budget: Budget | None) -> Iterator[Problem]:
    """Yield a problem if a [budget] states no cap."""
    if budget is not None and budget.epsilon is None and budget.rho is None:
        yield ("budget",), "a cap on epsilon, on rho or on both", "none"


def _table_problems(tables: Iterable[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield a problem for each table with steps and epochs, and for each repeated name."""
    first: dict[str, int] = {}
    for index, table in enumerate(tables):
        if "steps" in table and "epochs" in table:
            yield ("mechanism", index, "epochs"), "either steps or epochs", "both"
        name = table.get("name")
        if type(name) is str and first.setdefault(name, index) != index:
            yield ("mechanism", index, "name"), "a name that no other mechanism has", f"{quoted(name)} again"


def _entry_problems(entries: Entries, privacy: Privacy | None) -> Iterator[Problem]:
    """Yield the contradictions within each entry, and of an entry with [privacy]."""
    for index, entry in entries.items():
        path: Path = ("mechanism", index)
        for key, expected, actual in entry.spec.problems():
            yield (*path, key), expected, actual
        # `final_only`: the cost of this type holds only if no model but the last one is released.
        if entry.spec.final_only and privacy is not None and privacy.releases == "all-checkpoints":
            yield (*path, "type"), 'releases = "final-model": this type covers the last model alone', 'releases = "all-checkpoints"'
        if entry.sampling is not None and privacy is not None:
            for key, expected, actual in entry.sampling.problems(privacy.dataset_size):
                yield (*path, "sampling", key), expected, actual
        if entry.epochs is not None and not isinstance(entry.sampling, Batched):
            yield (*path, "epochs"), "steps, or epochs with a sampling table that has a rate or batch_size", "epochs alone"
