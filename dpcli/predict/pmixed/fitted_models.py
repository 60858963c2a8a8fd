"""The models that were fitted to the shards, as they answer.

A model from the user's code answers from a separate process, so that it cannot affect the answers of another fitted model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import LanguageModel, Tokens, require_same_content
from dpcli.predict.pmixed.pmixed_plan import PmixedPlan
from dpcli.predict.pmixed.public_side import PublicSide
from dpcli.predict.pmixed.shard_models import ShardTuning
from dpcli.predict.shard_processes import ResidentProcess, ShardProcesses

KILLED_MESSAGE = "a process of a fitted model was killed, or ran out of memory"


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model in another process."""

    vocabulary: int
    context: int
    process: ResidentProcess

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.answer(partial(_next_token, contexts=contexts))

    def answer(self, question: Callable[[LanguageModel], Array]) -> Array:
        """Return the result of a function of the model.

        Raises InputError if the function raises, without its message, or if the process has ended.
        """
        self.process.ask(question)
        return np.asarray(self.process.answer())


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """A model that computes its answer about one context in another process.

    Attributes:
        begun: Whether the process got the question; False if the process has ended.
    """

    vocabulary: int
    context: int
    process: ResidentProcess
    begun: bool

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        if not self.begun:
            raise InputError(KILLED_MESSAGE)
        return np.asarray(self.process.answer())


def start_answer(model: LanguageModel, context: Tokens) -> LanguageModel:
    """Return a model from which the answer about this context can be read once.

    A model in another process begins to compute the answer. Any other model is returned unchanged.
    """
    if not isinstance(model, FittedModel):
        return model
    try:
        model.process.ask(partial(_next_token, contexts=[context]))
    except InputError:
        return PendingAnswer(model.vocabulary, model.context, model.process, False)
    return PendingAnswer(model.vocabulary, model.context, model.process, True)


def fitted_models(plan: PmixedPlan, side: PublicSide, learnt: Iterable[bytes]) -> tuple[LanguageModel, ...]:
    """Return the fitted model of each shard, from its learnt parameters.

    Models of dpcli and of transformers answer in this process. They run no code of the user, and remember no context. All weights of an
    adapter are copied before each answer. A model from the user's code answers in a separate process.

    Raises:
        InputError: If a model fails, or the public model has another content when it is built again.
    """
    is_user_code = ":" in plan.pmixed.model
    if not is_user_code:
        return tuple(map(side.tuned, learnt))
    processes = ShardProcesses(ShardTuning(plan.pmixed, plan.path), KILLED_MESSAGE)
    require_same_content(side.content, processes.content)
    residents = processes.residents(methodcaller("tuned", parameters) for parameters in learnt)
    return tuple(FittedModel(side.model.vocabulary, side.model.context, resident) for resident in residents)


def _next_token(model: LanguageModel, contexts: Sequence[Tokens]) -> Array:
    return np.asarray(model.next_token(contexts))
