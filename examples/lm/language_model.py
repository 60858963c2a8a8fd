"""A small language model that learns Python's documentation in public, and then its source code in private.

Both texts ship with Python, so that nothing is downloaded. The source code is public as well, of course: it stands for text that is not.
"""

from __future__ import annotations

import itertools
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data import topics

import torch
from torch import Tensor
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH = 64  # bytes of a record, as train.context in lm.toml
RECORDS = 64_000  # private ones and those held out
PUBLISHED = 20_000
STEPS, BATCH = 1_200, 64  # of public training
WEIGHTS = os.path.join("runs", "lm-public", "model.pt")


def untrained() -> GPT2LMHeadModel:
    """Two layers over bytes; every weight is initialised from torch's generator."""
    config = GPT2Config(
        n_layer=2,
        n_head=4,
        n_embd=64,
        vocab_size=256,
        n_positions=LENGTH,
        activation_function="relu",
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


def model() -> GPT2LMHeadModel:
    """Trained on the documentation; its weights stay in runs/lm-public for the next time."""
    found = untrained()
    if not os.path.exists(WEIGHTS):
        sys.stderr.write("training on public text ...\n")
        fit(found, as_bytes(documentation()), STEPS, BATCH)
        os.makedirs(os.path.dirname(WEIGHTS), exist_ok=True)
        torch.save(found.state_dict(), WEIGHTS)
    found.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    return found


def documentation() -> list[str]:
    """Public: the topics of Python's help."""
    return list(pieces(topics.topics.values()))


def source_code() -> list[str]:
    """Private, for this demonstration: modules of Python's standard library, in pieces of 64 characters."""
    return source_pieces(RECORDS)


def source_pieces(count: int) -> list[str]:
    """The first pieces of the modules."""
    folder, tests = (
        sysconfig.get_paths()["stdlib"],
        {"test", "tests", "idlelib", "lib2to3", "site-packages", "pydoc_data", "encodings"},
    )
    files = sorted(
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        if not tests & set(os.path.relpath(place, folder).split(os.sep))
        for name in names
        if name.endswith(".py")
    )
    texts = (Path(file).read_text(encoding="utf-8", errors="replace") for file in files)
    return list(itertools.islice(pieces(texts), count))


def some_source_code() -> list[str]:
    """Every fourth of the private pieces."""
    return source_code()[::4]


def published_code() -> list[str]:
    """Of modules further on, every 100th piece: for this demonstration declared public, so that something can be measured on it."""
    return source_pieces(RECORDS + PUBLISHED)[RECORDS::100]


def pieces(texts: Iterable[str]) -> Iterator[str]:
    """Of LENGTH characters, none over the end of a text."""
    return (text[start : start + LENGTH] for text in texts for start in range(0, len(text) - LENGTH, LENGTH))


def as_bytes(texts: list[str]) -> Tensor:
    """(n, LENGTH) ids."""
    return torch.tensor([list(text.encode().ljust(LENGTH)[:LENGTH]) for text in texts])


def fit(learner: GPT2LMHeadModel, records: Tensor, steps: int, batch: int, rate: float = 3e-3) -> None:
    """Without privacy: Adam, each step on a random batch."""
    optimizer = torch.optim.Adam(learner.parameters(), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1.0 - step / steps)
        ids = records[torch.randint(len(records), (batch,))].long()
        scores = learner(input_ids=ids).logits[:, :-1]
        optimizer.zero_grad()
        torch.autograd.backward(functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten()))
        optimizer.step()
        if step % 20 == 0:
            sys.stderr.write(f"\r  step {step:,} of {steps:,} ")
    sys.stderr.write(f"\r  step {steps:,} of {steps:,} \n")
