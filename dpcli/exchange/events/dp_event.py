"""A DpEvent as JSON: alone, or with the relation of its accountant and the pipeline that it was made of.

dp-accounting 0.6 itself has no format for files: to_named_tuple keeps the names of classes and fields, and so does this one. An event is a
table { "type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": { ... } }; an infinite number is the string "inf". What
json.dump makes of the named tuple is read too: the list of its values, behind the names of the module and of the class.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpcli.base.errors import InputError, Unavailable
from dpcli.exchange.events.event_tree import HOME, SNIPPET, EventTree, Value, plain_of, tree_of
from dpcli.exchange.events.reader import tables_of_event
from dpcli.exchange.events.writer import RELATIONS, tree_of_pipeline
from dpcli.exchange.foreign import Asserted, ForeignTable, NotJson, carried_tables, file_of, read_json, read_text
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.shown import shown
from dpcli.file.toml.write import toml_text

SCHEMA = "dpcli/dp-event/v1"
WRAPPED = ("schema", "neighboring_relation", "pipeline")  # beside the event
ADJACENCIES = {relation: adjacency for adjacency, relation in RELATIONS.items()}
COMMENTS = {"noise_multiplier": "over the bound on one record's values, as in the event"}


def event_json(pipeline: Pipeline) -> str:
    """Return the event, the relation under which it counts, and the pipeline's own tables, as JSON."""
    document = {
        "schema": SCHEMA,
        "neighboring_relation": RELATIONS[pipeline.privacy.adjacency.value],
        "event": plain_of(tree_of_pipeline(pipeline)),
        "pipeline": tables_of(pipeline),
    }
    return json.dumps(document, indent=2) + "\n"


def file_of_json(data: bytes, asserted: Asserted, place: str) -> str:
    """Return the text of the pipeline file of an event, as a table or as json.dump writes its named tuple, or of what `event_json` wrote.

    Raises InputError for a field that nobody knows, or what no file says; InvalidFile if the reader refuses the values.
    """
    document = _document(data, place)
    if not _wraps(document):
        return _text(tables_of_event(tree_of(document), asserted), COMMENTS, place)
    wrapper = ForeignTable(place, document)
    wrapper.require_fields(("event",), WRAPPED, hint="" if "schema" in document else SNIPPET)
    stated = _related(wrapper, asserted)
    if not wrapper.has("pipeline"):
        return _text(tables_of_event(tree_of(document["event"]), stated), COMMENTS, place)
    event = plain_of(tree_of(document["event"]))
    carried = wrapper.table("pipeline").fields
    return _text(carried_tables(carried, stated, lambda pipeline: plain_of(tree_of_pipeline(pipeline)), event), {}, place)


def _text(tables: Mapping[str, Any], comments: Mapping[str, str], place: str) -> str:
    return file_of(tables, ("From a DpEvent of dp-accounting.",), comments, place)


def _document(data: bytes, place: str) -> Any:
    """Return the table in JSON, or the list that json.dump makes of a named tuple."""
    try:
        document = read_json(data, place)
    except NotJson:
        raise InputError(f"{place}: not a DpEvent as JSON; {SNIPPET}") from None
    if not isinstance(document, dict | list):
        raise InputError(f"{place}: expected a DpEvent as JSON, found {shown(document)}; {SNIPPET}")
    return document


def _wraps(document: Any) -> bool:
    return isinstance(document, dict) and "event" in document and not document.keys() & {"type", "class_name"}


def _related(wrapper: ForeignTable, asserted: Asserted) -> Asserted:
    """Return what is asserted, with the adjacency that the file states."""
    schema = wrapper.fields.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise wrapper.refused(f"expected schema {SCHEMA}, found {shown(schema)}")
    if not wrapper.has("neighboring_relation"):
        return asserted
    relation = wrapper.fields["neighboring_relation"]
    if type(relation) is not str or relation not in ADJACENCIES:
        raise wrapper.refused(f"expected neighboring_relation among {', '.join(ADJACENCIES)}, found {shown(relation)}")
    adjacency = ADJACENCIES[relation]
    if asserted.adjacency not in (None, adjacency):
        raise wrapper.refused(f"expected the file's own adjacency, {adjacency}, found {asserted.adjacency}")
    return replace(asserted, adjacency=adjacency)


def from_dp_event(
    event: Any,
    *,
    adjacency: str,
    delta: float | None = None,
    unit: str | None = None,
    max_contributions: int | None = None,
    dataset_size: int | None = None,
) -> Pipeline:
    """Return the pipeline that says the same as a DpEvent of dp-accounting.

    Args:
        event: a DpEvent, its named tuple (to_named_tuple), or its table as JSON has it. It is known by the name of its class and of its
            fields; dp_accounting need not be installed.
        adjacency: "add-remove" (ADD_OR_REMOVE_ONE), "replace-one" (REPLACE_ONE) or "zero-out" (REPLACE_SPECIAL): what the accountant was
            told, since the event does not say it.
        delta: at which epsilon is reported; dp-accounting is asked for it later.
        unit, max_contributions, dataset_size: as in [privacy].

    Returns:
        A pipeline whose noise is what the event says: over C, the bound on one record's values. Under replace-one a record moves a sum by
        2 C, as PLDAccountant counts; RdpAccountant counts C there, and so less. Numbers that have to be converted (noise_parameter) are
        rounded to less noise, in the last digits.

    Raises:
        InputError: an event that no mechanism says (NonPrivateDpEvent, UnsupportedDpEvent, SampledWithReplacementDpEvent, several trees
            of one epoch, a sample of a sample, xi above 0), or values that the pipeline file refuses.
    """
    asserted = Asserted(adjacency=adjacency, unit=unit, max_contributions=max_contributions, dataset_size=dataset_size, delta=delta)
    return read_text(toml_text(tables_of_event(tree_of(event), asserted)), "<dp event>")


def to_dp_event(pipeline: Pipeline) -> Any:
    """Return the DpEvent of dp-accounting that says the same as a pipeline, to be composed by an accountant with its neighbouring relation.

    Args:
        pipeline: of one record per unit, without partitions; what it says of adjacency, delta, unit and budget is not in the event.

    Returns:
        An object of dp_accounting.dp_event. The names of entries are lost; from_dp_event of it costs what the pipeline costs, or more in
        the last digits if a number had to be converted.

    Raises:
        InputError: a mechanism, a key or a sampling scheme that no event says, or that dpcli cannot account for; it is named.
        Unavailable: dp_accounting is not installed, or has no such class.
    """
    return _object(tree_of_pipeline(pipeline))


def _object(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_object(item) for item in value]
    if not isinstance(value, EventTree):
        return value
    if importlib.util.find_spec("dp_accounting") is None:
        raise Unavailable("dp_accounting is not installed: pip install dp-accounting")
    home = getattr(importlib.import_module(HOME), value.name, None)
    if home is None:
        raise Unavailable(f"expected a dp_accounting that has {value.name}, found one that is older")
    return home(**{field: _object(inner) for field, inner in value.fields.items()})
