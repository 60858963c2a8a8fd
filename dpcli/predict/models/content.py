"""A public model by content: what is learnt on top of one is nothing on top of another.

Of weights and counts the SHA-256 of their numbers; of a model of the user's own, which has neither, what it says after some contexts. And
the tokens that it is asked in, where its vocabulary is told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.asked import CLOSE, next_token, private_rows, require_forgetful, unless_it_fails
from dpcli.predict.models.port import LanguageModel, Vocabulary

CONTEXTS, TOKENS = 8, 16  # that a model of the user's own is asked about, and of each answer
LONGEST = 16  # tokens of the context that every model is asked about twice
PLACE = "the public model"
OTHER = (
    "the public model: expected the same one whenever it is built, found another: a function that draws weights needs a seed of its own, "
    "or reads them from a file"
)
WORDS = "; vocabulary "  # between a model and the digests of its tokens: in their order, and in alphabetical order


def content_of(model: LanguageModel, vocabulary: Vocabulary | None = None) -> str:
    """As text. Raises InputError where the model fails, or answers the same context twice otherwise: it has no content then."""
    context = range(min(LONGEST, model.context, model.vocabulary))
    require_forgetful(model, next_token(model, context, PLACE), context, PLACE)
    numbers = getattr(model, "numbers", None)
    found = _said(model) if numbers is None else digest_of(numbers())
    return found if vocabulary is None else found + WORDS + _words(vocabulary, model.vocabulary)


def digest_of(numbers: Iterable[tuple[str, Array]]) -> str:
    """SHA-256 of arrays and their names."""
    found = hashlib.sha256()
    for name, values in numbers:
        found.update(f"{name} {values.dtype} {values.shape} ".encode())
        found.update(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
    return found.hexdigest()


def require_same_content(kept: str, found: str) -> None:
    """Raise InputError where a public model, or the order of its vocabulary, is another one than it was."""
    kept_words, words = kept.partition(WORDS)[2], found.partition(WORDS)[2]
    if kept_words and words and kept_words != words:
        order = kept_words.split()[1] == words.split()[1]
        raise InputError(
            "the vocabulary: expected the same tokens in the same order whenever it is built, found "
            + ("another order: that of a set differs from process to process, sorted(...) does not" if order else "other tokens")
        )
    if not same_content(kept, found):
        raise InputError(OTHER)


def same_content(kept: str, found: str) -> bool:
    """Whether two contents are one: one digest, or answers that are the same up to rounding; and one vocabulary where both state it."""
    (one, _, kept_words), (other, _, words) = kept.partition(WORDS), found.partition(WORDS)
    return (one == other or _alike(one, other)) and not (kept_words and words and kept_words != words)


def _words(vocabulary: Vocabulary, count: int) -> str:
    found = [unless_it_fails(lambda token=token: str(vocabulary.text([token])), "") for token in range(count)]  # type: ignore[misc]
    return " ".join(hashlib.sha256(json.dumps(words).encode()).hexdigest() for words in (found, sorted(found)))


def _said(model: LanguageModel) -> str:
    tokens = range(0, model.vocabulary, -(-model.vocabulary // TOKENS))
    first = range(0, model.vocabulary, -(-model.vocabulary // CONTEXTS))
    contexts = [(token, (token + 1) % model.vocabulary, token)[: max(1, model.context)] for token in first]
    rows = private_rows(model, contexts, model.vocabulary)
    return json.dumps(rows[:, tokens].ravel().tolist())


def _alike(kept: str, found: str) -> bool:
    """Whether both are what models have said, the same up to rounding."""
    try:
        one, other = (np.array(json.loads(said), dtype=float) for said in (kept, found))
    except (ValueError, TypeError):
        return False
    return one.ndim == 1 and one.shape == other.shape and bool(np.isclose(one, other, rtol=0.0, atol=CLOSE, equal_nan=True).all())
