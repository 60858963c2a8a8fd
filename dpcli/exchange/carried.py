"""A pipeline's own tables inside of what another library reads: they say what that library has no words for, and are believed where they
say the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dpcli.errors import InputError
from dpcli.exchange.stated import Asserted
from dpcli.pipeline.canonical import pipeline_from
from dpcli.pipeline.model import Pipeline


def tables_carried(
    carried: Mapping[str, Any], asserted: Asserted, exported: Callable[[Pipeline], Any], found: Any
) -> dict[str, Any]:
    """The tables of the file to write, with what is asserted in place of what they say.

    Args:
        exported: makes of a pipeline what the file should hold. found: what it holds.

    Raises:
        InputError: the tables are none, or the file says something else than what they are exported as.
    """
    fixed = {key: value for key, value in asserted.table.items() if key in ("adjacency", "max_contributions")}
    tables = json.loads(json.dumps({key: carried[key] for key in ("privacy", "mechanism") if key in carried}))
    if exported(pipeline_from(tables)) != found:
        raise InputError(
            "expected the file as dpcli export wrote it, found that it says something else than its own pipeline: "
            "remove dpcli's part of it to import the rest"
        )
    if any(tables["privacy"].get(key, 1) != value for key, value in fixed.items()):
        raise InputError("the file says whom its noise protects: expected no other adjacency or max_contributions")
    tables["privacy"] |= asserted.table
    return {"format": 1, **tables}
