"""A small training file, ledgers with and without enough budget for its run, and a report function that stops the run."""

from __future__ import annotations

from pathlib import Path

from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms

FILE = """
format = 1
name = "tiny"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 1_437
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 2.0
steps = 30
sampling = { scheme = "poisson", batch_size = 64 }
[train]
task = "classification"
data = "digits"
model = "logistic"
learning_rate = 1.0
clipping = { norm = 1.0 }
public = "held-out"
checkpoint_every = 10
"""


def ledger(folder: Path, epsilon: float = 3.0, order: float = 12.0, name: str = "ledger.db"):
    terms = LedgerTerms("example", "add-remove", epsilon, 1e-5, filter="rdp", parameters={"order": order})
    return init(str(folder / name), "digits", terms)


def poor_ledger(folder: Path):
    """Make a ledger whose budget is too small for the run."""
    return ledger(folder, 0.3, 60.0, "poor.db")


class Stopped(Exception):
    pass


def stop_at(step: int):
    def report(done: int, metrics: object) -> None:
        if done == step:
            raise Stopped

    return report
