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
from tests.predict.pmixed.pmixed_files import WORDS, sentences

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
    """Write the file with other keys, or without those that are None; `mechanism_` and `privacy_` before a name mean those tables."""
    (folder / "small_texts.py").write_text(MODULE)
    lines = HEAD.splitlines()
    for name, value in keys.items():
        prefix, _, rest = name.partition("_")
        table, key = {"mechanism": ("[[mechanism]]", rest), "privacy": ("[privacy]", rest)}.get(
            prefix if rest else "", ("[pmixed]", name)
        )
        begin = lines.index(table) + 1
        end = next((place for place in range(begin, len(lines)) if lines[place].startswith("[")), len(lines))
        kept = [line for line in lines[begin:end] if line.split(" = ")[0] != key]
        lines[begin:end] = kept if value is None else [*kept, f"{key} = {value}"]
    path = folder / "small.toml"
    path.write_text("\n".join(lines) + "\n")
    return path
