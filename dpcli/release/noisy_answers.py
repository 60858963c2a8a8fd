"""Noisy integers by key, and the answers that are computed from them by postprocessing, with confidence intervals.

The `answer` of a measure (measures/) calls `add_noise` with exact *totals*, a count or a sum for each *key* of the answer (a combination of
values of the columns in `by`). It adds one draw from OpenDP's samplers to each, in whole *steps* (the unit of rounding of a column), and
sorts the keys, since an order that came from the engine might reveal something. What is computed from noisy numbers alone is
*postprocessing* and costs no privacy. Keys that come from the data are still private, with their numbers, until they have passed the
threshold (measures/open_keys.py). Intervals cover the noise alone, and err on the wide side, except where the noise of a count decides
whether its key is shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpcli.base.errors import InternalError
from dpcli.release.aggregate import KeyValue
from dpcli.release.answers.intervals import ConfidenceInterval, additive_interval, steps_value
from dpcli.release.answers.postprocessing import POSTPROCESSING
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from dpcli.release.noise.samplers import draws, noisy
from dpcli.release.query import NoisyQuery, Query, QueryMechanism
from dpcli.release.query_answer import AnswerRow, QueryAnswer

NumbersByKey = Mapping[tuple[KeyValue, ...], int]


def add_noise(exact: NumbersByKey, mechanism: QueryMechanism) -> dict[tuple[KeyValue, ...], int]:
    """Return the numbers plus noise, in whole steps. The numbers are sorted by key, so their order reveals nothing about the data."""
    ordered = sorted(exact, key=sort_key)
    return dict(zip(ordered, noisy([exact[key] for key in ordered], law_of(mechanism)), strict=True))


def laplace_draw(scale: float) -> int:
    return draws(1, DiscreteLaplaceLaw(scale))[0]


def gaussian_draw(sigma: float) -> int:
    return draws(1, DiscreteGaussianLaw(sigma))[0]


def sort_key(key: tuple[KeyValue, ...]) -> tuple[tuple[str, str | int], ...]:
    """Return the type's name and the value of each part of a key, by which keys of mixed types can be sorted."""
    return tuple((type(value).__name__, value) for value in key)


def law_of(mechanism: QueryMechanism) -> NoiseLaw:
    """Return the distribution of a mechanism's noise. Raises InternalError if the mechanism adds no noise."""
    if mechanism.law is None:
        raise InternalError(f"{mechanism.type} adds no noise")
    return mechanism.law


def coverage(query: Query) -> str:
    """Return words for what the intervals of an answer cover: the noise, but not the effect of the query's bounds on a unit."""
    stated = (("max_groups", query.max_groups), ("max_rows", query.max_rows))
    bounds = " and ".join(f"{name} = {bound:,}" for name, bound in stated if bound is not None)
    effect_of_bounds = f", nor the effect of {bounds} on units with more" if bounds else ""
    return (
        f"intervals cover the noise, but not rows that were left out or values that were clamped to their bounds{effect_of_bounds}"
    )


def additive_answer(
    query: NoisyQuery, mechanism: QueryMechanism, numbers: NumbersByKey, covers: str, by: tuple[str, ...] | None = None
) -> QueryAnswer:
    """Return noisy numbers as an answer, each with a confidence interval that follows from the law of its noise.

    numbers: noisy numbers in whole steps.
    covers: what the intervals cover.
    by: names of the key columns; None for the columns of the query.
    """
    law, step, confidence = law_of(mechanism), mechanism.step_size, query.interval_confidence(len(numbers))
    rows = []
    for key, number in numbers.items():
        interval = additive_interval(number, law, confidence, step)
        rows.append(postprocessed_row(query, key, steps_value(number, step), interval))
    return answer_of(query, tuple(rows), covers, by)


def answer_of(
    query: NoisyQuery,
    rows: tuple[AnswerRow, ...],
    covers: str = "",
    by: tuple[str, ...] | None = None,
    additions: tuple[str, ...] = (),
) -> QueryAnswer:
    """Return the answer to a query that consists of these rows.

    covers: what the intervals cover; "" for the noise alone.
    by: names of the key columns; None for the columns of the query.
    additions: descriptions of postprocessing that was applied in addition to the query's own.
    """
    covers = covers or coverage(query)
    if query.intervals == "joint":
        covers = f"all intervals of the answer ({len(rows):,}) hold together with the stated confidence; {covers}"
    postprocessed = (*additions, *(POSTPROCESSING[name].words for name in query.postprocess))
    return QueryAnswer(query.name, query.measure, query.by if by is None else by, rows, query.confidence, covers, postprocessed)


def postprocessed_row(query: NoisyQuery, key: tuple[KeyValue, ...], value: float, interval: ConfidenceInterval) -> AnswerRow:
    """Return a row of an answer after the postprocessing that the query states."""
    for name in query.postprocess:
        value, interval = POSTPROCESSING[name].apply(value, interval)
    return AnswerRow(key, value, interval.low, interval.high)
