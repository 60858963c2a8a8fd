"""Plants one bug at a time in a copy of the package and runs the suite on it: `python tests/planted/run.py [name part]`.

The copy without a bug must pass first, and must be what is imported; otherwise a kill would mean nothing. Prints what killed each, or
SURVIVED; exits 1 where fewer than 95 % are killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.planted.federated_plants import FEDERATED_PLANTS  # noqa: E402
from tests.planted.ledger_plants import LEDGER_PLANTS  # noqa: E402
from tests.planted.plants import PLANTS  # noqa: E402
from tests.planted.train_plants import TRAIN_PLANTS  # noqa: E402

MATHS = (
    ("tests/accountants/test_reference_values.py", "tests/accountants/test_vectors.py", "tests/test_rounding.py"),
    (
        "tests/accountants/test_big_jump.py",
        "tests/accountants/test_many_weak.py",
        "tests/mechanisms",
        "tests/numerics",
        "tests/accountants/test_exact.py",
    ),
)
USES = (
    (
        "tests/accountants/test_schemes.py",
        "tests/accountants/test_partitions.py",
        "tests/accountants/test_calibration.py",
        "tests/cli",
        "tests/gate",
        "tests/test_examples.py",
    ),
)
LAWS = (("tests/accountants/test_laws.py",),)
LEDGER = (("tests/ledger/test_planted.py", "tests/ledger/test_damage.py"), ("tests/ledger/test_crash.py",), ("tests/ledger",))
FEDERATED = (("tests/federated",), ("tests/ledger/test_rounds.py", "tests/ledger/test_rounds_bound.py"))
SAMPLING = tuple(f"tests/train/test_sampling{part}.py" for part in ("", "_draws", "_binomial", "_units"))
NOISE = tuple(f"tests/train/test_{part}.py" for part in ("randomness", "noise", "noise_correlated"))
TRAIN = ((*NOISE, *SAMPLING), ("tests/train",))
WHOLE = ("analysis/", "gate/", "pipeline/", "mechanisms/sampling/schemes.py")  # files that are not mathematics
COPIED = ("dpcli", "tests", "examples", "man", "README.md", "pyproject.toml", ".pre-commit-hooks.yaml")
PYTEST = ("-m", "pytest", "-x", "-q", "-m", "long or not long", "--no-header", "--tb=no", "-p", "no:cacheprovider")
WORKERS = 2
Plant = tuple[str, str, str, str]


def rounds(plant: Plant | None) -> tuple[tuple[str, ...], ...]:
    """Test files in the order that kills soonest: what is sharp and quick first, the rest only where that lets it live."""
    if plant is None:
        return (*MATHS, *USES, *LAWS, *LEDGER, *FEDERATED, *TRAIN)
    if plant[1].startswith("ledger/"):
        return LEDGER
    if plant[1].startswith(("federated/", "sessions/process.py")):
        return FEDERATED
    if plant[1].startswith("train/"):
        return (SAMPLING, *TRAIN) if plant[1].startswith("train/sampling") else TRAIN
    if plant[1].startswith(("lint/", "pipeline/folders.py", "cli/rewriting.py")):
        return (("tests/lint",), *USES)
    return (*USES, *LAWS, *MATHS) if plant[1].startswith(WHOLE) else (*MATHS, *USES, *LAWS)


def copy_to(folder: Path, plant: Plant | None) -> None:
    """The package and its tests, with the plant's text replaced."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)
    if plant is not None:
        _, file, old, new = plant
        target = folder / "dpcli" / file
        text = target.read_text("utf-8")
        assert text.count(old) == 1, plant
        target.write_text(text.replace(old, new), "utf-8")


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python on the copy alone; any failing example will do, so hypothesis neither shrinks nor remembers."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "planted"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def failure(plant: Plant | None) -> str | None:
    """The first test that fails on a copy with the bug in it, None where none does."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_to(folder, plant)
        origin = python(folder, "-c", "import dpcli; print(dpcli.__file__)").stdout.strip()
        assert origin == str(folder / "dpcli" / "__init__.py"), f"the copy is not what is imported: {origin}"
        for paths in rounds(plant):
            done = python(folder, *PYTEST, *paths)
            if done.returncode != 0:
                failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return failed[0].split(" - ")[0].split()[1] if failed else f"exit {done.returncode}"
    return None


def main(part: str) -> int:
    chosen = [
        plant
        for plant in (*PLANTS, *LEDGER_PLANTS, *TRAIN_PLANTS, *FEDERATED_PLANTS)
        if part in plant[0] or plant[1].startswith(part)
    ]
    broken = failure(None)
    if broken is not None:
        print(f"without any bug {broken} fails: nothing can be learnt")  # noqa: T201
        return 2
    killed = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for plant, killer in zip(chosen, pool.map(failure, chosen), strict=True):
            killed += killer is not None
            print(f"{plant[0]:55} {killer or 'SURVIVED'}", flush=True)  # noqa: T201
    print(f"killed {killed} of {len(chosen)}")  # noqa: T201
    return 0 if killed >= 0.95 * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
