"""A private text, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpcli.numerics.arrays import Array, np
from dpcli.predict.decode.exact_draws import token
from dpcli.predict.decode.logit_clipping import LogitClipping
from dpcli.predict.decode.public_test import PrivateTurns, PublicTest
from dpcli.predict.models.model_answers import next_token, private_rows, require_forgetful
from dpcli.predict.models.port import LanguageModel, Tokens
from dpcli.random.streams import Stream

AT_ONCE = 64  # contexts whose log-probabilities are in memory together


@dataclass(frozen=True, slots=True)
class Written:
    """A text, without the token that closes it. private: how many of its tokens are. cut: whether it ends for want of private tokens."""

    tokens: tuple[int, ...]
    private: int
    cut: bool


@dataclass(frozen=True, slots=True)
class NextToken:
    """The next token: drawn by scores where it is private, by public where not. distance: what decides that, 0 where nothing does."""

    scores: Array
    public: Array
    distance: int


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of one text, token by token.

    prompt: the public context. differences: what is clipped (see [generate] method). tokens: most of a text. end: what closes it.
    place: where messages begin.
    """

    model: LanguageModel
    clipping: LogitClipping
    prompt: Tokens
    differences: bool
    tokens: int
    end: int | None
    place: str = "model"

    def text(self, contexts: Sequence[Tokens], stream: Stream, turns: PrivateTurns | None = None) -> Written:
        """Return one text of a batch.

        turns: of the batch, where tokens that the public context predicts alone are drawn from what that says: the text is cut short
        where there are none left. Without it all tokens are private.
        """
        ids: list[int] = []
        private = 0
        while len(ids) < self.tokens:
            if turns is not None and not turns.opened(stream):
                return Written(tuple(ids), private, True)
            following = self.following(contexts, ids, None if turns is None else turns.test)
            if turns is None or turns.private(following.distance, stream):
                private += 1
                chosen = token(following.scores, stream)
            else:
                chosen = token(following.public, stream)
            if chosen == self.end:
                break
            ids.append(chosen)
        return Written(tuple(ids), private, False)

    def scores(self, contexts: Sequence[Tokens], written: Tokens) -> Array:
        """Return what the next token is drawn by, where it is private. Raises as `following` does."""
        return self.following(contexts, written, None).scores

    def following(self, contexts: Sequence[Tokens], written: Tokens, test: PublicTest | None) -> NextToken:
        """Return the next token of a text.

        Raises InputError where the model fails after the public context, or answers it otherwise once it has seen private ones.
        """
        shown = (*self.prompt, *written)
        public = next_token(self.model, shown, self.place)
        nothing = np.zeros(len(public), np.int64)
        sums, parts = nothing.copy(), nothing.copy()
        for start in range(0, len(contexts), AT_ONCE):
            private = private_rows(self.model, [(*one, *written) for one in contexts[start : start + AT_ONCE]], len(public))
            sums += self.clipping.differences(private, public) if self.differences else self.clipping.logits(private)
            if test is not None:
                parts += sum(map(test.parts, private))
        require_forgetful(self.model, public, shown, self.place)
        return NextToken(
            self.clipping.scores(public if self.differences else np.zeros(len(public)), sums),
            self.clipping.scores(public, nothing),
            0 if test is None else test.distance(public, parts),
        )
