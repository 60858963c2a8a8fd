"""The public model of a file, its vocabulary, and the private texts in shards: by unit first, then cut into records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array
from dpcli.predict.models.asked import next_token
from dpcli.predict.models.content import content_of
from dpcli.predict.models.load import language_model, require_same_vocabulary
from dpcli.predict.models.ngram import public_ngram
from dpcli.predict.models.port import LanguageModel, Vocabulary
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts, public_texts
from dpcli.predict.models.tunable import Tunable
from dpcli.predict.models.vocabularies import size_of, vocabulary_of
from dpcli.predict.places import on_private
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.settings import COUNTING, Pmixed
from dpcli.predict.shards import shards_of, spread_names

if TYPE_CHECKING:
    from dpcli.predict.models.transformer import Tuning

Records = list[list[int]]
ANY = (0,)  # a context that every model is asked about
TUNE, TUNED = "the public model: tune", "the public model: tuned"  # where messages begin


@dataclass(frozen=True, slots=True)
class PublicSide:
    """Everything that private data have no part in. length: of a record. content: of the model."""

    model: Tunable
    vocabulary: Vocabulary
    length: int
    content: str

    def records(self, texts: Sequence[str]) -> Records:
        """Each text with the token that closes it, in pieces of at most `length` tokens."""
        return records_of(self.vocabulary, texts, self.length)

    def private_records(self, texts: Sequence[str]) -> Records:
        """The same of private texts. Raises InputError where the tokenizer fails, without its words, which may quote one."""
        return cast(Records, on_private("the tokenizer", self.records, texts))

    def said(self) -> Array:
        """What the public model says. Raises InputError where it fails."""
        return next_token(self.model, ANY, "the public model")

    def taught(self, records: Records) -> bytes:
        """What a model learns from private records, to be called in a process of their own: the public model may learn with it.

        Raises InputError where it fails, without its words.
        """
        found = on_private(TUNE, self.model.tune, records)
        if not isinstance(found, bytes):
            raise InputError(f"{TUNE}: expected bytes, found {type(found).__name__}")
        return found

    def tuned(self, learnt: bytes) -> LanguageModel:
        """The model that has learnt that. Raises InputError where there is none, without its words, or of other tokens."""
        found = cast(LanguageModel, on_private(TUNED, self.model.tuned, learnt))
        on_private(TUNED, require_same_vocabulary, self.model, found, TUNED)
        return found

    def require_known(self, records: Records) -> None:
        """Raise InputError where the tokenizer has tokens that the model does not know."""
        if any(not 0 <= token < self.model.vocabulary for record in records for token in record):
            raise InputError(
                f"expected token ids below the model's {self.model.vocabulary}, found others: the tokenizer is another model's"
            )


def records_of(vocabulary: Vocabulary, texts: Sequence[str], length: int) -> Records:
    """Each text with the token that closes it, in pieces of at most `length` tokens."""
    end = vocabulary.end
    whole = ([*vocabulary.ids(text), *([] if end is None else [end])] for text in texts)
    return [ids[start : start + length] for ids in whole for start in range(0, len(ids), length)]


def public_side(settings: Pmixed, path: str) -> PublicSide:
    """Raises InputError where the public model cannot be had, or cannot be fine-tuned."""
    if settings.model == COUNTING:
        assert settings.public is not None and settings.tokenizer is not None
        vocabulary = vocabulary_of(settings.tokenizer, path, "pmixed")
        texts = public_texts(settings.public, path, "pmixed.public", settings.record)
        records = records_of(vocabulary, texts, settings.context)
        model = public_ngram(records, settings.ngram, size_of(vocabulary, path, "pmixed"))
        return PublicSide(model, vocabulary, settings.context, content_of(model, vocabulary))
    found, vocabulary = language_model(settings.model, settings.tokenizer, path, "pmixed", _tuning(settings), settings.device)
    if not all(hasattr(found, name) for name in ("tune", "tuned")):
        raise InputError(
            f"{path}: pmixed.model: expected a model with tune and tuned, which fine-tune it, found {type(found).__name__}"
        )
    if getattr(found, "tuning", settings) is None:
        raise InputError(f"{path}: pmixed.lora: expected the adapters that {settings.model} is fine-tuned by, found none")
    if settings.context > found.context:
        raise InputError(f"{path}: pmixed.context: expected at most the model's {found.context} tokens, found {settings.context}")
    tunable: Tunable = found  # type: ignore[assignment]
    return PublicSide(tunable, vocabulary, settings.context, content_of(tunable, vocabulary))


def _tuning(settings: Pmixed) -> Tuning | None:
    if settings.lora is None:
        return None
    from dpcli.base.extras import require

    require("torch", "peft", "safetensors")
    from dpcli.predict.models.transformer import Tuning

    return Tuning(settings.lora, settings.learning_rate, settings.epochs, settings.batch_size)


def private_texts(plan: PmixedPlan) -> OwnedTexts:
    """Raises InputError, which quotes none of them, where they cannot be read."""
    settings = plan.settings
    return owned_texts(
        TextSource(settings.data, plan.path, "pmixed.data", settings.text, settings.units, settings.record, plan.rows)
    )


def sharded(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """The texts of each shard, in order.

    Which shard a text is in depends on its unit alone, so that one change reaches one shard. Without units: under replace-one on its place,
    which stays when what it says changes; elsewhere on what it says, as its place moves when others come and go, or are blanked: a blank
    text is none. Where a whole shard comes or goes, each unit is one.
    """
    shards = plan.spec.shards
    if plan.spec.change == "remove-shard":
        places = _by_unit(plan, texts)
    else:
        names = spread_names(texts.units, plan.settings.units is not None, plan.pipeline.privacy.adjacency)
        places = shards_of(names, shards, plan.settings.salt)
    return [[texts.texts[place] for place in own if texts.texts[place].strip()] for own in places]


def _by_unit(plan: PmixedPlan, texts: OwnedTexts) -> list[list[int]]:
    units: dict[str | int, list[int]] = {}
    for place, unit in enumerate(texts.units):
        units.setdefault(unit, []).append(place)
    if len(units) != plan.spec.shards:
        raise InputError(
            f"{plan.path}: pmixed.units: expected {plan.spec.shards} units, as each is a shard that may come or go, found another number"
        )
    return [units[unit] for unit in sorted(units, key=str)]
