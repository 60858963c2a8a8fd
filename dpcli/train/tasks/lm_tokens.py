"""From text to token ids. A tokenizer must be public: its vocabulary says much about the text that it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_language import Language
from dpcli.train.tasks.lm_library import library, pretrained

UNLIMITED = 10**9  # texts are cut afterwards: no need for a warning


class Tokens(Protocol):
    """A tokenizer. end: what closes a text, if anything does."""

    @property
    def end(self) -> int | None: ...

    def ids(self, text: str) -> list[int]:
        """Of one text, without anything added before or after it."""
        ...

    def text(self, ids: list[int]) -> str:
        """What token ids say."""
        ...


@dataclass(frozen=True, slots=True)
class Bytes:
    """UTF-8, 256 ids; a line end closes a text."""

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
        found: int | None = self.tokenizer.eos_token_id
        return found

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))


def tokens_of(train: Language, path: str) -> Tokens | None:
    """The tokenizer that [train] names, else the model's own; None for a model of the user's own without one.

    Raises:
        InputError: it cannot be had.
    """
    source = train.tokenizer or (None if ":" in train.model else train.model)
    if source is None:
        return None
    if source == "bytes":
        return Bytes()
    load = library("transformers").AutoTokenizer.from_pretrained
    return Pretrained(pretrained(source, "tokenizer", path, partial(load, model_max_length=UNLIMITED)))


def needed(tokens: Tokens | None, path: str) -> Tokens:
    """Text cannot do without one."""
    if tokens is None:
        raise InputError(f"{path}: train.tokenizer: expected bytes, a path or a name for a model of your own, found none")
    return tokens
