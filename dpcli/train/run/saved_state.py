"""The state from which a run can be resumed. It is written atomically, and never contains the state of a noise generator."""

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
        step: Number of steps taken.
        parts: Digests of the parts of the plan, by name.
        run: Key of the run in the ledger.
        resumed: Step numbers at which the run was resumed so far.
        bound: Current C, which adaptive clipping changes.
        charged: Whether a ledger was charged for the run.
        clean: Whether no step began after this state was saved, as after Ctrl-C.
        private: Whether no noise so far came from a seed.
        model: State of the model; empty before the first step.
        optimizer: State of the optimizer.
        average: Moving average of the weights; empty if the file does not ask for it.
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
    """Write and sync a checkpoint, and then replace the earlier one by it. Raises InputError if it cannot be written."""
    buffer = io.BytesIO()
    torch.save({field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}, buffer)
    try:
        replace_file(path, buffer.getvalue())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.new")  # the incomplete file on a full disk
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
