"""Whole numbers by key to answers: noise, interval, and what is done afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from dpcli.base.errors import InternalError
from dpcli.release.answers.intervals import ConfidenceInterval, additive_interval, on_grid
from dpcli.release.answers.tidy import NON_NEGATIVE, WHOLE, non_negative, rounded
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from dpcli.release.noise.samplers import draws, noisy
from dpcli.release.query import NoisyQuery, QueryRelease
from dpcli.release.query_answer import AnswerRow, KeyValue, QueryAnswer

TIDY = {"non-negative": (non_negative, NON_NEGATIVE), "whole": (rounded, WHOLE)}
NOISE_ALONE = "intervals cover the noise: not rows that were left out, nor values that were cut to their bounds"
Keyed = Mapping[tuple[KeyValue, ...], int]


def noised(exact: Keyed, release: QueryRelease) -> dict[tuple[KeyValue, ...], int]:
    """The noisy numbers, in whole steps, in the order of the keys, which shall not be that of the data."""
    ordered = sorted(exact, key=order)
    return dict(zip(ordered, noisy([exact[key] for key in ordered], law_of(release)), strict=True))


def laplace_draw(scale: float) -> int:
    """Draw discrete Laplace noise."""
    return draws(1, DiscreteLaplaceLaw(scale))[0]


def gaussian_draw(sigma: float) -> int:
    """Draw discrete Gaussian noise."""
    return draws(1, DiscreteGaussianLaw(sigma))[0]


def order(key: tuple[KeyValue, ...]) -> tuple[tuple[str, str | int], ...]:
    """Order keys by type, then by value; whatever order an engine gives them in is the data's."""
    return tuple((type(value).__name__, value) for value in key)


def law_of(release: QueryRelease) -> NoiseLaw:
    """The law of a release that adds noise."""
    if release.law is None:
        raise InternalError(f"{release.type} adds no noise")
    return release.law


def additive_answer(
    query: NoisyQuery, release: QueryRelease, numbers: Keyed, covers: str, by: tuple[str, ...] | None = None
) -> QueryAnswer:
    """Noisy numbers with the interval of their own noise. by: what the keys are called, where that is not the query's own."""
    law, step = law_of(release), release.unit
    rows = tuple(
        tidied(query, key, scaled(value, step), additive_interval(value, law, query.confidence, step))
        for key, value in numbers.items()
    )
    return answer_of(query, rows, covers, by)


def answer_of(
    query: NoisyQuery, rows: tuple[AnswerRow, ...], covers: str = NOISE_ALONE, by: tuple[str, ...] | None = None, *done: str
) -> QueryAnswer:
    """An answer, with what was done to its rows. done: besides what the query asks for."""
    named = (*done, *(TIDY[name][1] for name in query.postprocess))
    return QueryAnswer(query.name, query.measure, query.by if by is None else by, rows, query.confidence, covers, named)


def tidied(query: NoisyQuery, key: tuple[KeyValue, ...], value: float, around: ConfidenceInterval) -> AnswerRow:
    """A row of the answer after what the query asks for is done to it."""
    for name in query.postprocess:
        value, around = TIDY[name][0](value, around)
    return AnswerRow(key, value, around.low, around.high)


def scaled(number: int, unit: float) -> int | float:
    """A whole number of steps in units of the answer."""
    return number if unit == 1.0 else on_grid(number, unit)
