"""The public model, the private texts in shards, and the model that is fine-tuned on each shard.

Each model is fine-tuned in a separate process. Texts are first sharded by unit, and then cut into records. A fitted model from the user's
code also answers from a separate process.
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
from dpcli.predict.shards import shards_of, unit_names
from dpcli.predict.warmed_process import Preparation

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Tuning


Records = list[list[int]]
ANY = (0,)  # a context that every model can answer
TUNE, TUNED = "the public model: tune", "the public model: tuned"  # beginnings of messages
KILLED_MESSAGE = "a process of a fitted model was killed, or ran out of memory"
TUNING_KILLED_MESSAGE = "a process that fine-tunes a model was killed, or ran out of memory: --resume continues with the next model"


@dataclass(frozen=True, slots=True)
class PublicSide:
    """The public model and its vocabulary.

    Attributes:
        length: Largest number of tokens of a record.
        content: Content of the model and its vocabulary, as `content_of` returns it.
    """

    model: Tunable
    vocabulary: Vocabulary
    length: int
    content: str

    def records(self, texts: Sequence[str]) -> Records:
        """Return the records of the texts, of at most `length` tokens each.

        Raises:
            InputError: If the tokenizer returns tokens that the model does not know.
        """
        records = records_of(self.vocabulary, texts, self.length)
        require_ids((token for record in records for token in record), self.model.vocabulary)
        return records

    def private_records(self, texts: Sequence[str]) -> Records:
        """Return the records of private texts.

        Raises InputError if the tokenizer fails. The tokenizer's message is omitted, as it may quote a text.
        """
        return cast(Records, on_private("the tokenizer", self.records, texts))

    def require_usable(self) -> None:
        """Raise InputError if the public model fails, or gives probability to a token without a text."""
        require_token_texts(self.vocabulary, next_token(self.model, ANY, PUBLIC), "pmixed.tokenizer")

    def learn(self, records: Records) -> bytes:
        """Return the parameters that a model learns from private records.

        This must be called in a separate process, as learning may change the public model.

        Raises:
            InputError: If learning fails. The error omits the original message.
        """
        learnt = on_private(TUNE, self.model.tune, records)
        if not isinstance(learnt, bytes):
            raise InputError(f"{TUNE}: expected bytes, found {type(learnt).__name__}")
        return learnt

    def tuned(self, learnt: bytes) -> LanguageModel:
        """Return the fitted model. Raises InputError, without the original message, if it fails or has another vocabulary."""
        model = cast(LanguageModel, on_private(TUNED, self.model.tuned, learnt))
        on_private(TUNED, require_same_vocabulary, self.model, model, TUNED)
        return model

    def rehearse(self) -> None:
        """Raise InputError if fitting a model to an empty shard fails, or changes the vocabulary."""
        self.tuned(self.learn([]))


def records_of(vocabulary: Vocabulary, texts: Sequence[str], length: int) -> Records:
    """Return the records of the texts: each text is followed by the end token, and cut into pieces of at most `length` tokens."""
    end = vocabulary.end
    ended = ([*vocabulary.ids(text), *([] if end is None else [end])] for text in texts)
    return [ids[start : start + length] for ids in ended for start in range(0, len(ids), length)]


def public_side(table: Pmixed, path: str) -> PublicSide:
    """Return the public model that [pmixed] states. Raises InputError if it cannot be loaded, or cannot be fine-tuned."""
    if table.model == COUNTING:
        assert table.public is not None and table.tokenizer is not None
        vocabulary = vocabulary_of(table.tokenizer, path, "pmixed")
        texts = public_texts(table.public, path, "pmixed.public", table.record)
        records = records_of(vocabulary, texts, table.context)
        model = public_ngram(records, table.ngram, size_of(vocabulary, path, "pmixed"))
        return PublicSide(model, vocabulary, table.context, content_of(model, vocabulary))
    loaded, vocabulary = language_model(table.model, table.tokenizer, path, "pmixed", _tuning(table), table.device)
    if not all(hasattr(loaded, name) for name in ("tune", "tuned")):
        raise InputError(f"{path}: pmixed.model: expected a model with the methods tune and tuned, found {type(loaded).__name__}")
    if getattr(loaded, "tuning", table) is None:
        raise InputError(f"{path}: pmixed.lora: expected the settings of the adapters that fine-tune {table.model}")
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
    """Return the private texts. Raises InputError, which quotes none of them, if they cannot be read."""
    table = plan.pmixed
    return owned_texts(TextSource(table.data, plan.path, "pmixed.data", table.text, table.units, table.record, plan.rows))


def shard_texts(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """Return the texts of each shard, in order.

    The shard of a text depends on its unit alone, so that one change affects one shard. If the file has no units, each text is a unit.
    Under replace-one, the unit is then named by its position, which does not change if the text does. Under the other adjacencies it is
    named by its content, as its position changes if other texts are added, removed or blanked. Blank texts are left out. If a change adds
    or removes a whole shard, each unit is a shard.
    """
    shards = plan.spec.shards
    if plan.spec.change == "remove-shard":
        places = _by_unit(plan, texts)
    else:
        names = unit_names(texts.units, plan.pmixed.units is not None, plan.pipeline.privacy.adjacency)
        places = shards_of(names, shards, plan.pmixed.salt)
    return [[texts.texts[place] for place in shard if texts.texts[place].strip()] for shard in places]


def _by_unit(plan: PmixedPlan, texts: OwnedTexts) -> list[list[int]]:
    units: dict[str | int, list[int]] = {}
    for place, unit in enumerate(texts.units):
        units.setdefault(unit, []).append(place)
    if len(units) != plan.spec.shards:
        raise InputError(
            f"{plan.path}: pmixed.units: expected {plan.spec.shards} units, as each is a shard that may be added or removed (their actual "
            "number is private)"
        )
    return [units[unit] for unit in sorted(units, key=str)]


@dataclass(frozen=True, slots=True)
class ShardTuning:
    """The work of the shard processes: a call of a method of the public side.

    The public side is built once, in the process from which the others are forked.
    """

    table: Pmixed
    path: str
    place: str = "the models of shards"

    def prepare(self) -> Preparation:
        side = public_side(self.table, self.path)
        getattr(side.model, "ready", lambda: None)()
        return Preparation(side.content, lambda work: work(side))


@contextmanager
def tuning_processes(plan: PmixedPlan, side: PublicSide) -> Iterator[ShardProcesses]:
    """Start the processes in which models are fine-tuned.

    Args:
        side: Public side of this process, which is never given private data.

    Raises:
        InputError: If the public model has another content when it is built again.
    """
    with ShardProcesses(ShardTuning(plan.pmixed, plan.path), TUNING_KILLED_MESSAGE) as processes:
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
    """Yield the number of each shard, and the parameters that a model learns from its records alone."""
    return processes.results((shard, methodcaller("learn", shard_records)) for shard, shard_records in records)


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
