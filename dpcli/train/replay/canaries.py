"""Canaries: records that do not exist, each in the run by the toss of a fair coin, by which an audit tells whether the run leaks more than
it claims.

Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass

import torch

from dpcli.audit.scores import RUN_FILE, SCHEMA
from dpcli.base.errors import InputError
from dpcli.random.streams import Stream
from dpcli.sessions.folder import replaced
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.run.outcome import KEPT
from dpcli.train.tasks.learning import Learning, evaluating, moved


@dataclass(frozen=True, slots=True)
class Canaries:
    """records: of the task's own form, m of them. member: (m,) which are in the run."""

    records: Batch
    member: torch.Tensor

    @property
    def sampled(self) -> int:
        """How many are sampled beside the records: none, as those in the run are among them."""
        return 0

    @property
    def inserted(self) -> Batch:
        """Those that are in the run."""
        return take(self.records, self.member.nonzero()[:, 0])

    def leave_scores(self, folder: str, problem: Learning) -> None:
        """What dpcli audit reads: for each canary whether it was in, and minus its loss under the final model."""
        device = next(problem.model.parameters()).device
        with torch.no_grad(), evaluating(problem.model):
            parts = [problem.loss(problem.model, moved(part, device)).cpu() for part in pieces(self.records, 256)]
        losses = torch.cat(parts)
        found = [{"member": bool(m), "score": -float(loss)} for m, loss in zip(self.member, losses, strict=True)]
        content = json.dumps({"schema": SCHEMA, "neighbours": "add-remove", "canaries": found})
        replaced(os.path.join(folder, RUN_FILE), content.encode())


def canaries(problem: Learning, count: int, stream: Stream, folder: str, resumed: bool) -> Canaries:
    """Those of the run in this folder: fresh ones, which are put there, or under --resume the ones that were.

    Raises InputError for a task that has no form for records that nobody owns, and where those of the run are gone.
    """
    path = os.path.join(folder, KEPT)
    if resumed:
        return _kept(path)
    if problem.draw is None:
        raise InputError(
            "audit.canaries: expected a task whose records can be made up, found sampled units, or a custom one without train.canary"
        )
    records = problem.draw(count, stream)
    member = torch.tensor([int(word) >> 63 == 1 for word in stream.words(count)])
    buffer = io.BytesIO()
    torch.save({"records": records, "member": member}, buffer)
    replaced(path, buffer.getvalue())
    return Canaries(records, member)


def _kept(path: str) -> Canaries:
    try:
        return Canaries(**torch.load(path, weights_only=True))
    except Exception as problem:  # whatever a damaged file does
        raise InputError(
            f"--resume: {path}: expected the canaries of the run, found none that can be read ({type(problem).__name__})"
        ) from None


def pieces(batch: Batch, length: int) -> list[Batch]:
    """Consecutive parts."""
    return [take(batch, slice(start, start + length)) for start in range(0, size(batch), length)]
