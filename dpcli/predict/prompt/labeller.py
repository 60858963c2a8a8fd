"""Text in, label out: what answers a prompt. A language model by the first token of each label's word, or a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpcli.audit.user_code import FAILURES, called, raised_at
from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.predict.models.asked import next_token, tokens
from dpcli.predict.models.content import content_of
from dpcli.predict.models.port import LanguageModel, Vocabulary
from dpcli.predict.prompt.settings import Prompt
from dpcli.train.tasks.user_code import user


class Labeller(Protocol):
    """What votes. content: of the model, where it is one; empty of a function, which may ask a service."""

    @property
    def content(self) -> str: ...

    def label(self, prompt: str) -> int:
        """The number of a label."""
        ...

    def fits(self, prompt: str) -> bool:
        """Whether the prompt is short enough; a longer one is never cut."""
        ...


@dataclass(frozen=True, slots=True)
class ModelLabeller:
    """words: the token that stands for each label. place: where messages begin."""

    model: LanguageModel
    vocabulary: Vocabulary
    words: tuple[int, ...]
    place: str
    content: str

    def label(self, prompt: str) -> int:
        scores = next_token(self.model, self._ids(prompt), self.place)
        return int(np.argmax(scores[list(self.words)]))

    def fits(self, prompt: str) -> bool:
        return 1 <= len(self._ids(prompt)) <= self.model.context

    def _ids(self, prompt: str) -> list[int]:
        return tokens(self.vocabulary, prompt, self.model.vocabulary, f"{self.place}: tokenizer")


@dataclass(frozen=True, slots=True)
class OwnLabeller:
    """A function of one prompt, which returns a label or a score for each label."""

    target: str
    function: Callable[[str], Any]
    labels: tuple[str, ...]
    content: str = ""

    def label(self, prompt: str) -> int:
        """Raises InputError for what the function raises, without its words, and where it returns something else than it should."""
        found = self._asked(prompt)
        if found is None:
            raise InputError(
                f"{self.target}: expected one of the labels, or a score for each of {len(self.labels)}, found something else"
            )
        return found

    def fits(self, prompt: str) -> bool:
        return True

    def _asked(self, prompt: str) -> int | None:
        try:  # also of what it returns, which may be an object of the user's own
            return self._read(self.function(prompt))
        except InputError:
            raise
        except FAILURES as error:
            raise InputError(f"{self.target}: raised {raised_at(error)}") from error

    def _read(self, found: Any) -> int | None:
        if isinstance(found, str):
            return self.labels.index(found) if found in self.labels else None
        scores = np.asarray(found)
        if scores.shape != (len(self.labels),) or scores.dtype.kind not in "iuf" or np.isnan(scores).any():
            return None
        return int(np.argmax(scores))


def labeller_of(prompt: Prompt, path: str) -> Labeller:
    """The one that [prompt] names. Raises InputError where it cannot be had, or has no token for a label."""
    if prompt.labeller is not None:
        return OwnLabeller(prompt.labeller, user(prompt.labeller, path), prompt.labels)
    from dpcli.predict.models.load import language_model

    assert prompt.model is not None
    model, vocabulary = language_model(prompt.model, prompt.tokenizer, path, "prompt")
    words = spoken(prompt.words, model, vocabulary, path)
    return ModelLabeller(model, vocabulary, words, f"{path}: prompt.model", content_of(model, vocabulary))


def spoken(words: Sequence[str], model: LanguageModel, vocabulary: Vocabulary, path: str) -> tuple[int, ...]:
    """The token that stands for each label. Raises InputError where two labels share one, or the model does not know it."""
    found = [next(iter(called(f"{path}: prompt.tokenizer", vocabulary.ids, word)), -1) for word in words]
    if len(set(found)) < len(found):
        raise InputError(f"{path}: prompt.verbalizers: expected words that begin with different tokens, found {first_names(words)}")
    if not all(0 <= token < model.vocabulary for token in found):
        raise InputError(f"{path}: prompt.verbalizers: expected words that the model has tokens for, found {first_names(words)}")
    return tuple(found)
