"""The end of a run in which something fails after the charge: nothing paid for is lost, and the advice of each message works."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.train.documents.training import outcome_document
from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.run import charged_run, results
from dpcli.train.run import saved_state as checkpoint
from dpcli.train.run.training_run import train
from dpcli.train.step.loop import Trainer
from tests.command import dpcli
from tests.train.samples import FILE, ledger

OWN = """
import os, torch
def data():
    torch.manual_seed(1)
    return torch.randn(60, 3), torch.randint(0, 2, (60,))
def public():
    return torch.ones(4, 3), torch.ones(4, dtype=torch.int64)
def model():
    return torch.nn.Linear(3, 2)
def loss(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
def metric(model, batch):
    if {fails}:
        raise ZeroDivisionError("no record of class 0")
    return {{"accuracy": (model(batch[0]).argmax(1) == batch[1]).double().mean()}}
"""
FULL = OSError(28, "No space left on device")


def own_plan(name: str, fails: str) -> TrainingPlan:
    """A small run of functions of one's own, whose metric raises where `fails` is true."""
    Path(f"{name}.py").write_text(OWN.format(fails=fails))
    functions = "\n".join(f'{key} = "{name}:{key}"' for key in ("data", "public", "model", "loss", "metric"))
    text = FILE.replace('task = "classification"\ndata = "digits"\nmodel = "logistic"', f'task = "custom"\n{functions}')
    text = text.replace("1_437", "60").replace("batch_size = 64", "rate = 0.1").replace('public = "held-out"\n', "")
    Path("tiny.toml").write_text(text)
    return plan_of("tiny.toml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(FILE)
    return Path("runs/tiny")


def statuses(books: Ledger) -> list[str]:
    return [run.status for run in books.state().runs.values()]


def resumed(books: Ledger | None) -> list[int]:
    """The steps that a run takes which goes on."""
    steps: list[int] = []
    found = train(plan_of("tiny.toml"), books, resume=True, report=lambda step, metrics: steps.append(step))
    assert found.repeated == () and found.taken == 30
    return steps


def test_a_metric_that_fails_is_tried_before_the_charge(tmp_path: Path, folder: Path) -> None:
    plan, books = own_plan("failing_metric", "True"), ledger(tmp_path, 30.0)
    with pytest.raises(InputError, match="failing_metric:metric: raised ZeroDivisionError"):
        train(plan, books)
    assert statuses(books) == [] and not folder.exists()
    found = dpcli("train", "tiny.toml", "--dry-run", folder=tmp_path)
    assert found.code == 2 and "raised ZeroDivisionError" in found.err


def test_a_metric_that_fails_later_takes_no_model_away(tmp_path: Path, folder: Path) -> None:
    plan, books = own_plan("later_metric", 'os.path.exists("runs/tiny/state.pt")'), ledger(tmp_path, 30.0)
    found = train(plan, books)
    assert statuses(books) == ["committed"] and (folder / "model.safetensors").exists() and not (folder / "state.pt").exists()
    assert found.metrics == {}
    assert any("no metrics: later_metric:metric: raised ZeroDivisionError" in line for line in outcome_document(found).details)
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in logged] == [10, 20, 30] and "ZeroDivisionError" in logged[0]["unmeasured"]


def test_a_disk_that_is_full_at_the_end_costs_no_step(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    books, real = ledger(tmp_path), results.replace_file

    def replaced(path: str, *given: Any) -> None:
        if path.endswith("model.safetensors"):
            raise FULL
        real(path, *given)

    with monkeypatch.context() as patch:
        patch.setattr(results, "replace_file", replaced)
        with pytest.raises(InputError, match=r"No space left on device\): make room; --resume"):
            train(plan_of("tiny.toml"), books)
    assert statuses(books) == ["started"]
    assert resumed(books) == []
    assert statuses(books) == ["committed"] and (folder / "model.safetensors").exists()


def test_a_disk_without_room_for_the_last_state_may_have_room_for_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = checkpoint.replace_file
    saved: list[str] = []

    def replaced(path: str, content: bytes) -> None:
        saved.append(path)
        if len(saved) > last:
            raise FULL
        real(path, content)

    monkeypatch.setattr(checkpoint, "replace_file", replaced)
    last = 3  # at the start, after steps 10 and 20
    train(plan_of("tiny.toml"))
    assert (folder / "model.safetensors").exists() and not list(folder.glob("state.pt*"))
    saved.clear()
    last = 1
    with pytest.raises(InputError, match=r"state\.pt: cannot be written \(No space left on device\): make room; --resume"):
        train(plan_of("tiny.toml"))
    assert (folder / "state.pt").exists()


@pytest.mark.sampled
@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("charged", [False, True])
def test_a_run_that_has_ended_is_ended_whatever_state_it_left(
    charged: bool, resume: bool, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the commit and the removal of its state: it is said once, the state goes, and the next run is another one."""
    books = ledger(tmp_path, 30.0) if charged else None
    monkeypatch.setattr(results.os, "unlink", killed_at("state.pt"))
    with pytest.raises(KeyboardInterrupt):
        train(plan_of("tiny.toml"), books)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert (folder / "state.pt").exists() and (folder / "model.json").exists()
    with pytest.raises(InputError, match="found one that has ended and left its model"):
        train(plan_of("tiny.toml"), books, resume=resume)
    assert not (folder / "state.pt").exists() and (folder / "model.safetensors").exists()
    train(plan_of("tiny.toml"), books)
    assert books is None or statuses(books) == ["committed", "committed"]


def killed_at(name: str) -> Any:
    real = results.os.unlink

    def unlink(path: Any, *given: Any, **named: Any) -> None:
        if str(path).endswith(name):
            raise KeyboardInterrupt
        real(path, *given, **named)

    return unlink


def test_a_run_whose_commit_failed_is_committed_without_another_step(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = ledger(tmp_path)

    def commit(self: Ledger, *given: Any) -> None:
        raise LedgerError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", commit)
        with pytest.raises(LedgerError):
            train(plan_of("tiny.toml"), books)
    assert resumed(books) == [] and statuses(books) == ["committed"]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("step", [0, 5])
def test_a_state_is_promised_only_where_there_is_one(
    step: int, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Trainer.draw

    def draw(self: Trainer, *given: Any) -> Any:
        if self.step == step:
            raise KeyboardInterrupt
        return real(self, *given)

    monkeypatch.setattr(Trainer, "draw", draw)
    found = dpcli("train", "tiny.toml", folder=tmp_path)
    assert found.code == 130
    assert ("its state is saved" in found.err) == (folder / "state.pt").exists() == (step > 0)


def test_a_disk_without_room_for_the_first_state_is_not_charged(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *given: Any) -> None:
        raise FULL

    books = ledger(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "replace_file", full)
        with pytest.raises(InputError, match="make room"):
            train(plan_of("tiny.toml"), books)
    assert statuses(books) == ["void"] and not (folder / "state.pt").exists()
    train(plan_of("tiny.toml"), books)
    assert statuses(books) == ["void", "committed"]


class Killed(BaseException):
    """An end at which nothing is tidied up."""


@pytest.mark.parametrize("place", ["before the charge", "in the charge", "after the charge"])
def test_a_run_killed_around_its_charge_goes_on_and_is_charged_once(
    place: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = ledger(tmp_path)
    start, real = charged_run.RunCharge.start, Ledger.start

    def killed(*given: Any) -> Any:
        if place == "after the charge":
            start(*given)
        raise Killed

    with monkeypatch.context() as patch:
        if place == "in the charge":
            patch.setattr(Ledger, "start", lambda *given: (real(*given), killed())[1])
        else:
            patch.setattr(charged_run.RunCharge, "start", killed)
        patch.setattr(charged_run.RunCharge, "give_back", lambda *given: False)
        with pytest.raises(Killed):
            train(plan_of("tiny.toml"), books)
    assert statuses(books) == ["reserved" if place == "before the charge" else "started"] and (folder / "state.pt").exists()
    if place == "before the charge":
        seeded = charged_run.initial_state(plan_of("tiny.toml"), books, resume=True, private=False, folder=str(folder))
        assert not seeded.private and seeded.resumed == []  # noise from a seed stays told
        assert len(resumed(books)) == 30
        assert statuses(books) == ["committed"]
    else:  # the books say that it has begun: its first steps may have been taken, and are charged once more
        done = train(plan_of("tiny.toml"), books, resume=True)
        assert done.repeated and statuses(books) == ["committed", "committed"]


def test_a_run_that_does_not_fit_names_what_was_reserved_and_never_begun(tmp_path: Path, folder: Path) -> None:
    books = ledger(tmp_path)
    number = 0
    with suppress(Denied):
        while True:
            books.reserve(plan_of("tiny.toml").pipeline, f"stuck {number}", why="a run")
            number += 1
    with pytest.raises(Denied, match="reserved and never started: stuck 0"):
        train(plan_of("tiny.toml"), books)
    assert not (folder / "state.pt").exists() and set(statuses(books)) == {"reserved"}


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_at_the_end_is_too_late(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    books, commit = ledger(tmp_path), Ledger.commit

    def interrupted(*given: Any) -> Any:
        done = commit(*given)
        signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(Ledger, "commit", interrupted)
    assert train(plan_of("tiny.toml"), books).taken == 30
    assert statuses(books) == ["committed"] and not (folder / "state.pt").exists()
