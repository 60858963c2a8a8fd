"""Change the package at random places, one at a time, and count how many changes some test notices.

    python -m tests.mutants --count 40 --seed 7 --room numerics

A mutant is a change of a function that a test file imports (operators.py lists the changes). Those test files run on a copy of the project,
first as it is, which they must pass, then with the change, until the first failure. Prints a line for each mutant, then the score: a mutant
that no test notices shows a line whose meaning no test states. A run that exceeds its time limit decides nothing and does not count.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from tests.mutants.operators import Mutant, mutants
from tests.syntax_trees import nodes

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "dpcli",
    "tests",
    "examples",
    "man",
    "README.md",
    "pyproject.toml",
    ".github",
    ".ci",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    "LICENSE",
)
PYTEST = ("-m", "pytest", "-x", "-q", "-m", "not nightly", "--no-header", "--tb=no", "-p", "no:cacheprovider")
WORKERS = 2
Verdict = Literal["killed", "survived", "too slow", "without a mutant the tests fail"]


@dataclass(frozen=True)
class Case:
    """A mutant of a file, and the test files that import what it changes."""

    file: str
    mutant: Mutant
    tests: tuple[str, ...]


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of everything that a file imports from the package, also within functions."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "dpcli":
            yield from ((node.module, alias.name) for alias in node.names)


def cases(root: Path) -> dict[str, list[Case]]:
    """Return all mutants of what test files import, by the first folder of the changed file."""
    importers: Mapping[tuple[str, str], set[str]] = defaultdict(set)
    for path in sorted((root / "tests").rglob("test_*.py")):
        for module, name in imports(path):
            importers[module, name].add(str(path.relative_to(root)))
    result: dict[str, list[Case]] = defaultdict(list)
    for path in sorted((root / "dpcli").rglob("*.py")):
        file = str(path.relative_to(root))
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        package, _, last = module.rpartition(".")
        whole = importers.get((package, last), set())  # `from dpcli.gate import judge` may use any function of it
        names = {name for owner, name in importers if owner == module}
        if not names and not whole:
            continue
        for mutant in mutants(path.read_text("utf-8")):
            name = mutant.function.partition(".")[0]
            tests = whole | (importers[module, name] if name in names else set())
            if tests:
                result[path.relative_to(root / "dpcli").parts[0]].append(Case(file, mutant, tuple(sorted(tests))))
    return result


def drawn(by_room: Mapping[str, Sequence[Case]], count: int, seed: int) -> list[Case]:
    """Return `count` mutants: rooms in turn, so that a small one is not forgotten, and one at random of the room."""
    generator = random.Random(seed)
    rooms = sorted(by_room)
    generator.shuffle(rooms)
    return [generator.choice(by_room[rooms[k % len(rooms)]]) for k in range(count)]


def passes(folder: Path, tests: Sequence[str], seconds: float) -> bool | None:
    """Return whether test files pass on a copy of the project; None where the time limit ends them."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "mutants"}
    command = [sys.executable, *PYTEST, *tests]
    try:
        return (
            subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        return None


def verdict(folder: Path, case: Case, seconds: float) -> Verdict:
    """Return what the tests say of a mutant, on a copy that is left as it was."""
    path = folder / case.file
    source = path.read_text("utf-8")
    clean = passes(folder, case.tests, seconds)
    if clean is None:
        return "too slow"
    if not clean:
        return "without a mutant the tests fail"
    try:
        rewrite(path, case.mutant.applied(source))
        found = passes(folder, case.tests, seconds)
    finally:
        rewrite(path, source)
    return "too slow" if found is None else "survived" if found else "killed"


def rewrite(path: Path, source: str) -> None:
    """Change a file, and forget what Python compiled of it: it would take that for this source's, if of the same second and size."""
    path.write_text(source, "utf-8")
    Path(cache_from_source(path)).unlink(missing_ok=True)


def copied(root: Path, folder: Path) -> Path:
    """Copy the project to a folder, and return that."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).exists():
            shutil.copy(root / name, folder / name)
    return folder


def verdicts(root: Path, chosen: Sequence[Case], seconds: float) -> Iterator[tuple[Case, Verdict]]:
    """Yield each mutant with its verdict, in the order given; each worker has a copy of the project to itself."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(WORKERS) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for k in range(WORKERS):
            free.put(copied(root, Path(name) / str(k)))

        def judged(case: Case) -> Verdict:
            folder = free.get()
            try:
                return verdict(folder, case, seconds)
            finally:
                free.put(folder)

        yield from zip(chosen, pool.map(judged, chosen), strict=True)


def main(arguments: Sequence[str]) -> int:
    """Print the verdict of each mutant and the score; return 1 where tests fail without a mutant, so that nothing can be learnt of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default 40)")
    parser.add_argument("--seed", type=int, default=None, help="which mutants (default: drawn)")
    parser.add_argument("--room", default=None, help="only files of this folder of dpcli/ (default: all)")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of each run of tests (default 300)")
    options = parser.parse_args(arguments)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    by_room = {room: found for room, found in cases(ROOT).items() if options.room in (None, room)}
    if not by_room:
        parser.error(f"dpcli/{options.room}: no test file imports a function of this folder")
    print(f"{sum(map(len, by_room.values())):,} mutants in {len(by_room)} folders; {options.count} of them, seed {seed}")  # noqa: T201
    counts: dict[Verdict, int] = defaultdict(int)
    for case, said in verdicts(ROOT, drawn(by_room, options.count, seed), options.seconds):
        counts[said] += 1
        change = case.mutant.shown((ROOT / case.file).read_text("utf-8"))
        print(f"{said:10} {case.file}:{case.mutant.line} {case.mutant.function}: {change}", flush=True)  # noqa: T201
    decided = counts["killed"] + counts["survived"]
    print(f"score: {counts['killed']} of {decided} killed; {options.count - decided} undecided")  # noqa: T201
    return 1 if counts["without a mutant the tests fail"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
