"""A public model by content: what is learnt on top of one is nothing on top of another.

Of weights and counts the SHA-256 of their numbers; of a model of the user's own, which has neither, what it says after some contexts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.asked import CLOSE, private_rows
from dpcli.predict.models.port import LanguageModel

CONTEXTS, TOKENS = 8, 16  # that a model of the user's own is asked about, and of each answer
OTHER = (
    "the public model: expected the same one whenever it is built, found another: a function that draws weights needs a seed of its own, "
    "or reads them from a file"
)


def content_of(model: LanguageModel) -> str:
    """As text; a context that a model of the user's own fails on is told as such."""
    numbers = getattr(model, "numbers", None)
    return _said(model) if numbers is None else digest_of(numbers())


def digest_of(numbers: Iterable[tuple[str, Array]]) -> str:
    """SHA-256 of arrays and their names."""
    found = hashlib.sha256()
    for name, values in numbers:
        found.update(f"{name} {values.dtype} {values.shape} ".encode())
        found.update(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
    return found.hexdigest()


def require_same_content(kept: str, found: str) -> None:
    """Raise InputError where a public model is another one than it was."""
    if not same_content(kept, found):
        raise InputError(OTHER)


def same_content(kept: str, found: str) -> bool:
    """Whether two contents are one: the same digest, or answers that are the same up to rounding."""
    return kept == found or _alike(kept, found)


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
