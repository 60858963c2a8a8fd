"""What models and tokenizers answer, judged: those of the user's own need not keep what port.py asks of them.

About a private context they are asked with `unless_it_fails`: an error would tell that something of the private data made it.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from dpcli.audit.user_code import called
from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.port import LanguageModel, Tokens, Vocabulary

CLOSE = 1e-4  # nats: two answers to one context that differ by more were not computed from that context alone
Answer = TypeVar("Answer")


def next_token(model: LanguageModel, context: Tokens, place: str) -> Array:
    """Log-probabilities after one context, (vocabulary,): a copy, as a model may write its next answer over this one.

    One context at a time, so that no other moves its last bits. place: where messages begin.

    Raises InputError where the model fails, or answers something else: another shape, no real numbers, NaN, inf.
    """
    found = called(place, lambda: np.asarray(model.next_token([context])))
    if found.shape != (1, model.vocabulary) or found.dtype.kind not in "iuf":
        raise InputError(f"{place}: expected log-probabilities of {model.vocabulary} tokens after a context, found something else")
    row = np.array(found[0], dtype=float)
    if not np.isfinite(row.max()):  # NaN, inf, or nothing but -inf
        raise InputError(f"{place}: expected log-probabilities after a context, found some that are no numbers")
    return row


def private_rows(model: LanguageModel, contexts: Sequence[Tokens], words: int) -> Array:
    """The same after private contexts, or of a private model, (contexts, words): NaN, which is no contribution, where it fails."""
    nothing = np.full(words, np.nan)
    rows = [unless_it_fails(lambda context=context: next_token(model, context, ""), nothing) for context in contexts]  # type: ignore[misc]
    return np.stack([row if len(row) == words else nothing for row in rows])


def tokens(vocabulary: Vocabulary, text: str, words: int, place: str) -> list[int]:
    """The tokens of a text, all of them below `words`. Raises InputError where there are others, or the tokenizer fails."""
    found: list[int] = called(place, lambda: [operator.index(one) for one in vocabulary.ids(text)])
    if not all(0 <= token < words for token in found):
        raise InputError(f"{place}: expected tokens below the model's {words}, found others: it is another model's")
    return found


def spoken(vocabulary: Vocabulary, ids: Tokens, place: str) -> str:
    """The text of tokens. Raises InputError where the tokenizer fails, or returns something else."""
    found = called(place, lambda: vocabulary.text(ids))
    if not isinstance(found, str):
        raise InputError(f"{place}: expected text of tokens, found {type(found).__name__}")
    return found


def unless_it_fails(asked: Callable[[], Answer], otherwise: Answer) -> Answer:
    """What is answered about something private; `otherwise` for whatever is raised, of which nothing is said."""
    try:
        with warnings.catch_warnings(action="ignore"):  # a warning may quote it, too
            return asked()
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # without the words of whoever raised it
    except BaseException:  # what a cancelled task raises is no Exception, and would be shown whole
        return otherwise


def require_forgetful(model: LanguageModel, known: Array, context: Tokens, place: str) -> None:
    """Raise InputError where the answer to a public context is no longer what it was (`known`).

    A model that keeps something of what it was asked would answer a public context with what it saw of private ones.
    """
    found = next_token(model, context, place)
    with np.errstate(invalid="ignore"):
        same = (found == known) | (np.abs(found - known) <= CLOSE)
    if not same.all():
        raise InputError(
            f"{place}: expected the same answer to the same context, found another one: what a model was asked before must not matter, "
            "and answers must not be random, as those of dropout that is not switched off are (.eval(), or training=self.training)"
        )
