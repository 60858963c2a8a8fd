"""Labellers, which give a prompt a label: a language model, or a function written by the user.

The teachers of `dpcli prompt` ask one about prompts with private demonstrations (prompt_teachers.py); the student's prompt is chosen by
asking it about public ones (demonstrations.py). A language model labels a prompt by the largest probability among the first tokens of the
labels' words (`verbalizers`). No message quotes a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpcli.audit.own_code import FAILURES, raised_at
from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.numerics.arrays import np
from dpcli.predict.models.model_answers import LanguageModel, Vocabulary, content_of, next_token, token_ids
from dpcli.predict.prompt.prompt_plan import Prompt
from dpcli.train.tasks.user_code import own_function


class Labeller(Protocol):
    """A labeller of prompts.

    Attributes:
        content: Content of the language model, as `content_of` returns it; "" for a function, which may ask a service.
    """

    @property
    def content(self) -> str: ...

    def label(self, prompt: str) -> int:
        """Return the number of the prompt's label."""
        ...

    def fits(self, prompt: str) -> bool:
        """Return whether the prompt is short enough. A prompt that is too long is never cut."""
        ...


@dataclass(frozen=True, slots=True)
class ModelLabeller:
    """A labeller by a language model.

    Attributes:
        first_tokens: First token of the word of each label.
        place: Beginning of messages: the file and the key that names the model.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    first_tokens: tuple[int, ...]
    place: str
    content: str

    def label(self, prompt: str) -> int:
        scores = next_token(self.model, self._ids(prompt), self.place)
        return int(np.argmax(scores[list(self.first_tokens)]))

    def fits(self, prompt: str) -> bool:
        return 1 <= len(self._ids(prompt)) <= self.model.context

    def _ids(self, prompt: str) -> list[int]:
        return token_ids(self.vocabulary, prompt, self.model.vocabulary, f"{self.place}: tokenizer")


@dataclass(frozen=True, slots=True)
class OwnLabeller:
    """A labeller by the user's function of one prompt, which returns a label or a score for each label."""

    target: str
    function: Callable[[str], Any]
    labels: tuple[str, ...]
    content: str = ""

    def label(self, prompt: str) -> int:
        """Return the label.

        Raises InputError if the function raises, or returns neither a label nor scores. The function's own message is not repeated.
        """
        try:  # Reading the result may raise too: it may be an object from the user's code.
            label = self._read(self.function(prompt))
        except InputError:
            raise
        except FAILURES as error:  # an exception, or SystemExit
            raise InputError(f"{self.target}: raised {raised_at(error)}") from error
        if label is None:
            raise InputError(f"{self.target}: expected one of the labels, or a score for each of {len(self.labels)}")
        return label

    def fits(self, prompt: str) -> bool:
        return True

    def _read(self, answer: Any) -> int | None:
        """Return the number of the label in an answer of the function; None if the answer is neither a label nor scores."""
        if isinstance(answer, str):
            return self.labels.index(answer) if answer in self.labels else None
        scores = np.asarray(answer)
        if scores.shape != (len(self.labels),) or scores.dtype.kind not in "iuf" or np.isnan(scores).any():
            return None
        return int(np.argmax(scores))


def labeller_of(prompt: Prompt, path: str) -> Labeller:
    """Return the labeller that [prompt] names. Raises InputError if it cannot be loaded, or two labels share a first token."""
    if prompt.labeller is not None:
        return OwnLabeller(prompt.labeller, own_function(prompt.labeller, path), prompt.labels)
    from dpcli.predict.models.model_loading import language_model

    assert prompt.model is not None
    model, vocabulary = language_model(prompt.model, prompt.tokenizer, path, "prompt")
    first_tokens = _first_tokens(prompt.words, model, vocabulary, path)
    return ModelLabeller(model, vocabulary, first_tokens, f"{path}: prompt.model", content_of(model, vocabulary))


def _first_tokens(words: Sequence[str], model: LanguageModel, vocabulary: Vocabulary, path: str) -> tuple[int, ...]:
    """Return the first token of each label's word. Raises InputError if two labels share it, or a word has none."""
    ids = []
    for word in words:
        tokens = token_ids(vocabulary, word, model.vocabulary, f"{path}: prompt.tokenizer")
        if not tokens:
            raise InputError(f"{path}: prompt.verbalizers: expected words that have tokens, found {word!r}, which has none")
        ids.append(tokens[0])
    if len(set(ids)) < len(ids):
        raise InputError(f"{path}: prompt.verbalizers: expected words that begin with different tokens, found {first_names(words)}")
    return tuple(ids)
