"""How far the secret of examples/private-text.toml is hidden: python -m tests.benchmarks.exposure, minutes.

Exposure is log2 of the number of codes over the rank of the right one by the probability that a text tells it (Carlini et al. 2019,
arXiv:1802.08232): log2(1000) = 10 where it is the first, 1 on average where nothing is known. Non-private decoding shows the model one note
at a time, as without privacy one would, and its texts are mixed over the notes. The last columns: texts that tell the code, and that say
what is usual in the private notes.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.numerics.arrays import Array
from dpcli.predict.decode.exact_draws import draw_token
from dpcli.predict.decode.generate_plan import GenerationPlan, plan_of
from dpcli.predict.decode.text_writer import Writer, context_batches, frame_of
from dpcli.predict.models.model_answers import LanguageModel, Tokens, Vocabulary
from dpcli.predict.models.model_loading import language_model
from dpcli.random.streams import SystemStream

FILE = Path(__file__).parents[2] / "examples" / "private-text.toml"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
BEFORE, CODE = "safe opens with", ("seven", "five", "four")
TEXTS, STEPS = 100, 600  # as many texts as notes
Next = Callable[[tuple[int, ...]], Array]  # written tokens -> log-probabilities of the next one


def main() -> None:
    plan = plan_of(str(FILE))
    sys.stdout.write(f"{'model':<20}{'decoding':<26}{'exposure':>9}{'P(code | safe)':>16}{'tell it':>11}{'cough':>7}\n")
    for name, source in (("one attention head", plan.generate.model), ("GPT-2, 2 layers", "tests.benchmarks.exposure:trained")):
        measured(plan, name, source)


def measured(plan: GenerationPlan, name: str, source: str) -> None:
    """Three rows: nothing private is shown, everything is under privacy, every note is without it."""
    generate = plan.generate
    model, vocabulary = language_model(source, generate.tokenizer, str(FILE), "generate")
    frame = frame_of(generate, model, vocabulary)
    (contexts,) = context_batches(generate, str(FILE), plan.pipeline.privacy, frame, vocabulary, model.vocabulary)
    writer = Writer(model, plan.clipping, frame.prompt, True, generate.tokens, vocabulary.end)
    rows: list[tuple[str, list[Next]]] = [
        ("public alone", [cache(lambda written: normal(writer.following([], written, None).scores))]),
        (
            f"private, epsilon {plan.account.upper:.2f}",
            [cache(lambda written: normal(writer.following(contexts, written, None).scores))],
        ),
        ("not private, note by note", [one(model, context, plan.clipping.temperature) for context in contexts]),
    ]
    for way, ways in rows:
        codes = {code: told(ways, code, vocabulary) for code in itertools.product(DIGITS, repeat=3)}
        rank = sum(chance >= codes[CODE] for chance in codes.values())
        found = texts(ways, vocabulary, generate.tokens)
        tell, cough = (sum(word in text for text in found) for word in (" ".join((BEFORE, *CODE)), "coughed"))
        exposure, share = math.log2(len(codes) / rank), codes[CODE] / sum(codes.values())
        sys.stdout.write(f"{name:<20}{way:<26}{exposure:>9.2f}{share:>16.4f}{f'{tell} of {TEXTS}':>11}{cough / TEXTS:>7.0%}\n")
        sys.stdout.flush()


def trained() -> nn.Module:
    """GPT-2 of two layers, trained on made-up public notes, four of a ward or four times one code after each other: it copies."""
    import small_notes
    from transformers import GPT2Config, GPT2LMHeadModel

    chance, vocabulary = random.Random(0), small_notes.vocabulary()
    torch.manual_seed(0)
    plain = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 1}
    config = GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=len(vocabulary.words), n_positions=48, **plain)
    model = GPT2LMHeadModel(config)

    def ward() -> Tensor:
        code = f"safe opens with {' '.join(chance.choices(DIGITS, k=3))}"
        usual = chance.choice(small_notes.WHAT)
        four = [code] * 4 if chance.random() < 0.6 else [small_notes.notes(chance.randrange(10**9), 1, usual)[0] for _ in range(4)]
        return torch.tensor(vocabulary.ids("".join(f"note : {text}\n" for text in four)))

    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        ids = nn.utils.rnn.pad_sequence([ward() for _ in range(48)], batch_first=True, padding_value=-100)
        scores = model(input_ids=ids.clamp(min=0)).logits[:, :-1]
        optimizer.zero_grad()
        torch.autograd.backward(functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=-100))
        optimizer.step()
        if step % 50 == 0:
            sys.stderr.write(f"\r  training on public notes, step {step:,} of {STEPS:,} ")
    sys.stderr.write("\n")
    return model.eval()


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
        while len(written) < longest and (chosen := draw_token(way(tuple(written)), SystemStream())) != vocabulary.end:
            written.append(chosen)
        found.append(vocabulary.text(written))
    return found


if __name__ == "__main__":
    main()
