"""No message after the charge shows anything of the records: no value, no position, and not their number in a step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpcli.ledger.stores.places import open_ledger
from dpcli.train.engine import per_example
from dpcli.train.engine.method import Unsuitable
from tests.command import dpcli
from tests.train.loop.conftest import FILE
from tests.train.loop.fronts import books_of

SECRET = "Alice Smith 70323"
HEAD = f"""
import torch
from torch import nn
from torch.nn import functional

def records():
    torch.manual_seed(1)
    return torch.randn(60, 5), torch.randint(0, 3, (60,))

def model():
    return nn.Linear(5, 3)

def plain(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        if CHARGED():
            raise ValueError("{SECRET}")
        return gradient

def CHARGED():
    import os
    return os.path.exists("runs/own/state.pt")
"""
RAISED = {
    "the loss": f'def loss(model, batch):\n    if CHARGED():\n        raise KeyError("{SECRET}")\n    return plain(model, batch)\n',
    "the backward pass": "def loss(model, batch):\n    return Broken.apply(plain(model, batch))\n",
    "torch": "def loss(model, batch):\n    found = plain(model, batch)\n    return found[torch.tensor([70323])] if CHARGED() else found\n",
    "an exit": f'def loss(model, batch):\n    if CHARGED():\n        raise SystemExit("{SECRET}")\n    return plain(model, batch)\n',
}


pytestmark = pytest.mark.usefixtures("folder")  # each test has a current folder of its own


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", RAISED)
def test_an_error_of_a_step_shows_no_record(where: str, tmp_path: Path) -> None:
    """It is told where it was raised in the user's code, or by what, and the run stays charged."""
    name = f"raising_{re.sub(' ', '_', where)}"
    Path(f"{name}.py").write_text(HEAD + RAISED[where])
    task = f'task = "custom"\ndata = "{name}:records"\nmodel = "{name}:model"\nloss = "{name}:loss"\nlearning_rate = 0.1'
    Path("own.toml").write_text(FILE.replace('task = "loop"', task))
    books = books_of(tmp_path)
    found = dpcli("train", "own.toml", "--ledger", books, folder=tmp_path)
    assert found.code == 2 and "raised" in found.err, found.err
    assert not re.search(r"Alice|70323|index \d+", found.out + found.err)
    with open_ledger(books) as ledger:
        assert [run.status for run in ledger.state().runs.values()] == ["started"]


def test_a_method_that_a_batch_rules_out_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement has what was chosen on made-up records: a change says something of the records that caused it, and of their number."""
    real = per_example.ClippedGradients.checked_sums

    def checked(self: Any, batch: Any, row: int) -> Any:
        if Path("runs/own/state.pt").exists():
            monkeypatch.setattr(type(self.choice.method), "parts", ruled_out) if self.method.name != "loop" else None
        return real(self, batch, row)

    def ruled_out(self: Any, batch: Any) -> Any:
        raise Unsuitable(f"body: expected {len(batch[0])} examples, found {SECRET}")

    monkeypatch.setattr(per_example.ClippedGradients, "checked_sums", checked)
    Path("quiet.py").write_text(HEAD + "loss = plain\n")
    task = 'task = "custom"\ndata = "quiet:records"\nmodel = "quiet:model"\nloss = "quiet:loss"\nlearning_rate = 0.1'
    Path("own.toml").write_text(FILE.replace('task = "loop"', task))
    found = dpcli("train", "own.toml", folder=tmp_path)
    assert found.code == 0, found.err
    said = Path("runs/own/statement.md").read_text()
    assert "Clipped sums: book-keeping. Noise" in said and SECRET not in said + found.out + found.err


@pytest.mark.parametrize("way", ["another value", "an open quote"])
def test_a_file_that_was_broken_meanwhile_is_told_as_changed(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on compares the file with what it began with before it reads a row: no message says where it breaks."""
    rows = [f"{0.1 * row:.2f},{row % 3}" for row in range(60)]
    Path("rows.csv").write_text("\n".join(["a,label", *rows]))
    task = 'task = "classification"\ndata = "rows.csv"\nmodel = "logistic"\nclasses = 3\nlearning_rate = 0.1'
    Path("own.toml").write_text(FILE.replace('task = "loop"', task))
    from dpcli.train.run.charged_run import ChargedRun

    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ChargedRun, "end", stop)
        assert dpcli("train", "own.toml", folder=tmp_path).code == 130
    broken = {"another value": f"{SECRET},1", "an open quote": f'{SECRET},"'}[way]
    Path("rows.csv").write_text("\n".join(["a,label", *rows[:40], broken, *rows[41:]]))
    found = dpcli("train", "own.toml", "--resume", folder=tmp_path)
    assert found.code == 2 and "train.data changed" in found.err
    assert not re.search(r"Alice|70323|\b4[0-9]\b", found.err.replace(str(tmp_path), ""))
