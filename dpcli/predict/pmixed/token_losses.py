"""Losses of models and ensembles on the tokens of a text, and the perplexity that they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import LanguageModel, on_private
from dpcli.predict.pmixed.model_ensemble import Mode, probabilities
from dpcli.predict.pmixed.projection import sample_models
from dpcli.predict.pmixed.shard_models import FittedModel
from dpcli.predict.prediction_session import Report
from dpcli.random.streams import Stream
from dpcli.random.subsets import uniform_integers

Records = Sequence[Sequence[int]]
RESAMPLES = 2_000  # bootstrap resamples of the records
TAIL = 0.025  # share of the resamples beyond either end of a 95 % interval
LARGEST_EXPONENT = 700.0  # e^709 is the largest power of e in float64


@dataclass(frozen=True, slots=True)
class Perplexity:
    """A perplexity with a 95 % bootstrap interval over records. A perplexity is exp of the mean loss per token."""

    value: float
    low: float
    high: float


class SampledMode(NamedTuple):
    """A mode of an ensemble, and the rate at which it samples models for each token."""

    mode: Mode
    rate: float


def perplexity(per_record: Sequence[Array], stream: Stream) -> Perplexity:
    """Return the perplexity with a bootstrap interval over records. It is infinite if a token has probability 0.

    Args:
        per_record: Losses of the tokens of each record, in nats; at least one loss in each.
    """
    sums = np.array([losses.sum() for losses in per_record])
    counts = np.array([float(len(losses)) for losses in per_record])
    drawn = uniform_integers(stream, len(sums), len(sums) * RESAMPLES).reshape(RESAMPLES, len(sums))
    resampled_means = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    tail_count = int(TAIL * RESAMPLES)
    mean_losses = (sums.sum() / counts.sum(), resampled_means[tail_count], resampled_means[-tail_count - 1])
    return Perplexity(*(math.inf if loss > LARGEST_EXPONENT else math.exp(loss) for loss in mean_losses))


def losses(model: LanguageModel, records: Records, temperature: float) -> list[Array]:
    """Return the loss -log p, in nats, of every token of each record except its first token. A record has two tokens or more."""
    per_record = []
    for record in records:
        targets = np.array(record[1:])
        rows = probabilities(next_token_rows(model, record, range(1, len(record))), temperature)
        with np.errstate(divide="ignore"):
            per_record.append(-np.log(rows[np.arange(len(targets)), targets]))
    return per_record


def ensemble_losses(
    public: LanguageModel,
    members: Sequence[LanguageModel],
    modes: Sequence[SampledMode],
    records: Records,
    temperature: float,
    stream: Stream,
    report: Report = lambda done, total: None,
) -> list[list[Array]]:
    """Return the loss -log p, in nats, of every token of each record except its first, for each mode at its sampling rate.

    A record has two tokens or more.

    The participating models are drawn for each token. All modes with the same rate share the draw, so that their losses are comparable.
    Each model is evaluated once for a record, for all modes together. Its answers are then discarded.
    """
    by_mode: list[list[Array]] = [[] for _ in modes]
    for number, record in enumerate(records):
        report(number, len(records))
        drawn_by_mode = _drawn_by_mode(modes, len(members), len(record) - 1, stream)
        public_rows = probabilities(next_token_rows(public, record, range(1, len(record))), temperature)
        sums = _target_sums(members, modes, record, drawn_by_mode, public_rows, temperature)
        targets = np.array(record[1:])
        public_targets = public_rows[np.arange(len(targets)), targets]
        for mode_number, drawn in enumerate(drawn_by_mode):
            counts = np.array([len(models) for models in drawn])
            averages = np.where(counts > 0, sums[mode_number] / np.maximum(counts, 1), public_targets)
            with np.errstate(divide="ignore"):
                by_mode[mode_number].append(-np.log(averages))
    return by_mode


def _drawn_by_mode(modes: Sequence[SampledMode], member_count: int, token_count: int, stream: Stream) -> list[list[list[int]]]:
    """Return, for each mode and each token of a record, the numbers of the models that are drawn. Modes of one rate share a draw."""
    rates = dict.fromkeys(sampled.rate for sampled in modes)
    drawn_by_rate = {rate: [sample_models(stream, member_count, rate) for _ in range(token_count)] for rate in rates}
    return [drawn_by_rate[sampled.rate] for sampled in modes]


def _target_sums(
    members: Sequence[LanguageModel],
    modes: Sequence[SampledMode],
    record: Sequence[int],
    drawn_by_mode: list[list[list[int]]],
    public_rows: Array,
    temperature: float,
) -> Array:
    """Return the sums over the drawn models of the probability that their projections give to each token, (modes, tokens)."""
    targets = record[1:]
    sums = np.zeros((len(modes), len(targets)))
    for member, modes_by_token in _modes_by_member(drawn_by_mode).items():
        tokens = sorted(modes_by_token)
        places = [token + 1 for token in tokens]
        rows = probabilities(on_private("a fitted model", next_token_rows, members[member], record, places), temperature)
        for token, row in zip(tokens, rows, strict=True):
            for mode_number in modes_by_token[token]:
                drawn_count = len(drawn_by_mode[mode_number][token])
                projected = modes[mode_number].mode.projected(public_rows[token], row, drawn_count)
                sums[mode_number, token] += projected[targets[token]]
    return sums


def _modes_by_member(drawn_by_mode: list[list[list[int]]]) -> dict[int, dict[int, list[int]]]:
    """Return, for each drawn model and each token, the numbers of the modes that drew the model there."""
    drawn_by: dict[int, dict[int, list[int]]] = {}
    for mode_number, drawn in enumerate(drawn_by_mode):
        for token, models in enumerate(drawn):
            for member in models:
                drawn_by.setdefault(member, {}).setdefault(token, []).append(mode_number)
    return drawn_by


def next_token_rows(model: LanguageModel, record: Sequence[int], places: Sequence[int]) -> Array:
    """Return log-probabilities of the token at each place, given the tokens before it, (places, vocabulary), for at least one place."""
    if isinstance(model, FittedModel):
        return model.answer(partial(next_token_rows, record=record, places=places))
    along = getattr(model, "along", None)
    if along is not None:
        rows: Array = np.asarray(along(record[:-1]))
        return np.asarray(rows[np.array(places) - 1])
    return model.next_token([record[:place] for place in places])
