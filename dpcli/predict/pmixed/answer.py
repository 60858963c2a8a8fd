"""A prompt goes in, text comes out: each token is counted durably before it is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dpcli.base.errors import Denied, InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.asked import next_token, private_rows, spoken, tokens, unless_it_fails
from dpcli.predict.models.content import require_same_content
from dpcli.predict.models.load import require_fits
from dpcli.predict.models.port import LanguageModel, Tokens, Vocabulary
from dpcli.predict.pmixed.fit import FITTED, Fit, fitted, learnt
from dpcli.predict.pmixed.members import begun, members
from dpcli.predict.pmixed.modes import Mode, mode_of, probabilities
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.shared import PublicSide, public_side
from dpcli.predict.pmixed.whole import drawn, sampled
from dpcli.predict.queries.budget import QueryBudget
from dpcli.random.streams import Stream, SystemStream


@dataclass(frozen=True)
class Ensemble:
    """A public model and the models that were fitted, one for each shard."""

    plan: PmixedPlan
    fit: Fit
    side: PublicSide
    members: tuple[LanguageModel, ...]

    @property
    def public(self) -> LanguageModel:
        return self.side.model

    @property
    def vocabulary(self) -> Vocabulary:
        return self.side.vocabulary

    @cached_property
    def mode(self) -> Mode:
        return mode_of(self.plan)

    def token(self, context: Tokens, stream: Stream) -> int:
        """One token after a context, from the system's entropy: which models take part, and which token of their average it is."""
        heat = self.plan.settings.temperature
        chosen = sampled(stream, len(self.members), self.plan.spec.model_rate)
        public = probabilities(self._public(context), heat)
        private = [probabilities(row, heat) for row in self._private(chosen, context)]
        total, count = self.mode.total(public, private)
        return drawn(total, count, stream)

    def _public(self, context: Tokens) -> Array:
        return next_token(self.public, context, "the public model")

    def _private(self, chosen: Sequence[int], context: Tokens) -> list[Array]:
        """NaN, which counts as the public model, where one fails or answers something else: an error would tell of the private data.

        Several in one pass only where a change of the data leaves as many models as before: their number may move last bits of all.
        """
        models = [self.members[place] for place in chosen]
        words = self.public.vocabulary
        asked = getattr(self.public, "together", None)
        if asked is not None and self.plan.spec.change == "replace-shard":
            rows: Array | None = unless_it_fails(lambda: asked(models, context), None)
            if rows is not None and rows.shape == (len(models), words):
                return [row if np.isfinite(row.max()) else np.full(words, np.nan) for row in rows]
        asked_at_once = [begun(model, context) for model in models]
        return [private_rows(model, [context], words)[0] for model in asked_at_once]


@dataclass(frozen=True, slots=True)
class Answered:
    """text: what came out, as far as it came. tokens: how many. why: what ended it. taken: tokens granted up to now, of `total`."""

    prompt: str
    text: str
    tokens: int
    why: str
    taken: int
    total: int
    refused: str | None


def ensemble(plan: PmixedPlan) -> Ensemble:
    """The fitted models of a plan. Raises InputError where there are none, or they are another file's or another vocabulary's."""
    found, side = fitted(plan), public_side(plan.settings, plan.path)
    require_same_content(found.public, side.content)
    if len(found.models) != plan.spec.shards:
        raise InputError(f"{plan.folder}: expected {plan.spec.shards} fitted models, found {len(found.models)}")
    return Ensemble(plan, found, side, members(plan, side, [learnt(plan, found, shard) for shard in range(len(found.models))]))


def members_of(plan: PmixedPlan) -> Ensemble | None:
    """The same; None where nothing was fitted yet."""
    return ensemble(plan) if os.path.exists(os.path.join(plan.folder, FITTED)) else None


def answered(models: Ensemble, queries: QueryBudget, prompt: str, most: int, stream: Stream | None = None) -> Answered:
    """Text after a prompt: at most `most` tokens, up to the token that closes a text.

    Raises:
        InputError: a prompt that is too long, or no text of the vocabulary. LedgerError: the count cannot be written: no token is drawn.
    """
    ids = tokens(models.vocabulary, prompt, models.public.vocabulary, "the tokenizer")
    require_fits(models.public, ids, most)
    found: list[int] = []
    why, refused = f"{most:,} tokens", None
    try:
        for token in _tokens(models, queries, ids, most, stream or SystemStream()):
            if token == models.vocabulary.end:
                why = "the end of the text"
                break
            found.append(token)
    except Denied as denied:
        why, refused = "no more tokens are paid for", str(denied)
    return Answered(
        prompt, spoken(models.vocabulary, found, "the tokenizer"), len(found), why, queries.taken(), queries.total, refused
    )


def _tokens(models: Ensemble, queries: QueryBudget, prompt: list[int], most: int, stream: Stream) -> Iterator[int]:
    """Each is counted before anything of it is drawn."""
    context = list(prompt)
    for _ in range(most):
        queries.take()
        context.append(models.token(context, stream))
        yield context[-1]
