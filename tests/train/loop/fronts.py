"""Each way to train privately as a function: `dpcli train` on a file, a user's own loop, and the loops of frameworks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import dpcli
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.training_run import train
from tests.train.loop.conftest import COUNT, FILE

STEPS, LENGTH = 10, 6
OWN = FILE.replace("steps = 4", f"steps = {STEPS}")
CUSTOM = OWN.replace(
    'task = "loop"', 'task = "custom"\ndata = "{0}:data"\nmodel = "{0}:model"\nloss = "{0}:loss"\nlearning_rate = 0.1'
)
MODULE = "from tests.train.loop.fronts import MODELS, loss_of, sequences as data\nloss = loss_of\nmodel = MODELS[{name!r}]\n"


class Sequences(nn.Module):
    """An LSTM over sequences; what it says at the end of each, by a slice, or by an index with dropout between its layers too."""

    def __init__(self, dropout: float, indexed: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, batch_first=True, dropout=dropout if indexed else 0.0)
        self.drop, self.head, self.indexed = nn.Dropout(dropout), nn.Linear(6, 3), indexed

    def forward(self, inputs: Any, lengths: Any) -> Any:
        out = self.drop(self.lstm(inputs)[0])
        return self.head(out[torch.arange(len(inputs)), lengths - 1] if self.indexed else out[:, -1])


class Dense(nn.Module):
    """A small network on the first of a sequence."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 8), nn.Dropout(dropout), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, inputs: Any, lengths: Any) -> Any:
        return self.body(inputs[:, 0])


MODELS: dict[str, Callable[[], nn.Module]] = {
    "dense": lambda: Dense(0.0),
    "dense, dropout": lambda: Dense(0.3),
    "lstm": lambda: Sequences(0.0, False),
    "lstm, dropout": lambda: Sequences(0.3, False),
    "lstm, dropout, ends": lambda: Sequences(0.3, True),
}


def loss_of(model: nn.Module, batch: Any) -> Any:
    inputs, labels, lengths = batch
    return functional.cross_entropy(model(inputs, lengths), labels, reduction="none")


def sequences() -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(COUNT, LENGTH, 5, generator=generator),
        torch.randint(0, 3, (COUNT,), generator=generator),
        torch.randint(1, LENGTH + 1, (COUNT,), generator=generator),
    )


def by_file(name: str, books: str | None) -> None:
    """Train as `dpcli train` does."""
    module = f"own_{name.replace(', ', '_')}"
    Path(f"{module}.py").write_text(MODULE.format(name=name))
    Path("own.toml").write_text(CUSTOM.replace("{0}", module))
    if books is None:
        train(plan_of("own.toml"))
        return
    with open_ledger(books) as ledger:
        train(plan_of("own.toml"), ledger)


def begun(name: str, books: str | None) -> dpcli.Private:
    Path("own.toml").write_text(OWN)
    model = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return dpcli.private(model, optimizer, loss_of, sequences(), pipeline="own.toml", ledger=books)


def by_loop(name: str, books: str | None) -> None:
    private = begun(name, books)
    for batch in private:
        private.step(batch)
    private.finish()


def by_trainer(name: str, books: str | None) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    private = begun(name, books)
    args = transformers.TrainingArguments("hf", report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True)
    dpcli.PrivateTrainer(private, model=private.model, args=args).train()
    private.finish()


def by_lightning(name: str, books: str | None) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    private = begun(name, books)

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body, self.automatic_optimization = private.model, False

        def training_step(self, batch: Any, number: int) -> None:
            private.backward(batch)
            self.optimizers().step()  # Lightning passes a closure, and counts the step

        def configure_optimizers(self) -> Any:
            return private.optimizer

    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **silent)
    trainer.fit(Module(), private)
    assert trainer.global_step == private.taken
    private.finish()


FRONTS: dict[str, Callable[[str, str | None], None]] = {
    "dpcli train": by_file,
    "dpcli.private": by_loop,
    "PrivateTrainer": by_trainer,
    "Lightning": by_lightning,
}


def books_of(folder: Path) -> str:
    """Make a ledger with the budget for one run."""
    terms = LedgerTerms("example", "add-remove", 20.0, 1e-5, filter="rdp", parameters={"order": 6.0})
    with init(str(folder / "ledger.db"), "own", terms):
        return str(folder / "ledger.db")
