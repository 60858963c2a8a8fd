"""One process per accountant, imported and warmed up; one forked child per question, with limits of time and memory.

The CPU time is the child's own (process_time) around the call alone, the median of a few calls where one is fast. The peak memory is
by how much the first call raised the child's resident set above what importing the library left there. BLAS gets one thread.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.adapters import PEERS, Interval, Unsupported
from tests.benchmarks.settings import SETTINGS, SMALL
from tests.benchmarks.soundness import CASES

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = 1.0  # seconds of CPU after which a call is not repeated
MOST = 9  # repetitions
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an accountant said.

    status: ok, unsupported, failed, timeout or memory; message: why, where it is not ok.
    cpu: seconds, the median of `runs` calls; the limit after a timeout. peak: MB above the imported library.
    """

    status: str
    lower: float | None = None
    upper: float = math.nan
    cpu: float = math.nan
    runs: int = 0
    peak: float = math.nan
    message: str = ""

    @property
    def finite(self) -> bool:
        """Whether there is a guarantee to compare."""
        return self.status == "ok" and math.isfinite(self.upper)


class Worker:
    """A peer's process; `ask` puts one question to a fresh child of it."""

    def __init__(self, peer: str, limit: float, memory: float, python: str = sys.executable) -> None:
        command = [python, "-m", "tests.benchmarks.isolation", peer, str(limit), str(memory)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env={**os.environ, **ONE_THREAD})
        self.version = self._read()["version"]

    def ask(self, setting: str) -> Answer:
        """The answer to the setting of that name, or to "case: label" of soundness.py."""
        assert self.process.stdin is not None
        self.process.stdin.write(setting + "\n")
        self.process.stdin.flush()
        return Answer(**self._read())

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"expected an answer, found that the process ended with {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End of input is the end of it."""
        with self.process:
            pass


def serve(name: str, limit: float, memory: float) -> None:
    """Warm up, then answer the questions on standard input, one line each."""
    peer, out = PEERS.get(name), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # some peers print while they work
    warnings.simplefilter("ignore")
    if peer is not None:
        for small in SMALL:
            with contextlib.suppress(Unsupported):
                peer.ask(small)
    out.write(json.dumps({"version": peer.version if peer is not None else ""}) + "\n")
    out.flush()
    settings = {setting.name: setting for setting in SETTINGS}
    cases = {f"{case.name}: {label}": ask for case in CASES for label, ask in case.asks.items()}
    for line in sys.stdin:
        key = line.rstrip("\n")
        question, forget = cases.get(key), _nothing
        if peer is not None:
            question, forget = partial(peer.ask, settings[key]), peer.forget
        assert question is not None, f"expected a setting or a case, found {key!r}"
        out.write(json.dumps(asdict(isolated(question, forget, limit, memory))) + "\n")
        out.flush()


def _nothing() -> None:
    """For the cases of known answer, whose times are not reported."""


def isolated(question: Callable[[], Interval], forget: Callable[[], None], limit: float, memory: float) -> Answer:
    """Ask in a forked child.

    Args:
        limit: seconds of CPU, repetitions included; three times that by the clock.
        memory: GB of address space on top of what is mapped.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(1, 2)  # absl warns at length
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + int(memory * 2**30),) * 2)
        with os.fdopen(write, "w") as pipe:
            json.dump(asdict(_measured(question, forget)), pipe)
        os._exit(0)
    os.close(write)
    late = _overdue(read, pid, limit)
    if late:
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if text:
        return Answer(**json.loads(text))
    if late:
        return Answer("timeout", cpu=limit, message=f"over {limit:g} s of CPU")
    return Answer("failed", message=f"ended with status {status}")


def _overdue(read: int, pid: int, limit: float) -> bool:
    """Wait for an answer; whether it takes more than `limit` of CPU. Not by RLIMIT_CPU: under it process_time moves in ticks of 4 ms."""
    start, tick = time.monotonic(), os.sysconf("SC_CLK_TCK")
    while not select.select([read], [], [], 0.1)[0]:
        spent = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / tick
        if spent > limit or time.monotonic() - start > 3.0 * limit:
            return True
    return False


def _measured(question: Callable[[], Interval], forget: Callable[[], None]) -> Answer:
    times: list[float] = []
    before = _reset_peak()
    try:
        while not times or (sum(times) < ENOUGH and len(times) < MOST):
            forget()
            start = time.process_time()
            lower, upper = question()
            times.append(time.process_time() - start)
            if len(times) == 1:
                peak = _status("VmHWM") - before
    except Unsupported as error:
        return Answer("unsupported", message=str(error))
    except MemoryError:
        return Answer("memory", message="over the memory limit")
    except Exception as error:  # whatever a library raises is its answer
        return Answer("failed", message=" ".join(f"{type(error).__name__}: {error}".split())[:160])
    return Answer("ok", lower, upper, statistics.median(times), len(times), max(peak, 0.0) / 1024.0)


def _reset_peak() -> float:
    """Resident set now, in kB; the high-water mark starts again from it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(key)))


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
