"""A process pool for sweeps that works in one process, and runs that write the files of a training run without training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dpcli.sweep.worker import PIPELINE_FILE, RESULT, RUN_FOLDER, SCHEMA, Job, JobAnswer

Work = Callable[[Job], JobAnswer]


class InOneProcess:
    """A pool that does each job in this process, by `work`, and notes the job in `done`. A test sets both on the class."""

    work: Work
    done: list[Job]

    def __init__(self, most: int) -> None:
        pass

    def __enter__(self) -> InOneProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answers(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, JobAnswer]]:
        for job in jobs:
            self.done.append(job)
            yield job, type(self).work(job)


def fake_runs(value: Callable[[Job], float], metric: Callable[[Job], str] = lambda job: "accuracy") -> Work:
    """Return a function that writes the files that the run of a job would leave, with the given value and name of its metric."""

    def work(job: Job) -> JobAnswer:
        folder = Path(job.folder)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / RUN_FOLDER).mkdir(parents=True)
        for name in (PIPELINE_FILE, f"{RUN_FOLDER}/model.safetensors", f"{RUN_FOLDER}/statement.md", f"{RUN_FOLDER}/metrics.jsonl"):
            (folder / name).write_text(job.text)
        metrics = {metric(job): value(job)}
        record = {"schema": SCHEMA, "fingerprint": job.fingerprint, "metrics": metrics, "charge": job.charge}
        (folder / RESULT).write_text(json.dumps(record))
        return JobAnswer(metrics)

    return work
