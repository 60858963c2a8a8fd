"""Models of private shards: each learns in a process of its own; one of the user's own code answers from a process of its own, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import require_same_content
from dpcli.predict.models.port import LanguageModel, Tokens
from dpcli.predict.pmixed.pmixed_plan import Pmixed, PmixedPlan
from dpcli.predict.pmixed.public_side import PublicSide, Records, public_side
from dpcli.predict.shard_processes import Apart, Staying, cores
from dpcli.predict.warmed_process import Preparation

TUNING_GONE = (
    "a process that fine-tunes a model was killed, or out of memory: the models that were made are kept, and --resume goes on"
)


@dataclass(frozen=True, slots=True)
class ShardTuning:
    """The public side, built in the process that others are forked from."""

    table: Pmixed
    path: str
    place: str = "the models of shards"

    def prepared(self) -> Preparation:
        side = public_side(self.table, self.path)
        getattr(side.model, "ready", lambda: None)()
        return Preparation(side.content, lambda work: work.done(side))


@dataclass(frozen=True, slots=True)
class Cut:
    """The texts of a shard, to be cut into records."""

    texts: Sequence[str]

    def done(self, side: PublicSide) -> Records:
        records = side.private_records(self.texts)
        side.require_known(records)
        return records


@dataclass(frozen=True, slots=True)
class Learn:
    """The records of a shard, of which a model learns."""

    records: Records

    def done(self, side: PublicSide) -> bytes:
        return side.taught(self.records)


@dataclass(frozen=True, slots=True)
class Rehearse:
    """An empty shard, of which a model learns too."""

    def done(self, side: PublicSide) -> None:
        side.tuned(side.taught([]))


@contextmanager
def tuning(plan: PmixedPlan, side: PublicSide) -> Iterator[Apart]:
    """Start the processes in which models learn.

    side: what is public, by which nothing private is asked. Raises InputError where the public model is another one when it is built again.
    """
    with Apart(ShardTuning(plan.pmixed, plan.path), TUNING_GONE, threads=cores()) as apart:
        require_same_content(side.content, apart.content)
        yield apart


def cut(apart: Apart, shards: Sequence[Sequence[str]]) -> list[Records]:
    """Return the records of each shard. Raises InputError where the tokenizer fails, or has tokens that the model does not know."""
    records = dict(apart.each((shard, Cut(texts)) for shard, texts in enumerate(shards)))
    return [records[shard] for shard in range(len(shards))]


def rehearsed(apart: Apart) -> None:
    """Raise InputError where a model that has learnt nothing fails, or has other tokens than the public one."""
    list(apart.each([(0, Rehearse())]))


def taught(apart: Apart, records: Iterable[tuple[int, Records]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each shard, and what a model learns from its records alone."""
    return apart.each((shard, Learn(own)) for shard, own in records)


GONE = "a process of a fitted model was killed, or out of memory"


@dataclass(frozen=True, slots=True)
class Take:
    """The bytes that a model has learnt, of which it is made."""

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
        return self.answer(partial(_next_token, contexts=contexts))

    def answer(self, question: Callable[[LanguageModel], Array]) -> Array:
        """Return what a function says of the model. Raises InputError where it raises, without its words, or the process is gone."""
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
    """Return the model, to be asked about this context alone, and only once: one in a process of its own begins at once."""
    if not isinstance(model, FittedModel):
        return model
    try:
        model.process.ask(partial(_next_token, contexts=[context]))
    except InputError:
        return Answering(model.vocabulary, model.context, model.process, False)
    return Answering(model.vocabulary, model.context, model.process, True)


def members(plan: PmixedPlan, side: PublicSide, learnt: Iterable[bytes]) -> tuple[LanguageModel, ...]:
    """Return a model for each that has learnt that.

    Those of dpcli itself and of transformers, without code of the user's, answer in this process: they keep nothing of what they are asked,
    and an adapter is put in place whole for each answer.

    Raises InputError where one of them fails, or the public model is another one when it is built again.
    """
    if ":" not in plan.pmixed.model:
        return tuple(map(side.tuned, learnt))
    apart = Apart(ShardTuning(plan.pmixed, plan.path), GONE)
    require_same_content(side.content, apart.content)
    model = side.model
    return tuple(FittedModel(model.vocabulary, model.context, one) for one in apart.staying(map(Take, learnt)))


def _next_token(model: LanguageModel, contexts: Sequence[Tokens]) -> Array:
    return np.asarray(model.next_token(contexts))
