"""Fitted models: each of the user's own code answers from a process of its own, and is in the answers of no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.apart import Apart, Staying
from dpcli.predict.models.content import require_same_content
from dpcli.predict.models.port import LanguageModel, Tokens
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.shared import PublicSide
from dpcli.predict.pmixed.tuning import ShardTuning

GONE = "a process of a fitted model was killed, or out of memory"


@dataclass(frozen=True, slots=True)
class Take:
    """What a model has learnt, of which it is made."""

    learnt: bytes

    def done(self, side: PublicSide) -> LanguageModel:
        return side.tuned(self.learnt)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model in another process."""

    vocabulary: int
    context: int
    process: Staying

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.asked(partial(_next_token, contexts=contexts))

    def asked(self, question: Callable[[LanguageModel], Array]) -> Array:
        """What a function says of the model there. Raises InputError where it raises, without its words, or the process is gone."""
        self.process.ask(question)
        return np.asarray(self.process.answer())


@dataclass(frozen=True, slots=True)
class Answering:
    """A model that was asked about one context, whose answer is waited for when that is needed."""

    vocabulary: int
    context: int
    process: Staying
    begun: bool

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        if not self.begun:
            raise InputError(GONE)
        return np.asarray(self.process.answer())


def begun(model: LanguageModel, context: Tokens) -> LanguageModel:
    """The model, to be asked about this context alone, and only once: one in a process of its own begins at once."""
    if not isinstance(model, FittedModel):
        return model
    try:
        model.process.ask(partial(_next_token, contexts=[context]))
    except InputError:
        return Answering(model.vocabulary, model.context, model.process, False)
    return Answering(model.vocabulary, model.context, model.process, True)


def members(plan: PmixedPlan, side: PublicSide, learnt: Iterable[bytes]) -> tuple[LanguageModel, ...]:
    """A model for each that has learnt that.

    Those of dpcli itself and of transformers, without code of the user's, answer in this process: they keep nothing of what they are asked,
    and an adapter is put in place whole for each answer.

    Raises InputError where one of them cannot be had, or the public model is another one when it is built again.
    """
    if ":" not in plan.settings.model:
        return tuple(map(side.tuned, learnt))
    apart = Apart(ShardTuning(plan.settings, plan.path), GONE)
    require_same_content(side.content, apart.content)
    model = side.model
    return tuple(FittedModel(model.vocabulary, model.context, one) for one in apart.staying(map(Take, learnt)))


def _next_token(model: LanguageModel, contexts: Sequence[Tokens]) -> Array:
    return np.asarray(model.next_token(contexts))
