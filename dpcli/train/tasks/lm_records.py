"""From texts to records: token ids in rows of equal length, filled up with -100."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_language import CausalLm, Language
from dpcli.train.tasks.lm_texts import Text, texts_of
from dpcli.train.tasks.lm_tokens import Tokens, needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.streams import Stream

    Ids = NDArray[np.int64]

PADDING = -100  # what torch's cross entropy passes over


def records(
    source: str, train: CausalLm, tokens: Tokens | None, vocabulary: int, path: str, rows: RowWindow | None = None
) -> tuple[Tensor, list[object] | None]:
    """Of the texts of these rows, or of all: (n, T) ids, int32, T at most train.context, and whose each record is where the file asks.

    A text that is longer than train.context is cut off, or, with record = "window", is that many records: each of them is then protected
    for itself, and the whole text only where train.units says which belong together.
    """
    found = texts_of(source, train, path, rows)
    cuts, units = [], []
    for number, text in enumerate(found.texts):
        pieces = list(cut(text, train, tokens, path))
        cuts += pieces
        units += [found.units[number] if found.units is not None else None] * len(pieces)
    return padded(cuts, vocabulary, path), units if found.units is not None else None


def cut(text: Text, train: CausalLm, tokens: Tokens | None, path: str) -> Sequence[Ids]:
    """The records of one text."""
    ids = encoded(text, tokens, path)
    if train.record == "window":
        return [ids[start : start + train.context] for start in range(0, len(ids), train.context)]
    end = tokens.end if isinstance(text, str) and tokens is not None else None
    return [(ids if end is None else np.append(ids, end))[: train.context]]


def encoded(text: Text, tokens: Tokens | None, path: str) -> Ids:
    """Token ids, of a text or as given."""
    try:
        found = np.asarray(needed(tokens, path).ids(text) if isinstance(text, str) else text)
    except (ValueError, TypeError, OverflowError):  # lone surrogates, lists in lists; the message would quote them
        raise InputError(
            f"{path}: train.data: expected texts or one-dimensional arrays of token ids, found something else"
        ) from None
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"{path}: train.data: expected texts or one-dimensional arrays of token ids, found something else")
    return found.astype(np.int64)


def padded(rows: Sequence[Ids], vocabulary: int, path: str) -> Tensor:
    """In one tensor. Raises InputError for an id that the model does not know."""
    ids = np.full((len(rows), max((len(row) for row in rows), default=0)), PADDING, np.int32)
    for place, row in zip(ids, rows, strict=True):
        if row.size and not 0 <= row.min() <= row.max() < vocabulary:
            raise InputError(f"{path}: train.tokenizer: expected token ids below the model's {vocabulary}, found others")
        place[: len(row)] = row
    return torch.from_numpy(ids)


def held_out(count: int, train: Language, units: object, path: str) -> NDArray[np.bool_]:
    """Which records are declared public: every k-th by its place, the same in every run."""
    every = round(1.0 / train.held_out)
    if units is not None:
        raise InputError(
            f"{path}: train.public: expected a file of its own with units, found held-out, which would split a unit's records"
        )
    if every < 2:
        raise InputError(f"{path}: train.held_out: expected at most half of the records, found {train.held_out:g}")
    found: NDArray[np.bool_] = np.arange(count) % every == 0
    return found


def drawn(length: int, vocabulary: int, count: int, stream: Stream) -> Tensor:
    """Records of uniformly random tokens, (count, length)."""
    words = stream.words(count * length) % np.uint64(vocabulary)
    return torch.from_numpy(words.astype(np.int32).reshape(count, length))
