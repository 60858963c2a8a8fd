"""Canaries: records that do not exist, each in the run by the toss of a fair coin, by which an audit tells whether the run leaks more than
it claims.

Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from dpcli.audit.read_scores import RUN_FILE, SCHEMA
from dpcli.train.randomness import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.train.arrays import Array

KEPT = "canaries.npz"  # while the run lasts: a resumed run must hold the same ones


@dataclass(frozen=True, slots=True)
class Canaries:
    """inputs: (m, ...) uniform on [0, 1]. labels: (m,) uniform. member: (m,) which are in the run."""

    inputs: Array
    labels: Array
    member: NDArray[np.bool_]


def drawn(count: int, shape: tuple[int, ...], classes: int, stream: Stream) -> Canaries:
    """Canaries of the data's own form, from a stream that nothing else is drawn from."""
    size = int(np.prod(shape))
    inputs = stream.words(count * size).astype(np.float64) / 2.0**64
    labels = stream.words(count) % np.uint64(classes)
    member = (stream.words(count) >> np.uint64(63)).astype(bool)
    return Canaries(inputs.astype(np.float32).reshape(count, *shape), labels.astype(np.int64), member)


def kept(folder: str, fresh: Canaries) -> Canaries:
    """Those of this run: the ones in its folder where it was begun before, else the fresh ones, which are put there."""
    path = os.path.join(folder, KEPT)
    if os.path.exists(path):
        with np.load(path, allow_pickle=False) as found:
            return Canaries(found["inputs"], found["labels"], found["member"])
    with open(path, "wb") as file:
        np.savez(file, inputs=fresh.inputs, labels=fresh.labels, member=fresh.member)
        file.flush()
        os.fsync(file.fileno())
    return fresh


@torch.no_grad()
def leave_scores(folder: str, model: nn.Module, canaries: Canaries) -> None:
    """What dpcli audit reads: for each canary whether it was in, and minus its loss under the final model."""
    model.eval()
    losses = nn.functional.cross_entropy(
        model(torch.from_numpy(canaries.inputs)), torch.from_numpy(canaries.labels), reduction="none"
    )
    found = [{"member": bool(member), "score": -float(loss)} for member, loss in zip(canaries.member, losses, strict=True)]
    with open(os.path.join(folder, RUN_FILE), "w", encoding="utf-8") as file:
        json.dump({"schema": SCHEMA, "neighbours": "add-remove", "canaries": found}, file)
    os.unlink(os.path.join(folder, KEPT))
