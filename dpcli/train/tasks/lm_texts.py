"""The records of language tasks. They are texts from a file or the user's own function.

The texts become rows of token ids of equal length, padded with -100. A tokenizer must be public, because its vocabulary reveals much about
the text from which it was made. `path` is the path of the training file, from whose folder relative names start, and `place` that of a file
of texts; messages begin with one of them. `only` and `rows` name the *window* to which rows are restricted, some blocks of a ledger
(ledger/blocks/rows.py), None for all. With `record = "window"`, a window is instead a part of a text. A *unit* is the owner of texts, or
an owner in a block if owners are bounded in each block separately.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import meant_in
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.plan.settings_language import CausalLm, Language
from dpcli.train.tasks.files import column_table, in_blocks, json_lines, read_text
from dpcli.train.tasks.lm_library import library, load_pretrained
from dpcli.train.tasks.user_code import private_result, relative_to_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.streams import Stream

    Ids = NDArray[np.int64]

Text = str | Sequence[int]  # a text, or its token ids
PADDING = -100  # the label that torch's cross entropy ignores
UNLIMITED = 10**9  # length above which a tokenizer warns; no text is this long, and texts are cut after tokenization


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts with their labels and owners.

    Attributes:
        labels: Label of each text; None if the task has no labels.
        units: Owner of each text; None if the file does not declare units.
        blocks: Block of each text, if a unit is bounded in each block separately; None otherwise.
    """

    texts: list[Text]
    labels: list[Any] | None = None
    units: list[Any] | None = None
    blocks: list[str] | None = None


def texts_of(source: str, train: Language, path: str, rows: RowWindow | None = None) -> Texts:
    """Return the texts of a file, or the texts that module:function returns.

    Args:
        source: Path of a file, or module:function.
        rows: Window to which the texts of a .jsonl, .csv or .parquet file are restricted; None for all texts. A .txt file and a function
            ignore the window, because their texts have no columns.

    Raises:
        InputError: The texts cannot be read, or there are none.
    """
    ending = os.path.splitext(source)[1]
    place = relative_to_file(source, path)
    if ending in READERS:
        if not os.path.isfile(place):
            raise InputError(f"{path}: train.data: no such file: {source}")
        texts = _require_equal_counts(READERS[ending](place, train, rows), source, path)
        if texts.units is None or texts.blocks is None:
            return texts
        return replace(texts, units=in_blocks(texts.units, texts.blocks, path).tolist())
    if ":" not in source:
        raise InputError(f"{path}: train.data: expected a {', '.join(READERS)} file, or module:function, found {source!r}")
    return _require_equal_counts(_texts_from_function(private_result(source, path), train, source, path), source, path)


def _require_equal_counts(texts: Texts, source: str, path: str) -> Texts:
    """Return the texts unchanged. Raises InputError if there are none, or if the numbers of labels, units and texts differ."""
    for name, values in (("labels", texts.labels), ("units", texts.units)):  # a function of the user's own may return any number
        if values is not None and len(values) != len(texts.texts):
            raise InputError(f"{path}: {source}: expected as many {name} as texts, but their numbers differ")
    if not texts.texts:
        raise InputError(f"{path}: {source}: there are no texts")
    return texts


def _texts_from_function(parts: Any, train: Language, source: str, path: str) -> Texts:
    """Return the texts in the result of the user's function.

    The result has the texts, the labels if the task has labels, and the units if the file declares units.
    """
    names = ["texts"]
    if train.label_column is not None:
        names.append("labels")
    if train.units is not None:
        names.append("units")
    if len(names) == 1:
        parts = (parts,)
    if not isinstance(parts, tuple | list) or len(parts) != len(names):
        raise InputError(f"{path}: {source}: the function must return a tuple of {len(names)} lists, texts first")
    return Texts(**{name: _as_list(part, f"{path}: {source}") for name, part in zip(names, parts, strict=True)})


def _as_list(part: Any, place: str) -> list[Any]:
    """Return a list, a tuple or an array as a list. Raises InputError for any other value."""
    try:
        values = np.asarray(part).tolist() if hasattr(part, "dtype") else part
    except Exception:  # an array of another library may raise anything
        values = None
    if not isinstance(values, tuple | list):
        raise InputError(f"{place}: expected lists or arrays, found {type(part).__name__}")
    return list(values)


def _read_txt(place: str, train: Language, only: RowWindow | None) -> Texts:
    """Return the texts of a .txt file.

    The texts are the lines or paragraphs, as [train] declares. If records are windows (`cut` makes them), the text is the whole file, or
    each line or paragraph if units are declared. Each text is then a unit of its own.

    Raises InputError if the task needs labels, or `units` is not "line" or "paragraph" with windows.
    """
    cuts = {"line": r"\n", "paragraph": r"\n\s*\n"}
    if train.cut_by is None:  # the task needs labels
        raise InputError(f"{place}: expected a .csv, .jsonl or .parquet file with labels, found plain text")
    if train.units is not None and (train.cut_by != "window" or train.units not in cuts):
        raise InputError(f'{place}: train.units: expected line or paragraph with record = "window", found {train.units!r}')
    content = read_text(place)
    pattern = cuts.get(train.units or train.cut_by)  # None for windows of the whole file
    texts: list[Text] = [content]
    if pattern is not None:
        texts = [part for part in re.split(pattern, content) if part.strip()]
    return Texts(texts, units=list(range(len(texts))) if train.units is not None else None)


def _read_jsonl(place: str, train: Language, only: RowWindow | None) -> Texts:
    """Return the texts of a .jsonl file."""
    return _texts_of_rows(place, train, json_lines(place, only), only)


def _read_columns(place: str, train: Language, only: RowWindow | None) -> Texts:
    """Return the texts of a .csv or .parquet file."""
    names, rows = column_table(place, only)
    return _texts_of_rows(place, train, [dict(zip(names, row, strict=True)) for row in rows], only)


def _texts_of_rows(place: str, train: Language, rows: list[Any], only: RowWindow | None) -> Texts:
    """Return the texts, labels and owners in the declared columns. Raises InputError if a row lacks a declared column.

    Args:
        rows: Rows as mappings from column names to values. A line of a .jsonl file may be another value, which is refused.
    """
    label = train.label_column
    declared = [name for name in (train.text, label, train.units) if name is not None]
    for row in rows:
        for name in declared:
            if not hasattr(row, "keys") or row.get(name) is None:
                raise InputError(f"{place}: expected {name!r} in every row, found a row without it{meant_in(row, [name])}")
    blocks = None
    if only is not None and only.block_part is not None:
        blocks = [only.block_label(row[only.column]) for row in rows]
    return Texts(
        texts=[row[train.text] for row in rows],
        labels=[row[label] for row in rows] if label else None,
        units=[row[train.units] for row in rows] if train.units is not None else None,
        blocks=blocks,
    )


READERS: dict[str, Callable[[str, Language, RowWindow | None], Texts]] = {
    ".txt": _read_txt,
    ".jsonl": _read_jsonl,
    ".csv": _read_columns,
    ".parquet": _read_columns,
}


class Tokens(Protocol):
    """A tokenizer."""

    @property
    def end(self) -> int | None:
        """Return the id that ends a text; None if the tokenizer has none."""

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens before or after it."""

    def text(self, ids: list[int]) -> str:
        """Return the text of token ids."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A tokenizer whose ids are the bytes of UTF-8. A line feed ends a text."""

    end: int | None = 10

    def ids(self, text: str) -> list[int]:
        return list(text.encode())

    def text(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A tokenizer of the transformers library."""

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
    """Return the tokenizer that [train] names, or the tokenizer of the model otherwise.

    Return None if the model is the user's own and [train] names no tokenizer.

    Raises InputError if the tokenizer cannot be loaded.
    """
    source = tokenizer_source(train)
    if source is None:
        return None
    if source == "bytes":
        return Bytes()
    load = library("transformers").AutoTokenizer.from_pretrained
    return Pretrained(load_pretrained(source, "tokenizer", path, partial(load, model_max_length=UNLIMITED)))


def tokenizer_source(train: Language) -> str | None:
    """Return the tokenizer that [train] names, or else its model; None if the model is the user's own."""
    model_is_own_code = ":" in train.model
    return train.tokenizer or (None if model_is_own_code else train.model)


def require_tokens(tokens: Tokens | None, path: str) -> Tokens:
    """Return the tokenizer unchanged. Raises InputError if there is none, because texts need a tokenizer."""
    if tokens is None:
        raise InputError(f"{path}: train.tokenizer: a model of your own needs a tokenizer: bytes, a path or a name")
    return tokens


class TokenRecords(NamedTuple):
    """The records of a language task.

    Attributes:
        ids: Token ids as int32, of shape (n, T). T is at most train.context.
        units: Owner of each record; None if the file does not declare units.
    """

    ids: Tensor
    units: list[object] | None


def records(
    source: str, train: CausalLm, tokens: Tokens | None, vocabulary: int, path: str, rows: RowWindow | None = None
) -> TokenRecords:
    """Return the records of a source as token ids.

    A text with more than train.context tokens is cut off or, with record = "window", cut into several records. Privacy then protects each
    window. It protects the whole text only if train.units declares which windows belong together.

    Args:
        rows: Window as for `texts_of`: .txt files and functions ignore it.

    Raises:
        InputError: The texts cannot be read, there are none, or a token id is not in the vocabulary.
    """
    texts = texts_of(source, train, path, rows)
    records_of_texts = [cut(text, train, tokens, path) for text in texts.texts]
    ids = pad([*chain.from_iterable(records_of_texts)], vocabulary, path)
    if texts.units is None:
        return TokenRecords(ids, None)
    units: list[object] = []
    for records_of_text, unit in zip(records_of_texts, texts.units, strict=True):
        units += [unit] * len(records_of_text)
    return TokenRecords(ids, units)


def cut(text: Text, train: CausalLm, tokens: Tokens | None, path: str) -> Sequence[Ids]:
    """Return the token ids of the records of one text. Each record has at most train.context ids."""
    ids = encode(text, tokens, path)
    if train.record == "window":
        return [ids[start : start + train.context] for start in range(0, len(ids), train.context)]
    if isinstance(text, str) and tokens is not None and tokens.end is not None:
        ids = np.append(ids, tokens.end)
    return [ids[: train.context]]


def encode(text: Text, tokens: Tokens | None, path: str) -> Ids:
    """Return the token ids of a text. Ids are returned unchanged. Raises InputError if the text or the ids have the wrong form."""
    try:
        ids = np.asarray(require_tokens(tokens, path).ids(text) if isinstance(text, str) else text)
    except (ValueError, TypeError, OverflowError):  # lone surrogates or nested lists; the original message would quote them
        raise InputError(f"{path}: train.data: expected texts or one-dimensional arrays of token ids") from None
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(f"{path}: train.data: expected texts or one-dimensional arrays of token ids")
    return ids.astype(np.int64)


def pad(rows: Sequence[Ids], vocabulary: int, path: str) -> Tensor:
    """Return the rows as one int32 tensor. Rows are padded at the end. Raises InputError for an id outside of the vocabulary."""
    longest = max((len(row) for row in rows), default=0)
    ids = np.full((len(rows), longest), PADDING, np.int32)
    for padded_row, row in zip(ids, rows, strict=True):
        if row.size and not 0 <= row.min() <= row.max() < vocabulary:
            raise InputError(f"{path}: train.tokenizer: expected token ids below the model's {vocabulary} (an id is not)")
        padded_row[: len(row)] = row
    return torch.from_numpy(ids)


def synthetic_tokens(length: int, vocabulary: int, count: int, stream: Stream) -> Tensor:
    """Return synthetic records of random tokens, of shape (count, length).

    The tokens are uniform up to a negligible bias of the modulo operation.
    """
    words = stream.words(count * length) % np.uint64(vocabulary)
    return torch.from_numpy(words.astype(np.int32).reshape(count, length))
