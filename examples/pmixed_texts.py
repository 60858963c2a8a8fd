"""Texts in a made-up language, generated from fixed seeds: news, which is public, and letters, which are private.

In both the same words may follow a word, but not equally often.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import accumulate

from dpcli.predict.models.model_loading import WordVocabulary

WORDS = 300
FOLLOWING = 40  # words that may follow a word
SHIFT = 1.5  # how far letters differ from news: standard deviation of the logarithm of a frequency
AUTHORS, LETTERS, LENGTH = 800, 6, 60  # letters of each author, words of each


def words() -> list[str]:
    """All of them, from syllables."""
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    source = random.Random(1)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found["".join(source.choices(syllables, k=source.choice((1, 2, 2, 3))))] = None
    return list(found)


def habits() -> Iterator[tuple[list[int], list[float], list[float]]]:
    """What may follow each word, how often it does in the news, and how often in letters: sums of the frequencies up to each."""
    source = random.Random(2)
    for _ in range(WORDS):
        common = [1.0 / (rank + 1.0) for rank in range(FOLLOWING)]
        other = [weight * math.exp(source.gauss(0.0, SHIFT)) for weight in common]
        yield source.sample(range(WORDS), FOLLOWING), list(accumulate(common)), list(accumulate(other))


HABITS = list(habits())


def written(count: int, private: bool, seed: int) -> Iterator[str]:
    """Texts of LENGTH words."""
    source, known = random.Random(seed), words()
    for _ in range(count):
        place, found = source.randrange(WORDS), []
        for _ in range(LENGTH):
            found.append(known[place])
            following, news, letters = HABITS[place]
            (place,) = source.choices(following, cum_weights=letters if private else news)
        yield " ".join(found)


def vocabulary() -> WordVocabulary:
    """Public: the dictionary of the language."""
    return WordVocabulary(words())


def news() -> list[str]:
    """Public."""
    return list(written(1_500, False, 4))


def letters() -> tuple[list[str], list[str]]:
    """Private, with their authors."""
    texts = list(written(AUTHORS * LETTERS, True, 5))
    return texts, [f"author {place // LETTERS}" for place in range(len(texts))]


def published_letters() -> list[str]:
    """Letters whose authors published them: what models are measured on."""
    return list(written(40, True, 6))
