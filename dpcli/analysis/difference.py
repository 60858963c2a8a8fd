"""What changed between two pipelines, and what each change costs: alone, and all of them together."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.analysis.account import Account, headline
from dpcli.analysis.changes import Change, Tables, changes
from dpcli.analysis.comparable import statement_of
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.consistency import values_of
from dpcli.file.pipeline.document import pipeline_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse, toml_document
from dpcli.file.toml.findings import Findings, TooMany
from dpcli.file.toml.shown import key_text
from dpcli.git.command import read_source
from dpcli.numerics.work import limited

MOST = 40  # changes that are priced one at a time


@dataclass(frozen=True, slots=True)
class Priced:
    """One change made alone to the first file.

    epsilon: the first file's at the common delta with this change made, inf where nothing is certified, None where the change cannot
    stand alone (`reason`). increase: over the first file's epsilon, NaN where that means nothing.
    """

    change: Change
    epsilon: float | None
    increase: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Two pipelines at the first one's delta.

    statement: what makes the two epsilons statements about different things, empty where they can be compared.
    increase: of epsilon, all changes together. interaction: what the single increases leave of it; NaN where one of them is unknown.
    """

    before: Account
    after: Account
    priced: tuple[Priced, ...]
    statement: tuple[str, ...]
    increase: float
    interaction: float

    @property
    def exit_code(self) -> int:
        """For a script that must know: 3 where it cannot be said, 1 where the second file costs more, else 0."""
        if self.statement or math.isnan(self.increase) or math.isinf(self.after.upper):
            return 3
        return 1 if self.increase > 0.0 else 0


@limited
def difference(a: str, b: str, delta: float | None = None) -> Difference:
    """Compare the pipelines at `a` and `b`: files, "-", or REVISION:PATH.

    Args:
        delta: at which both are compared; the first file's where None, else the second's.

    Raises:
        InputError: a file cannot be read, makes no sense, or no delta is stated.
    """
    if a == b == "-":
        raise InputError("expected one pipeline on standard input, found both")
    old, new = read_source(a), read_source(b)
    before, after = parse(old, a), parse(new, b)
    at = next((value for value in (delta, _delta(before), _delta(after)) if value is not None), None)
    first, second = headline(before, delta=at), headline(after, delta=at)
    assert first.delta is not None
    priced = priced_changes(old, new, first)
    increase = second.upper - first.upper  # NaN where both are infinite
    return Difference(
        first,
        second,
        priced,
        _statement(before, after, delta),
        increase,
        _interaction(increase, [one.increase for one in priced]),
    )


def priced_changes(old: bytes, new: bytes, before: Account) -> tuple[Priced, ...]:
    """What each change from one file's bytes to another's costs at the delta of `before`, the account of the first; the largest first."""
    from dpcli.file.pipeline.series import paired

    tables, after = paired(_tables(old), _tables(new))
    listed = changes(tables, after)
    priced = [_priced(change, tables, before) for change in listed[:MOST]]
    priced += [Priced(change, None, math.nan, f"not priced: more than {MOST} changes") for change in listed[MOST:]]
    return tuple(sorted(priced, key=_size))


def _interaction(increase: float, alone: list[float]) -> float:
    return increase - math.fsum(alone) if all(map(math.isfinite, (increase, *alone))) else math.nan


def _delta(pipeline: Pipeline) -> float | None:
    """The delta that `account` would report at."""
    return pipeline.privacy.delta if pipeline.privacy.delta is not None or pipeline.budget is None else pipeline.budget.delta


def _statement(before: Pipeline, after: Pipeline, delta: float | None) -> tuple[str, ...]:
    """What an epsilon means, where that has changed; delta where neither a flag nor the files settle on one."""
    old, new = ({**statement_of(pipeline), "delta": _delta(pipeline) if delta is None else delta} for pipeline in (before, after))
    return tuple(f"{key} {_word(old[key])} -> {_word(new[key])}" for key in old if old[key] != new[key])


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _tables(data: bytes) -> Tables:
    return toml_document(data, "")[1]


def _priced(change: Change, tables: Tables, first: Account) -> Priced:
    if change.free:
        return Priced(change, first.upper, 0.0)
    try:
        pipeline = replace(_pipeline(change.applied(tables)), path=first.pipeline.path)
        epsilon = headline(pipeline, delta=first.delta).upper
    except (InputError, CannotCertify, NotRepresentable) as error:
        return Priced(change, None, math.nan, f"cannot stand alone: {error}")
    return Priced(change, epsilon, epsilon - first.upper)


def _pipeline(tables: Tables) -> Pipeline:
    """The pipeline that these tables are. Raises InputError with the first thing that is wrong with them."""
    from dpcli.file.pipeline.series import plain_entries

    tables, findings, values = plain_entries(tables), Findings(), {}
    with suppress(TooMany):
        values = values_of(tables, findings)
    if findings.items:
        names = {index: table["name"] for index, table in enumerate(tables.get("mechanism", ()))}
        first = findings.items[0]
        raise InputError(f"{key_text(first.key, names)}: {first.message}")
    return pipeline_of(values, tables)


def _size(priced: Priced) -> tuple[int, float]:
    """The largest first, whatever its sign; then those without a number, then those without effect."""
    if math.isnan(priced.increase):
        return 1, 0.0
    return (0, -abs(priced.increase)) if priced.increase else (2, 0.0)
