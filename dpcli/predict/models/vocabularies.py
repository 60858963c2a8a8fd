"""Text to tokens and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpcli.base.errors import InputError
from dpcli.predict.models.port import Tokens, Vocabulary

UNLIMITED = 10**9  # a prompt that is too long is refused elsewhere: no need for a warning


@dataclass(frozen=True, slots=True)
class ByteVocabulary:
    """UTF-8, 256 ids; a line end closes a text."""

    end: int | None = 10
    size: int = 256

    def ids(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def text(self, ids: Tokens) -> str:
        return bytes(ids).decode(errors="replace")


class WordVocabulary:
    """The words of a public list, split at white space; every other word is the token <unk>, and a line end is the token <end>.

    The list must be public: whether a word is in it would otherwise tell that somebody used it.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = ("<unk>", "<end>", *(word for word in dict.fromkeys(words) if word not in ("<unk>", "<end>")))
        self._places = {word: place for place, word in enumerate(self.words)}

    @property
    def end(self) -> int | None:
        return 1

    @property
    def size(self) -> int:
        return len(self.words)

    def ids(self, text: str) -> list[int]:
        lines = [[self._places.get(word, 0) for word in line.split()] for line in text.split("\n")]
        return [token for place, line in enumerate(lines) for token in ([1, *line] if place else line)]

    def text(self, ids: Tokens) -> str:
        return " ".join("\n" if token == 1 else self.words[token] for token in ids).replace(" \n", "\n").replace("\n ", "\n")


@dataclass(frozen=True, slots=True)
class PretrainedVocabulary:
    """A tokenizer of transformers."""

    tokenizer: Any

    @property
    def end(self) -> int | None:
        found: int | None = self.tokenizer.eos_token_id
        return found

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, ids: Tokens) -> str:
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def size_of(vocabulary: Vocabulary, path: str, table: str) -> int:
    """How many tokens there are. Raises InputError where a vocabulary of the user's own does not say."""
    size = getattr(vocabulary, "size", None)
    if type(size) is not int or size < 1:
        raise InputError(f"{path}: {table}.tokenizer: expected a vocabulary with a size, its number of tokens, found none")
    return size


def vocabulary_of(source: str, path: str, table: str) -> Vocabulary:
    """The vocabulary that a file names: bytes, module:function, a folder, or a name that transformers knows.

    Args:
        path, table: of the file, and of its table whose key `tokenizer` this is.

    Raises:
        InputError: it cannot be had.
    """
    from dpcli.train.tasks.lm_library import library, pretrained
    from dpcli.train.tasks.user_code import result

    if source == "bytes":
        return ByteVocabulary()
    if ":" in source:
        found = result(source, path)
        if not all(callable(getattr(found, name, None)) for name in ("ids", "text")) or not hasattr(found, "end"):
            raise InputError(
                f"{path}: {table}.tokenizer: expected an object with ids, text and end from {source}, found {type(found).__name__}"
            )
        own: Vocabulary = found
        return own
    load = library("transformers").AutoTokenizer.from_pretrained
    return PretrainedVocabulary(pretrained(source, "tokenizer", path, partial(load, model_max_length=UNLIMITED), table))
