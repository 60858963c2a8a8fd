"""The task "soft-prompt": a frozen language model with a trained prompt classifies texts. Its next token is the word of a label.

A *verbalizer* is the word of a label. As an example, take the labels ["1", "2"] with the verbalizers ["bad", "good"], and the template
"{text} It was". For the text "great soup", the model reads the prompt, which consists of trained vectors (`Prompted` in lm_models.py), and
then "great soup It was". The label is "2" if the first token of "good" has a higher score than that of "bad".

`build` makes the learning problem (tasks/learning.py) of the [train] table. A *window* (`rows`) restricts the private texts to some blocks
of a ledger. `path` is the path of the training file, with which messages begin.

Source: Duan et al. 2023, arXiv:2305.15594, Section 4 (PromptDPSGD); Li et al. 2021, arXiv:2110.05679.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.engine.batches import Batch
from dpcli.train.plan.settings_language import SoftPrompt
from dpcli.train.tasks.files import held_out, owners_of
from dpcli.train.tasks.learning import Learning, Metrics, evaluation_mode
from dpcli.train.tasks.lm_models import facts, language_model, logits, vocabulary
from dpcli.train.tasks.lm_texts import Text, Texts, Tokens, encode, pad, require_tokens, synthetic_tokens, texts_of, tokens_of

if TYPE_CHECKING:
    from dpcli.random.streams import Stream


def build(train: SoftPrompt, path: str, rows: RowWindow | None = None) -> Learning:
    """Return the learning problem that [train] describes. Raises InputError if its model or its texts cannot be read."""
    model, tokens = language_model(train, path), require_tokens(tokens_of(train, path), path)
    vocabulary_size = vocabulary(model, path)
    label_tokens = verbalizers(train, tokens, vocabulary_size, path)
    private = texts_of(train.data, train, path, rows)
    records = tokenize_with_labels(private, train, tokens, vocabulary_size, path)
    public = None
    if train.public == "held-out":
        is_public = torch.from_numpy(held_out(len(private.texts), train.held_out, private.units, path))
        records, public = select(records, ~is_public), select(records, is_public)
    elif train.public is not None:
        public = public_records(train, tokens, vocabulary_size, path)
    measure = dict if public is None else partial(accuracy, model, label_tokens, public, train.physical_batch_size)
    units = None if private.units is None else owners_of(private.units, path)
    ids, _ = records
    draw = partial(synthetic_labelled, ids.shape[1], vocabulary_size, len(label_tokens))
    model_facts = {**facts(train, vocabulary_size, path), "labels": list(train.labels)}
    return Learning(
        model=model,
        loss=partial(loss, label_tokens),
        records=records,
        measure=measure,
        units=units,
        draw=draw,
        facts=model_facts,
    )


def public_records(
    train: SoftPrompt, tokens: Tokens, vocabulary_size: int, path: str, rows: RowWindow | None = None
) -> tuple[Tensor, Tensor]:
    """Return the labelled texts that the file declares public. Raises InputError if there are none.

    The window `rows` matters only if public texts are held out from the private ones.
    """
    if train.public == "held-out":
        private = texts_of(train.data, train, path, rows)
        records = tokenize_with_labels(private, train, tokens, vocabulary_size, path)
        is_public = torch.from_numpy(held_out(len(private.texts), train.held_out, private.units, path))
        return select(records, is_public)
    public = texts_of(train.public or "", replace(train, units=None), path)  # public texts need no owners
    return tokenize_with_labels(public, train, tokens, vocabulary_size, path)


def verbalizers(train: SoftPrompt, tokens: Tokens, vocabulary_size: int, path: str) -> Tensor:
    """Return the first token of each label's word, of shape (labels,).

    Raises InputError if two labels have the same token, or a token is not in the model's vocabulary.
    """
    words = train.verbalizers or train.labels
    first_tokens = [next(iter(tokens.ids(word)), -1) for word in words]  # -1 for a word without tokens, which is refused below
    if len(set(first_tokens)) < len(first_tokens):
        raise InputError(f"{path}: train.verbalizers: expected words that begin with different tokens, found {first_names(words)}")
    if not all(0 <= token < vocabulary_size for token in first_tokens):
        raise InputError(f"{path}: train.verbalizers: expected words whose tokens the model has, found {first_names(words)}")
    return torch.tensor(first_tokens)


def tokenize_with_labels(texts: Texts, train: SoftPrompt, tokens: Tokens, vocabulary_size: int, path: str) -> tuple[Tensor, Tensor]:
    """Return the token ids of texts, of shape (n, T), and their labels, of shape (n,)."""
    ids = prompts(texts.texts, train, tokens, vocabulary_size, path)
    return ids, torch.tensor(label_indices(texts.labels or [], train.labels, path))


def prompts(texts: Sequence[Text], train: SoftPrompt, tokens: Tokens, vocabulary_size: int, path: str) -> Tensor:
    """Return the token ids of texts inserted into the template, of shape (n, T). A text that is too long is cut off."""
    prefix, suffix = (encode(part, tokens, path) for part in train.template.split("{text}"))
    room = train.context - len(prefix) - len(suffix)
    if room < 1:
        raise InputError(f"{path}: train.context: the template leaves no room for the text")
    rows = [np.concatenate([prefix, encode(text, tokens, path)[:room], suffix]) for text in texts]
    return pad(rows, vocabulary_size, path)


def label_indices(labels: list[Any], declared: tuple[str, ...], path: str) -> list[int]:
    """Return the index of each label among the declared labels: "good" or 1 gives 1 if the declared labels are "bad" and "good".

    An integer counts as an index, unless a declared label is itself a number. Raises InputError for a label that is not declared.
    """
    indices = {name.strip(): number for number, name in enumerate(declared)}
    if not any(name.isdecimal() for name in indices):
        indices |= {str(number): number for number in range(len(declared))}
    try:
        return [indices[str(label).strip()] for label in labels]
    except KeyError:
        raise InputError(f"{path}: train.labels: a label in the data is not declared") from None


def select(batch: tuple[Tensor, Tensor], selected: Tensor) -> tuple[Tensor, Tensor]:
    """Return the selected texts and their labels.

    Args:
        selected: Whether each text is selected, of shape (n,).
    """
    ids, labels = batch
    return ids[selected], labels[selected]


def scores(model: nn.Module, label_tokens: Tensor, ids: Tensor) -> Tensor:
    """Return the score of each label's word after the last token of each text, of shape (B, labels)."""
    all_scores = logits(model, ids)
    prompt_length, text_lengths = all_scores.shape[1] - ids.shape[1], (ids >= 0).sum(1)
    last_positions = prompt_length + text_lengths - 1  # for an empty text, the last position of the prompt
    index = last_positions[:, None, None].expand(-1, 1, all_scores.shape[2])
    last_scores = all_scores.gather(1, index)[:, 0]
    return last_scores[:, label_tokens.to(ids.device)]


def loss(label_tokens: Tensor, model: nn.Module, batch: Batch) -> Tensor:
    """Return the cross-entropy of each text over the labels' words, of shape (B,)."""
    ids, labels = batch
    assert isinstance(ids, Tensor) and isinstance(labels, Tensor)
    return functional.cross_entropy(scores(model, label_tokens, ids), labels, reduction="none")


def accuracy(model: nn.Module, label_tokens: Tensor, public: tuple[Tensor, Tensor], part: int) -> Metrics:
    """Return the accuracy: the share of public texts whose label's word has the highest score.

    Args:
        part: Number of texts in memory at a time.
    """
    all_ids, all_labels = public
    correct_count = 0.0
    with evaluation_mode(model) as device:
        for ids, labels in zip(torch.split(all_ids, part), torch.split(all_labels, part), strict=True):
            predicted = scores(model, label_tokens, ids.to(device)).argmax(1).cpu()
            correct_count += float((predicted == labels).sum())
    return {"accuracy": correct_count / len(all_labels)}


def synthetic_labelled(length: int, vocabulary_size: int, labels: int, count: int, stream: Stream) -> Batch:
    """Return `count` synthetic records, which are random tokens with random labels."""
    ids = synthetic_tokens(length, vocabulary_size, count, stream)
    drawn_labels = stream.words(count) % np.uint64(labels)
    return ids, torch.from_numpy(drawn_labels.astype(np.int64))
