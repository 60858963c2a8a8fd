"""A DpEvent as JSON: alone, or with the relation of its accountant and the pipeline that it was made of.

dp-accounting 0.6 itself has no format for files: to_named_tuple keeps the names of classes and fields, and so does this one. An event is a
table { "type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": { ... } }; an infinite number is the string "inf".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpcli.errors import InputError
from dpcli.exchange.carried import tables_carried
from dpcli.exchange.events.exporting import RELATIONS, tree_of_pipeline
from dpcli.exchange.events.importing import tables_of_event
from dpcli.exchange.events.tree import plain_of, tree_of
from dpcli.exchange.stated import Asserted, file_of
from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.model import Pipeline
from dpcli.toml.shown import shown

SCHEMA = "dpcli/dp-event/v1"
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

    Raises InputError where it is none, or says what no file says; InvalidFile where the reader refuses the values.
    """
    document = _document(data)
    wrapped = "event" in document and "type" not in document and "class_name" not in document
    event = document["event"] if wrapped else document
    found = asserted if not wrapped else _related(document, asserted)
    carried = document.get("pipeline") if wrapped else None
    if isinstance(carried, dict):
        tables = tables_carried(carried, found, lambda pipeline: plain_of(tree_of_pipeline(pipeline)), plain_of(tree_of(event)))
    else:
        tables = tables_of_event(tree_of(event), found)
    return file_of(tables, ("From a DpEvent of dp-accounting.",), {} if carried else COMMENTS, place)


def _document(data: bytes) -> dict[str, Any]:
    if len(data) > MOST:
        raise InputError(f"expected at most {MOST // 1024**2} MiB of JSON, found more")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError('expected JSON { "type": "GaussianDpEvent", ... }, found something else') from None
    if not isinstance(document, dict):
        raise InputError('expected a table { "type": "GaussianDpEvent", ... }, found something else')
    return document


def _related(document: Mapping[str, Any], asserted: Asserted) -> Asserted:
    """What is asserted, with the adjacency that the file states."""
    if document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"expected schema {SCHEMA}, found {shown(document['schema'])}")
    relation = document.get("neighboring_relation")
    if relation is None:
        return asserted
    if type(relation) is not str or relation not in ADJACENCIES:
        raise InputError(f"expected neighboring_relation among {', '.join(ADJACENCIES)}, found {shown(relation)}")
    adjacency = ADJACENCIES[relation]
    if asserted.adjacency not in (None, adjacency):
        raise InputError(f"expected the file's own adjacency, {adjacency}, found {asserted.adjacency}")
    return replace(asserted, adjacency=adjacency)
