"""What private prediction asks of a language model: the log-probabilities of the next token, given the tokens before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpcli.numerics.arrays import Array

Tokens = Sequence[int]


class LanguageModel(Protocol):
    """A causal language model."""

    @property
    def vocabulary(self) -> int:
        """How many tokens it tells apart."""
        ...

    @property
    def context(self) -> int:
        """Most tokens that it looks back on. A longer prompt is refused, not cut."""
        ...

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        """Natural logarithms of the probabilities of the next token, (contexts, vocabulary), each row adding up to 1.

        -inf is allowed, NaN is not. The answer for one context does not depend on the others.
        """
        ...


class Vocabulary(Protocol):
    """Text to tokens and back; public, as its tokens say much about the text that it was made from."""

    def ids(self, text: str) -> list[int]:
        """Of one text, without anything added before or after it."""
        ...

    def text(self, ids: Tokens) -> str:
        """Of the tokens; whatever is no text is replaced by U+FFFD."""
        ...

    @property
    def end(self) -> int | None:
        """The token that closes a text, if any does."""
        ...
