"""The public model, the private texts in shards, and the models of these: each learns in a process of its own.

Texts are sharded by unit first, then cut into records. A fitted model of the user's own code answers from a process of its own, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, cast

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import (
    PUBLIC,
    LanguageModel,
    Tokens,
    Tunable,
    Vocabulary,
    content_of,
    next_token,
    on_private,
    require_ids,
    require_same_content,
)
from dpcli.predict.models.model_loading import language_model, require_same_vocabulary, require_token_texts, size_of, vocabulary_of
from dpcli.predict.models.ngram import public_ngram
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts, public_texts
from dpcli.predict.pmixed.pmixed_plan import COUNTING, Pmixed, PmixedPlan
from dpcli.predict.shard_processes import ResidentProcess, ShardProcesses
from dpcli.predict.shards import shards_of, spread_names
from dpcli.predict.warmed_process import Preparation

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Tuning


Records = list[list[int]]
ANY = (0,)  # a context that every model is asked about
TUNE, TUNED = "the public model: tune", "the public model: tuned"  # where messages begin
KILLED_MESSAGE = "a process of a fitted model was killed, or out of memory"
TUNING_GONE = "a process that fine-tunes a model was killed, or out of memory: models that were made are kept, and --resume goes on"


@dataclass(frozen=True, slots=True)
class PublicSide:
    """The public model and its vocabulary.

    Attributes:
        length: Length of a record.
        content: Content of the model.
    """

    model: Tunable
    vocabulary: Vocabulary
    length: int
    content: str

    def records(self, texts: Sequence[str]) -> Records:
        """Return each text with the token that closes it, in pieces of at most `length` tokens.

        Raises:
            InputError: If the tokenizer has tokens that the model does not know.
        """
        records = records_of(self.vocabulary, texts, self.length)
        require_ids((token for record in records for token in record), self.model.vocabulary)
        return records

    def private_records(self, texts: Sequence[str]) -> Records:
        """Return the records of private texts. Raises InputError if the tokenizer fails, without its words, which may quote one."""
        return cast(Records, on_private("the tokenizer", self.records, texts))

    def require_usable(self) -> None:
        """Raise InputError if the public model fails, or may draw tokens that its vocabulary has no text for."""
        require_token_texts(self.vocabulary, next_token(self.model, ANY, PUBLIC), "pmixed.tokenizer")

    def taught(self, records: Records) -> bytes:
        """Return what a model learns from private records, called in a process of its own, as the public model may change with it.

        Raises:
            InputError: If it fails, without its words.
        """
        learnt = on_private(TUNE, self.model.tune, records)
        if not isinstance(learnt, bytes):
            raise InputError(f"{TUNE}: expected bytes, found {type(learnt).__name__}")
        return learnt

    def tuned(self, learnt: bytes) -> LanguageModel:
        """Return the fitted model. Raises InputError, without its words, where it fails, and where it has other tokens."""
        model = cast(LanguageModel, on_private(TUNED, self.model.tuned, learnt))
        on_private(TUNED, require_same_vocabulary, self.model, model, TUNED)
        return model

    def rehearse(self) -> None:
        """Raise InputError if a model that has learnt nothing, as of an empty shard, fails or has other tokens."""
        self.tuned(self.taught([]))


def records_of(vocabulary: Vocabulary, texts: Sequence[str], length: int) -> Records:
    """Return each text with the token that closes it, in pieces of at most `length` tokens."""
    end = vocabulary.end
    closed = ([*vocabulary.ids(text), *([] if end is None else [end])] for text in texts)
    return [ids[start : start + length] for ids in closed for start in range(0, len(ids), length)]


def public_side(table: Pmixed, path: str) -> PublicSide:
    """Return the public side that [pmixed] states. Raises InputError if its model cannot be loaded, or cannot be fine-tuned."""
    if table.model == COUNTING:
        assert table.public is not None and table.tokenizer is not None
        vocabulary = vocabulary_of(table.tokenizer, path, "pmixed")
        texts = public_texts(table.public, path, "pmixed.public", table.record)
        records = records_of(vocabulary, texts, table.context)
        model = public_ngram(records, table.ngram, size_of(vocabulary, path, "pmixed"))
        return PublicSide(model, vocabulary, table.context, content_of(model, vocabulary))
    loaded, vocabulary = language_model(table.model, table.tokenizer, path, "pmixed", _tuning(table), table.device)
    if not all(hasattr(loaded, name) for name in ("tune", "tuned")):
        raise InputError(
            f"{path}: pmixed.model: expected a model with tune and tuned, which fine-tune it, found {type(loaded).__name__}"
        )
    if getattr(loaded, "tuning", table) is None:
        raise InputError(f"{path}: pmixed.lora: expected the adapters that {table.model} is fine-tuned by")
    if table.context > loaded.context:
        raise InputError(f"{path}: pmixed.context: expected at most the model's {loaded.context} tokens, found {table.context}")
    tunable: Tunable = loaded  # type: ignore[assignment]
    return PublicSide(tunable, vocabulary, table.context, content_of(tunable, vocabulary))


def _tuning(table: Pmixed) -> Tuning | None:
    if table.lora is None:
        return None
    from dpcli.base.extras import require

    require("torch", "peft", "safetensors")
    from dpcli.predict.models.transformer import Tuning

    return Tuning(table.lora, table.learning_rate, table.epochs, table.batch_size)


def private_texts(plan: PmixedPlan) -> OwnedTexts:
    """Return the private texts. Raises InputError, which quotes none of them, where they cannot be read."""
    table = plan.pmixed
    return owned_texts(TextSource(table.data, plan.path, "pmixed.data", table.text, table.units, table.record, plan.rows))


def shard_texts(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """Return the texts of each shard, in order.

    Which shard a text is in depends on its unit alone, so that one change reaches one shard. Without units: under replace-one on its place,
    which stays when what it says changes; elsewhere on what it says, as its place moves when others come and go, or are blanked: a blank
    text is none. Where a whole shard comes or goes, each unit is one.
    """
    shards = plan.spec.shards
    if plan.spec.change == "remove-shard":
        places = _by_unit(plan, texts)
    else:
        names = spread_names(texts.units, plan.pmixed.units is not None, plan.pipeline.privacy.adjacency)
        places = shards_of(names, shards, plan.pmixed.salt)
    return [[texts.texts[place] for place in own if texts.texts[place].strip()] for own in places]


def _by_unit(plan: PmixedPlan, texts: OwnedTexts) -> list[list[int]]:
    units: dict[str | int, list[int]] = {}
    for place, unit in enumerate(texts.units):
        units.setdefault(unit, []).append(place)
    if len(units) != plan.spec.shards:
        raise InputError(
            f"{plan.path}: pmixed.units: expected {plan.spec.shards} units, as each is a shard that may come or go (how many there are is "
            "private)"
        )
    return [units[unit] for unit in sorted(units, key=str)]


@dataclass(frozen=True, slots=True)
class ShardTuning:
    """The work on shards: a method of the public side, which is built once, in the process that others are forked from."""

    table: Pmixed
    path: str
    place: str = "the models of shards"

    def prepared(self) -> Preparation:
        side = public_side(self.table, self.path)
        getattr(side.model, "ready", lambda: None)()
        return Preparation(side.content, lambda work: work(side))


@contextmanager
def tuning_processes(plan: PmixedPlan, side: PublicSide) -> Iterator[ShardProcesses]:
    """Start the processes in which models learn.

    Args:
        side: What is public, by which nothing private is asked.

    Raises:
        InputError: If the public model is another one when it is built again.
    """
    with ShardProcesses(ShardTuning(plan.pmixed, plan.path), TUNING_GONE) as processes:
        require_same_content(side.content, processes.content)
        yield processes


def cut_records(processes: ShardProcesses, shards: Sequence[Sequence[str]]) -> list[Records]:
    """Return the records of each shard. Raises InputError as `PublicSide.private_records` does."""
    records = dict(processes.results((shard, methodcaller("private_records", texts)) for shard, texts in enumerate(shards)))
    return [records[shard] for shard in range(len(shards))]


def rehearse(processes: ShardProcesses) -> None:
    """Raise InputError as `PublicSide.rehearse` does."""
    list(processes.results([(0, methodcaller("rehearse"))]))


def teach_shards(processes: ShardProcesses, records: Iterable[tuple[int, Records]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each shard, and what a model learns from its records alone."""
    return processes.results((shard, methodcaller("taught", own)) for shard, own in records)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model in another process."""

    vocabulary: int
    context: int
    process: ResidentProcess

    def next_token(self, contexts: Sequence[Tokens]) -> Array:
        return self.answer(partial(_next_token, contexts=contexts))

    def answer(self, question: Callable[[LanguageModel], Array]) -> Array:
        """Return what a function says of the model. Raises InputError if it raises, without its words, or the process is gone."""
        self.process.ask(question)
        return np.asarray(self.process.answer())


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """A model that computes its answer about one context in another process.

    Attributes:
        begun: False if that process is gone.
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
    """Return the model for one answer about this context, which a model in a process of its own begins to compute."""
    if not isinstance(model, FittedModel):
        return model
    try:
        model.process.ask(partial(_next_token, contexts=[context]))
    except InputError:
        return PendingAnswer(model.vocabulary, model.context, model.process, False)
    return PendingAnswer(model.vocabulary, model.context, model.process, True)


def fitted_models(plan: PmixedPlan, side: PublicSide, learnt: Iterable[bytes]) -> tuple[LanguageModel, ...]:
    """Return the fitted model of each shard, by what it has learnt.

    Those of dpcli itself and of transformers, without code of the user's, answer in this process: they keep nothing of what they are asked,
    and an adapter is put in place whole for each answer.

    Raises:
        InputError: If one of them fails, or the public model is another one when it is built again.
    """
    if ":" not in plan.pmixed.model:
        return tuple(map(side.tuned, learnt))
    processes = ShardProcesses(ShardTuning(plan.pmixed, plan.path), KILLED_MESSAGE)
    require_same_content(side.content, processes.content)
    model = side.model
    return tuple(
        FittedModel(model.vocabulary, model.context, one)
        for one in processes.residents(methodcaller("tuned", one) for one in learnt)
    )


def _next_token(model: LanguageModel, contexts: Sequence[Tokens]) -> Array:
    return np.asarray(model.next_token(contexts))
