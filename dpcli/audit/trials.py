"""Trials, which are runs of a user's mechanism on two neighbouring datasets. Several processes run them.

audit_run.py calls `trial_plan` and `run_trials` for an audit of a function. The two datasets differ in one record, and the mechanism
returns a *score* for each run (two_runs.py tests them). The generator of a trial follows from the plan's `entropy` and the trial's dataset
and number, so that the number of processes changes nothing. The scores may be stored in a file, so that an interrupted audit can be resumed
with the same plan; a plan of another size would be another test, chosen after a look at the results, and is refused. After the plan's
`header`, each line of the file is a *part*, some successive trials on one dataset:

    {"member": true, "first": 0, "scores": [1.3, -0.2, 0.8]}
"""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple

from dpcli.audit.own_code import FAILURES, call_user_code, code_files, digest_of_files, error_text, user_function
from dpcli.audit.scores import Scores
from dpcli.base.errors import InputError
from dpcli.numerics.arrays import np

# Number of parts of the work for each process. A part is stored and reported as soon as it is finished. The number affects speed, and how
# much an interruption loses.
PARTS_PER_PROCESS = 40
SHOWN = 60  # most characters of a wrong line that a message quotes
ENTROPY_BITS = 128  # size of the entropy pool of numpy's SeedSequence
PAIR_KEY, TRIAL_KEY = 0, 1  # first parts of spawn keys, so that a pair of datasets and a trial never have the same generator
DATASETS = (True, False)  # the two datasets, by whether they contain the record
Progress = Callable[[int, int], None]  # function that receives the number of finished runs and the number of all runs

_WORKER: list[Worker] = []  # contains the worker of this process after `_start_worker`


class Trial(NamedTuple):
    """A run on the dataset with the record, or on the dataset without it, and its number there."""

    with_record: bool
    number: int


class TrialPart(NamedTuple):
    """The trials `first` to `stop` - 1 on the dataset with the record, or on the dataset without it."""

    with_record: bool
    first: int
    stop: int

    @property
    def trials(self) -> set[Trial]:
        return {Trial(self.with_record, number) for number in range(self.first, self.stop)}


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The plan of all trials, which is fixed before the first one.

    Attributes:
        function: Name of the function under test, as "module:function".
        data: Name of the function that makes the two datasets.
        trials: Number of runs on each dataset.
        entropy: Number from which all random numbers follow.
        folders: Folders of the user's modules.
    """

    function: str
    data: str
    trials: int
    entropy: int
    folders: tuple[str, ...] = ()

    @property
    def header(self) -> dict[str, Any]:
        """The first line of a file of stored trials. An audit continues a file only if its own header equals this line."""
        return {
            "schema": "dpcli/trials/v1",
            "function": self.function,
            "data": self.data,
            "trials": self.trials,
            "entropy": self.entropy,
            "code": [digest_of_files(code_files(target, self.folders)) for target in (self.function, self.data)],
        }

    def generator(self, with_record: bool, trial: int) -> np.random.Generator:
        """Return the random number generator of one trial. Generators of different trials are independent."""
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(TRIAL_KEY, int(with_record), trial)))


def trial_plan(function: str, data: str, trials: int, seed: int | None, folders: tuple[str, ...], path: str | None) -> TrialPlan:
    """Return the plan in a file of stored trials if the file exists, and a new plan otherwise.

    Args:
        function, data, trials, folders: As in `TrialPlan`.
        seed: Entropy of the plan; random if None.
        path: Path of the file of stored trials; None for no file.

    Raises InputError if the file belongs to another audit. More trials after a look at the first results would be another test.
    """
    entropy = secrets.randbits(ENTROPY_BITS) if seed is None else seed
    fresh = TrialPlan(function, data, trials, entropy, folders)
    if path is None or not os.path.exists(path):
        return fresh
    with open(path, encoding="utf-8", errors="replace") as file:
        header = _json_table(file.readline())
    # An audit without a seed continues with the random entropy of the file. An audit with a seed must find that seed there.
    stored_entropy = header.get("entropy") if seed is None else seed
    if header != {**fresh.header, "entropy": stored_entropy} or type(stored_entropy) is not int:
        raise InputError(
            f"{path} holds trials of another audit, not {trials} of {function} on each dataset of {data} with this code: name a new file"
        )
    return TrialPlan(function, data, trials, stored_entropy, folders)


def run_trials(plan: TrialPlan, jobs: int, path: str | None, progress: Progress) -> Scores:
    """Run the trials that are not stored yet, and return the scores of all trials. Each finished part is stored in the file `path`.

    Raises:
        InputError: One of the two functions raises an error or returns a value of the wrong type, a trial ends its process, or the file
            cannot be written.
    """
    scores = _stored_scores(path)
    store = _part_storage(plan, path)
    for part, values in _computed_parts(plan, jobs, _missing_parts(plan, jobs, scores)):
        for number, value in enumerate(values, part.first):
            scores[Trial(part.with_record, number)] = value
        store(part, values)
        progress(len(scores), 2 * plan.trials)
    trials = [Trial(with_record, number) for with_record in DATASETS for number in range(plan.trials)]
    return Scores(np.array([trial.with_record for trial in trials]), np.array([scores[trial] for trial in trials]))


def _stored_scores(path: str | None) -> dict[Trial, float]:
    """Return the scores of the stored trials. An incomplete line, which a crash left, is ignored.

    Raises InputError if a line is complete, but is not a part as `_part_storage` stores it.
    """
    scores: dict[Trial, float] = {}
    if path is None or not os.path.exists(path):
        return scores
    with open(path, encoding="utf-8", errors="replace") as file:
        file.readline()
        for place, line in enumerate(file, 2):
            record = _json_table(line)
            if not {"member", "first"} <= record.keys():  # an incomplete line
                continue
            try:
                for number, value in enumerate(record.get("scores", ()), record["first"]):
                    scores[Trial(bool(record["member"]), number)] = float(value)
            except (TypeError, ValueError, OverflowError):
                raise InputError(f"{path}: line {place}: expected the scores of trials, found {line.strip()[:SHOWN]!r}") from None
    return scores


def _json_table(line: str) -> dict[str, Any]:
    """Return the JSON table in a line; an empty table if the line has none."""
    with suppress(ValueError):
        record = json.loads(line)
        if type(record) is dict:
            return record
    return {}


def _part_storage(plan: TrialPlan, path: str | None) -> Callable[[TrialPart, list[float]], None]:
    """Return a function that appends a finished part to the file of trials, after writing the header of a new file."""
    if path is None:
        return lambda part, values: None
    if not os.path.exists(path):
        _append(path, plan.header)
    return lambda part, values: _append(path, {"member": part.with_record, "first": part.first, "scores": values})


def _append(path: str, record: dict[str, Any]) -> None:
    """Append a record as one line. A line that an earlier crash left incomplete is ended first."""
    try:
        with open(path, "ab+") as file:
            if file.tell() and not _ends_line(file):
                file.write(b"\n")
            file.write(json.dumps(record).encode() + b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _ends_line(file: Any) -> bool:
    """Return whether the last byte of a file that is not empty ends a line."""
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _missing_parts(plan: TrialPlan, jobs: int, scores: dict[Trial, float]) -> list[TrialPart]:
    """Return the parts with missing trials. The two datasets alternate, so that both have equally many trials after an interruption."""
    size = max(1, plan.trials // (jobs * PARTS_PER_PROCESS))
    parts = []
    for first in range(0, plan.trials, size):
        parts += [TrialPart(with_record, first, min(first + size, plan.trials)) for with_record in DATASETS]
    return [part for part in parts if not scores.keys() >= part.trials]  # a part of which only some trials are stored is run again


def _computed_parts(plan: TrialPlan, jobs: int, parts: list[TrialPart]) -> Iterator[tuple[TrialPart, list[float]]]:
    """Yield each part with its scores, computed in this process or in several processes."""
    worker = Worker(plan)  # also created if other processes do the work, so that an error is raised early and only once
    if jobs == 1 or len(parts) < 2:
        yield from ((part, worker.run(part)) for part in parts)
        return
    pool = ProcessPoolExecutor(min(jobs, len(parts)), get_context("spawn"), _start_worker, (plan,))
    try:
        waiting: dict[Future[list[float]], TrialPart] = {pool.submit(_run_part, part): part for part in parts}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    except BrokenProcessPool:
        raise InputError(f"{plan.function}: ended its process during a trial") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Worker:
    """A runner of trials. Each process has one, which loads the two datasets and the function under test."""

    def __init__(self, plan: TrialPlan) -> None:
        self.plan = plan
        self.function = user_function(plan.function, plan.folders)
        self.pair = neighbouring_pair(plan.data, plan.folders, plan.entropy)

    def run(self, part: TrialPart) -> list[float]:
        """Return the scores of the trials of a part, in order."""
        dataset = self.pair.with_record if part.with_record else self.pair.without
        return [self.score(dataset, part.with_record, trial) for trial in range(part.first, part.stop)]

    def score(self, dataset: Any, with_record: bool, trial: int) -> float:
        """Return the score of one trial. Raises InputError if the function raises an error, or returns what no float can hold."""
        value = call_user_code(self.plan.function, self.function, dataset, self.plan.generator(with_record, trial))
        try:
            return float(value)
        except FAILURES as error:  # any exception, and sys.exit(): the conversion may be the user's own code
            reason = f"{type(value).__name__} ({error_text(error)})"
            raise InputError(f"{self.plan.function}: expected a number as score, found {reason}") from None


class DatasetPair(NamedTuple):
    """Two datasets that differ in one record."""

    with_record: Any
    without: Any


def neighbouring_pair(data: str, folders: tuple[str, ...], entropy: int, index: int = 0) -> DatasetPair:
    """Return the two datasets that a user's function makes. All processes get the same ones.

    Args:
        data: Name of the function, as "module:function".
        entropy: Number from which the random numbers of the function follow.
        index: Number of the pair, if several pairs are made.

    Raises InputError if the function raises an error, or does not return a pair.
    """
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(PAIR_KEY, index)))
    pair = call_user_code(data, user_function(data, folders), rng)
    if type(pair) is not tuple or len(pair) != 2:
        raise InputError(f"{data}: expected a pair (with the record, without it), found {type(pair).__name__}")
    return DatasetPair(*pair)


def _start_worker(plan: TrialPlan) -> None:
    """Prepare a new process for trials, whose worker `_run_part` uses."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C, the parent ends this process when its current part is finished
    _WORKER[:] = [Worker(plan)]


def _run_part(part: TrialPart) -> list[float]:
    """Return the scores of a part, computed by the worker of this process."""
    return _WORKER[0].run(part)
