"""Compare whole commands with `python -c "import click, numpy"`: medians of 15 interleaved runs.

    python tests/benchmarks/start.py [repetitions]

Ratios of CPU and of wall time; for a gate of many files, alone and against a revision, milliseconds for each further one. Exits 1 if a
promise is broken: those below, and 3 s of CPU for a file of 1,000 different mechanisms. Run it with OMP_NUM_THREADS unset too: the cost of
threads is counted.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
YARDSTICK = "import click, numpy"
FURTHER = 50  # files beside the first
GATES = {"": [], " --base-ref": ["--base-ref", "HEAD"]}
WHO = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]
DPCLI = [sys.executable, "-m", "dpcli"]

# The most that is promised: times the yardstick, in CPU time.
PROMISED = {"dpcli --help": 0.4, "dpcli account mnist": 2.0, "dpcli gate, one file": 2.5}
EACH = 10.0  # milliseconds of CPU for each further file of a gate
MANY = 3.0  # seconds of CPU for a file of 1,000 different mechanisms


def small(k: int) -> str:
    """A pipeline file that a team might have many of."""
    return f"""format = 1
name = "p{k}"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = {60_000 + 37 * k}
delta = 1e-6
releases = "final-model"
[budget]
epsilon = 8.0
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = {1.1 + 0.003 * k:.3f}
steps = {1_000 + 13 * k}
sampling = {{ scheme = "poisson", batch_size = {256 + k} }}
"""


def heterogeneous(count: int = 1000) -> str:
    """A file of `count` mechanisms, no two alike: half sampled Gaussians, the rest Gaussian and Laplace."""
    privacy = 'unit = "example"\nadjacency = "add-remove"\ndataset_size = 1_000_000\ndelta = 1e-8\nreleases = "outputs"\n'
    sampled = 'type = "gaussian"\nnoise_multiplier = {}\nsampling = {{ scheme = "poisson", rate = {} }}'
    kinds = (
        lambda i: sampled.format(2 + i / 500, 0.001 + i * 1e-6),
        lambda i: f'type = "gaussian"\nnoise_multiplier = {50 + i}',
        lambda i: sampled.format(1 + i / 300, 0.002 + i * 1e-6),
        lambda i: f'type = "laplace"\nnoise_multiplier = {100 + i}',
    )
    mechanisms = (f'[[mechanism]]\nname = "m{i}"\n{kinds[i % 4](i)}\n' for i in range(count))
    return f"format = 1\n[privacy]\n{privacy}{''.join(mechanisms)}"


def seconds(command: list[str]) -> tuple[float, float]:
    """CPU (user and system, children included) and wall time of one run."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 1), done.stderr.decode()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measured(commands: dict[str, list[str]], repetitions: int) -> dict[str, tuple[float, float]]:
    """Medians of runs that take turns, after one of each that fills the caches of files."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for command in commands.values():
        seconds(command)
    for _ in range(repetitions):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {
        name: (statistics.median(cpu for cpu, _ in found), statistics.median(wall for _, wall in found))
        for name, found in times.items()
    }


def main(repetitions: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/p{k}.toml" for k in range(FURTHER + 1)]
        for k, path in enumerate(files):
            Path(path).write_text(small(k))
        many = f"{folder}/many.toml"
        Path(many).write_text(heterogeneous())
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "base")):
            subprocess.run(["git", "-C", folder, *WHO, *words], check=True)
        commands = {
            YARDSTICK: [sys.executable, "-c", YARDSTICK],
            "python alone": [sys.executable, "-c", "pass"],
            "import click": [sys.executable, "-c", "import click"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "dpcli --help": [*DPCLI, "--help"],
            "dpcli account mnist": [*DPCLI, "account", "examples/mnist.toml"],
            "dpcli lint mnist": [*DPCLI, "lint", "examples/mnist.toml"],
            "dpcli account, 1,000 mechanisms": [*DPCLI, "account", many],
            "dpcli account mnist -a all": [*DPCLI, "account", "examples/mnist.toml", "-a", "all"],
            **{f"dpcli gate, one file{how}": [*DPCLI, "gate", files[0], *more] for how, more in GATES.items()},
            **{f"dpcli gate, {FURTHER + 1} files{how}": [*DPCLI, "gate", *files, *more] for how, more in GATES.items()},
        }
        found = measured(commands, repetitions)
    cpu, wall = found[YARDSTICK]
    broken = ["1,000 mechanisms"] if found["dpcli account, 1,000 mechanisms"][0] > MANY else []
    print(f"{'command':34} {'CPU ms':>8} {'ratio':>7} {'promised':>9}   {'wall ms':>8} {'ratio':>7}")  # noqa: T201
    for name, (own_cpu, own_wall) in found.items():
        limit = PROMISED.get(name)
        broken += [name] if limit is not None and own_cpu > limit * cpu else []
        told = "" if limit is None else f"{limit:g}"
        print(f"{name:34} {1e3 * own_cpu:8.0f} {own_cpu / cpu:7.2f} {told:>9}   {1e3 * own_wall:8.0f} {own_wall / wall:7.2f}")  # noqa: T201
    for how in GATES:
        one, many = found[f"dpcli gate, one file{how}"], found[f"dpcli gate, {FURTHER + 1} files{how}"]
        each = [1e3 * (many[k] - one[k]) / FURTHER for k in (0, 1)]
        print(f"each further file of a gate{how}: {each[0]:.1f} ms of CPU (promised {EACH:g}), {each[1]:.1f} ms of wall time")  # noqa: T201
        broken += [f"each further file{how}"] if each[0] > EACH else []
    for name in broken:
        print(f"more than is promised: {name}")  # noqa: T201
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
