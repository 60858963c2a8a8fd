"""Perplexity on public text: of single models, and of an ensemble as its tokens would be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.port import LanguageModel
from dpcli.predict.pmixed.model_ensemble import Mode, probabilities
from dpcli.predict.pmixed.projection import sampled
from dpcli.predict.pmixed.shard_models import FittedModel
from dpcli.predict.prediction_session import Report
from dpcli.predict.private_calls import on_private
from dpcli.random.streams import Stream
from dpcli.random.subsets import below

Records = Sequence[Sequence[int]]
RESAMPLES = 2_000
TAIL = 0.025  # beyond either end of an interval


@dataclass(frozen=True, slots=True)
class Perplexity:
    """value: exp of the mean loss per token. low, high: of 95 % of the resamples of whole records."""

    value: float
    low: float
    high: float


def following(model: LanguageModel, record: Sequence[int], places: Sequence[int]) -> Array:
    """Return log-probabilities of the token at each of these places, from those before it: (places, vocabulary)."""
    if isinstance(model, FittedModel):
        return model.answer(partial(following, record=record, places=places))
    along = getattr(model, "along", None)
    if along is not None:
        rows: Array = np.asarray(along(record[:-1]))
        return np.asarray(rows[np.array(places) - 1])
    return model.next_token([record[:place] for place in places])


def losses(model: LanguageModel, records: Records, temperature: float) -> list[Array]:
    """Return - log p of each token but the first of each record."""
    losses_of_records = []
    for record in records:
        places = range(1, len(record))
        rows = probabilities(following(model, record, places), temperature)
        with np.errstate(divide="ignore"):
            losses_of_records.append(-np.log(rows[np.arange(len(places)), np.array(record[1:])]))
    return losses_of_records


def ensemble_losses(
    public: LanguageModel,
    members: Sequence[LanguageModel],
    modes: Sequence[tuple[Mode, float]],
    records: Records,
    temperature: float,
    stream: Stream,
    report: Report = lambda done, total: None,
) -> list[list[Array]]:
    """Return - log p of each token but the first of each record, for each mode at its rate.

    The models that take part are drawn for each token, the same ones for all modes of a rate, so that modes that are alike have the same
    losses. A model is asked once for a record, whatever the number of modes, and its answers are kept no longer than that.
    """
    by_mode: list[list[Array]] = [[] for _ in modes]
    for number, record in enumerate(records):
        report(number, len(records))
        places = list(range(1, len(record)))
        drawn_at = {
            rate: [sampled(stream, len(members), rate) for _ in places] for rate in dict.fromkeys(rate for _, rate in modes)
        }
        taking = [drawn_at[rate] for _, rate in modes]
        base = probabilities(following(public, record, places), temperature)
        sums = np.zeros((len(modes), len(places)))
        for one, wanted in _by_member(taking).items():
            at_places = sorted(wanted)
            rows = probabilities(
                on_private("a fitted model", following, members[one], record, [at + 1 for at in at_places]), temperature
            )
            for at, row in zip(at_places, rows, strict=True):
                for which in wanted[at]:
                    sums[which, at] += modes[which][0].projected(base[at], row, len(taking[which][at]))[record[at + 1]]
        alone = base[np.arange(len(places)), np.array(record[1:])]
        for which, drawn in enumerate(taking):
            counts = np.array([len(chosen) for chosen in drawn])
            with np.errstate(divide="ignore"):
                by_mode[which].append(-np.log(np.where(counts > 0, sums[which] / np.maximum(counts, 1), alone)))
    return by_mode


def _by_member(taking: Sequence[Sequence[Sequence[int]]]) -> dict[int, dict[int, list[int]]]:
    """Return, for each model that takes part, for each place where it does, the modes that have drawn it."""
    drawn_by: dict[int, dict[int, list[int]]] = {}
    for which, drawn in enumerate(taking):
        for at, chosen in enumerate(drawn):
            for one in chosen:
                drawn_by.setdefault(one, {}).setdefault(at, []).append(which)
    return drawn_by


def perplexity(per_record: Sequence[Array], stream: Stream) -> Perplexity:
    """Return the perplexity, with the interval of a bootstrap over records."""
    sums, counts = np.array([loss.sum() for loss in per_record]), np.array([float(len(loss)) for loss in per_record])
    drawn = below(stream, len(sums), len(sums) * RESAMPLES).reshape(RESAMPLES, len(sums))
    again = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    ends = again[int(TAIL * RESAMPLES)], again[-int(TAIL * RESAMPLES) - 1]
    low, high = (math.exp(min(end, 700.0)) for end in ends)
    return Perplexity(math.exp(min(sums.sum() / counts.sum(), 700.0)), low, high)
