"""A ledger of clients and a file of federated rounds, each a Gaussian that costs RHO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from tests.federated.files import file

DATASET = "phones"
SIGMA = 20.0  # one round of one Gaussian: rho = 1 / (2 sigma^2)
RHO = 1 / (2 * SIGMA**2)


def opened(url: str, epsilon: float = 1.0, adjacency: str = "zero-out", filter: str = "zcdp", **more: Any) -> str:
    """Open a ledger whose unit is a client, by default with the zcdp filter, and return its URL."""
    terms = LedgerTerms(unit="client", adjacency=adjacency, epsilon=epsilon, delta=1e-6, filter=filter, schema="0" * 64, **more)
    init(url, DATASET, terms).close()
    return url


def written(folder: Path, table: dict[str, Any] | None = None, entry: dict[str, Any] | None = None, **privacy: Any) -> str:
    path = folder / "fed.toml"
    usual = {"noise_multiplier": SIGMA, "steps": 10_000}
    path.write_text(file({"clip": 1.0, "clients_per_round": 100, **(table or {})}, {**usual, **(entry or {})}, privacy))
    return str(path)


def spent(url: str, name: str = "rho") -> float:
    with open_ledger(url, DATASET) as ledger:
        return float(ledger.state().spent[name])


def cap(url: str, name: str = "rho") -> float:
    with open_ledger(url, DATASET) as ledger:
        return float(ledger.state().caps[name])


def keys(url: str) -> list[str]:
    """Return the keys of the runs, without the login with which the names of runs begin in a database."""
    with open_ledger(url, DATASET) as ledger:
        return [key.rpartition("//")[2] for key in ledger.state().runs]
