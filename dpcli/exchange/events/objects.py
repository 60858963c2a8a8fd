"""DpEvents of dp-accounting as Python objects."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from dpcli.base.errors import Unavailable
from dpcli.exchange.events.exporting import tree_of_pipeline
from dpcli.exchange.events.importing import tables_of_event
from dpcli.exchange.events.tree import HOME, EventTree, Value, tree_of
from dpcli.exchange.stated import Asserted, read_text
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.write import toml_text


def from_dp_event(
    event: Any,
    *,
    adjacency: str,
    delta: float | None = None,
    unit: str | None = None,
    max_contributions: int | None = None,
    dataset_size: int | None = None,
) -> Pipeline:
    """The pipeline that says the same as a DpEvent of dp-accounting.

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
    """The DpEvent of dp-accounting that says the same as a pipeline, to be composed by an accountant with its neighbouring relation.

    Args:
        pipeline: of one record per unit, without partitions; what it says of adjacency, delta, unit and budget is not in the event.

    Returns:
        An object of dp_accounting.dp_event. The names of entries are lost; from_dp_event of it costs what the pipeline costs, or more in
        the last digits where a number had to be converted.

    Raises:
        InputError: a mechanism, a key or a sampling scheme that no event says, or that dpcli cannot account for; it is named.
        Unavailable: dp_accounting is not installed, or has no such class.
    """
    return _object(tree_of_pipeline(pipeline))


def _object(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_object(each) for each in value]
    if not isinstance(value, EventTree):
        return value
    if importlib.util.find_spec("dp_accounting") is None:
        raise Unavailable("expected dp_accounting, found none: pip install dp-accounting")
    home = getattr(importlib.import_module(HOME), value.name, None)
    if home is None:
        raise Unavailable(f"expected a dp_accounting that has {value.name}, found one that is older")
    return home(**{field: _object(each) for field, each in value.fields.items()})
