"""A trained language model, which goes on from a prompt."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_language import CausalLm
from dpcli.train.run.description import Description
from dpcli.train.tasks.causal_lm import perplexity, public_records
from dpcli.train.tasks.learning import Metrics, evaluating
from dpcli.train.tasks.lm_models import language_model, logits
from dpcli.train.tasks.lm_texts import Tokens, encoded, needed, tokens_of
from dpcli.train.trained.answers import ModelInput, Predictions
from dpcli.train.trained.model import TrainedModel
from dpcli.train.trained.places import place_of
from dpcli.train.trained.prompts import prompts_of


@dataclass(frozen=True, slots=True, repr=False)
class TrainedLanguageModel(TrainedModel):
    """tokens: its tokenizer; None where the file names none. vocabulary: how many tokens the model knows."""

    train: CausalLm
    tokens: Tokens | None
    vocabulary: int

    def text(self, prompt: str, tokens: int = 64, temperature: float = 1.0, seed: int | None = None) -> str:
        """What the model says behind a prompt.

        Args:
            tokens: at most; fewer where the model ends the text. temperature: 0 takes the likeliest token each time. seed: draws the same
                text again; this costs no privacy, as the model is all that is looked at.

        Raises InputError for a prompt without a token, or with one that the model does not know.
        """
        known = needed(self.tokens, self.description.folder)
        ids = encoded(prompt, known, "--prompt").tolist()
        if not ids or max(ids) >= self.vocabulary:
            raise InputError("--prompt: expected a text of one token or more, all of which the model knows, found another")
        chance = torch.Generator()
        chance.seed() if seed is None else chance.manual_seed(seed)
        written: list[int] = []
        with evaluating(self.module) as device:
            while len(written) < tokens:
                seen = torch.tensor([[*ids, *written][-self.train.context :]], device=device)
                token = _drawn(logits(self.module, seen)[0, -1].cpu().double(), temperature, chance)
                if token == known.end:
                    break
                written.append(token)
        return known.text(written)

    def answers(self, asked: ModelInput) -> Predictions:
        prompts = prompts_of(asked, self.train)
        texts = (self.text(prompt, asked.tokens, asked.temperature, asked.seed) for prompt in prompts)
        return Predictions(
            ("row", "prompt", "text"), tuple((place, *pair) for place, pair in enumerate(zip(prompts, texts, strict=True), 1)), 3
        )

    def measured(self, source: str, path: str) -> Metrics:
        train = self.train if path else replace(self.train, public=os.path.abspath(source) if os.path.isfile(source) else source)
        public = public_records(train, self.tokens, self.vocabulary, path or source, self.description.rows)
        return perplexity(self.module, public, self.train.physical_batch_size)


def _drawn(scores: torch.Tensor, temperature: float, chance: torch.Generator) -> int:
    if temperature == 0.0:
        return int(scores.argmax())
    return int(torch.multinomial(torch.softmax(scores / temperature, 0), 1, generator=chance))


def language(train: CausalLm, description: Description) -> TrainedLanguageModel:
    """The language model that [train] names, with its adapter. Raises InputError where it cannot be had."""
    model = language_model(train, place_of(description, train.model), train.lora)
    tokens = tokens_of(train, place_of(description, train.tokenizer or train.model))
    return TrainedLanguageModel(model, train, description, tokens, description.number("vocabulary"))
