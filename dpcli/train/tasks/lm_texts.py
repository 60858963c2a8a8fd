"""The records of language tasks: texts from a file or the user's own function, as token ids in rows of equal length, padded with -100.

A tokenizer must be public: its vocabulary says much about the text that it was made from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import meant_in
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_language import CausalLm, Language
from dpcli.train.tasks.files import column_table, in_blocks, json_lines, text_of
from dpcli.train.tasks.lm_library import library, pretrained
from dpcli.train.tasks.user_code import private_result, relative_to_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.streams import Stream

    Ids = NDArray[np.int64]

Text = str | Sequence[int]  # or its token ids
PADDING = -100  # ignored by torch's cross entropy
UNLIMITED = 10**9  # tokens: texts are cut afterwards, so the tokenizer need not warn


@dataclass(frozen=True, slots=True)
class Texts:
    """n texts with their labels and owners, if there are any.

    Attributes:
        blocks: Block of each text, if a unit is bounded in each block by itself.
    """

    texts: list[Text]
    labels: list[Any] | None = None
    units: list[Any] | None = None
    blocks: list[str] | None = None


def texts_of(source: str, train: Language, path: str, rows: RowWindow | None = None) -> Texts:
    """Return the texts of a file, only of `rows` if they are given, or of module:function.

    Raises:
        InputError: They cannot be read, or are none.
    """
    ending = os.path.splitext(source)[1]
    place = relative_to_file(source, path)
    if ending in READERS:
        if not os.path.isfile(place):
            raise InputError(f"{path}: train.data: no such file: {source}")
        texts = _checked(READERS[ending](place, train, rows), source, path)
        if texts.units is None or texts.blocks is None:
            return texts
        return replace(texts, units=in_blocks(texts.units, texts.blocks, path).tolist())
    if ":" not in source:
        raise InputError(f"{path}: train.data: expected a {', '.join(READERS)} file, or module:function, found {source!r}")
    return _checked(_returned(private_result(source, path), train, source, path), source, path)


def _checked(texts: Texts, source: str, path: str) -> Texts:
    for name, values in (("labels", texts.labels), ("units", texts.units)):
        if values is not None and len(values) != len(texts.texts):
            raise InputError(f"{path}: {source}: expected as many {name} as texts, but their numbers differ")
    if not texts.texts:
        raise InputError(f"{path}: {source}: there are no texts")
    return texts


def _returned(parts: Any, train: Language, source: str, path: str) -> Texts:
    """Return the texts that a function returns: texts, then labels if the task has some, then units with train.units."""
    labelled = train.label_column is not None
    count = 1 + labelled + (train.units is not None)
    parts = (parts,) if count == 1 else parts if isinstance(parts, tuple | list) else ()
    if len(parts) != count:
        raise InputError(f"{path}: {source}: the function must return a tuple of {count} lists, texts first")
    texts, *rest = (_listed(part, f"{path}: {source}") for part in parts)
    return Texts(texts, rest[0] if labelled else None, rest[-1] if train.units is not None else None)


def _listed(part: Any, place: str) -> list[Any]:
    try:
        values = np.asarray(part).tolist() if hasattr(part, "dtype") else part
    except Exception:  # an array of another library may raise anything
        values = None
    if not isinstance(values, tuple | list):
        raise InputError(f"{place}: expected lists or arrays, found {type(part).__name__}")
    return list(values)


def _txt(place: str, train: Language, only: RowWindow | None) -> Texts:
    """Return the lines or paragraphs of a file; for windows, its whole text, or with units the lines or paragraphs to be cut."""
    cuts = {"line": r"\n", "paragraph": r"\n\s*\n"}
    if train.cut_by is None:
        raise InputError(f"{place}: expected a file with labels, .csv, .jsonl or .parquet, found plain text")
    if train.units is not None and (train.cut_by != "window" or train.units not in cuts):
        raise InputError(f'{place}: train.units: expected line or paragraph with record = "window", found {train.units!r}')
    content = text_of(place)
    pattern = cuts.get(train.units or train.cut_by)
    texts = [part for part in re.split(pattern, content) if part.strip()] if pattern else [content]
    return Texts(list(texts), None, list(range(len(texts))) if train.units is not None else None)


def _jsonl(place: str, train: Language, only: RowWindow | None) -> Texts:
    return _rows(place, train, json_lines(place, only), only)


def _columns(place: str, train: Language, only: RowWindow | None) -> Texts:
    names, rows = column_table(place, only)
    return _rows(place, train, [dict(zip(names, row, strict=True)) for row in rows], only)


def _rows(place: str, train: Language, rows: list[Any], only: RowWindow | None) -> Texts:
    """Return texts, labels and owners from their columns."""
    label = train.label_column
    for row in rows:
        for name in (train.text, label, train.units):
            if name is not None and (not hasattr(row, "keys") or row.get(name) is None):
                raise InputError(f"{place}: expected {name!r} in every row, found a row without it{meant_in(row, [name])}")
    return Texts(
        [row[train.text] for row in rows],
        [row[label] for row in rows] if label else None,
        [row[train.units] for row in rows] if train.units is not None else None,
        None if only is None or only.each is None else [only.part(row[only.column]) for row in rows],
    )


READERS: dict[str, Callable[[str, Language, RowWindow | None], Texts]] = {
    ".txt": _txt,
    ".jsonl": _jsonl,
    ".csv": _columns,
    ".parquet": _columns,
}


class Tokens(Protocol):
    """A tokenizer. end: the id that ends a text, if there is one."""

    @property
    def end(self) -> int | None: ...

    def ids(self, text: str) -> list[int]:
        """Return the ids of one text, without anything added before or after it."""
        ...

    def text(self, ids: list[int]) -> str:
        """Return the text of token ids."""
        ...


@dataclass(frozen=True, slots=True)
class Bytes:
    """A tokenizer with an id for each byte of UTF-8; a line end closes a text."""

    end: int | None = 10

    def ids(self, text: str) -> list[int]:
        return list(text.encode())

    def text(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A tokenizer of transformers."""

    tokenizer: Any

    @property
    def end(self) -> int | None:
        token: int | None = self.tokenizer.eos_token_id
        return token

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))


def tokens_of(train: Language, path: str) -> Tokens | None:
    """Return the tokenizer that [train] names, else the model's own; None for a model of the user's own without one.

    Raises:
        InputError: It cannot be had.
    """
    source = train.tokenizer or (None if ":" in train.model else train.model)
    if source is None:
        return None
    if source == "bytes":
        return Bytes()
    load = library("transformers").AutoTokenizer.from_pretrained
    return Pretrained(pretrained(source, "tokenizer", path, partial(load, model_max_length=UNLIMITED)))


def required_tokens(tokens: Tokens | None, path: str) -> Tokens:
    """Return the tokenizer. Raises InputError if there is none, as text needs one."""
    if tokens is None:
        raise InputError(f"{path}: train.tokenizer: a model of your own needs one: bytes, a path or a name")
    return tokens


def records(
    source: str, train: CausalLm, tokens: Tokens | None, vocabulary: int, path: str, rows: RowWindow | None = None
) -> tuple[Tensor, list[object] | None]:
    """Return ids (n, T), int32, of the texts of these rows, or of all, T at most train.context; and the owner of each where the file asks.

    A text that is longer than train.context is cut off, or, with record = "window", becomes several records: each of them is then protected
    by itself, and the whole text only where train.units says which belong together.
    """
    texts = texts_of(source, train, path, rows)
    cuts, units = [], []
    for number, text in enumerate(texts.texts):
        pieces = list(cut(text, train, tokens, path))
        cuts += pieces
        units += [texts.units[number] if texts.units is not None else None] * len(pieces)
    return padded(cuts, vocabulary, path), units if texts.units is not None else None


def cut(text: Text, train: CausalLm, tokens: Tokens | None, path: str) -> Sequence[Ids]:
    """Return the records of one text."""
    ids = encoded(text, tokens, path)
    if train.record == "window":
        return [ids[start : start + train.context] for start in range(0, len(ids), train.context)]
    end = tokens.end if isinstance(text, str) and tokens is not None else None
    return [(ids if end is None else np.append(ids, end))[: train.context]]


def encoded(text: Text, tokens: Tokens | None, path: str) -> Ids:
    """Return the token ids of a text, or ids as given."""
    try:
        ids = np.asarray(required_tokens(tokens, path).ids(text) if isinstance(text, str) else text)
    except (ValueError, TypeError, OverflowError):  # lone surrogates, lists in lists; the message would quote them
        raise InputError(f"{path}: train.data: expected texts or one-dimensional arrays of token ids") from None
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(f"{path}: train.data: expected texts or one-dimensional arrays of token ids")
    return ids.astype(np.int64)


def padded(rows: Sequence[Ids], vocabulary: int, path: str) -> Tensor:
    """Return the rows as one tensor, padded at the end. Raises InputError for an id that the model does not know."""
    ids = np.full((len(rows), max((len(row) for row in rows), default=0)), PADDING, np.int32)
    for place, row in zip(ids, rows, strict=True):
        if row.size and not 0 <= row.min() <= row.max() < vocabulary:
            raise InputError(f"{path}: train.tokenizer: expected token ids below the model's {vocabulary} (an id is not)")
        place[: len(row)] = row
    return torch.from_numpy(ids)


def drawn(length: int, vocabulary: int, count: int, stream: Stream) -> Tensor:
    """Draw records of uniformly random tokens, (count, length)."""
    words = stream.words(count * length) % np.uint64(vocabulary)
    return torch.from_numpy(words.astype(np.int32).reshape(count, length))
