"""A state that a run can go on from: there as a whole or not at all, and never with the state of a noise generator in it."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.sessions.folder import replaced


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """step: how many were done. parts: of the plan, by name. run: the ledger's key. resumed: the steps at which it was resumed so far.

    bound: C, which adaptive clipping moves. charged: whether a ledger was charged for the run. clean: nothing was done after it was saved,
    as after Ctrl-C. private: whether no noise so far came from a seed. average: of the weights, where asked for.
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


FIELDS = ("step", "parts", "run", "resumed", "bound", "charged", "clean", "private", "model", "optimizer", "average")


def save(path: str, checkpoint: Checkpoint) -> None:
    """Write, sync, and only then put it in the place of the one before. Raises InputError where the disk takes nothing."""
    buffer = io.BytesIO()
    torch.save({name: getattr(checkpoint, name) for name in FIELDS}, buffer)
    try:
        replaced(path, buffer.getvalue())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.new")  # a part of it, on a full disk
        raise InputError(
            f"{path}: cannot be written ({error.strerror}): make room; --resume (resume=True) then goes on from the state before, if any"
        ) from None


def loaded(path: str) -> Checkpoint:
    """Return the checkpoint at `path`. Raises InputError where there is none."""
    if not os.path.isfile(path):
        raise InputError(f"--resume: no state of a run at {path}: the run has ended, or never began")
    try:
        state = torch.load(path, weights_only=True)
        return Checkpoint(**{name: state[name] for name in FIELDS})
    except Exception as error:  # whatever a damaged file does
        raise InputError(f"--resume: {path}: not a checkpoint of dpcli train ({type(error).__name__})") from None


def restored(path: str, parts: Mapping[str, str]) -> Checkpoint:
    """Return the checkpoint at `path`. Raises InputError where there is none, or it belongs to another plan."""
    checkpoint = loaded(path)
    changed = [name for name in sorted({*parts, *checkpoint.parts}) if parts.get(name) != checkpoint.parts.get(name)]
    if changed:
        raise InputError(
            f"--resume: {path}: expected everything as it was when the run was started, found {first_names(changed)} changed: put it back, "
            "or begin a new run in another folder"
        )
    return checkpoint
