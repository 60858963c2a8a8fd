"""`dpcli train` from end to end: what it refuses, charges and writes, and what a resumed run may do."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.denial import cost_words
from dpcli.sessions.folder import exclusive
from dpcli.train.documents.training import outcome_document
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.processes import stoppable
from dpcli.train.run.saved_state import Checkpoint, matching_checkpoint, save
from dpcli.train.run.training_run import train
from dpcli.train.step.loop import WeightAverage
from tests.command import dpcli
from tests.train.samples import FILE, Stopped, ledger, poor_ledger, stop_at


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.toml"
    path.write_text(FILE)
    return path


def stopped(step: int, *given: Any, **named: Any) -> None:
    """A run that breaks off after this step."""
    with pytest.raises(Stopped):
        train(*given, report=stop_at(step), **named)


NAMES = ["metrics.jsonl", "model.json", "model.safetensors", "pipeline.toml", "statement.md"]


def test_a_run_leaves_a_model_its_metrics_and_a_statement(file: Path) -> None:
    outcome = train(plan_of(str(file)))
    folder = Path(outcome.folder)
    assert sorted(path.name for path in folder.glob("[!.]*")) == NAMES
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 30
    assert last["private"] == "yes"
    assert outcome.epsilon == plan_of(str(file)).account.upper
    assert "30 steps with noise multiplier 2" in (folder / "statement.md").read_text()
    assert outcome.metrics["accuracy"] > 0.3  # better than guessing one digit of ten


def test_the_ledger_is_charged_before_the_first_noise(file: Path, tmp_path: Path) -> None:
    books = ledger(tmp_path)
    outcome = train(plan_of(str(file)), books)
    (run,) = books.state().runs.values()
    assert (run.key, run.status) == (outcome.run, "committed")
    poor = poor_ledger(tmp_path)
    with pytest.raises(Denied):
        train(plan_of(str(file)), poor)
    assert poor.state().runs == {}


def test_a_run_that_is_denied_leaves_no_folder(file: Path, tmp_path: Path) -> None:
    with poor_ledger(tmp_path) as books, pytest.raises(Denied, match="would fit: noise_multiplier = "):
        train(plan_of(str(file)), books)
    assert not (file.parent / "runs").exists()


@pytest.mark.long
def test_a_resumed_run_is_charged_for_what_it_may_repeat(file: Path, tmp_path: Path) -> None:
    plan, books = plan_of(str(file)), ledger(tmp_path)
    stopped(17, plan, books)
    (run,) = books.state().runs.values()
    assert run.status == "started"  # and can never be given back
    with pytest.raises(InputError, match="--resume"):
        train(plan, books)
    seen: list[int] = []
    outcome = train(plan, books, resume=True, report=lambda step, metrics: seen.append(step))
    assert seen[0] == 11  # from the state at 10
    assert seen[-1] == 30
    assert outcome.repeated == ((10, 20),)
    assert outcome.epsilon > plan.account.upper
    assert [run.status for run in books.state().runs.values()] == ["committed", "committed"]
    assert "counted twice" in (Path(outcome.folder) / "statement.md").read_text()


@pytest.mark.long
def test_a_resumed_run_draws_fresh_noise(file: Path) -> None:
    plan, models = plan_of(str(file)), []
    for _ in range(2):
        stopped(12, plan)
        outcome = train(plan, resume=True)
        models.append((Path(outcome.folder) / "model.safetensors").read_bytes())
    assert models[0] != models[1]


def test_another_file_cannot_resume(file: Path) -> None:
    stopped(12, plan_of(str(file)))
    file.write_text(FILE.replace("noise_multiplier = 2.0", "noise_multiplier = 1.0"))
    with pytest.raises(InputError, match="found the file changed"):
        train(plan_of(str(file)), resume=True)


def test_a_seed_is_not_private_and_says_so(file: Path, tmp_path: Path) -> None:
    outcome = train(plan_of(str(file)), insecure_seed=1)
    assert not outcome.private
    assert "NOT PRIVATE" in (Path(outcome.folder) / "statement.md").read_text()
    with pytest.raises(InputError, match="--insecure-seed"):
        train(plan_of(str(file)), ledger(tmp_path), insecure_seed=1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[train]", "[training]", "train"),
        ('task = "classification"', 'task = "regression"', "train.task"),
        ("learning_rate = 1.0", "learning_rat = 1.0", "learning_rat"),
        ("clipping = { norm = 1.0 }", "clipping = { norm = 0.0 }", "clipping.norm"),
        ("clipping = { norm = 1.0 }", 'clipping = { norm = 1.0, style = "adaptive" }', "quantile_noise"),
        ("noise_multiplier = 2.0", "sigma = 2.0\nsensitivity = 1.0", "noise_multiplier"),
        ('"poisson"', '"cyclic"', "any but cyclic"),
        ("steps = 30", 'steps = 30\npartition = "region"', "partition"),
        ("dataset_size = 1_437", "dataset_size = 1_000", "at least the number of private records"),
        ('model = "logistic"', 'model = "transformer"', "train.model"),
        ('data = "digits"', 'data = "not-here.npz"\nclasses = 10', "no such file: not-here.npz"),
        ('unit = "example"', 'unit = "user"\nmax_contributions = 3', "max_contributions"),
    ],
)
def test_what_cannot_be_honoured_is_refused(file: Path, old: str, new: str, words: str) -> None:
    assert FILE.count(old) == 1
    file.write_text(FILE.replace(old, new))
    result = dpcli("train", str(file), folder=file.parent)
    assert result.code == 2
    assert words in result.err
    assert not (file.parent / "runs" / "tiny" / "model.safetensors").exists()


def test_a_dry_run_does_nothing(file: Path) -> None:
    result = dpcli("train", str(file), "--dry-run", folder=file.parent)
    assert result.code == 0
    assert "30 steps of sgd (gaussian): noise multiplier 2, about 64 records per step" in result.out
    assert [path.name for path in file.parent.iterdir()] == ["tiny.toml"]


@pytest.mark.long
def test_canaries_are_in_by_a_coin_and_their_scores_are_left(file: Path) -> None:
    file.write_text(FILE.replace("1_437", "1_537") + '\n[audit]\nkind = "one-run"\ncanaries = 100\nguesses = 40\n')
    stopped(12, plan_of(str(file)))
    before = (file.parent / "runs" / "tiny" / "canaries.pt").read_bytes()
    assert before  # kept while the run lasts: a resumed run holds the same ones
    outcome = train(plan_of(str(file)), resume=True)
    found = json.loads((Path(outcome.folder) / "audit.json").read_text())
    members = sum(canary["member"] for canary in found["canaries"])
    assert len(found["canaries"]) == 100
    assert 20 < members < 80  # a fair coin leaves this range once in 10^9
    assert not (Path(outcome.folder) / "canaries.pt").exists()
    result = dpcli("audit", str(file), "--scores", str(outcome.folder), folder=file.parent)
    assert result.code == 0
    assert "no violation found at 95 %" in result.out


def test_a_resumed_run_goes_on_in_its_own_books(file: Path, tmp_path: Path) -> None:
    """Elsewhere the whole run would be charged nowhere, or what it repeats would not be."""
    plan, books = plan_of(str(file)), ledger(tmp_path)
    stopped(12, plan)
    with pytest.raises(InputError, match="expected no --ledger"):
        train(plan, books, resume=True)
    (tmp_path / "runs" / "tiny" / "state.pt").unlink()
    stopped(12, plan, books)
    with pytest.raises(InputError, match="expected the --ledger"):
        train(plan, resume=True)
    (tmp_path / "other").mkdir()
    with pytest.raises(LedgerError, match="which no entry has"):
        train(plan, ledger(tmp_path / "other"), resume=True)
    assert train(plan, books, resume=True).repeated == ((10, 20),)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("moved", ["void", "another login"])
def test_a_run_that_could_not_be_committed_at_its_end_is_not_resumed(file: Path, tmp_path: Path, moved: str) -> None:
    """It is said before any noise is drawn or anything is charged, not when the model is there."""
    plan, books = plan_of(str(file)), ledger(tmp_path)
    stopped(12, plan, books)
    if moved == "void":
        run = next(iter(books.state().runs.values()))
        books._state.runs[run.key] = replace(run, status="void")
    else:
        books.who = "somebody else"
    before, steps = books.state().spent, []
    with pytest.raises(InputError, match="voided" if moved == "void" else "expected the login that reserved this run"):
        train(plan, books, resume=True, report=lambda step, _: steps.append(step))
    assert (books.state().spent, steps) == (before, [])


def test_the_number_of_labels_is_declared(file: Path, tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "d.npz", inputs=np.zeros((20, 3)), labels=np.arange(20) % 3)
    text = FILE.replace('data = "digits"', 'data = "d.npz"')
    for more, words in (
        ("", "train.classes: expected classes"),
        ("classes = 2\n", "train.classes: expected labels from 0 to 1"),
    ):
        file.write_text(text.replace("[train]\n", "[train]\n" + more))
        with pytest.raises(InputError, match=words):
            train(plan_of(str(file)))


ADAPTIVE = FILE.replace("norm = 1.0 }", 'norm = 0.01, style = "adaptive", quantile_noise = 10.0 }')


def test_adaptive_clipping_moves_the_bound_and_costs_no_more(file: Path) -> None:
    file.write_text(ADAPTIVE)
    plan = plan_of(str(file))
    stopped(25, plan)
    state = torch.load(file.parent / "runs" / "tiny" / "state.pt", weights_only=True)
    assert state["step"] == 20
    assert (
        state["bound"] > 0.02
    )  # nearly every norm is above .01: C rises by e^(.2 * .5) in a step, give or take the noise of the counts
    outcome = train(plan, resume=True)
    assert outcome.plan.account.upper == plan_of(str(file)).account.upper
    file.write_text(FILE)
    assert plan_of(str(file)).account.upper == outcome.plan.account.upper  # the count's noise comes out of the gradients'


def test_a_count_with_too_little_noise_is_refused(file: Path) -> None:
    file.write_text(ADAPTIVE.replace("quantile_noise = 10.0", "quantile_noise = 0.9"))
    with pytest.raises(InputError, match="quantile_noise"):
        train(plan_of(str(file)))


def test_canaries_count_as_records(file: Path) -> None:
    file.write_text(FILE + '\n[audit]\nkind = "one-run"\ncanaries = 100\n')
    with pytest.raises(InputError, match="private records and 100 canaries"):
        train(plan_of(str(file)))


@pytest.mark.long
def test_a_run_with_a_seed_stays_not_private_however_it_is_resumed(file: Path) -> None:
    plan = plan_of(str(file))
    stopped(12, plan, insecure_seed=1)
    stopped(22, plan, resume=True)
    outcome = train(plan, resume=True)
    assert not outcome.private
    assert "NOT PRIVATE" in (Path(outcome.folder) / "statement.md").read_text()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_between_two_steps_repeats_nothing(file: Path, tmp_path: Path) -> None:
    plan, books = plan_of(str(file)), ledger(tmp_path)

    def interrupt(done: int, metrics: object) -> None:
        if done == 17:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(plan, books, report=interrupt)
    state = torch.load(file.parent / "runs" / "tiny" / "state.pt", weights_only=True)
    assert (state["step"], state["clean"]) == (17, True)
    seen: list[int] = []
    outcome = train(plan, books, resume=True, report=lambda step, metrics: seen.append(step))
    assert (seen[0], seen[-1], outcome.repeated) == (18, 30, ())
    assert len(books.state().runs) == 1
    assert outcome.epsilon == plan.account.upper


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_a_crash_after_a_clean_stop_is_charged_all_the_same(file: Path, tmp_path: Path) -> None:
    plan, books = plan_of(str(file)), ledger(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(plan, books, report=lambda done, metrics: signal.raise_signal(signal.SIGTERM) if done == 17 else None)
    stopped(18, plan, books, resume=True)
    outcome = train(plan, books, resume=True)
    assert outcome.repeated == ((17, 20),)
    assert len(books.state().runs) == 2


@pytest.mark.usefixtures("interruptible")
def test_the_second_ctrl_c_does_not_wait() -> None:
    with stoppable() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # as before


def test_an_average_of_the_weights_is_what_is_left(file: Path) -> None:
    """Of 30 weights with decay .9 and its warm-up, by the definition."""
    file.write_text(FILE.replace("learning_rate = 1.0", "learning_rate = 1.0\naverage = 0.9"))
    weights: list[torch.Tensor] = []
    real = WeightAverage.follow

    def follow(self: WeightAverage, step: int) -> None:
        weights.append(next(self.model.parameters()).detach().clone())
        real(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightAverage, "follow", follow)
        stopped(20, plan_of(str(file)))
        outcome = train(plan_of(str(file)), resume=True)
    expected = weights[0]
    for step, weight in enumerate(weights[1:], 2):
        kept = min(0.9, step / (step + 9))
        expected = kept * expected + (1 - kept) * weight
    left = load_file(Path(outcome.folder) / "model.safetensors")
    assert torch.allclose(left["1.weight"], expected, atol=1e-6)


def test_a_dry_run_says_how_long_it_would_take(file: Path) -> None:
    result = dpcli("train", str(file), "--dry-run", "-f", "json", folder=file.parent)
    estimate = json.loads(result.out)["estimate"]
    assert estimate["parameters"] == 650
    assert estimate["method"].startswith("book-keeping")
    assert estimate["seconds"] > 0
    assert estimate["bytes"] > 10**7


def test_a_copy_of_the_state_cannot_go_on_after_the_end(file: Path, tmp_path: Path) -> None:
    plan, books = plan_of(str(file)), ledger(tmp_path)
    stopped(12, plan, books)
    state = file.parent / "runs" / "tiny" / "state.pt"
    copy = state.read_bytes()
    train(plan, books, resume=True)
    state.write_bytes(copy)
    with pytest.raises(InputError, match="found one that has ended"):
        train(plan, books, resume=True)


def test_every_resumption_after_a_crash_is_charged(file: Path, tmp_path: Path) -> None:
    """Also the second one from the same state, as where it was copied."""
    plan, books = plan_of(str(file)), ledger(tmp_path)
    stopped(12, plan, books)
    state = file.parent / "runs" / "tiny" / "state.pt"
    copy = state.read_bytes()
    for _ in range(2):
        state.write_bytes(copy)
        stopped(13, plan, books, resume=True)
    assert len(books.state().runs) == 3


def test_one_process_at_a_time(file: Path) -> None:
    with exclusive(str(file.parent / "runs" / "tiny")), pytest.raises(InputError, match="no other run"):
        train(plan_of(str(file)))


def test_a_run_over_its_own_budget_is_denied(file: Path) -> None:
    file.write_text(FILE.replace("[[mechanism]]", "[budget]\nepsilon = 0.1\n[[mechanism]]"))
    result = dpcli("train", str(file), folder=file.parent)
    assert result.code == 1
    assert "expected at most epsilon 0.1" in result.err


def test_what_is_refused_is_refused_before_it_is_charged(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mixing.py").write_text(
        "from torch import nn\nclass Mixing(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.head = nn.Linear(64, 10)\n    def forward(self, x):\n        x = x.flatten(1)\n"
        "        return self.head(x - x.mean(0))\ndef build():\n    return Mixing()\n"
    )
    file.write_text(FILE.replace('"logistic"', '"mixing:build"'))
    books = ledger(tmp_path)
    with pytest.raises(InputError, match="depends on"):
        train(plan_of(str(file)), books)
    assert books.state().runs == {}
    assert not (file.parent / "runs" / "tiny" / "state.pt").exists()


@pytest.mark.long
def test_a_buffer_that_training_moves_is_refused(file: Path, tmp_path: Path) -> None:
    """It would be left beside the weights, without noise."""
    (tmp_path / "counting.py").write_text(
        "import os, torch\nfrom torch import nn\nclass Counting(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.head = nn.Linear(64, 10)\n        self.register_buffer('seen', torch.zeros(64))\n"
        "    def forward(self, x):\n        x = x.flatten(1)\n        if os.path.exists('runs/tiny/state.pt'):  # after the rehearsal\n"
        "            self.seen += x.detach().mean(0)\n        return self.head(x)\ndef build():\n    return Counting()\n"
    )
    file.write_text(FILE.replace('"logistic"', '"counting:build"'))
    with pytest.raises(InputError, match="seen: expected a buffer that training does not change, found one that it changed"):
        train(plan_of(str(file)))
    assert not (file.parent / "runs" / "tiny" / "model.safetensors").exists()


def test_canaries_that_are_gone_are_not_replaced(file: Path) -> None:
    file.write_text(FILE.replace("1_437", "1_537") + '\n[audit]\nkind = "one-run"\ncanaries = 100\nguesses = 40\n')
    stopped(12, plan_of(str(file)))
    (file.parent / "runs" / "tiny" / "canaries.pt").unlink()
    with pytest.raises(InputError, match="the canaries of the run cannot be read"):
        train(plan_of(str(file)), resume=True)


def test_a_denied_run_leaves_what_was_there(file: Path, tmp_path: Path) -> None:
    train(plan_of(str(file)))
    metrics = (file.parent / "runs" / "tiny" / "metrics.jsonl").read_text()
    poor = poor_ledger(tmp_path)
    with pytest.raises(Denied):
        train(plan_of(str(file)), poor)
    assert (file.parent / "runs" / "tiny" / "metrics.jsonl").read_text() == metrics


def test_steps_that_are_counted_twice_stay_within_the_budget_too(file: Path) -> None:
    once = plan_of(str(file)).account.upper
    file.write_text(FILE.replace("[[mechanism]]", f"[budget]\nepsilon = {once * 1.01}\n[[mechanism]]"))
    plan = plan_of(str(file))
    stopped(12, plan)
    with pytest.raises(Denied, match=r"--resume: .* budget: expected at most"):
        train(plan, resume=True)


@pytest.mark.long
def test_what_was_charged_is_printed_and_no_ledger_is_advised(file: Path, tmp_path: Path) -> None:
    """In the second run too, whose folder holds the files of the first."""
    books = ledger(tmp_path, 30.0)
    for run in (1, 2):
        found = train(plan_of(str(file)), books)
        (cost,) = {cost_words(one.cost) for one in books.state().runs.values()}
        said = outcome_document(found).details
        assert f"charged to the ledger: {cost}" in said, run
        assert not any("--ledger" in words for words in said)
    assert any("--ledger" in words for words in outcome_document(train(plan_of(str(file)))).details)


OWN = """
import torch
from own_parts import scale
def data():
    return torch.randn(400, 3), torch.zeros(400, dtype=torch.int64)
def public():
    return torch.ones(4, 3), torch.ones(4, dtype=torch.int64)
def metric(model, batch):
    return {"accuracy": (model(batch[0]).argmax(1) == batch[1]).double().mean()}
def model():
    return torch.nn.Linear(3, 2)
"""
LOSS = """
import torch
def loss(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
"""
OF_OWN = """[train]
task = "custom"
data = "own_made:data"
public = "own_made:public"
metric = "own_made:metric"
model = "own_made:model"
loss = "own_loss:loss"
learning_rate = 1.0
clipping = { norm = 1.0 }
checkpoint_every = 10
"""


@pytest.mark.parametrize(
    ("changed", "named"),
    [("own_loss.py", ["train.loss"]), ("own_parts.py", ["train.data", "train.metric", "train.model", "train.public"])],
)
def test_a_run_does_not_go_on_with_other_code(tmp_path: Path, changed: str, named: list[str]) -> None:
    """The source of each function's module is what it was, and so is what that imports; the message names what is not."""
    for name, text in {"own_made": OWN, "own_parts": "scale = 1", "own_loss": LOSS}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "own.toml").write_text(FILE.split("[train]")[0].replace("1_437", "400") + OF_OWN)
    plan = plan_of(str(tmp_path / "own.toml"))
    before = plan.parts()
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n# other\n")
    after = plan.parts()
    assert [name for name in sorted(before) if before[name] != after[name]] == named
    state = str(tmp_path / "state.pt")
    save(state, Checkpoint(3, before, "run", [], 1.0, False, True, True, {}, {}, {}))
    with pytest.raises(InputError, match=f"found {', '.join(named)} changed"):
        matching_checkpoint(state, after)
    assert matching_checkpoint(state, before).step == 3
