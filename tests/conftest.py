"""Settings of all tests: their random seed, hypothesis profiles, shared fixtures, and which tests a run skips."""

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
os.environ.setdefault(
    "CI", "1"
)  # random cases follow from the commit; they are fresh if the variable is empty, as in the nightly run


def seed_of_run() -> int:
    """Return a seed that follows from the files of the commit, so that a run can be repeated, and the next commit tries other cases."""
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
MEMORY = Path("/dev/shm")  # a file system in memory


def is_usable(folder: Path) -> bool:
    """Return whether tests can write 4 GiB into a folder and run programs there, which /dev/shm often forbids in a container."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 4 << 30 and not os.statvfs(folder).f_flag & os.ST_NOEXEC


if is_usable(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # on a disk, the ledgers of the tests would wait at each charge

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

# Folders whose tests all need a package. Without the package they are not collected.
FOLDERS_NEEDING = {"train": "torch"}


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker neighbouring tests, which share a server and cached answers. A worker that has finished takes tests of another."""
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"


def absent(package: str) -> bool:
    """Return whether neither a package nor a program of this name is installed with this Python."""
    return importlib.util.find_spec(package) is None and not Path(sys.executable).with_name(package).exists()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent == Path(__file__).parent and absent(FOLDERS_NEEDING.get(collection_path.name, "pytest")):
        return True
    return None


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"DPCLI_EXAM_SEED={RUN_SEED}"] + [
        f"tests/{folder}: not collected: {package} is not installed"
        for folder, package in FOLDERS_NEEDING.items()
        if absent(package)
    ]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage during the collection of tests, to save time, and later ignore the objects that it has made."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before those that are marked as long or nightly are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Distribute the cases of each test with the mark `sampled` over the quick, the long and the nightly run.

    By default, the quick run takes few cases in which every value of every parameter occurs, the long run cases in which every pair of
    values occurs, and the nightly run the rest. `sampled(n)` makes n evenly spaced cases quick and the rest long; `sampled(n, m)` makes m
    of the rest long and the others nightly. A test that is requested by name (-k, or file::test) runs with all cases.
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
    """Return `count` of the items, evenly spaced, or all items if there are fewer."""
    count = min(count, len(items))
    return [items[k * len(items) // count] for k in range(count)]


def covering(family: list[pytest.Function], strength: int) -> list[pytest.Function]:
    """Return few cases in which every value of every parameter (strength 1), or every pair of values (2), occurs about equally often."""
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
    """Seed random numbers for each test by its name, so that they do not depend on other tests. Skip a test whose packages are missing.

    `@pytest.mark.needs("torch")` states that a test needs a package.
    """
    random.seed(f"{RUN_SEED} {item.nodeid}")
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(random.getrandbits(63))
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            if absent(package):
                pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Start a PostgreSQL server for all tests of a worker, at the first test that asks for it."""
    from tests.ledger.postgres.cluster import OWNER, missing, running

    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running() as server:
        server.run(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        yield server


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt the test, as on a terminal. Processes that a shell starts in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test wrote and imported, as the next test may write modules with the same names."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    for name in sys.modules.keys() - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]
    sys.path[:] = path


# Folders and files whose tests are about numbers, or plant bugs where numbers are computed. They use no cache of answers.
COMPUTED = {"accountants", "audit", "benchmarks", "exam", "mechanisms", "numerics"}
COMPUTED_FILES = {"test_benchmarks.py", "test_meaning.py", "test_rounding.py"}


@pytest.fixture(autouse=True)
def cached_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cache the answers of accountants from one test to the next (answer_cache.py), except in COMPUTED and COMPUTED_FILES."""
    if request.path.parent.name in COMPUTED or request.path.name in COMPUTED_FILES:
        yield
        return
    from tests.answer_cache import remembering

    with remembering():
        yield
