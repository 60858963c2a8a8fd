"""Noisy whole numbers by key, and the answers made of them: intervals and postprocessing."""

from __future__ import annotations

from collections.abc import Mapping

from dpcli.base.errors import InternalError
from dpcli.release.aggregate import KeyValue
from dpcli.release.answers.intervals import ConfidenceInterval, additive_interval, on_grid
from dpcli.release.answers.postprocessing import NON_NEGATIVE, WHOLE, non_negative, rounded
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from dpcli.release.noise.samplers import draws, noisy
from dpcli.release.query import NoisyQuery, QueryRelease
from dpcli.release.query_answer import AnswerRow, QueryAnswer

POSTPROCESSING = {"non-negative": (non_negative, NON_NEGATIVE), "whole": (rounded, WHOLE)}
NOISE_ALONE = "intervals cover the noise: not rows that were left out, nor values that were cut to their bounds"
Keyed = Mapping[tuple[KeyValue, ...], int]


def noised(exact: Keyed, release: QueryRelease) -> dict[tuple[KeyValue, ...], int]:
    """Return the numbers with noise, in whole steps, sorted by key so that their order tells nothing about the data."""
    ordered = sorted(exact, key=order)
    return dict(zip(ordered, noisy([exact[key] for key in ordered], law_of(release)), strict=True))


def laplace_draw(scale: float) -> int:
    """Draw discrete Laplace noise."""
    return draws(1, DiscreteLaplaceLaw(scale))[0]


def gaussian_draw(sigma: float) -> int:
    """Draw discrete Gaussian noise."""
    return draws(1, DiscreteGaussianLaw(sigma))[0]


def order(key: tuple[KeyValue, ...]) -> tuple[tuple[str, str | int], ...]:
    """Return what keys are sorted by: type, then value. The order in which an engine returns them may tell about the data."""
    return tuple((type(value).__name__, value) for value in key)


def law_of(release: QueryRelease) -> NoiseLaw:
    """Return the law of a mechanism that adds noise."""
    if release.law is None:
        raise InternalError(f"{release.type} adds no noise")
    return release.law


def additive_answer(
    query: NoisyQuery, release: QueryRelease, numbers: Keyed, covers: str, by: tuple[str, ...] | None = None
) -> QueryAnswer:
    """Return noisy numbers as an answer, each with the interval of its noise.

    Args:
        by: Names of the keys, the query's own if None.
    """
    law, step = law_of(release), release.unit
    rows = tuple(
        postprocessed_row(query, key, scaled(value, step), additive_interval(value, law, query.confidence, step))
        for key, value in numbers.items()
    )
    return answer_of(query, rows, covers, by)


def answer_of(
    query: NoisyQuery, rows: tuple[AnswerRow, ...], covers: str = NOISE_ALONE, by: tuple[str, ...] | None = None, *done: str
) -> QueryAnswer:
    """Return rows as an answer.

    Args:
        done: Postprocessing besides what the query asks for.
    """
    named = (*done, *(POSTPROCESSING[name][1] for name in query.postprocess))
    return QueryAnswer(query.name, query.measure, query.by if by is None else by, rows, query.confidence, covers, named)


def postprocessed_row(query: NoisyQuery, key: tuple[KeyValue, ...], value: float, around: ConfidenceInterval) -> AnswerRow:
    """Return a row of the answer after the postprocessing that the query asks for."""
    for name in query.postprocess:
        value, around = POSTPROCESSING[name][0](value, around)
    return AnswerRow(key, value, around.low, around.high)


def scaled(number: int, unit: float) -> int | float:
    """Return a whole number of steps in units of the answer."""
    return number if unit == 1.0 else on_grid(number, unit)
