"""The private texts in shards, the fine-tuning of one model on each shard, and the answers of the fitted models.

Texts are first dealt out to *shards* by unit of privacy, and then cut into *records*, pieces of the length that a model learns from: so one
unit, however long its texts, changes one model. The *public side* is the public model with its vocabulary (public_side.py). Each model is
fine-tuned from it in a separate process (shard_processes.py). A model from the user's code also answers from a separate process, so that it
cannot affect the answers of another fitted model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import LanguageModel, Tokens, require_same_content
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts
from dpcli.predict.pmixed.pmixed_plan import Pmixed, PmixedPlan
from dpcli.predict.pmixed.public_side import PublicSide, Records, public_side
from dpcli.predict.shard_processes import ResidentProcess, ShardProcesses
from dpcli.predict.shards import shards_of_texts
from dpcli.predict.warmed_process import Preparation

TUNING_KILLED = "a process that fine-tunes a model was killed, or ran out of memory: --resume continues with the next model"
ANSWERING_KILLED = "a process of a fitted model was killed, or ran out of memory"


def private_texts(plan: PmixedPlan) -> OwnedTexts:
    """Return the private texts. Raises InputError if they cannot be read; the message quotes no text."""
    table = plan.pmixed
    source = TextSource(
        table.data, plan.path, "pmixed.data", column=table.text, units=table.units, record=table.record, rows=plan.rows
    )
    return owned_texts(source)


def shard_texts(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """Return the texts of each shard, in order.

    The shard of a text depends on its unit alone, so that one change affects one shard. Blank texts are left out. If a change adds or
    removes a whole shard, each unit is a shard.
    """
    if plan.spec.change == "remove-shard":
        return _texts_by_unit(plan, texts)
    names_owners, adjacency = plan.pmixed.units is not None, plan.pipeline.privacy.adjacency
    shards = shards_of_texts(texts.texts, texts.units, names_owners, adjacency, plan.spec.shards, plan.pmixed.salt)
    return [[texts.texts[index] for index in indices] for indices in shards]


def _texts_by_unit(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """Return the texts of each unit. Raises InputError if the number of units is not the number of shards."""
    by_unit = texts.by_unit()
    if len(by_unit) != plan.spec.shards:
        raise InputError(
            f"{plan.path}: pmixed.units: expected {plan.spec.shards} units, as each is a shard that may be added or removed (their actual "
            "number is private)"
        )
    # In the order of the units' names, so that the order of the texts does not decide which shard is a unit's.
    return [[text for text in by_unit[unit] if text.strip()] for unit in sorted(by_unit, key=str)]


@dataclass(frozen=True, slots=True)
class ShardTuning:
    """The work of the shard processes: a call of a method of `PublicSide`, such as `learn`, with private arguments.

    `prepare` builds the public side once, in the process from which the others are forked. Messages about a failure on a shard begin with
    `place`.
    """

    table: Pmixed
    path: str
    place: str = "the models of shards"

    def prepare(self) -> Preparation:
        side = public_side(self.table, self.path)
        if hasattr(side.model, "ready"):  # The forks then inherit the layers of a transformer's adapter.
            side.model.ready()
        return Preparation(side.content, lambda work: work(side))


@contextmanager
def tuning_processes(plan: PmixedPlan, side: PublicSide) -> Iterator[ShardProcesses]:
    """Start the processes in which models are fine-tuned. `side` is the public side of this process, which gets no private data.

    Raises InputError if the public model has another content when it is built again.
    """
    with ShardProcesses(ShardTuning(plan.pmixed, plan.path), TUNING_KILLED) as processes:
        require_same_content(side.content, processes.content)
        yield processes


def cut_records(processes: ShardProcesses, shards: Sequence[Sequence[str]]) -> list[Records]:
    """Return the records of each shard. Raises InputError, which quotes no text, if the tokenizer fails."""
    calls = [(shard, partial(PublicSide.private_records, texts=texts)) for shard, texts in enumerate(shards)]
    records_by_shard = dict(processes.results(calls))
    return [records_by_shard[shard] for shard in range(len(shards))]


def try_fitting(processes: ShardProcesses) -> None:
    """Fit a model to an empty shard in a process, so that a model that cannot be fitted is refused before the charge, by InputError."""
    list(processes.results([(0, PublicSide.try_empty_shard)]))


def teach_shards(processes: ShardProcesses, records: Iterable[tuple[int, Records]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each shard, and the parameters that a model learns from its records alone."""
    return processes.results((shard, partial(PublicSide.learn, records=shard_records)) for shard, shard_records in records)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model from the user's code, which answers from a process of its own."""

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
    """A model in another process that is computing its answer about one context, which is read once, whatever context is given then."""

    vocabulary: int
    context: int
    process: ResidentProcess

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return np.asarray(self.process.answer())


def start_answer(model: LanguageModel, context: Tokens) -> LanguageModel:
    """Return a model from which the answer about this context can be read once.

    A model in another process begins to compute the answer. Any other model is returned unchanged.
    """
    if not isinstance(model, FittedModel):
        return model
    with suppress(InputError):  # If the process has ended, reading its answer raises the same error.
        model.process.ask(partial(_next_token, contexts=[context]))
    return PendingAnswer(model.vocabulary, model.context, model.process)


def fitted_models(plan: PmixedPlan, side: PublicSide, learnt: Iterable[bytes]) -> tuple[LanguageModel, ...]:
    """Return the fitted model of each shard, from its learnt parameters.

    Models of dpcli and of transformers answer in this process. They run no code of the user, and remember no context. A model from the
    user's code answers in a *resident* process, which keeps the fitted model and answers questions about it.

    Raises InputError if a model fails, or the public model has another content when it is built again.
    """
    is_user_code = ":" in plan.pmixed.model  # module:function
    if not is_user_code:
        return tuple(map(side.tuned, learnt))
    processes = ShardProcesses(ShardTuning(plan.pmixed, plan.path), ANSWERING_KILLED)  # ends when no resident is left
    require_same_content(side.content, processes.content)
    residents = processes.residents(partial(PublicSide.tuned, learnt=parameters) for parameters in learnt)
    return tuple(FittedModel(side.model.vocabulary, side.model.context, resident) for resident in residents)


def _next_token(model: LanguageModel, contexts: Sequence[Tokens]) -> Array:
    return np.asarray(model.next_token(contexts))
