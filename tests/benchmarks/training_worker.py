"""One process per way of training: it takes two steps, says by how much memory rose in the second, then as many steps as it is asked for.

Time is the process's own CPU time on a CPU, so that other processes count less, and the clock's on a GPU. With `keep` the C library is
told to keep memory for the next step; by default it gives large pieces back each time, which costs those most who allocate most.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
import warnings
from typing import Any

from tests.benchmarks.isolation import ONE_THREAD, ROOT, reset_peak, status

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": str(2**26)}


class Worker:
    """A process that trains one case in one way.

    failure: why it cannot, "" where it can. peak: MB at most above what it holds between two steps, the gradients included. seconds: of
    the step that `peak` is of.
    """

    def __init__(self, case: str, way: str, device: str, half: bool, python: str, keep: bool = False) -> None:
        command = [python, "-m", "tests.benchmarks.training_worker", case, way, device, "half" if half else "full"]
        pipe, environment = subprocess.PIPE, {**os.environ, **ONE_THREAD, **(KEPT if keep else {})}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment)
        first = self._read()
        self.failure: str = first.get("failure", "")
        self.peak: float = first.get("peak", float("nan"))
        self.seconds: float = first.get("seconds", float("nan"))

    def steps(self, count: int) -> float:
        """Seconds per step, over so many."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self._read()["seconds"])

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found: dict[str, Any] = json.loads(line) if line else {"failure": f"the process ended with {self.process.wait()}"}
        return found

    def close(self) -> None:
        """End of input is the end of it."""
        with self.process:
            pass


def serve(case: str, way: str, device: str, half: bool) -> None:
    """Answer on what was standard output; what libraries print goes nowhere."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    warnings.simplefilter("ignore")
    try:
        step, first = prepared(case, way, device, half)
    except Exception as error:  # whatever a library raises is its answer
        out.write(json.dumps({"failure": " ".join(f"{type(error).__name__}: {error}".split())[:200]}) + "\n")
        out.flush()
        return
    out.write(json.dumps(first) + "\n")
    out.flush()
    for line in sys.stdin:
        out.write(json.dumps({"seconds": timed(step, int(line), device)}) + "\n")
        out.flush()


def prepared(case: str, way: str, device: str, half: bool) -> tuple[Any, dict[str, float]]:
    """(a step, what its second run took)."""
    import torch

    from tests.benchmarks.training_cases import CASES
    from tests.benchmarks.training_ways import WAYS, Place

    torch.set_num_threads(1)
    torch.manual_seed(1)
    step = WAYS[way](CASES[case], Place(device, half))
    step()  # the first one probes
    give_back()
    before = held(device)
    seconds = timed(step, 1, device)
    return step, {"peak": peak(device) - before, "seconds": seconds}


def give_back() -> None:
    """Return freed memory to the system, so that what the first step left behind is not taken for room of the second."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def held(device: str) -> float:
    """MB in use now; the high-water mark starts again from it."""
    import torch

    if device == "cpu":
        return reset_peak() / 1024.0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device) / 2**20


def peak(device: str) -> float:
    """MB that were in use at most."""
    import torch

    return status("VmHWM") / 1024.0 if device == "cpu" else torch.cuda.max_memory_allocated(device) / 2**20


def timed(step: Any, count: int, device: str) -> float:
    """Seconds per step."""
    import torch

    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    for _ in range(count):
        step()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return (clock() - start) / count


if __name__ == "__main__":
    serve(*sys.argv[1:4], half=sys.argv[4] == "half")  # type: ignore[misc]
