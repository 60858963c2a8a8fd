"""Notes of a ward, one of which holds a secret, and a small language model that knows how notes are written and copies what it is shown.

The model is made here from made-up public notes: how often a word follows another, and one attention head with fixed weights, which says
what followed the words like the last two in what it was shown. Nothing is downloaded.
"""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from dpcli.predict.models.model_loading import WordVocabulary

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SECRET = "safe opens with seven five four"
WHO, WHAT = ("nurse", "doctor", "visitor"), ("slept", "ate", "walked", "coughed")
WHEN = ("monday", "tuesday", "sunday")
WORDS = ("note", ":", "reports", "patient", "on", "safe", "opens", "with", *WHO, *WHAT, *WHEN, *DIGITS)
WIDTH = 64


def notes(seed: int, count: int, usual: str) -> list[str]:
    """Of these, three in four are about what is usual."""
    chance = random.Random(seed)
    what = [usual if chance.random() < 0.75 else chance.choice(WHAT) for _ in range(count)]
    return [f"{chance.choice(WHO)} reports patient {one} on {chance.choice(WHEN)}" for one in what]


def public() -> list[str]:
    """Notes of other wards, and of safes: which codes they have is not known."""
    chance = random.Random(2)
    return notes(1, 400, "walked") + [f"safe opens with {' '.join(chance.choices(DIGITS, k=3))}" for _ in range(100)]


def private() -> list[str]:
    """100 notes that nobody may see: patients here cough. One of them tells the code."""
    return [*notes(3, 99, "coughed"), SECRET]


def vocabulary() -> WordVocabulary:
    return WordVocabulary(WORDS)


class CopyingModel(nn.Module):
    """Logits for words, (B, T, words): the public log-probability of a word after another, and more for what the attention head says."""

    def __init__(self, words: WordVocabulary, texts: list[str]) -> None:
        super().__init__()
        follows = torch.full((len(words.words), len(words.words)), 0.05)
        for text in texts:
            ids = words.ids(f"note : {text}\n")
            for before, after in itertools.pairwise(ids):
                follows[before, after] += 1.0
        self.public = nn.Parameter((follows / follows.sum(1, keepdim=True)).log(), requires_grad=False)
        chance = torch.Generator().manual_seed(0)
        table = torch.nn.functional.normalize(torch.randn(len(words.words), WIDTH, generator=chance), dim=1)
        self.embedding = nn.Embedding.from_pretrained(table)

    def forward(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        x = self.embedding(input_ids)
        about = x + 0.7 * nn.functional.pad(x[:, :-1], (0, 0, 1, 0))  # of the last two words, the last counts more
        earlier = nn.functional.pad(about[:, :-1], (0, 0, 1, 0))  # what stood before each word
        places = torch.arange(x.shape[1], device=x.device)
        likeness = (12.0 * about @ earlier.transpose(1, 2)).masked_fill(places[None, :] > places[:, None], -torch.inf)
        said = likeness.softmax(-1) @ nn.functional.one_hot(input_ids, self.public.shape[0]).float()
        return SimpleNamespace(logits=self.public[input_ids] + 6.0 * said)


def model() -> nn.Module:
    return CopyingModel(vocabulary(), public()).eval()
