"""Releases of private prediction, such as noisy votes of teachers, tokens of an ensemble of models, and tokens from clipped logits.

references.py uses these functions; nothing here uses dpcli's own mechanisms. A *release* maps the records of a sample, each a letter
(drawing_records.py), to the probability of each outcome. *Teachers* are models, each trained on a part of the data, that vote for a label
(PATE). A *shard* is a part of the data with a model of its own, and the *public* prediction comes from a model that uses no private data.
Each function yields several releases, since the worst votes, models or logits of the data that do not change are not known beforehand. The
teacher or the model of a changing unit says one thing if records of the unit are present, and another if not. A `Situation` says how many
units may change, how many records a unit has, and how a change is made (the adjacency).

The *radius* limits a model of an ensemble: the probability of each token is from e^-radius to e^radius times the public one. The *distance*
of the private predictions from the public one is half of the sum of the absolute differences of the tokens' probabilities, from 0 to 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from dpcli.exam.enumeration.choice_releases import quadrature, winners
from dpcli.exam.enumeration.drawing_records import BLANK, CHANGING, OTHER, REPLACING, Array, Records, Release, Situation

# Votes for each label by the teachers whose data do not change; arbitrary: without any, one-sided and tied.
OTHERS = ((0, 0, 0), (2, 0, 0), (1, 2, 0), (0, 1, 1), (3, 3, 0))
# The change of a logit by each record, in units of the logit's sensitivity.
MOVES = {CHANGING: 1.0, REPLACING: -1.0, BLANK: 0.0, OTHER: 1.0}

# Distance of each of two tokens from the public prediction, without the changing records; arbitrary.
DISTANCES = ((0.3, 0.3), (0.7, 0.2), (0.5, 0.9))


def counts(records: Records, situation: Situation, others: tuple[int, ...], changed_vote: int) -> Array:
    """Return the votes for each label.

    The teacher of a unit votes for label 0 if the unit's records are present, and for label `changed_vote` otherwise.
    """
    votes = np.array(others, dtype=float)
    for record_present in situation.changed_units(records):
        votes[0 if record_present else changed_vote] += 1.0
    return votes


def voting(noise: str, scale: float, situation: Situation) -> Iterator[Release]:
    """Yield releases of the winner of one query. Each has other votes of the teachers whose data do not change."""
    for others, changed_vote in itertools.product(OTHERS, (1, 2)):

        def release(records: Records, others: tuple[int, ...] = others, changed_vote: int = changed_vote) -> Array:
            return winners(noise, scale, counts(records, situation, others, changed_vote))

        yield release


def sessions(
    queries: int, answers: int, threshold: float, query_noise: float, answer_noise: float, situation: Situation
) -> Iterator[Release]:
    """Yield releases of a session. Each has other votes of the teachers whose data do not change.

    The outcome of a query is a label or no answer. The session ends when `answers` labels have been released.
    """
    for others, changed_vote in itertools.product(OTHERS, (1, 2)):

        def release(records: Records, others: tuple[int, ...] = others, changed_vote: int = changed_vote) -> Array:
            votes = counts(records, situation, others, changed_vote)
            # A query is answered if its largest number of votes, with noise, exceeds the threshold.
            agrees = stats.norm.sf(threshold - votes.max(), scale=query_noise)
            outcomes = (1.0 - agrees, *(agrees * winners("normal", answer_noise, votes)))  # no answer, and each label
            return np.array(list(_session_law(outcomes, queries, answers)))

        yield release


def _session_law(outcomes: tuple[float, ...], queries: int, answers: int) -> Iterator[float]:
    """Yield the probability of each sequence of outcomes. A sequence ends after `queries` queries, or after `answers` answers.

    `outcomes` has the probabilities of the outcomes of one query. The first outcome is that there is no answer.
    """
    if queries == 0 or answers == 0:
        yield 1.0
        return
    for outcome, probability in enumerate(outcomes):
        is_answer = outcome > 0
        for later_probability in _session_law(outcomes, queries - 1, answers - is_answer):
            yield probability * later_probability


def ensembles(shards: int, rate: float, radius: float, change: str, situation: Situation) -> Iterator[Release]:
    """Yield releases of a token from the average of a random subset of models.

    The models are the public one, two of those that the radius allows at the farthest, and one in between. At each of the two, all
    probabilities are e^radius or e^-radius times the public ones; `rare` is chosen so that they then add up to 1. They favour different
    tokens, so that a replaced shard may move from one to the other. Further models could only raise the enumerated delta of the worst one.

    Args:
        change: "replace-shard" or "remove-shard"; the effect of one change of the data.
    """
    removes = change == "remove-shard" and situation.adjacency == "add-remove"
    rare = 1.0 / (math.exp(radius) + 1.0)
    public = np.array([rare, rare, 1.0 - 2.0 * rare])
    corners = [public * np.exp(radius * np.array(sign)) for sign in ((1, -1, -1), (-1, 1, -1))]
    models = (*corners, public, 0.5 * (corners[0] + public))
    # A removed shard leaves no model.
    replacements = (None,) if removes else models
    for present, absent, unchanged in itertools.product(models, replacements, models):

        def release(
            records: Records, present: Array = present, absent: Array | None = absent, unchanged: Array = unchanged
        ) -> Array:
            changing = [present if is_present else absent for is_present in situation.changed_units(records)]
            ensemble = [model for model in changing if model is not None] + [unchanged] * (shards - situation.group)
            return _token(ensemble, public, rate)

        yield release


def _token(models: list[Array], public: Array, rate: float) -> Array:
    """Return the law of a token. If the subset of models is empty, the token comes from the public model."""
    total = np.zeros(len(public))
    for chosen in itertools.product((False, True), repeat=len(models)):
        sample = list(itertools.compress(models, chosen))
        weight = rate ** len(sample) * (1.0 - rate) ** (len(models) - len(sample))
        total += weight * (np.mean(sample, axis=0) if sample else public)
    return total


def decoding(clip: float, batch: int, temperature: float) -> Iterator[Release]:
    """Yield releases of a token by softmax. Every record moves each logit by `clip / batch`, up or down."""
    for base, move in itertools.product(((0.0, 0.0, 0.0), (2.0, 0.0, 0.0)), itertools.product((-1.0, 1.0), repeat=3)):

        def release(records: Records, base: tuple[float, ...] = base, move: tuple[float, ...] = move) -> Array:
            logits = np.array(base) + math.fsum(MOVES[record] for record in records) * clip / batch * np.array(move)
            weights = np.exp((logits - logits.max()) / temperature)
            return np.asarray(weights / weights.sum())

        yield release


def compared(clip: float, batch: int, temperature: float, threshold: float, scale: float) -> Iterator[Release]:
    """Yield releases of at most two tokens, each private if its distance, with noise, exceeds a noisy threshold, and public otherwise.

    A release ends with the first private token. A public token reveals nothing. A record has the share 1 / `batch` of a prediction, and one
    change moves the distance of each token by at most half of that, up or down. The law is an integral over the exponential noise of the
    threshold.
    """
    noise = stats.expon(scale=scale)
    for token, base, move in itertools.product(
        decoding(clip, batch, temperature), DISTANCES, itertools.product((-1.0, 1.0), repeat=2)
    ):

        def release(records: Records, token: Release = token, base: Any = base, move: Any = move) -> Array:
            distance = np.array(base) + math.fsum(MOVES[record] for record in records) * 0.5 / batch * np.array(move)
            points, weights = quadrature(noise, scale, distance - threshold)
            # The probability that each token is private, at each point of the noise on the threshold.
            first, second = (np.exp(-np.maximum(threshold + points - gap, 0.0) / scale) for gap in distance)
            law = token(records)  # of a private token
            public = np.array([((1.0 - first) * (1.0 - second)) @ weights])
            return np.concatenate(((first @ weights) * law, (((1.0 - first) * second) @ weights) * law, public))

        yield release
