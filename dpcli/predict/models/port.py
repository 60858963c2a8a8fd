"""The port for language models: the log-probabilities of the next token, given those before it, and what is learnt from private records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpcli.numerics.arrays import Array

Tokens = Sequence[int]


class LanguageModel(Protocol):
    """A causal language model. vocabulary: how many tokens it tells apart. context: most tokens that it looks back on; none are cut."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int: ...

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        """Return natural logarithms of the probabilities of the next token, (contexts, vocabulary), each row adding up to 1.

        -inf is allowed, NaN is not. The answer for one context does not depend on the others.
        """
        ...


class Tunable(LanguageModel, Protocol):
    """A model that learns from records without noise: bytes, which together with it are another model."""

    def tune(self, records: Sequence[Tokens]) -> bytes:
        """Return what is learnt from these records alone, none of them longer than the context. There may be none."""
        ...

    def tuned(self, learnt: bytes) -> LanguageModel:
        """Return the model with what `tune` returned, over the same vocabulary. Raises InputError where the bytes are something else."""
        ...


class Vocabulary(Protocol):
    """Text to tokens and back; public, as its tokens say much about the text that it was made from. end: the token that closes a text."""

    def ids(self, text: str) -> list[int]:
        """Return the tokens of one text, without anything added before or after it."""
        ...

    def text(self, ids: Tokens) -> str:
        """Return the text of tokens; whatever is no text is replaced by U+FFFD."""
        ...

    @property
    def end(self) -> int | None: ...
