"""A DpEvent as JSON: alone, or with the relation of its accountant and the pipeline that it was made of.

dp-accounting 0.6 itself has no format for files: to_named_tuple keeps the names of classes and fields, and so does this one. An event is a
table { "type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": { ... } }; an infinite number is the string "inf". What
json.dump makes of the named tuple is read too: the list of its values, behind the names of the module and of the class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.carried import tables_carried
from dpcli.exchange.events.exporting import RELATIONS, tree_of_pipeline
from dpcli.exchange.events.importing import tables_of_event
from dpcli.exchange.events.tree import SNIPPET, plain_of, tree_of
from dpcli.exchange.foreign import ForeignTable, NotJson, read_json
from dpcli.exchange.stated import Asserted, file_of
from dpcli.file.pipeline.document import tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.shown import shown

SCHEMA = "dpcli/dp-event/v1"
WRAPPED = ("schema", "neighboring_relation", "pipeline")  # beside the event
MOST = 16 * 1024 * 1024  # bytes of a file of events
ADJACENCIES = {relation: adjacency for adjacency, relation in RELATIONS.items()}
COMMENTS = {"noise_multiplier": "over the bound on one record's values, as in the event"}


def event_json(pipeline: Pipeline) -> str:
    """The event, the relation under which it counts, and the pipeline's own tables, as JSON."""
    document = {
        "schema": SCHEMA,
        "neighboring_relation": RELATIONS[pipeline.privacy.adjacency.value],
        "event": plain_of(tree_of_pipeline(pipeline)),
        "pipeline": tables_of(pipeline),
    }
    return json.dumps(document, indent=2) + "\n"


def file_of_json(data: bytes, asserted: Asserted, place: str) -> str:
    """The text of the pipeline file that says the same as such JSON, read again and found good.

    Args:
        data: an event, as a table or as json.dump writes the named tuple of it; or what `event_json` wrote.
        place: what messages call it.

    Raises:
        InputError: it is none, it has a field that nobody knows, or says what no file says. InvalidFile: the reader refuses the values.
    """
    document = _document(data, place)
    if not _wraps(document):
        return _text(tables_of_event(tree_of(document), asserted), COMMENTS, place)
    wrapper = ForeignTable(place, document)
    wrapper.only(("event",), WRAPPED, hint="" if "schema" in document else SNIPPET)
    found = _related(wrapper, asserted)
    if not wrapper.has("pipeline"):
        return _text(tables_of_event(tree_of(document["event"]), found), COMMENTS, place)
    event = plain_of(tree_of(document["event"]))
    carried = wrapper.table("pipeline").fields
    return _text(tables_carried(carried, found, lambda pipeline: plain_of(tree_of_pipeline(pipeline)), event), {}, place)


def _text(tables: Mapping[str, Any], comments: Mapping[str, str], place: str) -> str:
    return file_of(tables, ("From a DpEvent of dp-accounting.",), comments, place)


def _document(data: bytes, place: str) -> Any:
    """A table, or the list that json.dump makes of a named tuple."""
    if len(data) > MOST:
        raise InputError(f"{place}: expected at most {MOST // 1024**2} MiB of JSON, found more")
    try:
        document = read_json(data, place)
    except NotJson:
        raise InputError(f"{place}: expected a DpEvent as JSON, found something else; {SNIPPET}") from None
    if not isinstance(document, dict | list):
        raise InputError(f"{place}: expected a DpEvent as JSON, found a single value; {SNIPPET}")
    return document


def _wraps(document: Any) -> bool:
    return isinstance(document, dict) and "event" in document and not document.keys() & {"type", "class_name"}


def _related(wrapper: ForeignTable, asserted: Asserted) -> Asserted:
    """What is asserted, with the adjacency that the file states."""
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
