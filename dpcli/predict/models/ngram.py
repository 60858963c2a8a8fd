"""N-gram language models: dpcli's own model for `dpcli pmixed` (model = "ngram"), which is fitted by counting tokens.

The counts of each order are interpolated with the model of the next lower order, down to a public model:

    p(y | c) = (n(c, y) + d(c) p'(y | c)) / (n(c) + d(c))

Here n(c, y) is the number of times that y followed c, d(c) is the number of different tokens that followed c, and p' is the probability
under the next lower model. Source: Witten & Bell 1991, The zero-frequency problem, method C, as an interpolation.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array
from dpcli.predict.models.model_answers import LanguageModel, Tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
else:
    Ids = Any

UNLIMITED_CONTEXT = 10**9  # no context reaches this length; these models use only its last tokens
MOST_ORDERS = 3  # largest order of a model; a context of two tokens fits into one 64-bit number, for any vocabulary below 3e9
MOST_CACHED = 2**23  # largest number of probabilities in the cache of a model: 64 MiB
ARRAYS = ("contexts", "starts", "tokens", "counts")  # names of the arrays of `NGramCounts`


@dataclass(frozen=True, slots=True)
class NGramCounts:
    """Counts of the tokens that followed each context of one length.

    Attributes:
        length: Length of the contexts, in tokens.
        contexts: (c,) contexts that occurred, ascending, each as one number with its tokens as digits in base `vocabulary`.
        starts: (c + 1,) indices in `tokens` at which the tokens of each context begin.
        tokens, counts: (n,) tokens that followed a context, and the number of times each did.
    """

    length: int
    vocabulary: int
    contexts: Ids
    starts: Ids
    tokens: Ids
    counts: Array

    def after(self, context: Tokens) -> tuple[Ids, Array]:
        """Return the tokens that followed the end of a context, and their counts; empty if it is too short or never occurred."""
        if len(context) < self.length:
            return self.tokens[:0], self.counts[:0]
        number = 0
        for token in context[len(context) - self.length :]:
            number = number * self.vocabulary + int(token)
        index = int(np.searchsorted(self.contexts, number))
        if index == len(self.contexts) or self.contexts[index] != number:
            return self.tokens[:0], self.counts[:0]
        chosen = slice(self.starts[index], self.starts[index + 1])
        return self.tokens[chosen], self.counts[chosen]


@dataclass(frozen=True, slots=True)
class CountingModel:
    """A model made of counts after contexts of increasing length.

    Attributes:
        vocabulary: Number of tokens.
        counts: Counts after contexts of each length, the shortest first.
        below: Model with which the counts after the shortest contexts are interpolated; None for a uniform distribution.
        context: Largest number of tokens in a context.
    """

    vocabulary: int
    counts: tuple[NGramCounts, ...]
    below: CountingModel | None = None
    context: int = UNLIMITED_CONTEXT
    _known: dict[Tokens, Array] = field(default_factory=dict, init=False, compare=False, repr=False)

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities(contexts)))

    def probabilities(self, contexts: Sequence[Tokens]) -> Array:
        """Return probabilities of the next token, (contexts, vocabulary)."""
        if self.below is None:
            rows = np.full((len(contexts), self.vocabulary), 1.0 / self.vocabulary)
        else:
            rows = np.stack([self.below.cached_probabilities(context) for context in contexts])
        for row, context in zip(rows, contexts, strict=True):
            for table in self.counts:
                _interpolate(row, *table.after(context))
        return rows

    def cached_probabilities(self, context: Tokens) -> Array:
        """Return probabilities after one context. They are cached, because many fitted models ask about the same context."""
        reach = max(table.length for table in self.counts)
        context_end = tuple(context[max(0, len(context) - reach) :])
        if context_end not in self._known:
            if len(self._known) >= MOST_CACHED // self.vocabulary:
                self._known.clear()
            self._known[context_end] = self.probabilities([context_end])[0]
        return self._known[context_end]


@dataclass(frozen=True, slots=True)
class NGram(CountingModel):
    """A public model of counts. Fine-tuning adds counts after long contexts only: after short ones, the public counts are better."""

    order: int = 1

    def numbers(self) -> Iterator[tuple[str, Array]]:
        """Yield the arrays of the counts with their names, by which two public models are compared (model_answers.py)."""
        for table in self.counts:
            yield from ((f"{name}{table.length}", getattr(table, name)) for name in ARRAYS)

    def tune(self, records: Sequence[Tokens]) -> bytes:
        # Lengths of contexts, in tokens: from 1 on, or 0 alone if the model has no longer ones.
        lengths = range(min(1, self.order - 1), self.order)
        return pack(tuple(count_ngrams(records, length, self.vocabulary) for length in lengths))

    def tuned(self, learnt: bytes) -> LanguageModel:
        return self.with_counts(unpack(learnt, self.vocabulary))

    def with_counts(self, counts: tuple[NGramCounts, ...]) -> LanguageModel:
        return CountingModel(self.vocabulary, counts, self)


def public_ngram(records: Sequence[Tokens], order: int, vocabulary: int) -> NGram:
    """Return the model of public records, with contexts of up to order - 1 tokens, for an order from 1 to MOST_ORDERS."""
    counts = tuple(count_ngrams(records, length, vocabulary) for length in range(order))
    return NGram(vocabulary, counts, order=order)


def count_ngrams(records: Sequence[Tokens], length: int, vocabulary: int) -> NGramCounts:
    """Return the counts of all tokens with at least `length` tokens before them in their record, by the last `length` of these."""
    flat = np.fromiter((token for record in records for token in record), np.int64)
    if flat.size and not 0 <= flat.min() <= flat.max() < vocabulary:
        raise InputError(
            f"expected token ids below {vocabulary}, the size of the vocabulary: the tokenizer belongs to another model"
        )
    indices_in_record = np.concatenate([np.arange(len(record)) for record in records] or [np.empty(0, np.int64)])
    counted = np.flatnonzero(indices_in_record >= length)
    context_numbers = np.zeros(len(counted), np.int64)
    for back in range(length, 0, -1):
        context_numbers = context_numbers * vocabulary + flat[counted - back]
    (pair_contexts, pair_tokens), counts = np.unique(np.stack((context_numbers, flat[counted])), axis=1, return_counts=True)
    contexts, first = np.unique(pair_contexts, return_index=True)
    return NGramCounts(length, vocabulary, contexts, np.append(first, len(counts)), pair_tokens, counts.astype(np.float64))


def pack(counts: Sequence[NGramCounts]) -> bytes:
    """Return counts as bytes, from which `unpack` returns them: the learnt parameters of a shard, as they are stored."""
    file = io.BytesIO()
    parts = {f"{name}{table.length}": getattr(table, name) for table in counts for name in ARRAYS}
    np.savez_compressed(file, allow_pickle=False, **parts)
    return file.getvalue()


def unpack(learnt: bytes, vocabulary: int) -> tuple[NGramCounts, ...]:
    """Return the counts from the bytes that `pack` returned. Raises InputError for bytes that numpy cannot read."""
    try:
        with np.load(io.BytesIO(learnt), allow_pickle=False) as parts:
            lengths = [length for length in range(MOST_ORDERS) if f"counts{length}" in parts]
            return tuple(NGramCounts(length, vocabulary, *(parts[f"{name}{length}"] for name in ARRAYS)) for length in lengths)
    except Exception as problem:  # numpy, zipfile and zlib raise many kinds of errors for a malformed file.
        raise InputError(f"expected the counts of an n-gram model ({problem})") from None


def _interpolate(row: Array, tokens: Ids, counts: Array) -> None:
    """Interpolate a row of probabilities with counts, in place, by the formula at the top of this file."""
    if len(tokens):
        total = counts.sum() + len(tokens)
        row *= len(tokens) / total
        row[tokens] += counts / total
