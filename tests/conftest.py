"""Shared settings of the tests, and which of them run where an extra is not installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.differing_executors]
settings.register_profile("dev", deadline=None, max_examples=15, suppress_health_check=_QUIET)
settings.register_profile("ci", deadline=None, max_examples=15, suppress_health_check=_QUIET, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=400, suppress_health_check=_QUIET)
settings.register_profile(  # for planted bugs: any failure will do, the smallest example is of no interest
    "planted",
    deadline=None,
    max_examples=20,
    suppress_health_check=_QUIET,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# Folders whose tests all need a package: not collected without it.
ROOMS = {"train": "torch"}


def absent(package: str) -> bool:
    """Whether a package that an extra brings is not installed."""
    return importlib.util.find_spec(package) is None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent == Path(__file__).parent and absent(ROOMS.get(collection_path.name, "pytest")):
        return True
    return None


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"tests/{room}: not collected: {package} is not installed" for room, package in ROOMS.items() if absent(package)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.needs("torch")`: skipped where that is not installed."""
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            if absent(package):
                pytest.skip(f"{package} is not installed")
