"""The fit of the teachers of `dpcli pate fit`: models that vote on the public queries, each trained on its own shard of private records.

A *shard* has all records of some units of privacy (records.py). Each teacher learns in a process of its own (shard_processes.py) and labels
every query. Only its labels are saved, in the folder `teachers`; its model is dropped. made.json there has a digest of the data, the
learner and the queries: as long as it is the same, a teacher whose labels are saved is not fitted again. Nothing is charged, because
nothing is released: votes are as private as the records.

torchrun may start several processes, called ranks (torchrun --nproc-per-node N -m dpcli pate fit FILE). Each fits some of the teachers, and
writes their votes to a folder that all processes share. The first process locks the folder, decides which teachers are to be fitted, and
counts the votes when all teachers are fitted. If a process dies, the others fail at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.numerics.arrays import np
from dpcli.predict.pate.learners import SKLEARN, learner_of, require_learner
from dpcli.predict.pate.records import Records, query_inputs, records_by_teacher
from dpcli.predict.pate.vote_files import refuse_other_votes, write_votes
from dpcli.predict.prediction_session import Report
from dpcli.predict.shard_processes import ShardProcesses
from dpcli.predict.vote_counts import counts_of_labels
from dpcli.predict.warmed_process import Preparation
from dpcli.sessions.folder import exclusive, replace_file
from dpcli.train.run.processes import several_processes

if TYPE_CHECKING:
    from dpcli.numerics.arrays import Array
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.vote_counts import VoteCounts
    from dpcli.train.run.ranks import TorchrunProcesses

FOLDER, DIGEST_FILE = "teachers", "made.json"  # folder of the teachers' labels; file in it with the digest of their data
TIMEOUT = timedelta(days=30)  # longest wait for the slowest teacher; if a process dies, the others notice at once
KILLED_MESSAGE = "a process of teachers was killed, or ran out of memory: fitted teachers are saved; run the same command again"


@dataclass(frozen=True, slots=True)
class Teachers:
    """The votes of fitted teachers.

    Attributes:
        votes: Vote counts on every query.
        fitted_before: Number of teachers that an earlier call had fitted. Only the first process of torchrun knows it.
        empty: Number of shards without a record, a private number. Their teachers vote for the first label.
        single: Number of shards with a single label, a private number. Their teachers vote for that label.
    """

    votes: VoteCounts
    fitted_before: int
    empty: int
    single: int


@dataclass(frozen=True, slots=True)
class TeacherWork:
    """The public part of every teacher: its learner and the queries, (n, width)."""

    queries: Array
    model: str
    classes: int
    hidden: int
    path: str

    @property
    def place(self) -> str:
        """Return the name of the learner, with which the message begins if it fails."""
        return self.model

    def prepare(self) -> Preparation:
        learner = learner_of(self.model, self.classes, self.hidden, self.path)
        if self.model in SKLEARN:
            SKLEARN[self.model](self.hidden, 1)  # The result is discarded. The call imports scikit-learn once for all teachers.

        def labels(records: Records) -> Array:
            return np.asarray(learner(records).probabilities(self.queries).argmax(axis=1), dtype=float)

        return Preparation("", labels)  # A learner has no content that could be compared between processes.


def fit(plan: VotingPlan, jobs: int, report: Report = lambda done, total: None) -> Teachers:
    """Fit the teachers that have not been fitted, in `jobs` processes, and write their votes.

    If torchrun started several processes, each fits a part of the teachers.

    Raises:
        InputError: If the file names votes instead of data, the data cannot be read, the folder holds a session on other votes, or a
            process has died.
        Unavailable: If a package that the learner needs is not installed.
    """
    pate = plan.pate
    if pate.data is None:
        raise InputError(f"{plan.path}: pate.data: expected private data to train the teachers, found a file of votes")
    require_learner(pate.model)
    # The first process locks the folder for all, so that one command at a time uses it.
    with fitting_ranks() as ranks, exclusive(plan.folder) if ranks.first else nullcontext():
        shard_records, queries = _shards_and_queries(plan)
        folder, digest = os.path.join(plan.folder, FOLDER), _digest(plan, shard_records, queries)
        unfitted = None
        if ranks.first:
            _begin_folder(plan, folder, digest)
            unfitted = [number for number in range(pate.teachers) if _read_labels(folder, number, len(queries)) is None]
        numbers = ranks.own_numbers(unfitted, digest)
        # The first process has written its digest into the folder by now. A process that does not see it there has another folder.
        if not _has_digest(folder, digest):
            raise InputError(f"{folder}: this is not the folder of the first process; all processes must share one folder")
        # Each process of torchrun reports the teachers that it fits itself; a process alone also reports those fitted before.
        reported_before = 0 if ranks.several else pate.teachers - len(numbers)
        for count, (number, labels) in enumerate(_teacher_labels(plan, shard_records, queries, numbers, jobs), reported_before + 1):
            replace_file(_votes_path(folder, number), np.asarray(labels).astype("<i4").tobytes(), 0o600)
            report(count, reported_before + len(numbers))
        ranks.wait_for_all()
        votes = _count_votes(plan, folder, len(queries))
        if ranks.first:
            refuse_other_votes(plan, votes)
            write_votes(plan, votes, queries)
    label_counts = [len(np.unique(records.labels)) for records in shard_records]  # number of different labels in each shard
    return Teachers(
        votes,
        fitted_before=pate.teachers - len(unfitted or ()),
        empty=label_counts.count(0),
        single=label_counts.count(1),
    )


def _shards_and_queries(plan: VotingPlan) -> tuple[list[Records], Array]:
    """Return the records of each shard, and the inputs of the queries. Raises InputError if their widths differ."""
    queries = query_inputs(plan.pate, plan.path)
    shard_records = records_by_teacher(plan.pate, plan.pipeline.privacy.adjacency, plan.path)
    if any(len(records) and records.inputs.shape[1] != queries.shape[1] for records in shard_records):
        raise InputError(f"{plan.path}: pate.queries: expected inputs of the width of the private ones, found {queries.shape[1]}")
    return shard_records, queries


def _count_votes(plan: VotingPlan, folder: str, queries: int) -> VoteCounts:
    """Return the counts of the labels that all teachers gave. Raises InputError if the labels of some teacher are missing."""
    columns = [_read_labels(folder, number, queries) for number in range(plan.pate.teachers)]
    complete = [column for column in columns if column is not None]
    # `counts_of_labels` refuses a table that does not have a column for every teacher.
    return counts_of_labels(np.stack(complete, axis=1), plan.pate.teachers, plan.pate.labels, folder)


def _teacher_labels(
    plan: VotingPlan, shard_records: list[Records], queries: Array, numbers: list[int], jobs: int
) -> Iterator[tuple[int, Array]]:
    """Yield the number of each of these teachers with its labels for all queries, as the teachers become ready."""
    if not numbers:
        return
    pate = plan.pate
    work = TeacherWork(queries, pate.model, pate.labels, pate.hidden, os.path.abspath(plan.path))
    with ShardProcesses(work, KILLED_MESSAGE, jobs) as processes:
        yield from processes.results((number, shard_records[number]) for number in numbers)


def _digest(plan: VotingPlan, shard_records: list[Records], queries: Array) -> str:
    """Return the SHA-256 of the teachers' data, their learner and the queries."""
    arrays = [queries]
    for records in shard_records:
        arrays += [records.inputs, records.labels]
    digest = hashlib.sha256(plan.votes_fingerprint().encode())
    for values in arrays:
        digest.update(str(values.shape).encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _begin_folder(plan: VotingPlan, folder: str, digest: str) -> None:
    """Make the folder of the teachers. Labels of teachers with another digest are removed.

    Raises InputError if the plan's folder holds a session, which could not continue without the votes that it began with.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not _has_digest(folder, digest):
        refuse_other_votes(plan, None)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        replace_file(os.path.join(folder, DIGEST_FILE), json.dumps({"of": digest}).encode(), 0o600)


def _has_digest(folder: str, digest: str) -> bool:
    """Return whether the labels in the folder were made with this digest. A missing or damaged file has none."""
    try:
        with open(os.path.join(folder, DIGEST_FILE), encoding="utf-8") as file:
            return bool(json.load(file).get("of") == digest)
    except (OSError, ValueError, AttributeError):
        return False


def _votes_path(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:07}.votes")  # with zeros in front, so that the names sort by number


def _read_labels(folder: str, number: int, queries: int) -> Array | None:
    """Return the labels that a teacher gave, 4 bytes each; None if the file is missing or incomplete."""
    try:
        with open(_votes_path(folder, number), "rb") as file:
            content = file.read()
    except OSError:
        return None
    return np.frombuffer(content, dtype="<i4").astype(float) if len(content) == 4 * queries else None


@dataclass(frozen=True, slots=True)
class FittingRanks:
    """The processes that fit teachers: those of torchrun, or this process alone.

    Attributes:
        ranks: Processes of torchrun; None if there is only this one.
    """

    ranks: TorchrunProcesses | None = None

    @property
    def first(self) -> bool:
        """True if this is the first process."""
        return self.ranks is None or self.ranks.first

    @property
    def several(self) -> bool:
        """True if torchrun started the processes."""
        return self.ranks is not None

    def own_numbers(self, numbers: Sequence[int] | None, digest: str) -> list[int]:
        """Return the numbers of the teachers that this process is to fit.

        Args:
            numbers: Numbers of all teachers to be fitted, in the first process; None in the others.
            digest: Digest of the data and queries of this process.

        Raises InputError if the digest differs from the digest of the first process.
        """
        if self.ranks is None:
            assert numbers is not None
            return list(numbers)
        with torch_errors():
            digest_of_first, unfitted = self.ranks.broadcast((digest, list(numbers)) if numbers is not None else None)
        if digest_of_first != digest:
            raise InputError("expected the same data and queries in each process: these differ from the first process's")
        return unfitted[self.ranks.rank :: self.ranks.world]  # rank: number of this process; world: number of processes

    def wait_for_all(self) -> None:
        """Wait until all processes have written their votes."""
        if self.ranks is not None:
            with torch_errors():
                self.ranks.total(1.0)  # a sum over all processes, to which each contributes when it is ready


@contextmanager
def fitting_ranks() -> Iterator[FittingRanks]:
    """Join the processes that torchrun started, if it did. Raises InputError if one of them has died."""
    if not several_processes():
        yield FittingRanks()
        return
    require("torch")
    import torch.distributed as dist

    from dpcli.train.run.ranks import TorchrunProcesses

    with torch_errors():
        dist.init_process_group("gloo", timeout=TIMEOUT)
        ranks = TorchrunProcesses("cpu")
    yield FittingRanks(ranks)
    with torch_errors():
        ranks.finish()


@contextmanager
def torch_errors() -> Iterator[None]:
    """Turn the RuntimeError that torch raises if a connection is lost into an InputError."""
    try:
        yield
    except RuntimeError:
        raise InputError(KILLED_MESSAGE) from None
