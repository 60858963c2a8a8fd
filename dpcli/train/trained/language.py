"""The trained models of the language tasks: a model that continues prompts, and a classifier of texts.

If the run was private (`description.guarantee["private"]`), whatever the model writes is post-processing. An *adapter* holds the trained
weights on top of the public model; a *soft prompt* holds trained vectors in front of the text (tasks/lm_models.py). The random numbers here
draw tokens, protect nobody, and may have a seed. `place_of` gives the path that a training file would have in the folder where a source of
the run lies now.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_language import CausalLm, Language, SoftPrompt
from dpcli.train.run.description import Description
from dpcli.train.tasks.causal_lm import perplexity, public_records
from dpcli.train.tasks.learning import Metrics, evaluation_mode
from dpcli.train.tasks.lm_models import language_model, logits
from dpcli.train.tasks.lm_texts import Tokens, encode, require_tokens, texts_of, tokens_of
from dpcli.train.tasks.soft_prompt import accuracy, prompts, scores, verbalizers
from dpcli.train.tasks.soft_prompt import public_records as labelled_records
from dpcli.train.trained.trained_model import ModelInput, Predictions, TrainedModel, label_predictions, place_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def prompts_of(question: ModelInput, train: Language) -> list[str]:
    """Return the texts of --prompt, followed by the texts of DATA.

    The texts of DATA are the lines of a .txt file, the text column of a .csv, .jsonl or .parquet file, or the result of a function.

    Raises:
        InputError: DATA cannot be read, or has a value that is not a text.
    """
    if question.source is None:
        return list(question.prompts)
    source = _absolute(question.source)
    # A [train] table of texts without labels and owners, to read DATA.
    unlabelled = CausalLm(
        task="causal-lm",
        data=source,
        model=train.model,
        clipping=train.clipping,
        learning_rate=1.0,  # not used
        text=train.text,
        context=train.context,
    )
    texts = texts_of(source, unlabelled, question.source).texts
    other_types = {type(text).__name__ for text in texts if not isinstance(text, str)}
    if other_types:
        raise InputError(f"{question.source}: expected texts, found values of type {', '.join(sorted(other_types))}")
    return [*question.prompts, *map(str, texts)]


def _absolute(source: str) -> str:
    """Return the absolute path of a file. Other sources are returned unchanged."""
    return os.path.abspath(source) if os.path.isfile(source) else source


@dataclass(frozen=True, slots=True, repr=False)
class TrainedLanguageModel(TrainedModel):
    """A trained language model."""

    train: CausalLm
    tokens: Tokens | None
    vocabulary: int

    def text(self, prompt: str, tokens: int = 64, temperature: float = 1.0, seed: int | None = None) -> str:
        """Return the model's continuation of a prompt.

        Args:
            prompt: Text to continue.
            tokens: Largest number of tokens of the continuation. The model may end the text earlier.
            temperature: Sampling temperature. 0 picks the most likely token each time.
            seed: Seed of the sampling; None for a random text. The same seed gives the same text. This costs no privacy, because only the
                model is read.

        Raises:
            InputError: The prompt has no token, or a token that is not in the model's vocabulary.
        """
        tokenizer = require_tokens(self.tokens, self.description.folder)
        ids = encode(prompt, tokenizer, "--prompt").tolist()
        if not ids or max(ids) >= self.vocabulary:
            raise InputError("--prompt: expected a text of tokens in the model's vocabulary, found an empty text or another token")
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        continuation: list[int] = []
        with evaluation_mode(self.module) as device:
            while len(continuation) < tokens:
                context = torch.tensor([[*ids, *continuation][-self.train.context :]], device=device)
                last_logits = logits(self.module, context)[0, -1].cpu().double()
                token = _draw_token(last_logits, temperature, generator)
                if token == tokenizer.end:
                    break
                continuation.append(token)
        return tokenizer.text(continuation)

    def answers(self, question: ModelInput) -> Predictions:
        rows = []
        for number, prompt in enumerate(prompts_of(question, self.train), 1):
            text = self.text(prompt, question.tokens, question.temperature, question.seed)
            rows.append((number, prompt, text))
        return Predictions(("row", "prompt", "text"), tuple(rows))

    def measured(self, source: str, path: str) -> Metrics:
        # With a path, the file names the source. Otherwise a source from the command line takes its place.
        train = self.train if path else replace(self.train, public=_absolute(source))
        public = public_records(train, self.tokens, self.vocabulary, path or source, self.description.rows)
        return perplexity(self.module, public, self.train.physical_batch_size)


def _draw_token(scores: torch.Tensor, temperature: float, generator: torch.Generator) -> int:
    """Return a random token at the given temperature. Temperature 0 gives the most probable token."""
    if temperature == 0.0:
        return int(scores.argmax())
    return int(torch.multinomial(torch.softmax(scores / temperature, 0), 1, generator=generator))


def language(train: CausalLm, description: Description) -> TrainedLanguageModel:
    """Return the language model that [train] names, with its adapter. Raises InputError if it cannot be built."""
    model = language_model(train, place_of(description, train.model), train.lora)
    tokens = tokens_of(train, place_of(description, train.tokenizer or train.model))
    return TrainedLanguageModel(model, train, description, tokens, description.count("vocabulary"))


@dataclass(frozen=True, slots=True, repr=False)
class TextClassifier(TrainedModel):
    """A frozen language model with a trained prompt that classifies texts.

    Attributes:
        label_tokens: Token of each label's word, of shape (labels,).
    """

    train: SoftPrompt
    tokens: Tokens
    vocabulary: int
    label_tokens: Tensor

    def probabilities(self, texts: Sequence[str], place: str = "texts") -> NDArray[np.float64]:
        """Return the probabilities of the labels, of shape (n, labels), in the order of the key `labels` of [train]."""
        ids = prompts(texts, self.train, self.tokens, self.vocabulary, place)
        parts = torch.split(ids, self.train.physical_batch_size)
        with evaluation_mode(self.module) as device:
            label_scores = [scores(self.module, self.label_tokens, part.to(device)).cpu() for part in parts]
        probabilities: NDArray[np.float64] = torch.softmax(torch.cat(label_scores).double(), 1).numpy()
        return probabilities

    def answers(self, question: ModelInput) -> Predictions:
        texts = prompts_of(question, self.train)
        probabilities = self.probabilities(texts, question.source or "--prompt")
        return label_predictions(probabilities.tolist(), list(self.train.labels))

    def measured(self, source: str, path: str) -> Metrics:
        train = self.train if path else replace(self.train, public=_absolute(source))
        public = labelled_records(train, self.tokens, self.vocabulary, path or source, self.description.rows)
        return accuracy(self.module, self.label_tokens, public, self.train.physical_batch_size)


def text_classifier(train: SoftPrompt, description: Description) -> TextClassifier:
    """Return the classifier that [train] describes. Raises InputError if it cannot be built."""
    place = place_of(description, train.model)
    model, vocabulary_size = language_model(train, place), description.count("vocabulary")
    tokens = require_tokens(tokens_of(train, place_of(description, train.tokenizer or train.model)), place)
    label_tokens = verbalizers(train, tokens, vocabulary_size, place)
    return TextClassifier(model, train, description, tokens, vocabulary_size, label_tokens)
