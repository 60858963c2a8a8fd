"""The protocols of language models and vocabularies, and checks of the answers of models that users have written.

pmixed, prompt and generate ask models through these functions, whether the model is dpcli's own, of transformers, or a user's. A model is
asked about the next token after a *context*, a list of tokens; it is asked about a private context through `default_on_error`, because an
error would reveal something about the private data. The message of an error or warning about private values is never shown: it may quote a
record.

Parameters learnt on top of one public model are useless on top of another. Models are therefore compared by *content*: the SHA-256 of a
model's weights or counts if it shows them (`numbers`), and its answers after some contexts otherwise. The content may include digests of a
vocabulary. `place` begins the messages: it says whose model or tokenizer is wrong, and never quotes a text.
"""

from __future__ import annotations

import hashlib
import json
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from dpcli.audit.own_code import call_user_code
from dpcli.base.errors import DpcliError, InputError
from dpcli.numerics.arrays import Array, np

Tokens = Sequence[int]
Answer = TypeVar("Answer")

SAME_ANSWER = 1e-4  # in nats; two answers that differ by more were not computed from the same context alone
# Sizes of the checks of a model, chosen by hand: with more contexts or tokens, a change or a memory is noticed more often.
SAMPLE_CONTEXTS, SAMPLE_TOKENS = 8, 16  # numbers of contexts and of tokens per answer in the content of a model without numbers
SAMPLE_LENGTH = 16  # number of tokens of the context about which every model is asked twice
VOCABULARY_MARK = "; vocabulary "  # separates the content of a model from two digests of its tokens: in order, and sorted
PUBLIC = "the public model"
CHANGED_MODEL = (
    "the public model: expected the same content whenever it is built, but the content changed; a function that draws weights must set a "
    "seed, or read the weights from a file"
)


class LanguageModel(Protocol):
    """A causal language model.

    A model may have further methods, which are used if it has them: `numbers` yields what its content is computed from (`NGram`,
    `Transformer`), `along` answers about each prefix of a text in one pass, `ready` is called before processes are forked, and
    `joint_next_token` asks several fitted models at once (`Transformer`).

    Attributes:
        vocabulary: Number of tokens.
        context: Largest number of tokens in a context. A longer context is never cut.
    """

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
    """A model that can be fine-tuned without noise. The learnt parameters are bytes, from which `tuned` makes the fitted model."""

    def tune(self, records: Sequence[Tokens]) -> bytes:
        """Return parameters learnt from these records alone. No record is longer than the context. There may be no record."""
        ...

    def tuned(self, learnt: bytes) -> LanguageModel:
        """Return the fitted model of the bytes that `tune` returned, with the same vocabulary. Raises InputError for other bytes."""
        ...


class Vocabulary(Protocol):
    """A tokenizer. It must be public: its tokens reveal much about the texts from which it was made.

    A model that counts (`NGram`) also needs its `size`, the number of its tokens.

    Attributes:
        end: Id of the token that ends a text; None if there is none.
    """

    def ids(self, text: str) -> list[int]:
        """Return the tokens of one text, without anything added before or after it."""
        ...

    def text(self, ids: Tokens) -> str:
        """Return the text of tokens. Bytes that are not valid text are replaced by U+FFFD."""
        ...

    @property
    def end(self) -> int | None: ...


def on_private(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function of private values, such as fitting. If it raises, raise InputError without its message."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(*arguments)
    except DpcliError:
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # A new exception does not carry a message of the user's code.
    except BaseException as error:  # The error of a cancelled task is not an Exception, and its message would be shown.
        error_text = f"{type(error).__name__} (its message is not shown, as it may quote a private record)"
        raise InputError(f"{target}: raised {error_text}") from error


def default_on_error(ask: Callable[[], Answer], default: Answer) -> Answer:
    """Return the answer of a function of private values; `default` if it raises. Nothing else reveals that it raised."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ask()
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None
    except BaseException:
        return default


def next_token(model: LanguageModel, context: Tokens, place: str) -> Array:
    """Return log-probabilities of the next token after one context, (vocabulary,).

    The model is asked about one context at a time, so that no other context changes the last bits of the answer. The result is a copy,
    because the model may reuse its array for the next answer.

    Raises InputError if the model fails, or its answer has the wrong shape or type, or contains NaN, inf or only -inf.
    """
    rows = call_user_code(place, lambda: np.asarray(model.next_token([context])))
    if rows.shape != (1, model.vocabulary) or rows.dtype.kind not in "iuf":
        raise InputError(
            f"{place}: expected log-probabilities of {model.vocabulary} tokens after a context, found {rows.dtype} of shape {rows.shape}"
        )
    row = np.array(rows[0], dtype=float)
    if not np.isfinite(row.max()):  # It contains NaN or inf, or nothing but -inf.
        raise InputError(f"{place}: expected log-probabilities after a context, found NaN, inf or only -inf")
    return row


def private_rows(model: LanguageModel, contexts: Sequence[Tokens], vocabulary_size: int) -> Array:
    """Return log-probabilities after private contexts, (contexts, vocabulary_size). If the model fails for a context, its row is NaN."""
    failed = np.full(vocabulary_size, np.nan)
    rows = [default_on_error(partial(next_token, model, context, ""), failed) for context in contexts]
    return np.stack([row if len(row) == vocabulary_size else failed for row in rows])


def token_ids(vocabulary: Vocabulary, text: str, vocabulary_size: int, place: str) -> list[int]:
    """Return the tokens of a text. Raises InputError if the tokenizer fails, or a token is not below `vocabulary_size`."""
    ids: list[int] = call_user_code(place, lambda: list(map(operator.index, vocabulary.ids(text))))
    require_ids(ids, vocabulary_size, f"{place}: ")
    return ids


def require_ids(ids: Iterable[int], vocabulary_size: int, place: str = "") -> None:
    """Raise InputError if a token is not one of a model's `vocabulary_size` tokens."""
    if not all(0 <= token < vocabulary_size for token in ids):
        raise InputError(f"{place}expected token ids below the model's {vocabulary_size}: the tokenizer belongs to another model")


def text_of_tokens(vocabulary: Vocabulary, ids: Tokens, place: str) -> str:
    """Return the text of tokens. Raises InputError if the tokenizer fails, or does not return a str."""
    text = call_user_code(place, lambda: vocabulary.text(ids))
    if not isinstance(text, str):
        raise InputError(f"{place}: expected text of tokens, found {type(text).__name__}")
    return text


def require_forgetful(model: LanguageModel, earlier: Array, context: Tokens, place: str) -> None:
    """Raise InputError if the answer to a public context differs from the answer `earlier`.

    A model that remembers its contexts could reveal private ones in its answers to public ones.
    """
    again = next_token(model, context, place)
    with np.errstate(invalid="ignore"):  # -inf minus -inf is NaN.
        is_same = (again == earlier) | (np.abs(again - earlier) <= SAME_ANSWER)
    if not is_same.all():
        raise InputError(
            f"{place}: gave two answers to one context: an answer must not depend on earlier contexts, and must not be random; switch off "
            "dropout (.eval(), or training=self.training)"
        )


def content_of(model: LanguageModel, vocabulary: Vocabulary | None = None) -> str:
    """Return the content of a public model, and of its vocabulary if it is given, as text: "9f0c...; vocabulary 51a7... e208...".

    Raises InputError if the model fails, or gives two answers to the same context.
    """
    context = range(min(SAMPLE_LENGTH, model.context, model.vocabulary))
    require_forgetful(model, next_token(model, context, PUBLIC), context, PUBLIC)
    numbers = getattr(model, "numbers", None)
    content = call_user_code(PUBLIC, lambda: digest_of(numbers())) if callable(numbers) else _sample_answers(model)
    return content if vocabulary is None else content + VOCABULARY_MARK + _vocabulary_digests(vocabulary, model.vocabulary)


def digest_of(numbers: Iterable[tuple[str, Array]]) -> str:
    """Return the SHA-256 of arrays with their names."""
    digest = hashlib.sha256()
    for name, values in numbers:
        digest.update(f"{name} {values.dtype} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
    return digest.hexdigest()


def require_same_content(before: str, now: str) -> None:
    """Raise InputError if the content of a public model, or the order of its vocabulary, has changed."""
    (_, _, earlier), (_, _, current) = before.partition(VOCABULARY_MARK), now.partition(VOCABULARY_MARK)
    if earlier and current and earlier != current:  # each has two digests of the tokens: in their order, and sorted
        change = "other tokens"
        (_, earlier_sorted, *_), (_, current_sorted, *_) = earlier.split(), current.split()
        if earlier_sorted == current_sorted:
            change = "a changed order: the order of a set differs between processes; use sorted(...)"
        raise InputError(f"the vocabulary: expected the same tokens in the same order whenever it is built, found {change}")
    if not same_content(before, now):
        raise InputError(CHANGED_MODEL)


def same_content(before: str, now: str) -> bool:
    """Return whether two contents are equal.

    Models are equal if their digests are equal, or if their answers are equal up to rounding. Vocabularies are compared only if both
    contents include one.
    """
    model, _, vocabulary = before.partition(VOCABULARY_MARK)
    current_model, _, current_vocabulary = now.partition(VOCABULARY_MARK)
    if vocabulary and current_vocabulary and vocabulary != current_vocabulary:
        return False
    return model == current_model or _same_answers(model, current_model)


def _vocabulary_digests(vocabulary: Vocabulary, count: int) -> str:
    """Return two digests of the tokens' texts: in their order, and in alphabetical order."""

    def text_of(token: int) -> str:
        return str(vocabulary.text([token]))

    texts = [default_on_error(partial(text_of, token), "") for token in range(count)]
    in_order, sorted_ = (hashlib.sha256(json.dumps(words).encode()).hexdigest() for words in (texts, sorted(texts)))
    return f"{in_order} {sorted_}"


def _sample_answers(model: LanguageModel) -> str:
    """Return the answers of a model after some contexts, as text."""
    count = model.vocabulary
    # A context is a token, its successor and the token again. -(-count // n) is count / n, rounded up: the distance between tokens.
    shown_tokens = range(0, count, -(-count // SAMPLE_TOKENS))
    first_tokens = range(0, count, -(-count // SAMPLE_CONTEXTS))
    contexts = [(token, (token + 1) % count, token)[: max(1, model.context)] for token in first_tokens]
    return json.dumps(private_rows(model, contexts, count)[:, shown_tokens].ravel().tolist())


def _same_answers(before: str, now: str) -> bool:
    """Return whether both texts are answers of models that are equal up to rounding."""
    try:
        earlier, current = (np.array(json.loads(text), dtype=float) for text in (before, now))
    except (ValueError, TypeError):
        return False
    if earlier.ndim != 1 or earlier.shape != current.shape:
        return False
    return bool(np.isclose(earlier, current, rtol=0.0, atol=SAME_ANSWER, equal_nan=True).all())
