"""The cost of each change between two pipelines, when it alone is made to the first pipeline, and of all changes together.

`dpcli diff` prints the result (`difference`), and dpcli/gate blames a rise of epsilon on the changes (`priced_changes`). table_changes.py
lists the changes. To *price* a change is to apply it to the tables of the first file, and to compute the epsilon of the result at the delta
of the comparison. All epsilons are upper bounds, so the difference of two of them is not a bound. Changes of keys on which no epsilon
depends cost 0 without a computation; beyond MOST_PRICED changes, costs are unknown. The *statement* of a file consists of the keys that say
what its epsilon means, such as the unit; if it changes, the epsilons are not comparable.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.analysis.account import Account, headline, stated_delta
from dpcli.analysis.table_changes import Change, Tables, changes
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.file.pipeline.canonical import pipeline_of
from dpcli.file.pipeline.consistency import values_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse, toml_document
from dpcli.file.toml.findings import Findings, TooMany
from dpcli.file.toml.shown import key_text
from dpcli.git.source import read_source
from dpcli.numerics.work import limited

# Largest number of changes whose cost is computed, each of which takes an account. Arbitrary; it touches speed, and the costs of the others
# are shown as unknown.
MOST_PRICED = 40


@dataclass(frozen=True, slots=True)
class Priced:
    """The cost of a single change to the first file.

    epsilon: epsilon of the changed file at the common delta; inf if none is certified, None if the change is not valid alone.
    increase: difference of `epsilon` and the first file's epsilon; NaN if it is undefined.
    reason: why `epsilon` is None.
    """

    change: Change
    epsilon: float | None
    increase: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of two pipelines at one delta.

    before, after: accounts of the first and the second pipeline.
    priced: the changes, each with the cost of this change alone.
    statement: the changes that make the two epsilons incomparable; empty if they can be compared.
    increase: increase of epsilon by all changes together.
    interaction: `increase` minus the sum of the increases by single changes; NaN if one of them is unknown.
    """

    before: Account
    after: Account
    priced: tuple[Priced, ...]
    statement: tuple[str, ...]
    increase: float
    interaction: float

    @property
    def exit_code(self) -> int:
        """The exit code: 3 if the files cannot be compared, 1 if the second file costs more, otherwise 0."""
        if self.statement or math.isnan(self.increase) or math.isinf(self.after.upper):
            return 3
        return 1 if self.increase > 0.0 else 0


@limited
def difference(a: str, b: str, delta: float | None = None) -> Difference:
    """Compare two pipelines.

    a, b: the places of the pipelines: a path, "-" for standard input, or REVISION:PATH.
    delta: the delta at which both are compared; if None, the delta of the first file or, without one, of the second.

    Raises InputError if a file cannot be read or contradicts itself, both are standard input, or neither a file nor `delta` states a delta.
    """
    if a == b == "-":
        raise InputError("expected only one pipeline on standard input, found both")
    old, new = read_source(a), read_source(b)
    before, after = parse(old, a), parse(new, b)
    deltas = (delta, stated_delta(before), stated_delta(after))
    common_delta = next((value for value in deltas if value is not None), None)
    first, second = headline(before, delta=common_delta), headline(after, delta=common_delta)
    priced = priced_changes(old, new, first)
    increase = second.upper - first.upper  # NaN if both are infinite
    interaction = _interaction(increase, [change.increase for change in priced])
    return Difference(first, second, priced, _statement_changes(before, after, delta), increase, interaction)


def priced_changes(old: bytes, new: bytes, before: Account) -> tuple[Priced, ...]:
    """Return the cost of each change between two files, the largest cost first.

    old, new: contents of the two files.
    before: account of the first file. Its delta is the delta at which all costs are computed.
    """
    from dpcli.file.pipeline.series import comparable_tables

    tables, after = comparable_tables(toml_document(old, "").tables, toml_document(new, "").tables)
    all_changes = changes(tables, after)
    priced = [_price_of(change, tables, before) for change in all_changes[:MOST_PRICED]]
    not_priced = f"not priced: more than {MOST_PRICED} changes"
    priced += [Priced(change, None, math.nan, not_priced) for change in all_changes[MOST_PRICED:]]
    return tuple(sorted(priced, key=_by_size))


def _interaction(increase: float, increases: list[float]) -> float:
    """Return the joint increase minus the sum of the single ones; NaN if one of them is not finite."""
    if not all(map(math.isfinite, (increase, *increases))):
        return math.nan
    return increase - math.fsum(increases)


def statement_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the keys that define the meaning of an epsilon. Two epsilons can be compared only if these keys are equal."""
    privacy = pipeline.privacy
    return {
        "unit": privacy.unit,
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "dataset_size": privacy.dataset_size,
        "delta": pipeline.cap_delta,
        "adaptive": privacy.adaptive,
    }


def _statement_changes(before: Pipeline, after: Pipeline, delta: float | None) -> tuple[str, ...]:
    """Return the changed keys of the statement in words. A change of delta counts only if no flag states a delta."""
    old, new = statement_of(before), statement_of(after)
    old["delta"], new["delta"] = (delta, delta) if delta is not None else (stated_delta(before), stated_delta(after))
    return tuple(f"{key} {_shown_value(old[key])} -> {_shown_value(new[key])}" for key in old if old[key] != new[key])


def _shown_value(value: Any) -> str:
    """Return a value of a statement as TOML writes it; "none" if the file does not state it."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _price_of(change: Change, tables: Tables, first: Account) -> Priced:
    """Return the cost of a change to `tables`, whose account is `first`. If the changed file is refused, the cost says why."""
    if change.free and not first.pipeline.privacy.adaptive:  # the epsilon of an adaptive file is its cap
        return Priced(change, first.upper, 0.0)
    try:
        pipeline = replace(_pipeline(change.applied(tables)), path=first.pipeline.path)
        epsilon = headline(pipeline, delta=first.delta).upper
    except (InputError, CannotCertify, NotRepresentable) as error:
        return Priced(change, None, math.nan, f"not valid alone: {error}")
    return Priced(change, epsilon, epsilon - first.upper)


def _pipeline(tables: Tables) -> Pipeline:
    """Return the pipeline that the tables describe. Raises InputError for the first problem in them.

    They are read as the tables of a file, but no text has them, so that a problem has no line.
    """
    from dpcli.file.pipeline.series import plain_entries

    tables, findings, values = plain_entries(tables), Findings(), {}
    with suppress(TooMany):
        values = values_of(tables, findings)
    if findings.items:
        names = {index: table["name"] for index, table in enumerate(tables.get("mechanism", ()))}
        problem = findings.items[0]
        raise InputError(f"{key_text(problem.key, names)}: {problem.message}")
    return pipeline_of(values, tables)


def _by_size(priced: Priced) -> tuple[int, float]:
    """Return a sort key: the largest increases and decreases come first, then unknown costs, then changes without effect."""
    if math.isnan(priced.increase):
        return 1, 0.0
    return (0, -abs(priced.increase)) if priced.increase else (2, 0.0)
