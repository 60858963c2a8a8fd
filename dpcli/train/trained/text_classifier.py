"""A trained classifier of texts: a frozen language model behind a trained prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpcli.train.plan.settings_language import SoftPrompt
from dpcli.train.run.description import Description
from dpcli.train.tasks.learning import Metrics, evaluating
from dpcli.train.tasks.lm_models import language_model
from dpcli.train.tasks.lm_texts import Tokens, needed, tokens_of
from dpcli.train.tasks.soft_prompt import accuracy, prompts, public_records, scores, verbalizers
from dpcli.train.trained.answers import ModelInput, Predictions, classified
from dpcli.train.trained.model import TrainedModel
from dpcli.train.trained.places import place_of
from dpcli.train.trained.prompts import prompts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class TextClassifier(TrainedModel):
    """tokens: its tokenizer. vocabulary: how many tokens the model knows. spoken: the token that stands for each label, (labels,)."""

    train: SoftPrompt
    tokens: Tokens
    vocabulary: int
    spoken: Tensor

    def probabilities(self, texts: Sequence[str], place: str = "texts") -> NDArray[np.float64]:
        """Of each label, in the order of [train] labels, (n, labels)."""
        ids, part = prompts(texts, self.train, self.tokens, self.vocabulary, place), self.train.physical_batch_size
        with evaluating(self.module) as device:
            found = torch.cat([scores(self.module, self.spoken, rows.to(device)).cpu() for rows in torch.split(ids, part)])
        probabilities: NDArray[np.float64] = torch.softmax(found.double(), 1).numpy()
        return probabilities

    def answers(self, asked: ModelInput) -> Predictions:
        texts = prompts_of(asked, self.train)
        return classified(self.probabilities(texts, asked.source or "--prompt").tolist(), list(self.train.labels))

    def measured(self, source: str, path: str) -> Metrics:
        train = self.train if path else replace(self.train, public=os.path.abspath(source) if os.path.isfile(source) else source)
        public = public_records(train, self.tokens, self.vocabulary, path or source, self.description.rows)
        return accuracy(self.module, self.spoken, public, self.train.physical_batch_size)


def text_classifier(train: SoftPrompt, description: Description) -> TextClassifier:
    """The prompted model that [train] names. Raises InputError where it cannot be had."""
    place = place_of(description, train.model)
    model, words = language_model(train, place), description.number("vocabulary")
    tokens = needed(tokens_of(train, place_of(description, train.tokenizer or train.model)), place)
    return TextClassifier(model, train, description, tokens, words, verbalizers(train, tokens, words, place))
