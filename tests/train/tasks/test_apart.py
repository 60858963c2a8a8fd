"""Neither the model of a run nor the records declared public are made from the private records: otherwise the run is refused."""

from __future__ import annotations

import cProfile
import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.ledger.stores.places import open_ledger
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.training_run import train
from tests.command import dpcli
from tests.train.loop.conftest import FILE
from tests.train.loop.fronts import books_of

CUSTOM = FILE.replace(
    'task = "loop"', 'task = "custom"\ndata = "apart:records"\nmodel = "apart:model"\nloss = "apart:loss"\nlearning_rate = 0.1'
)
MODULE = """
import functools, torch
from torch import nn
from torch.nn import functional
BEGINNING = torch.ones(3)

def load():
    torch.manual_seed(1)
    return torch.randn(60, 5), torch.randint(0, 3, (60,))

def public():
    torch.manual_seed(2)
    return torch.randn(60, 5), torch.randint(0, 3, (60,))

def metric(model, batch):
    return {"accuracy": (model(batch[0]).argmax(1) == batch[1]).float().mean()}

def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

def records():
    return load()

"""
PLAIN = "def model():\n    return nn.Linear(5, 3)\n"
MADE_OF_RECORDS = {
    "standardised": "def model():\n    found = nn.Linear(5, 3)\n    found.weight.data /= records()[0].std(0)\n    return found\n",
    "by another function": "def size():\n    return len(records()[0][0])\ndef model():\n    return nn.Linear(size(), 3)\n",
    "cached": "records = functools.lru_cache(records)\ndef model():\n    records()\n    return nn.Linear(5, 3)\n",
    "another name": "records = load\ndef model():\n    return nn.Linear(load()[0].shape[1], 3)\n",
}


pytestmark = pytest.mark.usefixtures("folder")  # each test has a current folder of its own


def written(text: str, code: str) -> None:
    """The module gets a name of its own: Python imports each once."""
    name = f"apart_{hashlib.sha256((text + code).encode()).hexdigest()[:12]}"
    Path(f"{name}.py").write_text(MODULE + code)
    Path("own.toml").write_text(text.replace("apart:", f"{name}:"))


def refused(said: str) -> None:
    """Before anything is charged."""
    books = books_of(Path("."))
    with open_ledger(books) as ledger:
        with pytest.raises(InputError, match=said):
            train(plan_of("own.toml"), ledger)
        assert ledger.state().runs == {}


@pytest.mark.parametrize("way", MADE_OF_RECORDS)
def test_a_model_that_is_made_of_the_records_is_refused(way: str) -> None:
    written(CUSTOM, MADE_OF_RECORDS[way])
    refused(r"train.model: expected a model that is made without the private records, found that apart_\w+:model calls")


def test_what_the_program_reads_beside_them_is_in_the_statement() -> None:
    """And a right one is trained, also under a profiler."""
    written(CUSTOM, PLAIN.replace("nn.Linear(5, 3)", "nn.Sequential(nn.Linear(5, 3), Scaled())") + SCALED)
    planned = dpcli("train", "own.toml", "--dry-run", folder=Path("."))
    assert "also reads" in planned.out and "BEGINNING of shape (3): none of these may come from private records" in planned.out
    outcome = cProfile.Profile().runcall(train, plan_of("own.toml"))  # whoever looks where the time goes
    said = (Path(outcome.folder) / "statement.md").read_text()
    assert "BEGINNING of shape (3). Its author vouches that none of these comes from private records" in said


SCALED = "class Scaled(nn.Module):\n    def forward(self, x):\n        return x * BEGINNING\n"
WITH_PUBLIC = CUSTOM.replace('loss = "apart:loss"', 'loss = "apart:loss"\nmetric = "apart:metric"\npublic = "apart:{0}"')
TABLES = FILE.replace(
    'task = "loop"',
    'task = "classification"\ndata = "a.csv"\npublic = "b.csv"\nmodel = "logistic"\nclasses = 3\nlearning_rate = 0.1',
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("public", ["records", "load", "public"])
def test_functions_of_the_same_records(public: str) -> None:
    written(WITH_PUBLIC.replace("{0}", public), PLAIN)
    if public == "public":
        assert train(plan_of("own.toml")).metrics
    else:
        refused("train.public: expected other records than the private ones")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["a copy", "a link", "others"])
def test_files_of_the_same_records(way: str) -> None:
    rng = np.random.default_rng(3)
    inputs, labels = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 3, 60)

    def table(name: str, values: np.ndarray) -> None:
        lines = [",".join(map(repr, [*map(float, row), int(label)])) for row, label in zip(values, labels, strict=True)]
        Path(name).write_text("\n".join(["a,b,c,d,label", *lines]))

    table("a.csv", inputs)
    if way == "a copy":
        shutil.copy("a.csv", "b.csv")
    elif way == "a link":
        Path("b.csv").symlink_to("a.csv")
    else:
        table("b.csv", inputs[:, ::-1])
    Path("own.toml").write_text(TABLES)
    if way in ("a copy", "a link"):
        refused("train.public: expected other records than the private ones")
    else:
        assert train(plan_of("own.toml")).metrics
