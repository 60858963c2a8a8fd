"""Random typing errors in the text of a TOML file: in a key, a word, or a number."""

from __future__ import annotations

import random
import re

KEY = re.compile(r"(?<![\w.\"'-])([A-Za-z_]{5,})(?=[ \t]*=[ \t]*[^=])")
WORD = re.compile(r'(?<== )"([a-z-]{5,})"')
NUMBER = re.compile(r"(?<== )(\d+(?:\.\d+)?)(?=[ \n,])")


def with_typo(draw: random.Random, word: str) -> str:
    """Return the word with one typing error."""
    at = draw.randrange(1, len(word))
    ways = [
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],
        word.upper(),
        word.replace("_", "-"),
        word[:at] + "x" + word[at + 1 :],
    ]
    return draw.choice(ways)


def text_with_typo(draw: random.Random, text: str) -> str:
    """Return the text with a typing error in one key or word, or with one number in quotes or with a decimal point."""
    spots = [(one.span(1), "word") for pattern in (KEY, WORD) for one in pattern.finditer(text)]
    spots += [(one.span(1), "number") for one in NUMBER.finditer(text)]
    (first, last), kind = draw.choice(spots)
    was = text[first:last]
    now = with_typo(draw, was) if kind == "word" else f'"{was}"' if "." in was or draw.random() < 0.5 else f"{was}.0"
    return text[:first] + now + text[last:]
