"""Counts under differential privacy: what an n-gram model could learn at the same epsilon without an ensemble.

Each unit's counts are a vector that is clipped in L2; their sum gets Gaussian noise, and what noise alone may have made is dropped: that
is post-processing. The pairs that are counted are all of a public domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from dpcli.analysis.calibrate import calibrate
from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.ngram import Ids, NGramCounts
from dpcli.random.streams import Stream, normals

MOST = 2**24  # pairs of the domain
THRESHOLD = 2.0  # standard deviations below which a count is dropped


def noise_multiplier(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Noise over the clipping norm: a unit that is replaced moves the sum by twice the norm."""
    entry = Entry("counts", "gaussian", GaussianSpec(noise_multiplier=1.0))
    found = calibrate(Pipeline(Privacy(Adjacency.ADD_REMOVE), (entry,)), epsilon, delta, "noise")
    return found.value * (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)


def private_bigrams(
    units: Sequence[Sequence[Sequence[int]]], vocabulary: int, norm: float, multiplier: float, stream: Stream
) -> NGramCounts:
    """Noisy counts of pairs of tokens.

    Args:
        units: the records of each unit. norm: of one unit's counts at most, public. multiplier: noise over that norm.

    Raises:
        InputError: a vocabulary of too many pairs.
    """
    if vocabulary**2 > MOST:
        raise InputError(f"expected at most {int(MOST**0.5)} tokens for counts under differential privacy, found {vocabulary}")
    total = np.zeros(vocabulary**2)
    for records in units:
        pairs, counts = unit_counts(records, vocabulary)
        if len(pairs):
            total[pairs] += counts * min(1.0, norm / float(np.linalg.norm(counts)))
    scale = multiplier * norm
    total += normals(len(total), stream)(len(total)) * scale
    return _table(np.where(total > THRESHOLD * scale, total, 0.0), vocabulary)


def unit_counts(records: Sequence[Sequence[int]], vocabulary: int) -> tuple[Ids, Array]:
    """The numbers of the pairs in one unit's records, and how often each occurs."""
    pairs = [a * vocabulary + b for record in records for a, b in itertools.pairwise(record)]
    found, counts = np.unique(np.array(pairs, np.int64), return_counts=True)
    return found, counts.astype(np.float64)


def typical_norm(records: Sequence[Sequence[int]], vocabulary: int, per_unit: float) -> float:
    """A clipping norm from public records: the root of the mean square of their counts, for as many records as a unit has."""
    squares = [float((unit_counts([record], vocabulary)[1] ** 2).sum()) for record in records[:200]]
    return max(1.0, float(np.sqrt(per_unit * np.mean(squares)))) if squares else 1.0


def by_unit(texts: Sequence[str], units: Sequence[str | int]) -> Mapping[str | int, list[str]]:
    """The texts of each unit."""
    found: dict[str | int, list[str]] = {}
    for text, unit in zip(texts, units, strict=True):
        found.setdefault(unit, []).append(text)
    return found


def _table(total: Array, vocabulary: int) -> NGramCounts:
    pairs = np.flatnonzero(total)
    contexts, first = np.unique(pairs // vocabulary, return_index=True)
    return NGramCounts(1, vocabulary, contexts, np.append(first, len(pairs)), pairs % vocabulary, total[pairs])
