"""Teachers: each learns from its shard alone, in a process of its own, votes on every query, and leaves nothing but its votes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import np
from dpcli.predict.apart import Apart
from dpcli.predict.pate.data import Records, query_inputs, shards
from dpcli.predict.pate.kept_votes import keep_votes, refuse_other_votes
from dpcli.predict.pate.learners import SKLEARN, learner_of, require_learner
from dpcli.predict.pate.together import GONE, fitting_ranks
from dpcli.predict.voting.votes import counted
from dpcli.predict.warmed import Preparation
from dpcli.sessions.folder import exclusive, replaced

if TYPE_CHECKING:
    from dpcli.numerics.arrays import Array
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.voting.votes import VoteCounts

FOLDER, MADE_OF = "teachers", "made.json"
Report = Callable[[int, int], None]  # teachers fitted, of how many


@dataclass(frozen=True, slots=True)
class Teachers:
    """What has been fitted: their votes, how many of them had been fitted before, and how many had nothing to learn.

    empty: shards without a record, whose teachers say the first label; single: shards of one label, which their teachers say. Both private.
    """

    votes: VoteCounts
    earlier: int
    empty: int
    single: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """What every teacher is: what it learns by, and what it is asked."""

    queries: Array
    model: str
    classes: int
    hidden: int
    path: str

    @property
    def place(self) -> str:
        return self.model

    def prepared(self) -> Preparation:
        learner = learner_of(self.model, self.classes, self.hidden, self.path)
        if self.model in SKLEARN:
            SKLEARN[self.model](self.hidden, 1)  # imports what all of them need, once

        def said(records: Records) -> Array:
            return np.asarray(learner(records).probabilities(self.queries).argmax(axis=1), dtype=float)

        return Preparation("", said)


def fit(plan: VotingPlan, jobs: int, report: Report = lambda done, all_of_them: None) -> Teachers:
    """Fit every teacher that has not been, in so many processes, and keep their votes; a part of them where torchrun started others.

    Raises InputError where the file names votes in place of data, these cannot be read, the folder holds a session on other votes, or a
    process is gone.
    """
    pate = plan.pate
    if pate.data is None:
        raise InputError(f"{plan.path}: pate.data: expected private data, on which teachers are trained, found a file of votes")
    require_learner(pate.model)
    with fitting_ranks() as ranks, exclusive(plan.folder) if ranks.first else nullcontext():
        queries = query_inputs(pate, plan.path)
        owned = shards(pate, plan.pipeline.privacy.adjacency, plan.path)
        if any(len(one) and one.inputs.shape[1] != queries.shape[1] for one in owned):
            raise InputError(f"{plan.path}: pate.queries: expected inputs of the shape of the private ones, found another")
        folder, digest = os.path.join(plan.folder, FOLDER), _digest(plan, owned, queries)
        left = None
        if ranks.first:
            _begin(plan, folder, digest)
            left = [number for number in range(pate.teachers) if _said(folder, number, len(queries)) is None]
        mine = ranks.mine(left, digest)
        if not _of(folder, digest):
            raise InputError(f"{folder}: expected the folder of the first process, found another: all processes need to see it")
        others = 0 if ranks.several else pate.teachers - len(mine)
        for done, (number, labels) in enumerate(_taught(plan, owned, queries, mine, jobs), 1):
            _keep(folder, number, labels)
            report(others + done, others + len(mine))
        ranks.all_done()
        said = [its for number in range(pate.teachers) if (its := _said(folder, number, len(queries))) is not None]
        votes = counted(np.stack(said, axis=1), pate.teachers, pate.labels, folder)
        if ranks.first:
            refuse_other_votes(plan, votes)
            keep_votes(plan, votes, queries)
    kinds = [len(np.unique(one.labels)) for one in owned]
    return Teachers(votes, pate.teachers - len(left or ()), kinds.count(0), kinds.count(1))


def _digest(plan: VotingPlan, owned: list[Records], queries: Array) -> str:
    """Of what teachers learn from and are asked."""
    digest = hashlib.sha256(plan.teaching().encode())
    for part in (queries, *(part for one in owned for part in (one.inputs, one.labels))):
        digest.update(str(part.shape).encode() + np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _begin(plan: VotingPlan, folder: str, digest: str) -> None:
    """The folder of teachers of these data: those of others are not gone on with."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not _of(folder, digest):
        refuse_other_votes(plan, None)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        replaced(os.path.join(folder, MADE_OF), json.dumps({"of": digest}).encode(), 0o600)


def _of(folder: str, digest: str) -> bool:
    """Whether it is the folder of teachers of these data."""
    try:
        with open(os.path.join(folder, MADE_OF), encoding="utf-8") as file:
            return bool(json.load(file).get("of") == digest)
    except (OSError, ValueError, AttributeError):
        return False


def _place(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:07}.votes")


def _said(folder: str, number: int, queries: int) -> Array | None:
    """What an earlier call has found this teacher to say, None where it has not, or not all of it."""
    try:
        with open(_place(folder, number), "rb") as file:
            content = file.read()
    except OSError:
        return None
    return np.frombuffer(content, dtype="<i4").astype(float) if len(content) == 4 * queries else None


def _keep(folder: str, number: int, labels: Array) -> None:
    replaced(_place(folder, number), np.asarray(labels).astype("<i4").tobytes(), 0o600)


def _taught(plan: VotingPlan, owned: list[Records], queries: Array, numbers: list[int], jobs: int) -> Iterator[tuple[int, Array]]:
    """What each of these teachers says, as they become ready."""
    if not numbers:
        return
    pate = plan.pate
    lesson = Lesson(queries, pate.model, pate.labels, pate.hidden, os.path.abspath(plan.path))
    with Apart(lesson, GONE, jobs) as apart:
        yield from apart.each((number, owned[number]) for number in numbers)
