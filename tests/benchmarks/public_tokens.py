"""Texts for one epsilon, with and without tokens that the public context predicts alone: python -m tests.benchmarks.public_tokens.

The file is examples/private-text.toml; its steps are as many as keep epsilon at what it is. A row without a threshold is charged for all
tokens of a text, written or not. The last columns: texts that say what is usual in the private notes, and that tell the secret code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from dpcli.analysis.calibrate import calibrate
from dpcli.base.errors import Denied
from dpcli.predict.decode.generate_plan import GenerationPlan, plan_of
from dpcli.predict.decode.private_tokens import PrivateTurns, PublicTest
from dpcli.predict.decode.text_writer import NextToken, Writer, context_batches, frame_of
from dpcli.predict.models.model_answers import Tokens
from dpcli.predict.models.model_loading import language_model
from dpcli.predict.query_counts import Granted
from dpcli.random.streams import SystemStream

FILE = Path(__file__).parents[2] / "examples" / "private-text.toml"
SECRET, USUAL = "seven five four", "coughed"
ROWS = ((None, None), (0.3, 0.05), (0.3, 0.1), (0.3, 0.15), (0.4, 0.1), (0.4, 0.15), (0.2, 0.1))


@dataclass
class Turns:
    """A count in memory."""

    left: int

    def take(self, count: int = 1) -> Granted:
        if not self.left:
            raise Denied("none left")
        self.left -= 1
        return Granted(1, count, 1)


class Remembering(Writer):
    """A writer that asks its model once for what follows: contexts are always the same, and a distance depends on no threshold."""

    __slots__ = ()

    def following(self, contexts: Sequence[Tokens], written: Tokens, test: PublicTest | None) -> NextToken:
        if tuple(written) not in KNOWN:
            any_ = PublicTest(self.clipping.size, self.clipping.temperature, 0, Fraction(1))
            KNOWN[tuple(written)] = Writer.following(self, contexts, written, any_)
        return KNOWN[tuple(written)]


KNOWN: dict[tuple[int, ...], NextToken] = {}


def main() -> None:
    plan = plan_of(str(FILE))
    generate, path = plan.generate, str(FILE)
    model, vocabulary = language_model(generate.model, generate.tokenizer, path, "generate")
    frame = frame_of(generate, model, vocabulary)
    (contexts,) = context_batches(generate, path, plan.pipeline.privacy, frame, vocabulary, model.vocabulary)
    writer = Remembering(model, plan.clipping, frame.prompt, True, generate.tokens, vocabulary.end)
    sys.stdout.write("threshold scale  epsilon  private tokens  texts  private a text  tokens a text  cough  tell\n")
    for threshold, scale in ROWS:
        test, steps, epsilon = priced(plan, threshold, scale)
        turns = None if test is None else PrivateTurns(test, Turns(steps))  # type: ignore[arg-type]
        texts, used, length = [], 0, 0
        while len(texts) < generate.texts if turns is None else not turns.spent:
            found = writer.text(contexts, SystemStream(), turns)
            if not found.cut:
                texts.append(vocabulary.text(found.tokens))
            used, length = used + found.private, length + len(found.tokens)
        usual, tell = (sum(word in text for text in texts) for word in (USUAL, SECRET))
        stated = f"{threshold or '-':>9} {scale or '-':>5}  {epsilon:>7.4f}  {steps:>14}  {len(texts):>5}"
        many = len(texts)
        sys.stdout.write(f"{stated}  {used / many:>14.2f}  {length / many:>13.2f}  {usual / many:>5.0%}  {tell:>4}\n")
        sys.stdout.flush()


def priced(plan: GenerationPlan, threshold: float | None, scale: float | None) -> tuple[PublicTest | None, int, float]:
    """With as many steps as cost no more than the file does."""
    if threshold is None:
        return None, plan.entry.steps, plan.account.upper
    spec = replace(plan.entry.spec, threshold=threshold, scale=scale)  # type: ignore[type-var]
    pipeline = replace(plan.pipeline, mechanisms=(replace(plan.entry, spec=spec),), budget=None)
    found = calibrate(pipeline, plan.account.upper, plan.account.delta, "steps")
    return PublicTest.of(spec), int(found.value), found.upper


if __name__ == "__main__":
    main()
