"""The file with the state from which an unfinished training run is resumed: state.pt in the folder of the run.

charged_run.py writes it atomically: before the first step, at the milestones of the plan (`TrainingPlan.milestone`), and when the run
stops. It never contains the state of a noise generator, so a resumed run draws fresh noise. It is removed when the run ends.
"""

from __future__ import annotations

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
        parts: Digests of the parts of the plan, by name. A run is resumed only if all of them are unchanged.
        run: Key of the run: a random name, under which the ledger charges it.
        resumed: Step numbers at which the run was resumed so far, if it may have repeated steps then.
        bound: Current bound C on the contribution of one record, which adaptive clipping changes.
        charged: Whether the run has a ledger.
        clean: Whether the run stopped at this state, for example after Ctrl-C. A resumed run then repeats no step.
        private: Whether all noise so far was secret. It is False if some noise came from a seed, or if an audit saw the noisy sums.
        model, optimizer: States of the model and of the optimizer; empty for a new run.
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
    """Replace the checkpoint at `path` atomically. Raises InputError if it cannot be written."""
    buffer = io.BytesIO()
    torch.save({field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)}, buffer)
    try:
        replace_file(path, buffer.getvalue())
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}): make room; --resume (resume=True) then continues from the last state, if any"
        ) from None


def load_checkpoint(path: str) -> Checkpoint:
    """Return the checkpoint at `path`. Raises InputError if there is no file, or if the file is not a checkpoint of dpcli train."""
    if not os.path.isfile(path):
        raise InputError(f"--resume: no saved state at {path}: the run has ended, or never began")
    try:
        state = torch.load(path, weights_only=True)
        return Checkpoint(**{field.name: state[field.name] for field in fields(Checkpoint)})
    except Exception as error:  # a damaged file may raise anything
        raise InputError(f"--resume: {path}: not a checkpoint of dpcli train ({type(error).__name__})") from None


def matching_checkpoint(path: str, parts: Mapping[str, str]) -> Checkpoint:
    """Return the checkpoint at `path`, which must belong to the present plan.

    Args:
        parts: Digests of the parts of the present plan, by name.

    Raises:
        InputError: A part of the plan has changed since the checkpoint was written, or there is no checkpoint that can be read.
    """
    checkpoint = load_checkpoint(path)
    changed = [name for name in sorted({*parts, *checkpoint.parts}) if parts.get(name) != checkpoint.parts.get(name)]
    if changed:
        raise InputError(
            f"--resume: {path}: expected the plan with which the run was started, found {first_names(changed)} changed: undo the change, "
            "or begin a new run in another folder"
        )
    return checkpoint
