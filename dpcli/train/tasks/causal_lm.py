"""The task "causal-lm": a language model predicts each token of a record from the earlier tokens.

`build` makes the learning problem (tasks/learning.py). lm_texts.py reads the records, and lm_models.py the model. A record is a line, a
paragraph, a row or a window of text, as the key `record` declares. The record is the unit of privacy unless the key `units` names a larger
unit. If a text is cut into windows, each window is a record. (The parameter `rows` is another kind of window: some blocks of a ledger, to
which the private records are restricted.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.train.engine.batches import Batch
from dpcli.train.plan.settings_language import CausalLm
from dpcli.train.tasks.files import held_out, owners_of
from dpcli.train.tasks.learning import Learning, Metrics, evaluation_mode
from dpcli.train.tasks.lm_models import facts, language_model, logits, vocabulary
from dpcli.train.tasks.lm_texts import PADDING, Tokens, records, synthetic_tokens, tokens_of


def build(train: CausalLm, path: str, rows: RowWindow | None = None) -> Learning:
    """Return the learning problem that [train] describes. Raises InputError if its model or its records cannot be read."""
    model, tokens = language_model(train, path, train.lora), tokens_of(train, path)
    vocabulary_size = vocabulary(model, path)
    ids, units = records(train.data, train, tokens, vocabulary_size, path, rows)
    public = None
    if train.public == "held-out":
        is_public = held_out(len(ids), train.held_out, units, path)
        ids, public = ids[~is_public], ids[is_public]
    elif train.public is not None:
        public = public_records(train, tokens, vocabulary_size, path)
    if ids.shape[1] < 2:
        raise InputError(f"{path}: train.data: no record has two tokens or more")
    draw = partial(synthetic_tokens, ids.shape[1], vocabulary_size)  # for the canaries of an audit
    # Without public records nothing may be measured: dict() returns no metrics.
    measure = dict if public is None else partial(perplexity, model, public, train.physical_batch_size)
    owners = None if units is None else owners_of(units, path)
    return Learning(
        model=model,
        loss=LOSSES[train.token_loss],
        records=ids,
        measure=measure,
        units=owners,
        draw=draw,
        facts=facts(train, vocabulary_size, path),  # public values that suffice, with [train], to build the model again
    )


def public_records(
    train: CausalLm, tokens: Tokens | None, vocabulary_size: int, path: str, rows: RowWindow | None = None
) -> Tensor:
    """Return the records that the file declares public. Raises InputError if there are none.

    The window `rows` matters only if public records are held out from the private ones.
    """
    if train.public == "held-out":
        ids, units = records(train.data, train, tokens, vocabulary_size, path, rows)
        return ids[held_out(len(ids), train.held_out, units, path)]
    without_units = replace(train, units=None)  # public records need no owners
    return records(train.public or "", without_units, tokens, vocabulary_size, path).ids


def token_losses(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss of the next token at each position, of shape (B, T), and the number of losses of each record, of shape (B,).

    A position without a next token has a loss of zero.
    """
    assert isinstance(batch, Tensor)
    following = functional.pad(batch[:, 1:], (0, 1), value=PADDING).long()
    scores = logits(model, batch)[:, -batch.shape[1] :]  # without the positions of a soft prompt
    losses = functional.cross_entropy(scores.flatten(0, 1), following.flatten(), ignore_index=PADDING, reduction="none")
    return losses.view(following.shape), (following != PADDING).sum(1)


def mean_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the mean loss of each record over its tokens, of shape (B,)."""
    losses, counts = token_losses(model, batch)
    return losses.sum(1) / counts.clamp_min(1)  # a record of one token has no next token, and the loss 0


def sum_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the sum of the losses of each record, of shape (B,).

    The sum is minus the log-probability of the record given its first token.
    """
    losses, _ = token_losses(model, batch)
    return losses.sum(1)


def perplexity(model: nn.Module, public: Tensor, part: int) -> Metrics:
    """Return the perplexity of the public records, which is exp of the mean loss over all tokens.

    Args:
        part: Number of records in memory at a time.
    """
    total, count = 0.0, 0
    with evaluation_mode(model) as device:
        for records_together in torch.split(public, part):
            losses, counts = token_losses(model, records_together.to(device))
            total, count = total + float(losses.double().sum()), count + int(counts.sum())
    return {"perplexity": float(np.exp(np.float64(total / max(1, count))))}


LOSSES: dict[str, Callable[[nn.Module, Batch], Tensor]] = {"mean": mean_loss, "sum": sum_loss}
