"""The ensemble that answers prompts: for each token, models are drawn, each is projected, and the token is drawn from their average.

`dpcli pmixed predict` calls `answer_prompt`. The *ensemble* of PMixED is the public model and one fitted model for each shard of the
private texts (ensemble_fit.py). A *projection* moves a model's probabilities to within a *radius* of the public ones (projection.py), which
bounds what one shard can change. A *mode* is a protocol of projecting: `Sound` has the guarantee, `Paper` is the published protocol, which
has none (published_protocol.py). Probabilities are summed as *multiples* of 2^-50, so that sums and draws are exact. Each token is counted
durably before it is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dpcli.base.errors import Denied, InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import (
    PUBLIC,
    LanguageModel,
    Tokens,
    Vocabulary,
    default_on_error,
    next_token,
    private_rows,
    require_same_content,
    text_of_tokens,
    token_ids,
)
from dpcli.predict.models.model_loading import require_fits
from dpcli.predict.pmixed.ensemble_fit import FITTED, Fit, read_fit, read_model
from dpcli.predict.pmixed.pmixed_plan import PmixedPlan
from dpcli.predict.pmixed.projection import Projection, ball, clip, draw_token, mix, sample_models, whole_ball, whole_multiples
from dpcli.predict.pmixed.public_side import PublicSide, public_side
from dpcli.predict.pmixed.published_protocol import Published, renyi_ball
from dpcli.predict.pmixed.shard_models import fitted_models, start_answer
from dpcli.predict.query_counts import AnswerCounter
from dpcli.random.streams import Stream, SystemStream

if TYPE_CHECKING:
    from dpcli.predict.pmixed.projection import Multiples

PROJECTIONS: dict[str, Projection] = {"clip": clip, "mix": mix}


class ModelSum(NamedTuple):
    """The sum of the projections of several models, in multiples of 2^-50, and the number of models."""

    total: Multiples
    models: int


class Mode(Protocol):
    """A protocol for projecting models. All arrays are probabilities, (vocabulary,), and `public` adds up to 1.

    `public` are the public model's probabilities of the next token. `private` are the probabilities of each fitted model that was drawn for
    it (`total`), or of one of them (`projected`). An answer is drawn from the integers of `total`; token_losses.py measures `projected`.
    """

    def total(self, public: Array, private: Sequence[Array]) -> ModelSum:
        """Return the sum of the projected models; the public model alone if there are none."""
        ...

    def projected(self, public: Array, private: Array, drawn: int) -> Array:
        """Return the projection of one model, if `drawn` models participate."""
        ...


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound protocol: each model is projected to within a radius of the public one, independently of the others.

    The multiples from which tokens are drawn are within the radius exactly.
    """

    radius: float
    projection: Projection = clip

    def total(self, public: Array, private: Sequence[Array]) -> ModelSum:
        around = ball(public, self.radius)
        bounds = whole_ball(around)
        if not private:
            return ModelSum(bounds.public.astype(np.int64), models=1)
        total = np.zeros(len(public), np.int64)
        for model_row in private:
            total += bounds.rounded(self.projection(around, model_row))
        return ModelSum(total, len(private))

    def projected(self, public: Array, private: Array, drawn: int) -> Array:
        return self.projection(ball(public, self.radius), private)


@dataclass(frozen=True, slots=True)
class Paper:
    """The published protocol, whose radius depends on the number of models drawn. It is not a DP guarantee."""

    published: Published
    # Radius by the number of drawn models. Each is solved for once.
    _radii: dict[int, float] = field(default_factory=dict, init=False, compare=False)

    def total(self, public: Array, private: Sequence[Array]) -> ModelSum:
        if not private:
            return ModelSum(whole_multiples(public), models=1)
        total = np.zeros(len(public), np.int64)
        for model_row in private:
            total += whole_multiples(self.projected(public, model_row, drawn=len(private)))
        return ModelSum(total, len(private))

    def projected(self, public: Array, private: Array, drawn: int) -> Array:
        return renyi_ball(public, float(self.published.order), self._radius(drawn)).mixed(private)

    def _radius(self, drawn: int) -> float:
        if drawn not in self._radii:
            self._radii[drawn] = self.published.radius(drawn)
        return self._radii[drawn]


def probabilities(log_probabilities: Array, temperature: float) -> Array:
    """Return probabilities at a temperature, along the last axis, from log-probabilities."""
    with np.errstate(all="ignore"):  # Invalid answers, such as NaN, stay invalid and are handled later.
        weights = np.exp((log_probabilities - log_probabilities.max(axis=-1, keepdims=True)) / temperature)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Ensemble:
    """A public model, and one fitted model for each shard."""

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
        """Return the mode that the file states."""
        if self.plan.published is not None:
            return Paper(self.plan.published)
        return Sound(self.plan.spec.radius, PROJECTIONS[self.plan.pmixed.projection])

    def token(self, context: Tokens, stream: Stream) -> int:
        """Draw the participating models, and then a token after a context from their average."""
        temperature = self.plan.pmixed.temperature
        drawn = sample_models(stream, len(self.members), self.plan.spec.model_rate)
        public = probabilities(next_token(self.public, context, PUBLIC), temperature)
        private = [probabilities(row, temperature) for row in self._private_rows(drawn, context)]
        total, models = self.mode.total(public, private)
        return draw_token(total, models, stream)

    def _private_rows(self, drawn: Sequence[int], context: Tokens) -> list[Array]:
        """Return the log-probabilities of the drawn private models.

        If a model fails, its row is NaN, and it counts as the public model. An error would reveal something about the private data.
        """
        models = [self.members[number] for number in drawn]
        joint_rows = self._joint_rows(models, context)
        if joint_rows is not None:
            return joint_rows
        started = [start_answer(model, context) for model in models]  # All processes compute at the same time.
        return [private_rows(model, [context], self.public.vocabulary)[0] for model in started]

    def _joint_rows(self, models: Sequence[LanguageModel], context: Tokens) -> list[Array] | None:
        """Return the log-probabilities of the models by one joint pass (models/transformer.py); None if they are asked one at a time.

        The number of models in one joint pass may change the last bits of all answers. A joint pass is therefore used only if a change of
        the data cannot change that number.
        """
        joint_next_token = getattr(self.public, "joint_next_token", None)
        if joint_next_token is None or self.plan.spec.change != "replace-shard":
            return None
        rows: Array | None = default_on_error(lambda: joint_next_token(models, context), None)
        if rows is None or rows.shape != (len(models), self.public.vocabulary):
            return None
        return [row if np.isfinite(row.max()) else np.full_like(row, np.nan) for row in rows]


@dataclass(frozen=True, slots=True)
class EnsembleAnswer:
    """An answer to a prompt.

    Attributes:
        text: Text of the answer, without the prompt.
        tokens: Number of its tokens.
        ended_by: Reason why the answer ended.
        taken, total: Number of tokens counted so far, and number of tokens that were paid for.
        refusal: Message if no more tokens are paid for; None otherwise.
    """

    prompt: str
    text: str
    tokens: int
    ended_by: str
    taken: int
    total: int
    refusal: str | None


def ensemble(plan: PmixedPlan) -> Ensemble:
    """Return the fitted models of a plan. Raises InputError if there are none, or they belong to another file or public model."""
    fit, side = read_fit(plan), public_side(plan.pmixed, plan.path)
    require_same_content(fit.public, side.content)
    if len(fit.models) != plan.spec.shards:
        raise InputError(f"{plan.folder}: expected {plan.spec.shards} fitted models, found {len(fit.models)}")
    learnt = [read_model(plan, fit, shard) for shard in range(plan.spec.shards)]
    return Ensemble(plan, fit, side, fitted_models(plan, side, learnt))


def ensemble_if_fitted(plan: PmixedPlan) -> Ensemble | None:
    """Return the fitted models of a plan; None if none were fitted, so that `dpcli pmixed evaluate` fits its own."""
    return ensemble(plan) if os.path.exists(os.path.join(plan.folder, FITTED)) else None


def answer_prompt(
    models: Ensemble, counter: AnswerCounter, prompt: str, max_tokens: int, stream: Stream | None = None
) -> EnsembleAnswer:
    """Return text after a prompt, of at most `max_tokens` tokens, which ends before the end token.

    Raises:
        InputError: If the prompt is too long, or the vocabulary has no tokens for it.
        LedgerError: If the count cannot be written. No token is then drawn.
    """
    ids = token_ids(models.vocabulary, prompt, models.public.vocabulary, "the tokenizer")
    require_fits(models.public, ids, max_tokens)
    answer: list[int] = []
    ended_by, refusal = f"{max_tokens:,} tokens", None
    try:
        for token in _tokens(models, counter, ids, max_tokens, stream or SystemStream()):
            if token == models.vocabulary.end:
                ended_by = "the end of the text"
                break
            answer.append(token)
    except Denied as denied:
        ended_by, refusal = "no more tokens are paid for", str(denied)
    text = text_of_tokens(models.vocabulary, answer, "the tokenizer")
    return EnsembleAnswer(
        prompt, text, tokens=len(answer), ended_by=ended_by, taken=counter.taken(), total=counter.total, refusal=refusal
    )


def _tokens(models: Ensemble, counter: AnswerCounter, prompt: list[int], max_tokens: int, stream: Stream) -> Iterator[int]:
    """Yield tokens. Each token is counted before it is drawn."""
    context = list(prompt)
    for _ in range(max_tokens):
        counter.take()
        token = models.token(context, stream)
        context.append(token)
        yield token
