"""The top-level keys of a pipeline file, its [[mechanism]] tables, and conversions between a pipeline and plain tables.

An *entry* is one [[mechanism]] table as it was read (`Entry` in model.py): keys that all entries have, and a *spec* with the keys of its
mechanism type. TOP lists the top-level keys of a file, with the sections of commands, such as [train], that plugins register.
`read_document` reads a file by TOP for consistency.py, and `pipeline_of` makes the `Pipeline`. A class with `read` and `schema` is a *kind*
of value (keys/kinds.py): its `text` completes messages "expected ...", and its `takes` the manual. A *member* is a key with its kind and
rule (keys/tables.py), and a *finding* a problem at the path of a key.

The *canonical* tables of a pipeline (`tables_of`) are [privacy] and the entries as plain data without defaults: the mechanisms of two files
with equal ones cost the same, whatever their spelling. A ledger records them for each run, and `pipeline_from` reads them back. So a key on
which the cost depends must be in them, and tables of an old ledger must still be readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.fields import Constraint
from dpcli.base.lazy import load
from dpcli.base.registry import RELEASED, SECTIONS
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import kind_of, members_of
from dpcli.file.keys.kinds import KeyPlace, Kind, Listed, Refused
from dpcli.file.keys.tables import Member, Members, plain_table, read_members, selected_schema
from dpcli.file.pipeline.model import Budget, Disclosure, Entry, Gate, Pipeline, Privacy
from dpcli.file.pipeline.section import MECHANISM_TYPES, DefaultsTable, SectionTable
from dpcli.file.toml.findings import Advice, Findings, TooMany

FORMAT = Constraint("1 (the format that this dpcli reads)", lambda x: x == 1, (("const", 1),))

READ_BY = {"federated": "dpcli.rounds, in Python"}  # the readers of sections that no command of the same name reads
PIPELINE_TABLES = frozenset({"privacy", "mechanism", "query"})  # tables that distinguish a pipeline from other TOML files


@dataclass(frozen=True, slots=True)
class MechanismTable:
    """A [[mechanism]] table. Its keys are those that every entry has and those of its type.

    It is no `SelectedTable`, as its value is not an instance of the selected class: the keys of the type become the `spec` of an `Entry`.
    """

    text: str = "a table { name = ..., type = ..., ... }"
    takes: str = "table"

    def members(self, name: str | None) -> Members:
        """Return the keys of an entry of type `name`; those of all types if `name` is None, for a table with an invalid type."""
        # `Entry` declares `type` as any text; here it is a choice among the registered types.
        selector = Member("type", MECHANISM_TYPES.choice, doc=members_of(Entry)["type"].doc, required=True)
        keys_of_type = MECHANISM_TYPES.all_members() if name is None else MECHANISM_TYPES.class_members(name)
        return {**members_of(Entry), "type": selector, **keys_of_type}

    def read(self, value: Any, place: KeyPlace) -> Entry:
        if type(value) is not dict:
            place.wrong_type(self.text, value)
        findings_before = len(place.findings)
        name = MECHANISM_TYPES.selected(value)
        values = read_members(self.members(name), value, place)
        if name is None or len(place.findings) > findings_before:
            raise Refused
        return _entry(name, values)

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return selected_schema("type", {name: self.members(name) for name in MECHANISM_TYPES.registry})


def _entry(name: str, values: Mapping[str, Any]) -> Entry:
    """Return the entry of type `name` with these values. The keys of the type go into its spec."""
    keys_of_type = MECHANISM_TYPES.class_members(name)
    spec_values = {key: value for key, value in values.items() if key in keys_of_type}
    entry_values = {key: value for key, value in values.items() if key not in keys_of_type}
    spec = load(MECHANISM_TYPES.registry[name])(**spec_values)
    return Entry(spec=spec, **entry_values, uncounted=values.keys().isdisjoint(("steps", "epochs")))


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """The list of [[mechanism]] tables. A table that cannot be read becomes None, so that the other tables are still checked."""

    text: str = "at least one [[mechanism]] table"
    item: MechanismTable = MechanismTable()
    takes: str = "array of table"

    def read(self, value: Any, place: KeyPlace) -> tuple[Entry | None, ...]:
        if type(value) is not list:
            place.wrong_type(self.text, value, "write [[mechanism]], with two brackets" if type(value) is dict else "")
        if not value:
            place.out_of_range(self.text, value)
        return tuple(self.entry(table, replace(place, path=(*place.path, index))) for index, table in enumerate(value))

    def entry(self, table: Any, place: KeyPlace) -> Entry | None:
        try:
            return self.item.read(table, place)
        except Refused:
            return None

    def schema(self, rule: Constraint | None) -> dict[str, Any]:
        return {"type": "array", "minItems": 1, "items": self.item.schema(rule)}


def _table(name: str, kind: Kind, doc: str, required: bool = False) -> Member:
    return Member(name, kind, doc=doc, required=required)


# The tables of `dpcli release`. Files have them only if the plugin of the command is installed (RELEASED is not empty).
RELEASE: Members = {
    "source": _table("source", SectionTable("source"), "the table of data that dpcli release queries"),
    "query": _table(
        "query",
        Listed(SectionTable("query")),
        "the queries of dpcli release, one table each; a query becomes one or several mechanisms",
    ),
}

TOP: Members = {
    "format": Member("format", kind_of(int), FORMAT, "version of the file format", required=True),
    "name": members_of(Pipeline)["name"],
    "privacy": _table(
        "privacy", kind_of(Privacy), "the protected unit, and the change of the data against which it is protected", required=True
    ),
    "budget": _table("budget", kind_of(Budget), "caps on the privacy loss of the pipeline"),
    "mechanism": _table("mechanism", Mechanisms(), "the releases, one table per mechanism"),
    "defaults": _table("defaults", DefaultsTable(), "values of keys for the mechanisms that have these keys and do not state them"),
    **(RELEASE if RELEASED else {}),
    "gate": _table("gate", kind_of(Gate), "conditions that dpcli gate adds to the budget"),
    "disclosure": _table("disclosure", kind_of(Disclosure), "answers that dpcli report prints in addition to the numbers"),
    **{name: _table(name, SectionTable(name), f"read by {READ_BY.get(name, f'dpcli {name}')}") for name in SECTIONS},
}


def is_pipeline(tables: Mapping[str, Any]) -> bool:
    """Return whether a document is a pipeline, valid or not.

    A file with the key `format` is a pipeline if it has one table of `PIPELINE_TABLES`. Files of other programs may have tables of these
    names too. A file without `format` is therefore a pipeline only if it has [privacy] and another of the tables, a known key in [privacy],
    or a mechanism of a known type.
    """
    names = PIPELINE_TABLES & tables.keys()
    if "format" in tables or not names:
        return bool(names)
    if "privacy" in names and len(names) > 1:
        return True
    privacy, entries = tables.get("privacy"), tables.get("mechanism")
    if isinstance(privacy, dict) and not members_of(Privacy).keys().isdisjoint(privacy):
        return True
    entry_tables = [entry for entry in (entries if isinstance(entries, list) else [entries]) if isinstance(entry, dict)]
    return any(MECHANISM_TYPES.selected(table) is not None for table in entry_tables)


def read_document(tables: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return the top-level values that can be read, by key, and add a finding for every other one.

    The tables are expanded: no entry has a list in place of a number, and [defaults] has only the keys that no entry takes.
    """
    findings.advice = findings.advice or key_advice
    format_number = tables.get("format")
    if type(format_number) is int and format_number != 1:
        # In another version of the format the other keys may have other meanings.
        tables = {"format": format_number}
        return read_members({"format": TOP["format"]}, tables, KeyPlace((), findings))
    # The mechanisms of a file may come from its queries alone; otherwise [[mechanism]] is required.
    known = TOP if tables.get("query", []) != [] else {**TOP, "mechanism": replace(TOP["mechanism"], required=True)}
    return read_members(known, tables, KeyPlace((), findings))


def key_advice(key: str, known: Iterable[str]) -> Advice:
    """Return advice about an unknown key of a pipeline file. misplaced.py is imported here, because most files need no advice."""
    from dpcli.file.pipeline.misplaced import advice

    return advice(key, known, frozenset(TOP))


def pipeline_of(values: Mapping[str, Any], tables: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline of a document that has no findings outside of its sections. The sections are kept as plain tables."""
    sections = tuple((name, tables[name]) for name in SECTIONS if type(tables.get(name)) is dict)
    # `queries` is not a key of a file: consistency.py adds it, the index of the query for each mechanism that comes from one.
    stated = {key: values[key] for key in ("name", "budget", "gate", "disclosure", "queries") if key in values}
    return Pipeline(privacy=values["privacy"], mechanisms=values["mechanism"], sections=sections, **stated)


def tables_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the tables that determine the cost of a run, [privacy] and the mechanisms, as JSON values without defaults.

    Two files have equal tables if they differ only in the order of keys, the spelling of numbers, comments and [budget].
    """
    return {"privacy": plain_table(pipeline.privacy), "mechanism": [_entry_table(entry) for entry in pipeline.mechanisms]}


def pipeline_from(tables: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline whose tables `tables_of` returned. Raises InputError if this version cannot read them."""
    findings = Findings()
    document = {"format": 1, **tables}
    with suppress(TooMany):  # then there are findings, the first of which is reported
        values = read_document(document, findings)
    if findings.items:
        first = findings.items[0]
        raise InputError(f"expected a pipeline that this version reads, found {'.'.join(map(str, first.key))}: {first.message}")
    return pipeline_of(values, document)


def _entry_table(entry: Entry) -> dict[str, Any]:
    """Return an entry as a table of a file has it: with the keys of its spec among the others."""
    table = plain_table(entry)
    keys_of_type = table.pop("spec", {})
    return {**table, **keys_of_type}
