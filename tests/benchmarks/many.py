"""Many different mechanisms in one file, arrays in the library, and compositions on a grid: CPU seconds and peak memory.

    python -m tests.benchmarks.many [--all] [--peer PYTHON]

Files of 1, 10, 100, 1,000 and 5,000 mechanisms, no two alike, as `account` answers them (with --all: every accountant's row), each in a
process of its own; the ratio is over that of `import click, numpy` in the same run. Then `dpcli.epsilon` beside one question after the
other. With --peer, an interpreter that has dp-accounting, the grid compositions beside its own, medians of five in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS = (1, 10, 100, 1000, 5000)
HEAD = 'format = 1\nmechanism = [\n{}]\n[privacy]\nadjacency = "add-remove"\nunit = "example"\ndelta = 1e-6\n'
KINDS: dict[str, Callable[[float], str]] = {
    "sampled": lambda x: (
        f'type="gaussian",noise_multiplier={1 + 2 * x:.6f},sampling={{scheme="poisson",rate={0.002 - 0.001 * x:.7f}}}'
    ),
    "gaussian": lambda x: f'type="gaussian",noise_multiplier={80 + 160 * x:.6f}',
    "discrete": lambda x: f'type="discrete-gaussian",sensitivity=1,sigma={80 + 160 * x:.6f}',
    "laplace": lambda x: f'type="laplace",sensitivity=1.0,scale={80 + 160 * x:.6f}',
}
PEER = """
import json, statistics, sys, time
from dp_accounting.pld import privacy_loss_distribution as p
h = dict(value_discretization_interval=float(sys.argv[1]))
cases = {
    "Poisson Laplace": lambda: p.from_laplace_mechanism(1.0, sampling_prob=0.01, **h).self_compose(1000),
    "100 Gaussians": lambda: p.from_gaussian_mechanism(20.0, **h).self_compose(100),
    "Laplace x 10^6": lambda: p.from_laplace_mechanism(1000.0, **h).self_compose(10**6),
}
found = {}
for name, case in cases.items():
    times = []
    for _ in range(5):
        start = time.process_time()
        epsilon = case().get_epsilon_for_delta(1e-6)
        times.append(time.process_time() - start)
    found[name] = epsilon, statistics.median(times)
print(json.dumps(found))
"""


def text(kind: str, count: int) -> str:
    """A file of `count` mechanisms."""
    kinds = list(KINDS.values()) if kind == "mixed" else [KINDS[kind]]
    return HEAD.format("".join(f'{{name="m{i}",{kinds[i % len(kinds)](i / count)}}},\n' for i in range(count)))


def measured(command: list[str]) -> tuple[float, float, bytes]:
    """(CPU seconds, peak MB, standard output) of one process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    output = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    process.stdout.close()
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10), output


def files(every: bool) -> None:
    """The table of files."""
    base = statistics.median(measured([sys.executable, "-c", "import click, numpy"])[0] for _ in range(5))
    print(f"import click, numpy: {base:.3f} s\n{'mechanisms':>20} {'CPU s':>8} {'ratio':>7} {'MB':>6}  headline")  # noqa: T201
    from dpcli.base.registry import ACCOUNTANTS

    rows = [word for name in ACCOUNTANTS for word in ("-a", name)] if every else []
    for kind in (*KINDS, "mixed"):
        for count in COUNTS:
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text(kind, count))
                file.flush()
                cpu, peak, output = measured([sys.executable, "-m", "dpcli", "account", file.name, "-f", "json", *rows])
            said = json.loads(output or b"{}")
            headline = " ".join(str(value) for value in said.get("result", {}).values())
            print(f"{count:>11} {kind:8} {cpu:8.2f} {cpu / base:7.1f} {peak:6.0f}  {headline}")  # noqa: T201


def arrays() -> None:
    """`dpcli.epsilon` beside single questions of the same kind."""
    import numpy as np

    import dpcli

    cases = {
        "each of 10^5 steps, q 256/60000, sigma 1.1": (1.1, 256 / 60000, np.arange(1, 100_001)),
        "each of 10^5 steps, no sampling, sigma 100": (100.0, 1.0, np.arange(1, 100_001)),
        "30 noises x 30 rates, 1,000 steps": (np.linspace(0.8, 3.0, 30)[:, None], np.geomspace(1e-3, 0.1, 30), 1000),
    }
    for name, (noise, rate, steps) in cases.items():
        start = time.process_time()
        found = dpcli.epsilon(noise, rate, steps, delta=1e-5)
        whole = time.process_time() - start
        shape = np.broadcast_shapes(np.shape(noise), np.shape(rate), np.shape(steps))
        flat = [np.broadcast_to(x, shape).ravel() for x in (noise, rate, steps)]
        asked = np.linspace(0, len(flat[0]) - 1, 12).astype(int).tolist()
        start = time.process_time()
        for k in asked:
            dpcli.epsilon(*(x[k].item() for x in flat), delta=1e-5)
        alone = (time.process_time() - start) / len(asked) * len(flat[0])
        width = float(((found.upper - found.lower) / found.upper).max())
        print(f"{name:46} {whole:7.2f} s; one by one {alone:8.1f} s; widest interval {width:.0e}")  # noqa: T201


def grids(peer: str | None) -> None:
    """Compositions on a grid, ours and the peer's in one run."""
    from dpcli.accountants.pld import PldProfile
    from dpcli.mechanisms.noise.gaussian import Gaussian
    from dpcli.mechanisms.noise.laplace import Laplace
    from dpcli.mechanisms.sampling.poisson import PoissonSampled
    from dpcli.numerics.work import limited

    cases = {
        "Poisson Laplace": ((PoissonSampled(Laplace(1.0), 0.01), 1000),),
        "100 Gaussians": ((Gaussian(0.05), 100),),
        "Laplace x 10^6": ((Laplace(0.001), 10**6),),
    }
    ask = limited(lambda steps: PldProfile(steps).epsilon(1e-6))
    for name, steps in cases.items():
        times = []
        for _ in range(5):
            start = time.process_time()
            bound = ask(steps)
            times.append(time.process_time() - start)
        print(f"{name:18} dpcli {1e3 * statistics.median(times):8.1f} ms  [{bound.lower:.7f}, {bound.upper:.7f}]")  # noqa: T201
    for spacing in ("1e-4", "1e-3") if peer else ():
        assert peer is not None
        for name, (epsilon, cpu) in json.loads(measured([peer, "-c", PEER, spacing])[2]).items():
            print(f"{name:18} dp-accounting at {spacing} {1e3 * cpu:8.1f} ms  {epsilon:.7f}")  # noqa: T201


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--peer")
    chosen = parser.parse_args()
    files(chosen.all)  # first: what this process holds would count as its children's
    grids(chosen.peer)
    arrays()


if __name__ == "__main__":
    main()
