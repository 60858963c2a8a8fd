"""`dpcli.watch` in the loops of transformers, Accelerate and Lightning, where these are installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import dpcli
from dpcli.base.errors import InputError
from tests.train.loop.conftest import FILE as SMALL
from tests.train.loop.conftest import loss_of, model_of, records
from tests.train.watch.conftest import BATCH, POISSON, N, PoissonSampler, dataset

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks


class Classifier(nn.Module):
    """As a Trainer wants it: a loss among its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = model_of()

    def forward(self, inputs: Any, labels: Any = None) -> Any:
        logits = self.body(inputs)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits} if labels is not None else logits


class Items(Dataset[dict[str, Any]]):
    def __len__(self) -> int:
        return N

    def __getitem__(self, row: int) -> dict[str, Any]:
        inputs, labels = dataset()[row]
        return {"inputs": inputs, "labels": labels}


def arguments(**named: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="the extra lm is not installed")
    pytest.importorskip("accelerate", reason="accelerate, which the Trainer needs, is not installed")
    return transformers.TrainingArguments(
        "out", per_device_train_batch_size=BATCH, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, **named
    )


@pytest.mark.long  # its import takes seconds
def test_a_trainer_that_shuffles_is_refused_under_a_poisson_claim() -> None:
    args = arguments()
    from transformers import Trainer

    watch = dpcli.watch("own.toml")
    trainer = Trainer(model=Classifier(), args=args, train_dataset=Items(), callbacks=[watch.trainer_callback()])
    with pytest.raises(InputError, match=r"found a loader with .*RandomSampler"):
        trainer.train()
    assert watch.steps == 0


@pytest.mark.long  # its import takes seconds
def test_a_trainer_with_a_right_sampler_stops_at_the_plan_and_states_nothing(folder: Path) -> None:
    args = arguments(num_train_epochs=5, logging_steps=1)
    from transformers import Trainer

    class Sampled(Trainer):
        def get_train_dataloader(self) -> Any:
            return self.accelerator.prepare(DataLoader(Items(), batch_sampler=PoissonSampler()))

    (folder / "own.toml").write_text(POISSON.replace("steps = 30", "steps = 6"))
    watch = dpcli.watch("own.toml")
    trainer = Sampled(model=Classifier(), args=args, train_dataset=Items(), callbacks=[watch.trainer_callback()])
    trainer.train()
    assert watch.steps == trainer.state.global_step == 6 and watch.unwatched == 0
    later = dpcli.watch("own.toml")
    state = SimpleNamespace(global_step=4)
    later.trainer_callback().on_train_begin(
        args, state, None, optimizer=trainer.optimizer, train_dataloader=Sampled.get_train_dataloader(trainer)
    )
    assert later.steps == later.unwatched == 6 and "not observed: the first 6 steps" in later.report  # as its optimizer counts them
    assert watch.observed["sampling"].words == "no contradiction found" and watch.report.endswith("no guarantee")


@pytest.mark.long  # its import takes seconds
def test_a_trainer_takes_private_steps(folder: Path) -> None:
    args = arguments(logging_steps=1, gradient_accumulation_steps=1)
    (folder / "own.toml").write_text(SMALL)
    model = Classifier()

    def loss(model: nn.Module, batch: Any) -> Any:
        return functional.cross_entropy(model(batch["inputs"]), batch["labels"], reduction="none")

    inputs, labels = records()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    private = dpcli.private(model, optimizer, loss, {"inputs": inputs, "labels": labels}, pipeline="own.toml")
    with pytest.raises(InputError, match="train_dataset: expected none"):
        dpcli.PrivateTrainer(private, model=model, args=args, train_dataset=Items())
    trainer = dpcli.PrivateTrainer(private, model=model, args=args)
    trainer.train()
    assert trainer.state.global_step == private.taken == private.planned
    logged = [log["epsilon_so_far"] for log in trainer.state.log_history]
    assert logged == sorted(logged) and logged[-1] >= private.planned_epsilon
    assert not [log for log in trainer.state.log_history if "loss" in log]
    assert private.finish().epsilon == private.planned_epsilon


def test_accelerate_is_followed(folder: Path) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    accelerator, model = accelerate.Accelerator(cpu=True), model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for sampler, found in ((None, "RandomSampler"), (PoissonSampler(), None)):
        chosen = {"batch_size": BATCH, "shuffle": True} if sampler is None else {"batch_sampler": sampler}
        watch, loader = dpcli.watch("own.toml"), DataLoader(dataset(), **chosen)
        prepared, stepped, drawn = accelerator.prepare(model, optimizer, loader)
        if found:
            with pytest.raises(InputError, match=found):
                watch.follow(stepped, drawn)
            continue
        watch.follow(stepped, drawn)
        for batch in drawn:
            stepped.zero_grad()
            accelerator.backward(loss_of(prepared, batch).mean())
            stepped.step()
        assert watch.steps == 20 and watch.observed["sampling"].words == "no contradiction found"
        watch.release()


@pytest.mark.long
def test_lightning_is_followed(folder: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    (folder / "own.toml").write_text(POISSON.replace("steps = 30", "steps = 6"))

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = model_of()

        def training_step(self, batch: Any, number: int) -> Any:
            return loss_of(self.body, batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(loader: Any) -> dpcli.Watch:
        watch = dpcli.watch("own.toml")
        watched.append(watch)
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[watch.lightning_callback()],
        )  # fmt: skip
        trainer.fit(Module(), loader)
        return watch

    watched: list[dpcli.Watch] = []
    with pytest.raises(InputError, match="RandomSampler"):
        fit(DataLoader(dataset(), batch_size=BATCH, shuffle=True))
    assert watched[0].steps == 0
    watch = fit(DataLoader(dataset(), batch_sampler=PoissonSampler()))
    assert watch.steps == 6 and watch.observed["sampling"].words == "no contradiction found"
