"""The state that a run can be resumed from: written in one piece, and never with the state of a noise generator in it."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.sessions.folder import replace_file


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a run after some of its steps.

    Attributes:
        step: How many were taken.
        parts: Digests of the plan's parts, by name.
        run: The ledger's key.
        resumed: The steps at which the run was resumed so far.
        bound: C, which adaptive clipping moves.
        charged: Whether a ledger was charged for the run.
        clean: No step was begun after this state was saved, as after Ctrl-C.
        private: No noise so far came from a seed.
        average: Average of the weights, where the file asks.
    """

    step: int
    parts: dict[str, str]
    run: str
    resumed: list[int]
    bound: float
    charged: bool
    clean: bool
    private: bool
    model: dict[str, torch.Tensor]
    optimizer: dict[str, Any]
    average: dict[str, torch.Tensor]


def save(path: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, sync it, and only then replace the one before. Raises InputError if it cannot be written."""
    buffer = io.BytesIO()
    torch.save({field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}, buffer)
    try:
        replace_file(path, buffer.getvalue())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.new")  # the part of it that a full disk took
        raise InputError(
            f"{path}: cannot be written ({error.strerror}): make room; --resume (resume=True) then goes on from the state before, if any"
        ) from None


def load_checkpoint(path: str) -> Checkpoint:
    """Return the checkpoint at `path`. Raises InputError if there is none."""
    if not os.path.isfile(path):
        raise InputError(f"--resume: no state of a run at {path}: the run has ended, or never began")
    try:
        state = torch.load(path, weights_only=True)
        return Checkpoint(**{field.name: state[field.name] for field in fields(Checkpoint)})
    except Exception as error:  # a damaged file may raise anything
        raise InputError(f"--resume: {path}: not a checkpoint of dpcli train ({type(error).__name__})") from None


def restored(path: str, parts: Mapping[str, str]) -> Checkpoint:
    """Return the checkpoint at `path`. Raises InputError if there is none, or it belongs to another plan."""
    checkpoint = load_checkpoint(path)
    changed = [name for name in sorted({*parts, *checkpoint.parts}) if parts.get(name) != checkpoint.parts.get(name)]
    if changed:
        raise InputError(
            f"--resume: {path}: expected everything as it was when the run was started, found {first_names(changed)} changed: put it back, "
            "or begin a new run in another folder"
        )
    return checkpoint
