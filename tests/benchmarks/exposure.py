"""How far the secret of examples/private-text.toml is hidden: python -m tests.benchmarks.exposure, a minute.

Exposure is log2 of the number of codes over the rank of the right one by the probability that a text tells it (Carlini et al. 2019,
arXiv:1802.08232): log2(1000) = 10 where it is the first, 1 on average where nothing is known. Non-private decoding shows the model one note
at a time, as without privacy one would, and its texts are mixed over the notes.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from dpcli.numerics.arrays import Array
from dpcli.predict.decode.contexts import batches, frame_of
from dpcli.predict.decode.draw import token
from dpcli.predict.decode.plan import plan_of
from dpcli.predict.decode.write import Writer
from dpcli.predict.models.load import language_model
from dpcli.predict.models.port import LanguageModel, Tokens, Vocabulary
from dpcli.train.noise.randomness import SystemStream

FILE = Path(__file__).parents[2] / "examples" / "private-text.toml"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
BEFORE, CODE = "safe opens with", ("seven", "five", "four")
TEXTS = 100
Next = Callable[[tuple[int, ...]], Array]  # written tokens -> log-probabilities of the next one


def main() -> None:
    plan = plan_of(str(FILE))
    generate = plan.generate
    model, vocabulary = language_model(generate.model, generate.tokenizer, str(FILE), "generate")
    frame = frame_of(generate, model, vocabulary)
    (contexts,) = batches(generate, str(FILE), 1, frame, vocabulary)
    writer = Writer(model, plan.clipping, frame.prompt, True, generate.tokens, vocabulary.end)
    rows: list[tuple[str, list[Next]]] = [
        ("public model alone", [cache(lambda written: normal(writer.scores([], written)))]),
        (f"private, epsilon {plan.priced.account.upper:.2f}", [cache(lambda written: normal(writer.scores(contexts, written)))]),
        ("non-private, note by note", [one(model, context, plan.clipping.temperature) for context in contexts]),
    ]
    sys.stdout.write(f"{'decoding':<28}{'exposure':>10}{'P(code | safe)':>17}{'texts with the code':>22}\n")
    for name, ways in rows:
        codes = {code: told(ways, code, vocabulary) for code in itertools.product(DIGITS, repeat=3)}
        rank = sum(chance >= codes[CODE] for chance in codes.values())
        share = codes[CODE] / sum(codes.values())
        found = sum(" ".join((BEFORE, *CODE)) in text for text in texts(ways, vocabulary, generate.tokens))
        sys.stdout.write(f"{name:<28}{math.log2(len(codes) / rank):>10.2f}{share:>17.4f}{found:>14,} of {TEXTS:,}\n")


def normal(scores: Array) -> Array:
    return np.asarray(scores - np.logaddexp.reduce(scores))


def one(model: LanguageModel, context: Tokens, temperature: float) -> Next:
    """What is said behind one note."""
    return cache(lambda written: normal(model.next_token([(*context, *written)])[0] / temperature))


def told(ways: Sequence[Next], code: tuple[str, ...], vocabulary: Vocabulary) -> float:
    """The probability that a text begins with this code, a way drawn at random first."""
    ids = vocabulary.ids(" ".join((BEFORE, *code)))
    return sum(math.exp(sum(float(way(tuple(ids[:k]))[found]) for k, found in enumerate(ids))) for way in ways) / len(ways)


def texts(ways: Sequence[Next], vocabulary: Vocabulary, longest: int) -> list[str]:
    """Each way in turn."""
    found = []
    for way in itertools.islice(itertools.cycle(ways), TEXTS):
        written: list[int] = []
        while len(written) < longest and (chosen := token(way(tuple(written)), SystemStream())) != vocabulary.end:
            written.append(chosen)
        found.append(vocabulary.text(written))
    return found


if __name__ == "__main__":
    main()
