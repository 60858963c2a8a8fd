"""Perplexity on public text: of single models, and of an ensemble as its tokens would be drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.port import LanguageModel
from dpcli.predict.pmixed.modes import Mode, probabilities
from dpcli.predict.pmixed.whole import sampled
from dpcli.train.noise.randomness import Stream
from dpcli.train.sampling.draws import below

Records = Sequence[Sequence[int]]
Report = Callable[[int, int], None]
RESAMPLES = 2_000
TAIL = 0.025  # beyond either end of an interval


@dataclass(frozen=True, slots=True)
class Perplexity:
    """value: exp of the mean loss per token. low, high: of 95 % of the resamples of whole records."""

    value: float
    low: float
    high: float


def following(model: LanguageModel, record: Sequence[int], places: Sequence[int]) -> Array:
    """Log-probabilities of the token at each of these places, from those before it: (places, vocabulary)."""
    along = getattr(model, "along", None)
    if along is not None:
        rows: Array = np.asarray(along(record[:-1]))
        return np.asarray(rows[np.array(places) - 1])
    return model.next_token([record[:place] for place in places])


def losses(model: LanguageModel, records: Records, temperature: float) -> list[Array]:
    """- log p of each token but the first of each record."""
    found = []
    for record in records:
        places = range(1, len(record))
        rows = probabilities(following(model, record, places), temperature)
        with np.errstate(divide="ignore"):
            found.append(-np.log(rows[np.arange(len(places)), np.array(record[1:])]))
    return found


def ensemble_losses(
    public: LanguageModel,
    members: Sequence[LanguageModel],
    modes: Sequence[tuple[Mode, float]],
    records: Records,
    temperature: float,
    stream: Stream,
    report: Report = lambda done, of: None,
) -> list[list[Array]]:
    """- log p of each token but the first of each record, for each mode at its rate: the models that take part are drawn for each token.

    A model is asked once for a record, whatever the number of modes.
    """
    found: list[list[Array]] = [[] for _ in modes]
    for number, record in enumerate(records):
        report(number, len(records))
        places = list(range(1, len(record)))
        taking = [[sampled(stream, len(members), rate) for _ in places] for _, rate in modes]
        base = probabilities(following(public, record, places), temperature)
        rows = _asked(members, record, taking, temperature)
        for which, (mode, _) in enumerate(modes):
            chance = [
                _chance(mode, base[at], [rows[one, place] for one in taking[which][at]], record[place])
                for at, place in enumerate(places)
            ]
            found[which].append(-np.log(np.array(chance)))
    return found


def _asked(
    members: Sequence[LanguageModel], record: Sequence[int], taking: Sequence[Sequence[Sequence[int]]], temperature: float
) -> dict[tuple[int, int], Array]:
    """The probabilities of each model at each place where some mode has drawn it."""
    wanted: dict[int, set[int]] = {}
    for drawn in taking:
        for at, chosen in enumerate(drawn):
            for one in chosen:
                wanted.setdefault(one, set()).add(at + 1)
    found = {}
    for one, at_places in wanted.items():
        places = sorted(at_places)
        rows = probabilities(following(members[one], record, places), temperature)
        found.update({(one, place): row for place, row in zip(places, rows, strict=True)})
    return found


def _chance(mode: Mode, public: Array, private: Sequence[Array], token: int) -> float:
    if not private:
        return float(public[token])
    return float(np.mean([model[token] for model in mode.projected(public, private)]))


def perplexity(per_record: Sequence[Array], stream: Stream) -> Perplexity:
    """With the interval of a bootstrap over records."""
    sums, counts = np.array([loss.sum() for loss in per_record]), np.array([float(len(loss)) for loss in per_record])
    drawn = below(stream, len(sums), len(sums) * RESAMPLES).reshape(RESAMPLES, len(sums))
    again = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    ends = again[int(TAIL * RESAMPLES)], again[-int(TAIL * RESAMPLES) - 1]
    low, high = (math.exp(min(end, 700.0)) for end in ends)
    return Perplexity(math.exp(min(sums.sum() / counts.sum(), 700.0)), low, high)
