"""Private contexts, in batches that a change of one unit's texts meets one of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Privacy
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.predict.decode.generate_plan import Generate
from dpcli.predict.models.loading import require_fits
from dpcli.predict.models.model_answers import next_token, require_forgetful, tokens
from dpcli.predict.models.port import LanguageModel, Tokens, Vocabulary
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts
from dpcli.predict.private_calls import unless_it_fails
from dpcli.predict.shards import shards_of, spread_names


@dataclass(frozen=True, slots=True)
class ContextFrame:
    """The tokens before and after a private text, and the public context; all public."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    prompt: tuple[int, ...]
    longest: int

    def context(self, text: Tokens) -> tuple[int, ...]:
        return (*self.before, *text[: self.longest], *self.after)


def frame_of(generate: Generate, model: LanguageModel, vocabulary: Vocabulary) -> ContextFrame:
    """Return the frame that [generate] states.

    Raises InputError where a context of the greatest length leaves no room for the tokens of a text: before any text is read, as whether
    one is too long would tell of it.
    """
    texts = (*generate.template.split("{text}"), generate.prompt)
    before, after, prompt = (tuple(tokens(vocabulary, text, model.vocabulary, "generate.tokenizer")) for text in texts)
    frame = ContextFrame(before, after, prompt, generate.longest)
    require_fits(model, frame.prompt, generate.tokens)
    require_fits(model, frame.context((0,) * generate.longest), generate.tokens)
    if not frame.prompt:
        raise InputError("generate.prompt: the tokenizer has no token for it")
    return frame


def batches(
    generate: Generate,
    path: str,
    privacy: Privacy,
    frame: ContextFrame,
    vocabulary: Vocabulary,
    words: int,
    rows: RowWindow | None = None,
) -> list[list[tuple[int, ...]]]:
    """Return the contexts of each batch, which may be of any number.

    Args:
        privacy: of its units, the first max_contributions texts are used.
        words: how many tokens the model tells apart. A text that has others, or that the tokenizer fails on, is left out.
        rows: of a table, those that may be read; all where None.

    Raises InputError where texts cannot be read.
    """
    owned = owned_texts(TextSource(generate.data, path, "generate.data", generate.text, generate.units, generate.record, rows))
    kept = (
        owned if generate.units is None else _first(owned, privacy.max_contributions or 1)
    )  # else each text is a unit, equal ones too
    nothing: tuple[int, ...] = ()
    contexts = [
        unless_it_fails(lambda text=text: frame.context(tokens(vocabulary, text, words, "")), nothing)  # type: ignore[misc]
        for text in kept.texts
    ]
    names = spread_names(kept.units, generate.units is not None, privacy.adjacency)
    return [
        [contexts[place] for place in shard if contexts[place] and kept.texts[place].strip()]
        for shard in shards_of(names, generate.batches, "texts")
    ]


def require_same_answers(model: LanguageModel, frame: ContextFrame, place: str) -> None:
    """Raise InputError where the model says something else after the prompt once it was asked another; nothing private is asked."""
    known = next_token(model, frame.prompt, place)
    for other in (frame.context(frame.prompt), frame.prompt[-1:]):
        next_token(model, other, place)
    require_forgetful(model, known, frame.prompt, place)


def _first(texts: OwnedTexts, contributions: int) -> OwnedTexts:
    seen: Counter[str | int] = Counter()
    chosen = []
    for place, unit in enumerate(texts.units):
        seen[unit] += 1
        if seen[unit] <= contributions:
            chosen.append(place)
    return OwnedTexts(tuple(texts.texts[place] for place in chosen), tuple(texts.units[place] for place in chosen))
