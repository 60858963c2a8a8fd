"""Published deployments: what the files cost, by closed forms, and by what was published where the same theorem gives it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import dpcli
from dpcli.analysis.account import account, headline
from dpcli.base.rounding import up
from tests.cases import of_each
from tests.command import ROOT
from tests.command import dpcli as run

FOLDER = ROOT / "examples" / "deployments"
FILES = sorted(FOLDER.glob("*.toml"))


def gaussian(rho: float, delta: float) -> float:
    """The epsilon of one continuous Gaussian with this rho."""
    mu = math.sqrt(2.0 * rho)
    return float(
        brentq(lambda e: norm.cdf(0.5 * mu - e / mu) - math.exp(e + norm.logcdf(-0.5 * mu - e / mu)) - delta, 0.0, 60.0, xtol=1e-12)
    )


def bounded_range(epsilon: float, count: int, delta: float) -> float:
    """Dong, Durfee, Rogers 2020, Theorem 2: what LinkedIn states."""
    worst = epsilon / -math.expm1(-epsilon)
    return count * (worst - 1.0 - math.log(worst)) + epsilon * math.sqrt(0.5 * count * math.log(1.0 / delta))


# From below, and from above at once: what another computation allows.
EXPECTED = {
    "apple-counts.toml": (38.0, 38.0),
    "census-redistricting.toml": (gaussian(2.62999, 1e-10) * 0.9999, gaussian(2.63, 1e-10) * 1.0001),
    "cifar10.toml": (0.8148, 0.8151),  # a grid of another accountant: 0.81502
    "federated-rounds.toml": (3.89878, 3.89888),  # a grid of another accountant: 3.89888
    "gboard-spanish.toml": (8.9, 8.95),
    "google-mobility.toml": (2.64, 2.64),
    "gpt2-e2e.toml": (2.3, 3.0),
    "linkedin-top-k.toml": (25.0, bounded_range(0.15, 3000, 1e-9)),
    "pate-svhn.toml": (8.19, 13.25),  # of what depends on the votes, and the line of zCDP
    "wikipedia-pageviews.toml": (gaussian(0.015, 1e-7) * 0.9999, gaussian(0.015, 1e-7) * 1.0001),
}

# The accountant by which the number was found, and the number, with what its rounding leaves open.
PUBLISHED = {
    "federated-rounds.toml": ("moments", 4.634, 5e-4),
    "gpt2-e2e.toml": ("rdp", 3.0, 1e-5),
    "gboard-spanish.toml": ("zcdp", 8.9, 5e-2),
    "google-mobility.toml": ("basic", 2.64, 1e-12),
}
RHO = {"census-redistricting.toml": 2.63, "wikipedia-pageviews.toml": 0.015, "gboard-spanish.toml": 0.81}


def rows() -> dict[str, str]:
    """The table of the folder: what it gives as the epsilon of each file."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (FOLDER / "README.md").read_text().splitlines()
        if ".toml |" in line
    ]
    return {row[0]: row[2] for row in cells}


def test_each_deployment_is_in_the_tables() -> None:
    assert {path.name for path in FILES} == set(EXPECTED) == set(rows()) and len(FILES) == 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_costs_what_the_table_says_and_another_computation_allows(path: Path) -> None:
    low, high = EXPECTED[path.name]
    found = headline(dpcli.load(path))
    assert low <= found.upper <= high
    assert up(found.upper) == rows()[path.name]
    if path.name in RHO:
        assert found.rho.value == pytest.approx(RHO[path.name], rel=1e-5)
    assert found.budget is None or found.budget.verdict in ("pass", "warn")
    if path.name in PUBLISHED:
        name, value, open_ = PUBLISHED[path.name]
        assert account(dpcli.load(path), [name]).upper == pytest.approx(value, abs=open_)


def test_the_stated_month_is_that_of_the_counts() -> None:
    assert bounded_range(0.15, 3000, 1e-9) == pytest.approx(34.9, abs=0.05)


@of_each("path", FILES)
def test_it_is_sound_and_says_where_it_is_from(path: Path) -> None:
    assert path.read_text().startswith("# ") and "Published" in path.read_text()
    result = run("lint", str(path), "-f", "json")
    assert result.code == 0 and not [d for d in json.loads(result.out)["diagnostics"] if d["severity"] == "error"]
