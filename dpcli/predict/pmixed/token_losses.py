"""Losses of models and ensembles on the tokens of a text, and the perplexity: exp of the mean loss per token.

`dpcli pmixed evaluate` compares models by them (ensemble_evaluation.py). The loss of a token is -log of the probability that the model gave
it, in nats. An *ensemble* is the models fitted on shards of private texts; a *mode* projects the models that are drawn for a token towards
the public model, and their average gives its probability (model_ensemble.py). All modes with the same sampling rate share the draw of
models, so that the draw does not contribute to their difference. Losses of private models have no noise, and are not for release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from dpcli.numerics.arrays import Array, BoolArray, np
from dpcli.predict.models.model_answers import LanguageModel, on_private
from dpcli.predict.pmixed.model_ensemble import Mode, probabilities
from dpcli.predict.pmixed.projection import sample_models
from dpcli.predict.pmixed.shard_models import FittedModel
from dpcli.predict.prediction_session import Report
from dpcli.random.streams import Stream
from dpcli.random.subsets import uniform_integers

TestRecords = Sequence[Sequence[int]]  # the records of the test text, as tokens
RESAMPLES = 2_000  # bootstrap resamples of the records; affects the accuracy of the interval, and time
TAIL = 0.025  # share of the resamples beyond either end of a 95 % interval
LARGEST_EXPONENT = 700.0  # e^709 is the largest power of e in float64


@dataclass(frozen=True, slots=True)
class Perplexity:
    """A perplexity with a 95 % bootstrap interval over records."""

    value: float
    low: float
    high: float


class SampledMode(NamedTuple):
    """A mode of an ensemble, and the rate at which it samples models for each token."""

    mode: Mode
    rate: float


def perplexity(losses_by_record: Sequence[Array], stream: Stream) -> Perplexity:
    """Return the perplexity with a bootstrap interval over records. It is infinite if a token has probability 0.

    Args:
        losses_by_record: Losses of the tokens of each record, in nats; at least one loss in each.
    """
    sums = np.array([losses.sum() for losses in losses_by_record])
    counts = np.array([float(len(losses)) for losses in losses_by_record])
    # Each resample has as many records as the text, drawn with replacement.
    drawn = uniform_integers(stream, limit=len(sums), count=len(sums) * RESAMPLES).reshape(RESAMPLES, len(sums))
    resampled_means = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    tail_count = int(TAIL * RESAMPLES)
    mean_losses = (sums.sum() / counts.sum(), resampled_means[tail_count], resampled_means[-tail_count - 1])
    return Perplexity(*(math.inf if loss > LARGEST_EXPONENT else math.exp(loss) for loss in mean_losses))


def losses(model: LanguageModel, records: TestRecords, temperature: float) -> list[Array]:
    """Return the loss -log p, in nats, of every token of each record except its first. A record has two tokens or more."""
    by_record = []
    for record in records:
        targets = np.array(record[1:])
        rows = probabilities(next_token_rows(model, record, range(1, len(record))), temperature)
        with np.errstate(divide="ignore"):
            by_record.append(-np.log(rows[np.arange(len(targets)), targets]))
    return by_record


def ensemble_losses(
    public: LanguageModel,
    members: Sequence[LanguageModel],
    modes: Sequence[SampledMode],
    records: TestRecords,
    temperature: float,
    stream: Stream,
    report: Report = lambda done, total: None,
) -> list[list[Array]]:
    """Return the loss -log p, in nats, of every token of each record except its first, for each mode at its sampling rate.

    The participating models are drawn from `members`, the fitted models, for each token. Each of them is evaluated once for a record, for
    all modes together. A record has two tokens or more.
    """
    by_mode: list[list[Array]] = [[] for _ in modes]
    for number, record in enumerate(records):
        report(number, len(records))
        drawn = _draw_models(modes, len(members), len(record) - 1, stream)
        with np.errstate(divide="ignore"):  # A probability of 0 is an infinite loss.
            losses_of_record = -np.log(_target_probabilities(public, members, modes, record, drawn, temperature))
        for losses_of_mode, row in zip(by_mode, losses_of_record, strict=True):
            losses_of_mode.append(row)
    return by_mode


def _draw_models(modes: Sequence[SampledMode], members: int, tokens: int, stream: Stream) -> BoolArray:
    """Return whether each mode draws each model for each token, (modes, tokens, members). Modes with the same rate share the draw."""
    drawn_by_rate: dict[float, BoolArray] = {}
    for rate in dict.fromkeys(sampled.rate for sampled in modes):
        drawn_by_rate[rate] = np.zeros((tokens, members), dtype=np.bool_)
        for token in range(tokens):
            drawn_by_rate[rate][token, sample_models(stream, members, rate)] = True
    return np.stack([drawn_by_rate[sampled.rate] for sampled in modes])


def _target_probabilities(
    public: LanguageModel,
    members: Sequence[LanguageModel],
    modes: Sequence[SampledMode],
    record: Sequence[int],
    drawn: BoolArray,
    temperature: float,
) -> Array:
    """Return the probability that each mode gives to each token of a record except its first, (modes, tokens).

    It is the average over the drawn models of their projections, and the public model's probability if no model is drawn.
    """
    targets = np.array(record[1:])
    public_rows = probabilities(next_token_rows(public, record, range(1, len(record))), temperature)
    counts = drawn.sum(axis=2)
    sums = np.zeros(counts.shape)
    for member in np.flatnonzero(drawn.any(axis=(0, 1))).tolist():
        tokens = np.flatnonzero(drawn[:, :, member].any(axis=0))
        places = (tokens + 1).tolist()  # places in the record, whose first token has no loss
        rows = probabilities(on_private("a fitted model", next_token_rows, members[member], record, places), temperature)
        for token, row in zip(tokens.tolist(), rows, strict=True):
            for index in np.flatnonzero(drawn[:, token, member]).tolist():
                projected = modes[index].mode.projected(public_rows[token], row, drawn=int(counts[index, token]))
                sums[index, token] += projected[targets[token]]
    public_targets = public_rows[np.arange(len(targets)), targets]
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), public_targets))


def next_token_rows(model: LanguageModel, record: Sequence[int], places: Sequence[int]) -> Array:
    """Return log-probabilities of the token at each place, given the tokens before it, (places, vocabulary), for at least one place."""
    if isinstance(model, FittedModel):  # a model of the user, whose own process calls this function again with the model itself
        return model.answer(partial(next_token_rows, record=record, places=places))
    along = getattr(model, "along", None)  # a method that answers about every prefix of a record in one pass
    if along is not None:
        rows: Array = np.asarray(along(record[:-1]))
        return np.asarray(rows[np.array(places) - 1])
    return model.next_token([record[:place] for place in places])
