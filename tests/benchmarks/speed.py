"""CPU time of whole commands over that of `python -c "import click, numpy"`, medians of interleaved runs in one session.

    python tests/benchmarks/speed.py [repetitions]

Promises: --help and lint under 100 ms of CPU; a file of 1,000 different mechanisms under 3 s. What starting costs is in start.py.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
YARDSTICK = [sys.executable, "-c", "import click, numpy"]


def heterogeneous(count: int = 1000) -> str:
    """A file of `count` mechanisms, no two alike: half sampled Gaussians, the rest Gaussian, Laplace and stated epsilons."""
    privacy = 'unit = "example"\nadjacency = "add-remove"\ndataset_size = 1_000_000\ndelta = 1e-8\nreleases = "outputs"\n'
    head = f"format = 1\n[privacy]\n{privacy}"
    kinds = (
        lambda i: (
            f'type = "gaussian"\nnoise_multiplier = {2 + i / 500}\nsampling = {{ scheme = "poisson", rate = {0.001 + i * 1e-6} }}'
        ),
        lambda i: f'type = "gaussian"\nnoise_multiplier = {50 + i}',
        lambda i: (
            f'type = "gaussian"\nnoise_multiplier = {1 + i / 300}\nsampling = {{ scheme = "poisson", rate = {0.002 + i * 1e-6} }}'
        ),
        lambda i: f'type = "laplace"\nnoise_multiplier = {100 + i}',
    )
    return head + "".join(f'[[mechanism]]\nname = "m{i}"\n{kinds[i % 4](i)}\n' for i in range(count))


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 1), done.stderr.decode()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(repetitions: int) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(heterogeneous())
        file.flush()
        dpcli = [sys.executable, "-m", "dpcli"]
        commands = {
            "import click, numpy": YARDSTICK,
            "dpcli --help": [*dpcli, "--help"],
            "dpcli lint mnist": [*dpcli, "lint", "examples/mnist.toml"],
            "dpcli account mnist": [*dpcli, "account", "examples/mnist.toml"],
            "dpcli account mnist -f json": [*dpcli, "account", "examples/mnist.toml", "-f", "json"],
            "dpcli account analytics": [*dpcli, "account", "examples/analytics.toml"],
            "dpcli calibrate-sigma": [
                *dpcli, "calibrate-sigma", "--target-epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.0042667", "--steps", "14063",
            ],
            "dpcli lint, 1,000 mechanisms": [*dpcli, "lint", file.name],
            "dpcli account, 1,000 mechanisms": [*dpcli, "account", file.name],
        }  # fmt: skip
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repetitions):
            for name, command in commands.items():
                times[name].append(cpu_seconds(command))
    base = statistics.median(times["import click, numpy"])
    print(f"{'command':34} {'CPU ms':>8} {'ratio':>7}")  # noqa: T201
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:34} {1e3 * median:8.0f} {median / base:7.2f}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
