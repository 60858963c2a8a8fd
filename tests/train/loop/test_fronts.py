"""Correct programs run to their end by every way to train, with and without dropout, by every method, charged and not. A run that stops
before it reads a record costs nothing.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dpcli
from dpcli.base.errors import InputError
from dpcli.ledger.stores.places import open_ledger
from dpcli.train.engine import per_example
from dpcli.train.engine.choice import CANDIDATES
from dpcli.train.step.loop import Trainer
from tests.train.loop.fronts import FRONTS, MODELS, STEPS, begun, books_of

METHODS = {
    "book-keeping": [name for name in MODELS if "ends" not in name],  # whose index no rule follows
    "vmap": [name for name in MODELS if "lstm" not in name or "ends" in name],
    "loop": list(MODELS),
}


def charged(books: str) -> list[tuple[str, str | None]]:
    """Each run's status, and why it was given back."""
    with open_ledger(books) as ledger:
        said = {entry.content["key"]: entry.content.get("why") for entry in ledger.entries() if entry.kind == "void"}
        return [(run.status, said.get(run.key)) for run in ledger.state().runs.values()]


@pytest.mark.sampled(0, 3)
@pytest.mark.filterwarnings("ignore")  # of the frameworks
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize(("method", "name"), [(method, name) for method, names in METHODS.items() for name in names])
def test_a_right_program_takes_all_of_its_steps(
    front: str, method: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's mode of taking gradients is given, and what was used is that."""
    used: list[tuple[str, int]] = []
    real = Trainer.backward

    def backward(self: Trainer, *given: Any) -> None:
        real(self, *given)
        used.append((self.gradients.method.name, self.step))  # type: ignore[attr-defined]

    monkeypatch.setattr(Trainer, "backward", backward)
    monkeypatch.setattr(per_example, "CANDIDATES", [one for one in CANDIDATES if one[0] == method])
    for books in (None, books_of(tmp_path)):
        FRONTS[front](name, books)
        assert [step for _, step in used] == list(range(STEPS)) and {how for how, _ in used} == {method}
        used.clear()
        for path in Path("runs/own").iterdir():
            path.unlink()
    assert charged(str(tmp_path / "ledger.db")) == [("committed", None)]


@pytest.mark.long
def test_how_long_one_record_at_a_time_takes_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "dpcli"]

    FRONTS["dpcli.private"]("dense", None)
    assert not told()
    monkeypatch.setattr(per_example, "CANDIDATES", [])
    Path("runs/own").rename("before")
    FRONTS["dpcli.private"]("dense", None)
    (line,) = told()
    said = r"dpcli: records are processed one at a time \(loop\): about [\d.e-]+ s per step, \d+ s in all; "
    assert re.fullmatch(f"{said}what is faster: dpcli explain training", line)


def touched(private: dpcli.Private) -> None:
    for batch in private:
        with torch.no_grad():
            next(private.model.parameters()).add_(1.0)
        private.step(batch)


def under_autocast(private: dpcli.Private) -> None:
    with private, torch.autocast("cpu"):
        private.step(next(private))


def hooked(private: dpcli.Private) -> None:
    with private:
        private.optimizer.register_step_pre_hook(lambda *given: None)
        private.step(next(private))


def with_arguments(**named: Any) -> Callable[[dpcli.Private], None]:
    """A Trainer that would do something else around the steps."""

    def made(private: dpcli.Private) -> None:
        transformers = pytest.importorskip("transformers", reason="transformers is not installed")
        dpcli.PrivateTrainer(
            private, model=private.model, args=transformers.TrainingArguments("hf", report_to=[], use_cpu=True, **named)
        )

    return made


def with_another_model(private: dpcli.Private) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    dpcli.PrivateTrainer(private, model=nn.Linear(2, 2))


STOPS: dict[str, tuple[Callable[[dpcli.Private], None], str]] = {
    "weights are touched": (touched, "stopped before the first step: the weights"),
    "autocast": (under_autocast, "stopped before the first step"),
    "a hook on the optimizer": (hooked, "stopped before the first step: optimizer: expected no hook"),
    **{
        f"args.{next(iter(named))}": (with_arguments(**named), "stopped before the first step")
        for named in (
            {"gradient_accumulation_steps": 2},
            {"bf16": True},
            {"gradient_checkpointing": True},
            {"torch_compile": True},
            {"neftune_noise_alpha": 5.0},
            {"use_liger_kernel": True},
            {"label_smoothing_factor": 0.1},
            {"include_num_input_tokens_seen": "all"},
            {"debug": "underflow_overflow"},
            {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "steps"},
        )
    },
    "another model": (with_another_model, "stopped before the first step"),
}


@pytest.mark.filterwarnings("ignore")  # of the frameworks
@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_before_a_record_is_read_gives_the_charge_back(stop: str, tmp_path: Path) -> None:
    """By what nobody keeps private: the log says why, and the folder is as new."""
    books = books_of(tmp_path)
    work, why = STOPS[stop]
    private = begun("dense", books)
    assert charged(books) == [("reserved", None)]
    with pytest.raises(InputError):
        work(private)
    del private
    gc.collect()
    ((status, said),) = charged(books)
    assert status == "void" and said is not None and said.startswith(why)
    assert not Path("runs/own/state.pt").exists()
    FRONTS["dpcli.private"]("dense", books)  # the same budget pays for it
    assert [status for status, _ in charged(books)] == ["void", "committed"]


def test_a_step_that_changes_what_it_reads_itself_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that leaves something changed is found on made-up records, and accuses nobody after the charge."""
    real = per_example.ClippedGradients.checked_sums

    def checked(self: Any, batch: Any, row: int) -> Any:
        found = real(self, batch, row)
        self.model.body[0].kept = object()
        return found

    monkeypatch.setattr(per_example.ClippedGradients, "checked_sums", checked)
    books = books_of(tmp_path)
    with pytest.raises(InputError, match="kept: expected as the last private step left it"):
        begun("dense", books)
    assert [status for status, _ in charged(books)] == ["void"]


@pytest.mark.parametrize("front", ["dpcli train", "dpcli.private"])
def test_what_may_depend_on_a_record_is_charged_first(front: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop within the first sum could tell of a record: to give the charge back would tell it for nothing."""
    seen: list[str] = []
    real = Trainer._sums

    def sums(self: Trainer, batch: Any) -> Any:
        seen.extend(status for status, _ in charged(str(tmp_path / "ledger.db")))
        if len(seen) == 1:
            raise InputError("model: expected an example's gradient in the batch to equal its gradient alone")
        return real(self, batch)

    monkeypatch.setattr(Trainer, "_sums", sums)
    with pytest.raises(InputError, match="to equal its gradient alone"):
        FRONTS[front]("dense", books_of(tmp_path))
    assert seen == ["started"] and charged(str(tmp_path / "ledger.db")) == [("started", None)]


def test_a_run_that_is_stopped_before_its_first_step_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C, or by whatever comes between the reservation and the first sum."""
    books = books_of(tmp_path)

    def draw(self: Trainer, *given: Any) -> Any:
        raise raised

    monkeypatch.setattr(Trainer, "draw", draw)
    for raised in (KeyboardInterrupt(), OSError("a text that nobody shows")):
        with pytest.raises(type(raised)):
            FRONTS["dpcli train"]("dense", books)
    assert [status for status, _ in charged(books)] == ["void", "void"]
    assert [why for _, why in charged(books)] == [
        f"stopped before the first step: {kind}" for kind in ("KeyboardInterrupt", "OSError")
    ]
