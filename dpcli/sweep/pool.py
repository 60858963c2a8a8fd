"""Jobs in several processes: one that dies takes its own job with it, and an interruption takes them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from dpcli.sweep.worker import Job, JobAnswer, serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess


class Pool:
    """At most so many processes, each started when there is work for it. Use in a `with`, at whose end all are killed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.processes: dict[Connection, SpawnProcess] = {}
        self.busy: dict[Connection, Job] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.join()

    def answers(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, JobAnswer]]:
        """Each job with its answer, in the order in which they end; a job is taken from `jobs` when a process is free for it."""
        for job in jobs:
            if len(self.busy) == self.most:
                yield from self._ended()
            self._give(job)
        while self.busy:
            yield from self._ended()

    def _give(self, job: Job) -> None:
        idle = next((pipe for pipe, process in self.processes.items() if pipe not in self.busy and process.is_alive()), None)
        pipe = self._started() if idle is None else idle
        self.busy[pipe] = job
        pipe.send(job)

    def _started(self) -> Connection:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # so that its end is the end of the pipe
        self.processes[ours] = process
        return ours

    def _ended(self) -> list[tuple[Job, JobAnswer]]:
        """Wait for one answer at least."""
        found = []
        for pipe in wait(list(self.busy)):
            assert isinstance(pipe, Connection)
            found.append((self.busy.pop(pipe), self._received(pipe)))
        return found

    def _received(self, pipe: Connection) -> JobAnswer:
        try:
            answer: JobAnswer = pipe.recv()
        except (EOFError, ConnectionResetError):
            process = self.processes.pop(pipe)
            process.join()
            return JobAnswer({}, f"its process ended with code {process.exitcode}: killed, or out of memory")
        return answer
