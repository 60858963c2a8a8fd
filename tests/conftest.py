"""Shared settings of the tests, and which of them run where an extra is not installed."""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from tests.ledger.postgres.cluster import Cluster

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before anything imports numpy
    os.environ.setdefault(threads, "1")  # there are as many tests at once as cores
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each worker, and each of the hundreds of processes, compiles everything anew
sys.dont_write_bytecode = False
os.environ.setdefault("CI", "1")  # the same draws for everybody; fresh ones where it is empty, as each night


def seed_of_run() -> int:
    """A number that a commit's files decide, so that who runs its tests again sees the same cases, and the next commit tries others."""
    if not os.environ["CI"]:
        return random.SystemRandom().getrandbits(32)
    if shutil.which("git") is None:
        return 0
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(tree.stdout[:8], 16) if tree.returncode == 0 else 0


RUN_SEED = os.environ.get("DPCLI_EXAM_SEED") or str(seed_of_run())
os.environ["DPCLI_EXAM_SEED"] = RUN_SEED  # of the workers too
random.seed(RUN_SEED)  # for what modules draw when they are imported
MEMORY = Path("/dev/shm")


def serves(folder: Path) -> bool:
    """Whether tests may write into a folder, and run what they write; a container's memory often forbids the latter."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 4 << 30 and not os.statvfs(folder).f_flag & os.ST_NOEXEC


if serves(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # hundreds of ledgers wait for a disk at each charge

_QUIET = [HealthCheck.too_slow, HealthCheck.differing_executors]
settings.register_profile("dev", deadline=None, max_examples=5, suppress_health_check=_QUIET)
settings.register_profile("ci", deadline=None, max_examples=10, suppress_health_check=_QUIET, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=400, suppress_health_check=_QUIET)
settings.register_profile(  # for mutants: any failure will do, the smallest example is of no interest
    "mutants",
    deadline=None,
    max_examples=20,
    suppress_health_check=_QUIET,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# Folders whose tests all need a package: not collected without it.
ROOMS = {"train": "torch"}


def pytest_configure(config: pytest.Config) -> None:
    """Workers take neighbouring tests, which share a server and what is remembered, and at the end each other's (`--dist worksteal`)."""
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"


def absent(package: str) -> bool:
    """Whether a package, or the program that it is, is not installed beside this Python."""
    return importlib.util.find_spec(package) is None and not Path(sys.executable).with_name(package).exists()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent == Path(__file__).parent and absent(ROOMS.get(collection_path.name, "pytest")):
        return True
    return None


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"DPCLI_EXAM_SEED={RUN_SEED}"] + [
        f"tests/{room}: not collected: {package} is not installed" for room, package in ROOMS.items() if absent(package)
    ]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while modules are imported and tests collected, nor later among what was made then, which stays to the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before those that are marked as long or nightly are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the cases of a test that is marked `sampled` over the three runs.

    A quick run takes few cases, in which every value of every parameter occurs; a long one takes cases in which every pair of values
    does; the rest is nightly. `sampled(n)`: n cases are quick, evenly spaced, the rest is long; `sampled(n, m)`: m of the rest are long,
    what is then left is nightly. Whoever asks for a test by name (-k, or file::test) gets every case of it.
    """
    if config.option.keyword or any("::" in argument for argument in config.args):
        return
    families: dict[tuple[Path, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sampled") is not None:
            families.setdefault((item.path, item.originalname), []).append(item)
    for family in families.values():
        counts = next(family[0].iter_markers("sampled")).args
        by_day = [item for item in family if not any(item.iter_markers("nightly"))]
        plain = [item for item in by_day if not any(item.iter_markers("long"))]
        quick = spaced(plain, counts[0]) if counts else covering(plain, 1)
        rest = [item for item in by_day if item not in quick]
        long = spaced(rest, counts[1]) if len(counts) > 1 else rest if counts else covering(by_day, 2)
        for item in family:
            if item not in quick:
                item.add_marker(pytest.mark.long if item in long else pytest.mark.nightly)


def spaced(items: list[pytest.Function], count: int) -> list[pytest.Function]:
    """Return `count` of the items, evenly spaced, or all where there are not as many."""
    count = min(count, len(items))
    return [items[k * len(items) // count] for k in range(count)]


def covering(family: list[pytest.Function], strength: int) -> list[pytest.Function]:
    """Return few cases in which every value of every parameter (strength 1), or every pair of values (2), occurs, none much more often."""
    values = [
        set(
            combinations(
                sorted((name, id(value)) for name, value in item.callspec.params.items()), min(strength, len(item.callspec.params))
            )
        )
        for item in family
    ]
    chosen: list[pytest.Function] = []
    missing, seen = set[object]().union(*values), Counter[object]()
    while missing:
        best = max(range(len(family)), key=lambda k: (len(values[k] & missing), -sum(seen[value] for value in values[k])))
        chosen.append(family[best])
        seen.update(values[best])
        missing -= values[best]
    return chosen


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw anew for each test, whatever ran before it; `@pytest.mark.needs("torch")`: skipped where that is not installed."""
    random.seed(f"{RUN_SEED} {item.nodeid}")
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(random.getrandbits(63))
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            if absent(package):
                pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server of our own, started when a test of any folder first asks for it."""
    from tests.ledger.postgres.cluster import OWNER, missing, running

    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running() as server:
        server.run(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        yield server


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as it is on a terminal: a shell ignores it for what it starts in the background, and so do that one's children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A module that a test wrote, as a user's, is forgotten with it: the next test's may bear the same name."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    for name in sys.modules.keys() - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]
    sys.path[:] = path


# Folders and files whose tests are about numbers, or plant bugs where numbers are made: there every question is computed each time.
COMPUTED = {"accountants", "audit", "benchmarks", "exam", "mechanisms", "numerics"}
COMPUTED_FILES = {"test_benchmarks.py", "test_meaning.py", "test_rounding.py"}


@pytest.fixture(autouse=True)
def remembered_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Elsewhere an accountant's answer is remembered from one test to the next."""
    if request.path.parent.name in COMPUTED or request.path.name in COMPUTED_FILES:
        yield
        return
    from tests.remembered import remembering

    with remembering():
        yield
