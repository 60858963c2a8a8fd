"""Thousands of generated files through the command line: exit codes counted, none a bug, none beyond its time and memory.

    python -m tests.benchmarks.generated --files 5000 --seed 7
    python -m tests.benchmarks.generated --case 7/123          # one of them again, with its files and its output

Each runs in a process of its own, forked from a warm one, with limits of address space and of CPU time.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported

from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, CHART_FORMATS, FORMATS, MECHANISMS, PLOTS, SAMPLING
from tests.random_commands import COMMANDS, Case, case

SECONDS, MEGABYTES = 10.0, 1024.0  # what one command may use
LIMITS = (40, 6 << 30)  # seconds of CPU and bytes of address space at which it is ended
INTERNAL = 70


@dataclass(frozen=True)
class Outcome:
    """What a case came to.

    code: exit code, negative where a signal ended it. seconds: of CPU. megabytes: resident, at the peak, beside what was resident when it
    began: a test's process has imported more than a command does.
    """

    case: Case
    code: int
    seconds: float
    megabytes: float
    output: str

    @property
    def bug(self) -> str | None:
        """What is wrong with it on any machine, None where nothing is."""
        if self.code == INTERNAL or self.code < 0:
            return f"exit {self.code}"
        return f"{self.megabytes:.0f} MB" if self.megabytes > MEGABYTES else None

    @property
    def fault(self) -> str | None:
        """What is wrong with it, None where nothing is."""
        return self.bug or (f"{self.seconds:.1f} s" if self.seconds > SECONDS else None)


def warm() -> None:
    """Import what the commands need, once for all forked processes."""
    import numpy as np

    from dpcli.base.registry import COMMANDS as ALL

    np.fft.rfft(np.ones(4))
    for registry in (MECHANISMS, SAMPLING, ACCOUNTANTS, FORMATS, PLOTS, CHART_FORMATS):
        for target in registry.values():
            load(target)
    for verb in COMMANDS:
        load(ALL[verb][0])
    for module in ("many", "exact", "pld"):
        load(f"dpcli.accountants.{module}:__name__")
    for module in ("accounting", "calibration_file", "curve", "meaning", "difference", "lint.run", "gate.judge", "gate.flags"):
        load(f"dpcli.{module}:__name__")
    for module in ("account", "calibration", "meaning", "difference", "gate", "lint", "disclosure"):
        load(f"dpcli.report.{module}_report:__name__")
    measured(case("warm/0"))


def measured(one: Case, *flags: str, patient: bool = False) -> Outcome:
    """Run a case in a forked process and wait for it. patient: without a limit of CPU time, but for an alarm after ten minutes."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        one.written(Path(folder))
        sys.stdout.flush()
        before = _resident()
        child = os.fork()
        if child == 0:
            _run(one, flags, folder, output.fileno(), patient)
        _, status, usage = os.wait4(child, 0)
        output.seek(0)
        text = output.read().decode(errors="replace")
    seconds, megabytes = usage.ru_utime + usage.ru_stime, max(usage.ru_maxrss / 1024.0 - before, 0.0)
    return Outcome(one, os.waitstatus_to_exitcode(status), seconds, megabytes, text)


def _resident() -> float:
    """Megabytes of this process now; 0 where the system does not say, which counts them to the command."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / 2.0**20


def _run(one: Case, flags: tuple[str, ...], folder: str, output: int, patient: bool) -> None:
    """The forked process: it never returns."""
    code = INTERNAL
    try:
        from dpcli.cli.main import main

        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.chdir(folder)
        if patient:
            signal.alarm(600)
        else:
            resource.setrlimit(resource.RLIMIT_CPU, (LIMITS[0], LIMITS[0] + 5))
        resource.setrlimit(resource.RLIMIT_AS, (LIMITS[1], LIMITS[1]))
        code = main([*flags, *one.arguments])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def report(outcomes: list[Outcome]) -> str:
    """Exit codes counted, the faults, the slowest and the biggest."""
    codes = Counter(outcome.code for outcome in outcomes)
    lines = [f"{len(outcomes)} files: " + ", ".join(f"exit {code}: {n}" for code, n in sorted(codes.items()))]
    lines[0] += f"; {sum(outcome.seconds for outcome in outcomes):.0f} s of CPU in all"
    by_verb: dict[str, Counter[int]] = {}
    for outcome in outcomes:
        by_verb.setdefault(outcome.case.arguments[0], Counter())[outcome.code] += 1
    lines += [
        f"  {verb}: " + ", ".join(f"{code}: {n}" for code, n in sorted(found.items())) for verb, found in sorted(by_verb.items())
    ]
    for title, key in (("slowest", "seconds"), ("biggest", "megabytes")):
        top = sorted(outcomes, key=lambda o: -float(getattr(o, key)))[:8]
        lines += [f"{title}:"] + [
            f"  {o.case.name}: {o.seconds:.2f} s, {o.megabytes:.0f} MB, exit {o.code}: {' '.join(o.case.arguments)}" for o in top
        ]
    faults = [outcome for outcome in outcomes if outcome.fault]
    lines += [f"faults: {len(faults)}"]
    lines += [f"  {told(outcome)}" for outcome in faults]
    return "\n".join(lines)


def told(outcome: Outcome) -> str:
    """A fault on one line."""
    return f"{outcome.case.name}: {outcome.fault}: {' '.join(outcome.case.arguments)}: {''.join(outcome.output.strip().splitlines()[-1:])}"


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--seed", default=str(int.from_bytes(os.urandom(4), "big")))
    parser.add_argument("--case", help="SEED/NUMBER of one case")
    chosen = parser.parse_args(words)
    warm()
    if chosen.case:
        outcome = measured(case(chosen.case), "-vv")
        last = f"exit {outcome.code}: {outcome.seconds:.2f} s, {outcome.megabytes:.0f} MB"
        _say(outcome.case.shown(), outcome.output, last)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes: list[Outcome] = []
    start = time.monotonic()
    try:
        for i in range(chosen.files):
            outcome = measured(case(f"{chosen.seed}/{i}"))
            outcomes.append(outcome)
            if outcome.fault:
                _say(told(outcome))
    except KeyboardInterrupt:
        pass
    _say(f"seed {chosen.seed}, {time.monotonic() - start:.0f} s", report(outcomes))
    return int(any(outcome.fault for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
