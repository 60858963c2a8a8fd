"""Import from OpenDP 0.16: conversion of the budget of a serialised accountant to a pipeline file of stated guarantees.

`dpcli import opendp` calls `file_of_accountant`. The record is a nested table of *calls*: constructors of OpenDP by name, with their
arguments. No constructor is called; only the known ones are understood, and any other is refused. OpenDP's metrics, distances between
datasets, become the adjacency (METRICS); its measures, distances between distributions, become the kind of guarantee (MEASURES). A *loss*
is a bound on such a distance: an epsilon or a rho. The whole budget is stated, including what was not spent, so the file never claims less
than was allowed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

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

CALL_FIELDS = ("__function__", "__module__")  # fields of every serialised call
OPTIONAL_CALL_FIELDS = ("__kwargs__", "__version__")  # further fields that a serialised call may have
# Arguments of a composition: the domain of its data, the metric of its neighbours, and the measure of its loss.
SPACE_FIELDS = ("input_domain", "input_metric", "output_measure")
# Meanings of a record, for comments in the new file.
ROWS = "one record is one row"
IDENTIFIERS = "one record is all rows of one identifier"


class RecordDistance(NamedTuple):
    """A distance between data sets: the adjacency in which a unit changes d_in records, and the meaning of a record in words."""

    adjacency: str
    record: str


METRICS = {
    "symmetric_distance": RecordDistance("add-remove", ROWS),
    "insert_delete_distance": RecordDistance("add-remove", ROWS),
    "change_one_distance": RecordDistance("replace-one", ROWS),
    "hamming_distance": RecordDistance("replace-one", ROWS),
    "symmetric_id_distance": RecordDistance("add-remove", IDENTIFIERS),
    "change_one_id_distance": RecordDistance("replace-one", IDENTIFIERS),
}
MEASURES = ("max_divergence", "zero_concentrated_divergence")


def file_of_accountant(data: bytes, asserted: Asserted, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file for the output of opendp.prelude.serialize(context.accountant).

    The file has an entry for each loss that a composition sets aside, or one entry for a privacy filter. `asserted` has the keys of
    [privacy] that the user states, `ignored` the arguments that --ignore names, and `place` names the record in messages.
    """
    name, call = _serialised_call(read_fields(data, place), ignored)
    if name not in COMPOSITIONS:
        raise call.refused(
            f"expected the accountant of a Context, {' or '.join(COMPOSITIONS)}, found {name_in_words(name)}, which has no budget"
        )
    space, losses = COMPOSITIONS[name](call, ignored)
    metric_name, arguments = _serialised_call(space.table("input_metric"), ignored)
    arguments.require_fields((), ("identifier",), ignored)  # a metric on identifiers says by what it groups rows
    metric = METRICS.get(metric_name)
    if metric is None:
        known_names, shown_name = ", ".join(METRICS), name_in_words(metric_name)
        raise call.refused(
            f"expected input_metric among {known_names}, found {shown_name}: in a pipeline file, distances count records"
        )
    known = {"adjacency": metric.adjacency, "max_contributions": call.count("d_in")}
    privacy = {**with_asserted(known, asserted, place), "releases": "outputs"}
    names = ["opendp"] if len(losses) == 1 else [f"opendp-{number}" for number in range(1, len(losses) + 1)]
    measure = space.table("output_measure")
    entries = [{"name": name, **_entry(measure, call, loss, ignored)} for name, loss in zip(names, losses, strict=True)]
    heading = ("From an accountant of OpenDP: its whole budget, which may not all be spent.",)
    tables = {"format": 1, "privacy": privacy, "mechanism": entries}
    return file_of(tables, heading, {**COMMENTS, "max_contributions": metric.record}, place)


def _serialised_call(table: ForeignTable, ignored: Collection[str]) -> tuple[str, ForeignTable]:
    """Return the name of the constructor that a table calls, and the table of its arguments. Raises InputError if it has no name."""
    table.require_fields(CALL_FIELDS, OPTIONAL_CALL_FIELDS, ignored)
    name = table.fields["__function__"]
    if type(name) is not str:
        raise table.refused(f"expected __function__ to be a name, found {in_words(name)}")
    arguments = table.table("__kwargs__").fields if table.has("__kwargs__") else {}
    return name, ForeignTable(f"{table.name}: {name_in_words(name)}", arguments)


class OpendpComposition(NamedTuple):
    """The call that has the metrics of a composition, and the losses that the composition allows."""

    space: ForeignTable
    losses: list[Any]


def _adaptive_composition(call: ForeignTable, ignored: Collection[str]) -> OpendpComposition:
    """Return an adaptive composition, which sets a loss aside for each query."""
    call.require_fields((*SPACE_FIELDS, "d_in", "d_mids"), (), ignored)
    losses = call.fields["d_mids"]
    if not isinstance(losses, list) or not losses:
        raise call.refused(f"expected d_mids to be a list of losses, found {in_words(losses)}")
    return OpendpComposition(call, losses)


def _privacy_filter(call: ForeignTable, ignored: Collection[str]) -> OpendpComposition:
    """Return a privacy filter, which has one loss for all queries together."""
    call.require_fields(("odometer", "d_in", "d_out"), (), ignored)
    name, odometer = _serialised_call(call.table("odometer"), ignored)
    if name != "make_fully_adaptive_composition":
        raise call.refused(f"expected the odometer make_fully_adaptive_composition, found {name_in_words(name)}")
    odometer.require_fields(SPACE_FIELDS, (), ignored)
    return OpendpComposition(odometer, [call.fields["d_out"]])


def _entry(measure: ForeignTable, call: ForeignTable, loss: Any, ignored: Collection[str]) -> dict[str, Any]:
    """Return the keys of the entry for one loss under its measure.

    Under an approximate measure, such as approximate zCDP, a loss is a pair of the loss itself and delta.
    """
    name, arguments = _serialised_call(measure, ignored)
    approximate = name == "approximate"
    if approximate:
        arguments.require_fields(("measure",), (), ignored)
        name, arguments = _serialised_call(arguments.table("measure"), ignored)
    if name not in MEASURES:
        raise call.refused(f"expected output_measure among {', '.join(MEASURES)}, found {name_in_words(name)}")
    arguments.require_fields((), (), ignored)
    fields = _loss_with_delta(call, loss) if approximate else {"loss": loss, "delta": 0.0}
    values = ForeignTable(call.name, fields)
    value, delta = values.number("loss"), values.number("delta")
    return dp_entry(value, delta) if name == "max_divergence" else zcdp_entry(value, delta)


def _loss_with_delta(call: ForeignTable, loss: Any) -> dict[str, Any]:
    """Return the two values of a loss of an approximate measure. Raises InputError unless the loss is a pair."""
    # OpenDP writes a tuple as a table with this one field, because JSON has only lists.
    pair = loss["__tuple__"] if isinstance(loss, dict) and [*loss] == ["__tuple__"] else None
    if not isinstance(pair, list) or len(pair) != 2:
        raise call.refused(f"expected a loss with its delta, found {in_words(loss)}")
    return dict(zip(("loss", "delta"), pair, strict=True))


COMPOSITIONS = {"make_adaptive_composition": _adaptive_composition, "make_privacy_filter": _privacy_filter}
