"""A stated guarantee as the budget and the protected change of a Session of Tumult Analytics: what `tumult.file_of_session` reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.shown import quoted
from dpcli.mechanisms.sampling.schemes import Unsampled

BUDGETS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "pure-dp": lambda spec: {"type": "PureDPBudget", "epsilon": spec.epsilon},
    "approx-dp": lambda spec: {"type": "ApproxDPBudget", "epsilon": spec.epsilon, "delta": spec.delta},
    "zcdp": lambda spec: {"type": "RhoZCDPBudget", "rho": spec.rho},
}


def session_of(pipeline: Pipeline, table: str) -> str:
    """JSON of the one guarantee that the file states for its unit, which changes as many rows of one table as it contributes.

    A Session has one budget, and its queries are its own: a file of several mechanisms, or of noise, is none.

    Args:
        table: the name of the table in the Session.

    Raises InputError for what a Session cannot say.
    """
    for problem in _problems(pipeline):
        raise InputError(f"a Session of Tumult Analytics has one budget for rows that come or go: {problem}")
    (entry,) = (entry for entry in pipeline.mechanisms if not entry.spec.free)
    for problem in _refused(entry, pipeline):
        raise InputError(f"mechanism {quoted(entry.name)} cannot be the budget of a Session: {problem}")
    rows = pipeline.privacy.max_contributions or 1
    change = {"type": "AddOneRow"} if rows == 1 else {"type": "AddMaxRows", "max_rows": rows}
    return json.dumps({"privacy_budget": BUDGETS[entry.type](entry.spec), "protected_changes": {table: change}}, indent=2) + "\n"


def _problems(pipeline: Pipeline) -> Iterator[str]:
    charged = [entry for entry in pipeline.mechanisms if not entry.spec.free]
    if pipeline.privacy.adjacency.value != "add-remove":
        yield f"expected add-remove, found {pipeline.privacy.adjacency.value}"
    if pipeline.privacy.adaptive:
        yield "expected adaptive = false, found true: the Session itself adds up what is chosen"
    if len(charged) != 1:
        yield f"expected one mechanism that touches private data, found {len(charged) or 'none'}"


def _refused(entry: Entry, pipeline: Pipeline) -> Iterator[str]:
    spec: Any = entry.spec
    if entry.type not in BUDGETS:
        yield f"its type is {entry.type}, and a budget is {', '.join(BUDGETS)}"
        return
    if entry.steps != 1 or entry.epochs is not None:
        yield "it runs more than once, and a budget is spent as a whole"
    if not isinstance(entry.sampling, Unsampled | None):
        yield f"it is sampled ({entry.sampling.scheme}), and a Session reads all rows"
    if entry.partition is not None or entry.sample is not None:
        yield "it names a partition or a sample, and a Session has neither"
    if getattr(spec, "adjacency", None) not in (None, pipeline.privacy.adjacency):
        yield f"it is stated for {spec.adjacency.value}"
    if spec.stated_for == "record" and (pipeline.privacy.max_contributions or 1) > 1:
        yield 'it is stated for a record: expected stated_for = "unit"'
