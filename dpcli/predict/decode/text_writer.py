"""The writer of private texts, token by token, and the batches of private contexts from which it writes.

A *context* is the file's template around one private text. The units are divided into shares by a hash of each unit, and a *batch* has the
contexts of one share. So a change of one unit changes one batch. For each token, the model is asked about the public context (the prompt)
and about every context of the batch; private_tokens.py says what is drawn from the answers. If the model or the tokenizer fails on a
private text, its context contributes nothing, because an error would reveal something about the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Privacy
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.numerics.arrays import Array, np
from dpcli.predict.decode.exact_draws import draw_token
from dpcli.predict.decode.generate_plan import Generate
from dpcli.predict.decode.private_tokens import LogitClipping, PrivateSupply, PublicTest
from dpcli.predict.models.model_answers import (
    LanguageModel,
    Tokens,
    Vocabulary,
    default_on_error,
    next_token,
    private_rows,
    require_forgetful,
    token_ids,
)
from dpcli.predict.models.model_loading import require_fits, require_token_texts
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts
from dpcli.predict.shards import shards_of_texts
from dpcli.random.streams import Stream

# Part of the hash that assigns units to batches. It need not be secret: with any hash, a change of one unit changes one batch. Another salt
# would move units to other batches.
SALT = "texts"
CONTEXTS_AT_ONCE = 64  # number of contexts whose log-probabilities are in memory at the same time; affects memory alone


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text, without the end token.

    Attributes:
        private: Number of its private tokens.
        cut: Whether it was cut short because no private tokens were left.
    """

    tokens: tuple[int, ...]
    private: int
    cut: bool


@dataclass(frozen=True, slots=True)
class NextToken:
    """The private and the public distribution of the next token, and the distance between them, which decides which one is used.

    Attributes:
        scores: Scores by which a private token is drawn, with probability proportional to e^score.
        public: Scores by which a public token is drawn.
        distance: Distance of the private contexts from the public one; 0 if all tokens are private.
    """

    scores: Array
    public: Array
    distance: int


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of one text, token by token.

    Attributes:
        prompt: Tokens of the public context.
        clips_differences: Whether the differences to the public logits are clipped, instead of the logits (see [generate] method).
        tokens: Largest number of tokens of a text.
        end: Id of the end token; None if the tokenizer has none.
        place: Beginning of messages about the model.
    """

    model: LanguageModel
    clipping: LogitClipping
    prompt: Tokens
    clips_differences: bool
    tokens: int
    end: int | None
    place: str = "model"

    def text(self, contexts: Sequence[Tokens], stream: Stream, supply: PrivateSupply | None = None) -> WrittenText:
        """Return one text of a batch.

        If not all tokens are private, a token that the public context predicts well is drawn from the public distribution, and the text is
        cut short when no private tokens are left.

        Args:
            contexts: Private contexts of the batch.
            supply: Private tokens of the batch that are paid for; None if all tokens are private.
        """
        ids: list[int] = []
        private = 0
        while len(ids) < self.tokens:
            # A *bar* is a noisy threshold for the distance. `open_bar` draws one, which is paid for, unless one is still in use.
            if supply is not None and not supply.open_bar(stream):
                return WrittenText(tuple(ids), private, cut=True)
            distributions = self.next_token(contexts, ids, None if supply is None else supply.test)
            if supply is None or supply.is_private(distributions.distance, stream):
                private += 1
                token = draw_token(distributions.scores, stream)
            else:
                token = draw_token(distributions.public, stream)
            if token == self.end:
                break
            ids.append(token)
        return WrittenText(tuple(ids), private, cut=False)

    def next_token(self, contexts: Sequence[Tokens], written: Tokens, test: PublicTest | None) -> NextToken:
        """Return the distributions of the next token of a text.

        Raises InputError if the model fails after the public context, or its answer changes after it was asked about private contexts.
        """
        public_context = (*self.prompt, *written)
        public = next_token(self.model, public_context, self.place)
        no_sums = np.zeros(len(public), np.int64)
        sums, parts = no_sums.copy(), no_sums.copy()
        for start in range(0, len(contexts), CONTEXTS_AT_ONCE):
            longer_contexts = [(*context, *written) for context in contexts[start : start + CONTEXTS_AT_ONCE]]
            private = private_rows(self.model, longer_contexts, len(public))
            # Each context adds its clipped differences to the public logits, or its clipped logits.
            sums += self.clipping.differences(private, public) if self.clips_differences else self.clipping.logits(private)
            if test is not None:  # the distributions of the contexts in whole parts, whose sum is exact in any order
                parts += sum(map(test.parts, private))
        require_forgetful(self.model, public, public_context, self.place)
        base = public if self.clips_differences else np.zeros(len(public))
        distance = 0 if test is None else test.distance(public, parts)
        # Scores are the base plus the sums' averages, divided by the temperature. Sums of 0 give the scores of the public context alone.
        return NextToken(self.clipping.scores(base, sums), self.clipping.scores(public, no_sums), distance)


@dataclass(frozen=True, slots=True)
class ContextFrame:
    """The public parts of contexts.

    Attributes:
        before, after: Tokens before and after a private text.
        prompt: Tokens of the public context.
        longest: Largest number of tokens of a private text. The rest of the text is left out.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    prompt: tuple[int, ...]
    longest: int

    def context(self, text: Tokens) -> tuple[int, ...]:
        """Return the context of a private text: its first `longest` tokens, in the frame."""
        return (*self.before, *text[: self.longest], *self.after)


def frame_of(generate: Generate, model: LanguageModel, vocabulary: Vocabulary) -> ContextFrame:
    """Return the frame that [generate] states.

    Raises InputError if a context of the largest length leaves no room for the tokens of a text. This is checked before any text is read:
    an error about a text would reveal its length.
    """
    texts = (*generate.template.split("{text}"), generate.prompt)
    before, after, prompt = (tuple(token_ids(vocabulary, text, model.vocabulary, "generate.tokenizer")) for text in texts)
    frame = ContextFrame(before, after, prompt, generate.longest)
    require_fits(model, frame.prompt, generate.tokens)
    require_fits(model, frame.context((0,) * generate.longest), generate.tokens)
    if not frame.prompt:
        raise InputError("generate.prompt: the tokenizer has no token for it")
    return frame


def context_batches(
    generate: Generate,
    path: str,
    privacy: Privacy,
    frame: ContextFrame,
    vocabulary: Vocabulary,
    vocabulary_size: int,
    rows: RowWindow | None = None,
) -> list[list[tuple[int, ...]]]:
    """Return the contexts of each batch. A batch may have any number of contexts.

    Args:
        privacy: Privacy of the file. Only the first max_contributions texts of each unit are used.
        vocabulary_size: Number of tokens in the model's vocabulary. A text with other tokens, or on which the tokenizer fails, is left out.
        rows: Rows of the data that may be read; all rows if None.

    Raises InputError if the texts cannot be read.
    """
    source = TextSource(
        generate.data, path, "generate.data", column=generate.text, units=generate.units, record=generate.record, rows=rows
    )
    private = owned_texts(source)
    if generate.units is not None:  # Without units, each text is a unit, and equal texts are one unit.
        private = _first_contributions(private, privacy.max_contributions or 1)

    def context(text: str) -> tuple[int, ...]:
        return frame.context(token_ids(vocabulary, text, vocabulary_size, ""))

    no_context: tuple[int, ...] = ()
    contexts = [default_on_error(partial(context, text), no_context) for text in private.texts]
    names_owners = generate.units is not None
    shards = shards_of_texts(private.texts, private.units, names_owners, privacy.adjacency, generate.batches, SALT)
    return [[contexts[index] for index in indices if contexts[index]] for indices in shards]


def require_usable(generate: Generate, model: LanguageModel, vocabulary: Vocabulary, frame: ContextFrame, path: str) -> None:
    """Raise InputError if the model's answer to the prompt changes after another context, or a token that may be drawn has no text.

    The model is asked only about public text. A token that the public context rules out can be drawn only if the scores ignore that
    context.
    """
    place = f"{path}: generate.model"
    answer = next_token(model, frame.prompt, place)
    for other_context in (frame.context(frame.prompt), frame.prompt[-1:]):
        next_token(model, other_context, place)
    require_forgetful(model, answer, frame.prompt, place)
    drawn = answer if generate.method == "difference" else np.zeros(len(answer))
    require_token_texts(vocabulary, drawn, f"{path}: generate.tokenizer")


def _first_contributions(texts: OwnedTexts, contributions: int) -> OwnedTexts:
    """Return the first `contributions` texts of each unit."""
    counts: Counter[str | int] = Counter()
    chosen_texts, chosen_units = [], []
    for text, unit in zip(texts.texts, texts.units, strict=True):
        counts[unit] += 1
        if counts[unit] <= contributions:
            chosen_texts.append(text)
            chosen_units.append(unit)
    return OwnedTexts(tuple(chosen_texts), tuple(chosen_units))
