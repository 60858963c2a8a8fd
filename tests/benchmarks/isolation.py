"""A forked child for each question to an accountant, with limits of time and memory.

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
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = 1.0  # seconds of CPU after which a call is not repeated
MOST = 9  # repetitions
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


Interval = tuple[float | None, float]  # (certified or claimed lower bound, upper bound)


class Unsupported(Exception):
    """The accountant cannot be asked this question."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An accountant's answer.

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
        """Tell whether there is a guarantee to compare."""
        return self.status == "ok" and math.isfinite(self.upper)


def forget_dpcli() -> None:
    """Empty every cache of dpcli, so that a repetition costs what a first call costs."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dpcli":
            for value in list(vars(module).values()):
                getattr(value, "cache_clear", lambda: None)()


def isolated(question: Callable[[], Interval], forget: Callable[[], None], limit: float, memory: float) -> Answer:
    """Ask in a forked child.

    Args:
        limit: seconds of CPU, repetitions included; ten times that by the clock, as other programs may take turns.
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
        if spent > limit or time.monotonic() - start > 10.0 * limit:
            return True
    return False


def _measured(question: Callable[[], Interval], forget: Callable[[], None]) -> Answer:
    times: list[float] = []
    before = reset_peak()
    try:
        while not times or (sum(times) < ENOUGH and len(times) < MOST):
            forget()
            start = time.process_time()
            lower, upper = question()
            times.append(time.process_time() - start)
            if len(times) == 1:
                peak = status("VmHWM") - before
    except Unsupported as error:
        return Answer("unsupported", message=str(error))
    except MemoryError:
        return Answer("memory", message="over the memory limit")
    except Exception as error:  # whatever a library raises is its answer
        return Answer("failed", message=" ".join(f"{type(error).__name__}: {error}".split())[:160])
    return Answer("ok", lower, upper, statistics.median(times), len(times), max(peak, 0.0) / 1024.0)


def reset_peak() -> float:
    """Resident set now, in kB; the high-water mark starts again from it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(key)))
