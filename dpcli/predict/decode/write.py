"""One text, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcli.numerics.arrays import Array
from dpcli.predict.decode.clipped import LogitClipping
from dpcli.predict.decode.draw import token
from dpcli.predict.models.asked import next_token, private_rows, require_forgetful
from dpcli.predict.models.port import LanguageModel, Tokens
from dpcli.train.noise.randomness import Stream

AT_ONCE = 64  # contexts whose log-probabilities are in memory together


@dataclass(frozen=True, slots=True)
class Writer:
    """prompt: the public context. differences: what is clipped (see [generate] method). tokens: most of a text. end: what closes it.

    place: where messages begin.
    """

    model: LanguageModel
    clipping: LogitClipping
    prompt: Tokens
    differences: bool
    tokens: int
    end: int | None
    place: str = "model"

    def text(self, contexts: Sequence[Tokens], stream: Stream) -> list[int]:
        """The tokens of one text of a batch, without the one that closes it."""
        written: list[int] = []
        while len(written) < self.tokens:
            found = token(self.scores(contexts, written), stream)
            if found == self.end:
                break
            written.append(found)
        return written

    def scores(self, contexts: Sequence[Tokens], written: Tokens) -> Array:
        """What the next token is drawn by.

        Raises InputError where the model fails after the public context, or answers it otherwise once it has seen private ones.
        """
        shown = (*self.prompt, *written)
        public = next_token(self.model, shown, self.place)
        sums = np.zeros(len(public), np.int64)
        for start in range(0, len(contexts), AT_ONCE):
            asked = [(*context, *written) for context in contexts[start : start + AT_ONCE]]
            private = private_rows(self.model, asked, len(public))
            sums += self.clipping.differences(private, public) if self.differences else self.clipping.logits(private)
        require_forgetful(self.model, public, shown, self.place)
        return self.clipping.scores(public if self.differences else np.zeros(len(public)), sums)
