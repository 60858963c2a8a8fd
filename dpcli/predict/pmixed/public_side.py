"""The public model of a file, its vocabulary, and the private texts in shards: by unit first, then cut into records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dpcli.base.errors import InputError
from dpcli.predict.models.loading import PretrainedVocabulary, language_model, require_same_vocabulary, size_of, vocabulary_of
from dpcli.predict.models.model_answers import PUBLIC, content_of, next_token, require_ids, require_spoken
from dpcli.predict.models.ngram import public_ngram
from dpcli.predict.models.port import LanguageModel, Tunable, Vocabulary
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts, public_texts
from dpcli.predict.pmixed.pmixed_plan import COUNTING, Pmixed, PmixedPlan
from dpcli.predict.private_calls import on_private
from dpcli.predict.shards import shards_of, spread_names

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Tuning

Records = list[list[int]]
ANY = (0,)  # a context that every model is asked about
TUNE, TUNED = "the public model: tune", "the public model: tuned"  # where messages begin


@dataclass(frozen=True, slots=True)
class PublicSide:
    """The public model and its vocabulary. length: of a record. content: of the model."""

    model: Tunable
    vocabulary: Vocabulary
    length: int
    content: str

    def records(self, texts: Sequence[str]) -> Records:
        """Return each text with the token that closes it, in pieces of at most `length` tokens."""
        return records_of(self.vocabulary, texts, self.length)

    def private_records(self, texts: Sequence[str]) -> Records:
        """Return the same of private texts. Raises InputError where the tokenizer fails, without its words, which may quote one."""
        return cast(Records, on_private("the tokenizer", self.records, texts))

    def require_usable(self) -> None:
        """Raise InputError where the public model fails, or may draw tokens that its vocabulary has no text for."""
        row = next_token(self.model, ANY, PUBLIC)
        if not isinstance(self.vocabulary, PretrainedVocabulary):  # which has a text, if an empty one, for any token
            require_spoken(self.vocabulary, row, "pmixed.tokenizer")

    def taught(self, records: Records) -> bytes:
        """Return what a model learns from private records, in a process of their own, as the public model may learn with it.

        Raises InputError where it fails, without its words.
        """
        learnt = on_private(TUNE, self.model.tune, records)
        if not isinstance(learnt, bytes):
            raise InputError(f"{TUNE}: expected bytes, found {type(learnt).__name__}")
        return learnt

    def tuned(self, learnt: bytes) -> LanguageModel:
        """Return the model that has learnt that. Raises InputError, without its words, where it fails, and where it has other tokens."""
        model = cast(LanguageModel, on_private(TUNED, self.model.tuned, learnt))
        on_private(TUNED, require_same_vocabulary, self.model, model, TUNED)
        return model

    def require_known(self, records: Records) -> None:
        """Raise InputError where the tokenizer has tokens that the model does not know."""
        require_ids((token for record in records for token in record), self.model.vocabulary)


def records_of(vocabulary: Vocabulary, texts: Sequence[str], length: int) -> Records:
    """Return each text with the token that closes it, in pieces of at most `length` tokens."""
    end = vocabulary.end
    closed = ([*vocabulary.ids(text), *([] if end is None else [end])] for text in texts)
    return [ids[start : start + length] for ids in closed for start in range(0, len(ids), length)]


def public_side(table: Pmixed, path: str) -> PublicSide:
    """Return the public side that [pmixed] states. Raises InputError where its model cannot be loaded, or cannot be fine-tuned."""
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


def sharded(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
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
