"""Import and export of a DpEvent as JSON, and the Python functions from_dp_event and to_dp_event.

A *DpEvent* is dp-accounting's description of a mechanism or of a composition of mechanisms. Here it becomes an `EventTree`, which reader.py
converts to the tables of a pipeline file, and writer.py makes of a pipeline.

dp-accounting 0.6 has no file format. The format here has the names of classes and fields that to_named_tuple uses. An event is a table
{ "type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": { ... } }. An infinite number is the string "inf". The file
contains the event alone, or also the neighbouring relation of its accountant and the pipeline from which it was exported.

The output of json.dump for the named tuple is read too. It is a list: the names of the module and of the class, then the values.
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
WRAPPER_FIELDS = ("schema", "neighboring_relation", "pipeline")  # optional fields of a table that contains an event
ADJACENCY_OF = {relation: adjacency for adjacency, relation in RELATIONS.items()}
COMMENTS = {"noise_multiplier": "relative to the bound on the values of one record, as in the event"}


def event_json(pipeline: Pipeline) -> str:
    """Return JSON with the event of a pipeline, the neighbouring relation for its accountant, and the tables of the pipeline."""
    document = {
        "schema": SCHEMA,
        "neighboring_relation": RELATIONS[pipeline.privacy.adjacency.value],
        "event": plain_of(tree_of_pipeline(pipeline)),
        "pipeline": tables_of(pipeline),
    }
    return json.dumps(document, indent=2) + "\n"


def file_of_json(data: bytes, asserted: Asserted, place: str) -> str:
    """Return the text of the pipeline file for the JSON of an event, of its named tuple, or of `event_json` (parameters: foreign.py)."""
    document = _document(data, place)
    if not _wraps(document):
        return _text(tables_of_event(tree_of(document), asserted), COMMENTS, place)
    wrapper = ForeignTable(place, document)
    wrapper.require_fields(("event",), WRAPPER_FIELDS, hint="" if "schema" in document else SNIPPET)
    stated = _with_relation(wrapper, asserted)
    if not wrapper.has("pipeline"):
        return _text(tables_of_event(tree_of(document["event"]), stated), COMMENTS, place)
    event = plain_of(tree_of(document["event"]))
    carried = wrapper.table("pipeline").fields
    return _text(carried_tables(carried, stated, lambda pipeline: plain_of(tree_of_pipeline(pipeline)), event), {}, place)


def _text(tables: Mapping[str, Any], comments: Mapping[str, str], place: str) -> str:
    return file_of(tables, ("From a DpEvent of dp-accounting.",), comments, place)


def _document(data: bytes, place: str) -> Any:
    """Return the JSON table of an event, or the JSON list of its named tuple."""
    try:
        document = read_json(data, place)
    except NotJson:
        raise InputError(f"{place}: not a DpEvent as JSON; {SNIPPET}") from None
    if not isinstance(document, dict | list):
        raise InputError(f"{place}: expected a DpEvent as JSON, found {shown(document)}; {SNIPPET}")
    return document


def _wraps(document: Any) -> bool:
    """Return whether a document contains an event in a field, as `event_json` writes it, rather than being one."""
    return isinstance(document, dict) and "event" in document and not document.keys() & {"type", "class_name"}


def _with_relation(wrapper: ForeignTable, asserted: Asserted) -> Asserted:
    """Return the keys that the user states, with the adjacency of the file. Raises InputError if they contradict it."""
    schema = wrapper.fields.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise wrapper.refused(f"expected schema {SCHEMA}, found {shown(schema)}")
    if not wrapper.has("neighboring_relation"):
        return asserted
    relation = wrapper.fields["neighboring_relation"]
    if type(relation) is not str or relation not in ADJACENCY_OF:
        raise wrapper.refused(f"expected neighboring_relation among {', '.join(ADJACENCY_OF)}, found {shown(relation)}")
    adjacency = ADJACENCY_OF[relation]
    if asserted.adjacency not in (None, adjacency):
        raise wrapper.refused(f"expected the adjacency of the file, {adjacency}, found {asserted.adjacency}")
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
    """Return the pipeline that is equivalent to a DpEvent of dp-accounting.

    Args:
        event: A DpEvent, its named tuple (to_named_tuple), or its JSON table. The names of its class and fields identify it, so that
            dp_accounting need not be installed.
        adjacency: The neighbouring relation of the accountant, which the event does not contain: "add-remove" (ADD_OR_REMOVE_ONE),
            "replace-one" (REPLACE_ONE) or "zero-out" (REPLACE_SPECIAL).
        delta: Delta at which epsilon is reported.
        unit: As in [privacy].
        max_contributions: As in [privacy].
        dataset_size: As in [privacy].

    Returns:
        A pipeline with the noise of the event, relative to C, the bound on the values of one record. Under replace-one a record moves a sum
        by 2 C. PLDAccountant uses 2 C too; RdpAccountant uses C, so that its epsilon is smaller. Only a DiscreteGaussianDpEvent states the
        sensitivity of its function, which depends on the adjacency already. A number that must be converted, such as noise_parameter, is
        rounded in its last digits towards less noise.

    Raises:
        InputError: No mechanism type corresponds to the event (NonPrivateDpEvent, UnsupportedDpEvent, SampledWithReplacementDpEvent,
            a sample of a sample), or the reader of pipeline files refuses its values.
    """
    asserted = Asserted(adjacency=adjacency, unit=unit, max_contributions=max_contributions, dataset_size=dataset_size, delta=delta)
    return read_text(toml_text(tables_of_event(tree_of(event), asserted)), "<dp event>")


def to_dp_event(pipeline: Pipeline) -> Any:
    """Return the DpEvent of dp-accounting that is equivalent to a pipeline.

    Args:
        pipeline: A pipeline with one record per unit and without partitions.

    Returns:
        An object of dp_accounting.dp_event, to be composed by an accountant with the neighbouring relation of the pipeline. The event does
        not contain the adjacency, the delta, the unit, the budget and the names of entries. The pipeline of from_dp_event has the same
        cost, or a cost that is larger in the last digits if a number had to be converted.

    Raises:
        InputError: No event corresponds to a mechanism, a key or a sampling scheme, or dpcli cannot account for it. The message names it.
        Unavailable: dp_accounting is not installed, or lacks the class.
    """
    return _object(tree_of_pipeline(pipeline))


def _object(value: Value) -> Any:
    """Return the object of dp_accounting for a value of an event tree. Raises Unavailable if dp_accounting is missing or too old."""
    if isinstance(value, tuple):
        return [_object(item) for item in value]
    if not isinstance(value, EventTree):
        return value
    if importlib.util.find_spec("dp_accounting") is None:
        raise Unavailable("dp_accounting is not installed: pip install dp-accounting")
    event_class = getattr(importlib.import_module(HOME), value.name, None)
    if event_class is None:
        raise Unavailable(f"expected a dp_accounting that has {value.name}, found an older version")
    return event_class(**{field: _object(inner) for field, inner in value.fields.items()})
