"""The trained models of the tasks on text: a model that continues prompts, and a classifier of texts."""

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
from dpcli.train.tasks.learning import Metrics, evaluating
from dpcli.train.tasks.lm_models import language_model, logits
from dpcli.train.tasks.lm_texts import Tokens, encoded, required_tokens, texts_of, tokens_of
from dpcli.train.tasks.soft_prompt import accuracy, prompts, scores, verbalizers
from dpcli.train.tasks.soft_prompt import public_records as labelled_records
from dpcli.train.trained.trained_model import ModelInput, Predictions, TrainedModel, classified, place_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def prompts_of(question: ModelInput, train: Language) -> list[str]:
    """Return the texts of --prompt, followed by those of DATA.

    The texts of DATA are the lines of a .txt file, the text column of a .csv, .jsonl or .parquet file, or the result of a function.
    """
    if question.source is None:
        return list(question.prompts)
    source = _absolute(question.source)
    unlabelled = CausalLm(
        task="causal-lm", data=source, model=train.model, clipping=train.clipping, learning_rate=1.0, text=train.text
    )
    texts = texts_of(source, replace(unlabelled, context=train.context), question.source).texts
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{question.source}: not texts")
    return [*question.prompts, *map(str, texts)]


def _absolute(source: str) -> str:
    """Return the absolute path of a file. Other sources are returned unchanged."""
    return os.path.abspath(source) if os.path.isfile(source) else source


@dataclass(frozen=True, slots=True, repr=False)
class TrainedLanguageModel(TrainedModel):
    """A trained language model.

    Attributes:
        tokens: Tokenizer of the model; None if the file names none.
        vocabulary: Number of tokens in the model's vocabulary.
    """

    train: CausalLm
    tokens: Tokens | None
    vocabulary: int

    def text(self, prompt: str, tokens: int = 64, temperature: float = 1.0, seed: int | None = None) -> str:
        """Return the model's continuation of a prompt.

        Args:
            tokens: At most; fewer where the model ends the text.
            temperature: 0 takes the likeliest token each time.
            seed: Seed to draw the same text again, which costs no privacy, as only the model is read.

        Raises:
            InputError: For a prompt without a token, or with one that the model does not know.
        """
        known = required_tokens(self.tokens, self.description.folder)
        ids = encoded(prompt, known, "--prompt").tolist()
        if not ids or max(ids) >= self.vocabulary:
            raise InputError("--prompt: an empty text, or one with tokens that the model does not know")
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        written: list[int] = []
        with evaluating(self.module) as device:
            while len(written) < tokens:
                seen = torch.tensor([[*ids, *written][-self.train.context :]], device=device)
                token = _draw_token(logits(self.module, seen)[0, -1].cpu().double(), temperature, generator)
                if token == known.end:
                    break
                written.append(token)
        return known.text(written)

    def answers(self, question: ModelInput) -> Predictions:
        prompts = prompts_of(question, self.train)
        rows = [
            (number, prompt, self.text(prompt, question.tokens, question.temperature, question.seed))
            for number, prompt in enumerate(prompts, 1)
        ]
        return Predictions(("row", "prompt", "text"), tuple(rows), 3)

    def measured(self, source: str, path: str) -> Metrics:
        train = self.train if path else replace(self.train, public=_absolute(source))
        public = public_records(train, self.tokens, self.vocabulary, path or source, self.description.rows)
        return perplexity(self.module, public, self.train.physical_batch_size)


def _draw_token(scores: torch.Tensor, temperature: float, generator: torch.Generator) -> int:
    """Return a random token. Temperature 0 gives the most probable one."""
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
        tokens: Tokenizer of the model.
        vocabulary: Number of tokens in the model's vocabulary.
        spoken: Token of each label, (labels,).
    """

    train: SoftPrompt
    tokens: Tokens
    vocabulary: int
    spoken: Tensor

    def probabilities(self, texts: Sequence[str], place: str = "texts") -> NDArray[np.float64]:
        """Return the probability of each label, in the order of [train] labels, (n, labels)."""
        ids, part = prompts(texts, self.train, self.tokens, self.vocabulary, place), self.train.physical_batch_size
        with evaluating(self.module) as device:
            label_scores = torch.cat([scores(self.module, self.spoken, rows.to(device)).cpu() for rows in torch.split(ids, part)])
        probabilities: NDArray[np.float64] = torch.softmax(label_scores.double(), 1).numpy()
        return probabilities

    def answers(self, question: ModelInput) -> Predictions:
        texts = prompts_of(question, self.train)
        return classified(self.probabilities(texts, question.source or "--prompt").tolist(), list(self.train.labels))

    def measured(self, source: str, path: str) -> Metrics:
        train = self.train if path else replace(self.train, public=_absolute(source))
        public = labelled_records(train, self.tokens, self.vocabulary, path or source, self.description.rows)
        return accuracy(self.module, self.spoken, public, self.train.physical_batch_size)


def text_classifier(train: SoftPrompt, description: Description) -> TextClassifier:
    """Return the classifier that [train] describes. Raises InputError if it cannot be built."""
    place = place_of(description, train.model)
    model, words = language_model(train, place), description.count("vocabulary")
    tokens = required_tokens(tokens_of(train, place_of(description, train.tokenizer or train.model)), place)
    return TextClassifier(model, train, description, tokens, words, verbalizers(train, tokens, words, place))
