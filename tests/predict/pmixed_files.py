"""A small [pmixed] file: bigrams of a dozen words, six shards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

HEAD = """format = 1
name = "small"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 200
delta = 1e-5
releases = "outputs"
[budget]
epsilon = 8.0
warn_at = 1.0
[[mechanism]]
name = "tokens"
type = "pmixed"
shards = 6
model_rate = 0.5
radius = 0.3
steps = 40
[pmixed]
data = "small_texts:letters"
model = "ngram"
public = "small_texts:news"
tokenizer = "small_texts:vocabulary"
test = "small_texts:published"
max_tokens = 8
"""

WORDS = [f"w{place}" for place in range(12)]


def sentences(count: int, seed: int, turn: int) -> list[str]:
    """Return texts of ten words; after each of them the one `turn` places on is the likeliest."""
    source = random.Random(seed)
    result = []
    for _ in range(count):
        place, text = source.randrange(12), []
        for _ in range(10):
            text.append(WORDS[place])
            place = (place + turn) % 12 if source.random() < 0.5 else source.randrange(12)
        result.append(" ".join(text))
    return result


MODULE = """
from dpcli.predict.models.model_loading import WordVocabulary
from tests.predict.pmixed_files import WORDS, sentences

def vocabulary():
    return WordVocabulary(WORDS)

def news():
    return sentences(200, 1, 1)

def letters():
    return sentences(200, 2, 5)

def owned():
    return letters(), [f"u{place // 4}" for place in range(200)]

def shards_of_six():
    return letters(), [f"u{place % 6}" for place in range(200)]

def published():
    return sentences(30, 3, 5)

def broken():
    raise ValueError("a private letter")
"""


def written(folder: Path, **keys: Any) -> Path:
    """The file, with other keys; `mechanism_` and `privacy_` before a name mean those tables."""
    text = HEAD
    (folder / "small_texts.py").write_text(MODULE)
    for name, value in keys.items():
        line = f"{name.removeprefix('mechanism_').removeprefix('privacy_')} = {value}\n"
        table = (
            "[[mechanism]]\n" if name.startswith("mechanism_") else "[privacy]\n" if name.startswith("privacy_") else "[pmixed]\n"
        )
        before, _, after = text.partition(table)
        rest = after.splitlines(keepends=True)
        place = next((k for k, old in enumerate(rest) if old.startswith("[")), len(rest))
        kept = [old for old in rest[:place] if old.split(" = ")[0] != line.split(" = ")[0]]
        text = before + table + "".join([*kept, line, *rest[place:]])
    path = folder / "small.toml"
    path.write_text(text)
    return path
