"""The public model that is fine-tuned on the shards, with its vocabulary, and the records into which it cuts texts.

Both together are the *public side* of `dpcli pmixed`: everything that depends on no private text. A *shard* is the part of the private
texts on which one model is fitted (shard_models.py), and a *record* here is a piece of a text, of at most `pmixed.context` tokens. The
public side is built several times, and must have the same content each time (`content`). Private records are learnt in processes of their
own, since learning may change the model. Errors on private texts are replaced by a message that quotes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dpcli.audit.own_code import call_user_code
from dpcli.base.errors import InputError
from dpcli.predict.models.model_answers import (
    PUBLIC,
    LanguageModel,
    Tunable,
    Vocabulary,
    content_of,
    next_token,
    on_private,
    require_ids,
)
from dpcli.predict.models.model_loading import language_model, require_same_vocabulary, require_token_texts, size_of, vocabulary_of
from dpcli.predict.models.ngram import public_ngram
from dpcli.predict.models.texts import public_texts
from dpcli.predict.pmixed.pmixed_plan import COUNTING, Pmixed

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Tuning


Records = list[list[int]]  # the tokens of each record
ANY_CONTEXT = (0,)  # a context that every model can answer
TUNE, TUNED = "the public model: tune", "the public model: tuned"  # beginnings of messages


@dataclass(frozen=True, slots=True)
class PublicSide:
    """The public model and its vocabulary.

    Attributes:
        model: A model that can be fine-tuned: `tune` returns what it learns from records, as bytes, and `tuned` the fitted model of them.
        length: Largest number of tokens of a record.
        content: Content of the model and its vocabulary, as `content_of` returns it.
    """

    model: Tunable
    vocabulary: Vocabulary
    length: int
    content: str

    def _records(self, texts: Sequence[str]) -> Records:
        """Return the records of the texts. Raises InputError if the tokenizer returns tokens that the model does not know."""
        records = records_of(self.vocabulary, texts, self.length)
        require_ids((token for record in records for token in record), self.model.vocabulary)
        return records

    def private_records(self, texts: Sequence[str]) -> Records:
        """Return the records of private texts.

        Raises InputError if the tokenizer fails. The tokenizer's message is omitted: it may quote a text.
        """
        return cast(Records, on_private("the tokenizer", self._records, texts))

    def public_records(self, texts: Sequence[str]) -> Records:
        """Return the records of public texts. Raises InputError, with the tokenizer's message, if the tokenizer fails."""
        return cast(Records, call_user_code("the tokenizer", self._records, texts))

    def require_usable(self) -> None:
        """Raise InputError if the public model fails, or gives probability to a token without a text."""
        require_token_texts(self.vocabulary, next_token(self.model, ANY_CONTEXT, PUBLIC), "pmixed.tokenizer")

    def learn(self, records: Records) -> bytes:
        """Return the parameters that a model learns from private records.

        This must be called in a separate process, because learning may change the public model.

        Raises InputError if learning fails. The error omits the original message.
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

    def try_empty_shard(self) -> None:
        """Raise InputError if fitting a model to an empty shard fails, or changes the vocabulary."""
        self.tuned(self.learn([]))


def records_of(vocabulary: Vocabulary, texts: Sequence[str], length: int) -> Records:
    """Return the records of the texts: each text is followed by the end token, and cut into pieces of at most `length` tokens."""
    end_tokens = [] if vocabulary.end is None else [vocabulary.end]
    records = []
    for text in texts:
        ids = [*vocabulary.ids(text), *end_tokens]
        records += [ids[start : start + length] for start in range(0, len(ids), length)]
    return records


def public_side(table: Pmixed, path: str) -> PublicSide:
    """Return the public model that [pmixed] states. Raises InputError if it cannot be loaded, or cannot be fine-tuned."""
    model, vocabulary = _counting_model(table, path) if table.model == COUNTING else _loaded_model(table, path)
    return PublicSide(model, vocabulary, table.context, content_of(model, vocabulary))


def _counting_model(table: Pmixed, path: str) -> tuple[Tunable, Vocabulary]:
    """Return dpcli's own model, which counts the tokens of public texts, and its vocabulary."""
    assert table.public is not None and table.tokenizer is not None
    vocabulary = vocabulary_of(table.tokenizer, path, "pmixed")
    texts = public_texts(table.public, path, "pmixed.public", table.record)
    records = call_user_code("the tokenizer", records_of, vocabulary, texts, table.context)
    return public_ngram(records, table.ngram, size_of(vocabulary, path, "pmixed")), vocabulary


def _loaded_model(table: Pmixed, path: str) -> tuple[Tunable, Vocabulary]:
    """Return the model that a folder, a name or the user's function gives, and its vocabulary."""
    model, vocabulary = language_model(table.model, table.tokenizer, path, "pmixed", _tuning(table), table.device)
    if not (hasattr(model, "tune") and hasattr(model, "tuned")):
        raise InputError(f"{path}: pmixed.model: expected a model with the methods tune and tuned, found {type(model).__name__}")
    if hasattr(model, "tuning") and model.tuning is None:  # a torch model, which only adapters can fine-tune
        raise InputError(f"{path}: pmixed.lora: expected the settings of the adapters that fine-tune {table.model}")
    if table.context > model.context:
        raise InputError(f"{path}: pmixed.context: expected at most the model's {model.context} tokens, found {table.context}")
    return cast("Tunable", model), vocabulary


def _tuning(table: Pmixed) -> Tuning | None:
    """Return the parameters for training the adapters; None if the file has no adapters."""
    if table.lora is None:
        return None
    from dpcli.base.extras import require

    require("torch", "peft", "safetensors")
    from dpcli.predict.models.transformer import Tuning

    return Tuning(table.lora, table.learning_rate, table.epochs, table.batch_size)
