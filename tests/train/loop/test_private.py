"""dpcli.private: what a step releases, what is charged and when, and what is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dpcli
from dpcli.base.errors import Denied, InputError
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.train.isolation.kept_state import equal
from dpcli.train.loop.steps import LoopPhase
from dpcli.train.plan.plan import plan_of
from dpcli.train.step import prepare
from tests.cases import require_each
from tests.command import dpcli as command
from tests.train.loop.conftest import COUNT, FILE, STEPS, UNSAMPLED, Begin, loss_of, model_of, records, stepped, weights

ROOT = Path(__file__).parents[3]
SLACK = 1.0 + 1e-5  # single precision: weights of about one, moved by a hundredth


def ledger(epsilon: float = 20.0) -> str:
    terms = LedgerTerms("example", "add-remove", epsilon, 1e-5, filter="rdp", parameters={"order": 6.0})
    with init("ledger.db", "own", terms):
        return "ledger.db"


def test_a_loop_leaves_what_train_leaves(begin: Begin) -> None:
    model = model_of()
    private = begin(model)
    spent = [private.epsilon]
    for batch in private:
        private.step(batch)
        spent.append(private.epsilon)
    result = private.finish()
    assert spent[0] == 0.0 and all(a < b for a, b in pairwise(spent))
    assert len(spent) == STEPS + 1 == len(private) + 1
    assert spent[-1] == result.epsilon == private.planned_epsilon == plan_of("own.toml").account.upper
    names = ["metrics.jsonl", "model.json", "model.safetensors", "pipeline.toml", "statement.md"]
    assert sorted(path.name for path in Path(result.folder).glob("[!.]*")) == names
    assert result.private and result.steps == STEPS and result.statement == (Path(result.folder) / "statement.md").read_text()
    assert str(result).startswith(f"epsilon <= {dpcli.account(dpcli.load('own.toml')).upper:.2f}"[:13])
    assert command("attest", result.folder).code == 0
    from safetensors.torch import load_file

    left = load_file(f"{result.folder}/model.safetensors")
    assert all(torch.equal(left[name], value) for name, value in model.state_dict().items())


def test_the_model_is_loaded_as_the_refusal_to_load_it_says(begin: Begin) -> None:
    """Also where a tensor has two names, where one is not in the state_dict, and where a part was frozen, which the file leaves out."""

    class Tied(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.body, self.head = model_of(seed), nn.Linear(3, 3)
            self.same = self.body[0]
            self.register_buffer("places", torch.arange(3), persistent=False)
            self.head.requires_grad_(not is_partly_frozen)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.body(inputs))
            return logits

    for is_partly_frozen in (False, True):
        model = Tied(0)
        trained = [value for value in model.parameters() if value.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=1.0)
        result = stepped(begin(model, optimizer=optimizer, out=f"runs/{is_partly_frozen}"), STEPS).finish()
        with pytest.raises(InputError, match=r"found one of dpcli\.private") as refusal:
            dpcli.load_model(result.folder)
        import safetensors.torch

        module = Tied(7)
        if is_partly_frozen:
            module.head.load_state_dict(model.head.state_dict())
        call = str(refusal.value).partition("then call ")[2]
        assert call.startswith("safetensors.torch.load_model(module, ")
        eval(call, {"safetensors": safetensors, "module": module})
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize("row", [0, COUNT - 1])
def test_one_record_moves_the_weights_by_at_most_c(begin: Begin, row: int) -> None:
    """With the same noise, and every record in every step: what is left of the difference is the record."""
    inputs, labels = records()
    inputs[row] *= 1e4
    ends = []
    for kept in (slice(None), [other for other in range(COUNT) if other != row]):
        model = model_of()
        stepped(begin(model, (inputs[kept], labels[kept]), UNSAMPLED, insecure_seed=5, out=f"runs/{len(ends)}"))
        ends.append(weights(model))
    influence = float((ends[0] - ends[1]).norm()) * COUNT / 0.5
    assert 0.9 < influence <= SLACK


@pytest.mark.long
def test_the_noise_has_the_planned_scale(begin: Begin) -> None:
    """Two runs from the same weights over all records differ by their noise alone: sqrt 2 of noise_multiplier C / n."""
    wide = nn.Sequential(nn.Linear(5, 1000), nn.Tanh(), nn.Linear(1000, 3))
    start, ends = {name: value.clone() for name, value in wide.state_dict().items()}, []
    for number in range(2):
        wide.load_state_dict(start)
        stepped(begin(wide, text=UNSAMPLED, out=f"runs/{number}"))
        ends.append(weights(wide))
    difference = (ends[0] - ends[1]) * COUNT / (2.0 * 0.5 * 2.0**0.5)
    deviation = (2.0 * len(difference)) ** -0.5
    assert abs(float(difference.square().mean().sqrt()) - 1.0) < 6.0 * deviation


def test_the_ledger_is_charged_before_the_first_noise(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    real = prepare.noise_of

    class Watched:
        private = True

        def __init__(self, *given: Any) -> None:
            self.noise = real(*given)
            self.drawn_std = self.noise.drawn_std

        def parts(self, count: int) -> Any:
            with open_ledger("ledger.db") as books:
                seen.append([run.status for run in books.state().runs.values()])
            return self.noise.parts(count)

    monkeypatch.setattr(prepare, "noise_of", Watched)
    private = begin(ledger=ledger(), dataset="own")
    assert seen == []
    stepped(private, STEPS).finish()
    assert seen == [["started"]] * STEPS
    with open_ledger("ledger.db") as books:
        assert [run.status for run in books.state().runs.values()] == ["committed"]
    with pytest.raises(Denied):
        begin(ledger=ledger_of_little())
    assert len(seen) == STEPS


class Mixed(nn.Module):
    """A model with a constant matrix, multiplied as its kind requires."""

    def __init__(self, matrix: torch.Tensor, multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.head, self.multiply = nn.Linear(5, 3), multiply
        if matrix.is_sparse:
            self.matrix = matrix
        else:
            self.register_buffer("matrix", matrix)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.multiply(self.matrix, inputs.float()))


KINDS: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "sparse": (torch.eye(5).to_sparse(), lambda matrix, inputs: (matrix @ inputs.T).T),
    "sparse, an entry twice": (
        torch.sparse_coo_tensor(torch.tensor([[1, 1, 2], [0, 0, 3]]), torch.ones(3), (5, 5), check_invariants=True),
        lambda matrix, inputs: (matrix @ inputs.T).T,
    ),
    "eight bits": (torch.eye(5).to(torch.float8_e4m3fn), lambda matrix, inputs: inputs @ matrix.float()),
    "not a number": (torch.full((5, 5), torch.nan), lambda matrix, inputs: inputs),
}


def test_constants_of_every_kind_and_short_unsigned_records_train(begin: Begin) -> None:
    def trains(kind: str) -> None:
        matrix, multiply = KINDS[kind]
        inputs, labels = records()
        for given in (inputs, (10.0 * inputs.abs()).to(torch.uint16), inputs.to(torch.float8_e5m2)):
            before = matrix.clone()
            stepped(begin(Mixed(matrix, multiply), (given, labels), out=f"runs/{kind} {given.dtype}"), STEPS).finish()
            assert equal(matrix, before)

    require_each(KINDS, trains)


def test_sparse_records_and_parts_without_numbers_are_named(begin: Begin) -> None:
    inputs, labels = records()
    with pytest.raises(InputError, match="expected dense arrays or tensors whose first dimension"):
        begin(data=(inputs.to_sparse(), labels))
    for matrix in (torch.eye(5).to_sparse(), torch.eye(5).to(torch.complex128)):
        model = nn.Sequential(nn.Linear(5, 3))
        model.register_buffer("matrix", matrix)
        found = re.escape(f"{matrix.layout} of {matrix.dtype}")
        with pytest.raises(
            InputError, match=f"model: matrix: expected a tensor that a file of weights can hold, found {found}; keep"
        ):
            begin(model)
    model = model_of()  # a frozen part is not saved: of it, any number whose bytes can be read is welcome
    model[0].requires_grad_(False)
    model.register_buffer("matrix", torch.eye(5).to(torch.complex128))
    stepped(begin(model, optimizer=torch.optim.SGD(model[2].parameters(), lr=1.0)), STEPS).finish()
    with pytest.raises(InputError, match=r"model: 0\.weight: expected a tensor with a shape, found a lazy one"):
        begin(nn.Sequential(nn.LazyLinear(3)))
    for is_trained in (True, False):
        part = nn.Linear(2, 2, device="meta").requires_grad_(is_trained)
        with pytest.raises(InputError, match=r"model: 1\.weight: expected a tensor with numbers, found one on the device meta"):
            begin(nn.Sequential(nn.Linear(5, 3), part))


def test_a_loss_that_also_reads_all_records_is_refused(begin: Begin) -> None:
    """Standardised by the mean of the private records, which no noise covers: nothing is charged."""
    inputs, labels = records()

    def standardised(model: nn.Module, batch: Any) -> torch.Tensor:
        return loss_of(model, (batch[0] - inputs.mean(0), batch[1]))

    url = ledger()
    with pytest.raises(InputError, match=r"reads from its batch alone, found them in loss\.function\.inputs, too"):
        begin(data=(inputs, labels), loss=standardised, ledger=url)
    with open_ledger(url) as books:
        assert not books.state().runs


class Metric(nn.Module):
    """A loss with weights of its own, as of metric learning."""

    def __init__(self, shape: tuple[int, ...], how: str) -> None:
        super().__init__()
        self.weight, self.how = nn.Parameter(torch.ones(shape)), how

    def forward(self, model: nn.Module, batch: Any) -> torch.Tensor:
        inputs, labels = batch
        weight = self.weight
        if self.how == "without gradients":
            with torch.no_grad():
                weight = self.weight * 1.0
        elif self.how == "detached":
            weight = self.weight.detach()
        elif self.how == "on a branch":
            weight = weight if float(inputs.sum()) < 1e30 else weight * 2
        return nn.functional.cross_entropy(model(inputs) * weight, labels, reduction="none")


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("how", ["plainly", "on a branch", "without gradients", "detached"])
def test_weights_of_the_loss_get_no_gradient(
    begin: Begin, how: str, shape: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """It would have no noise, and the program's own optimizer would release it."""
    loss = Metric(shape, how)
    private = begin(loss=loss)
    own = torch.optim.SGD(loss.parameters(), lr=1.0)
    for batch in private:
        private.step(batch)
        assert loss.weight.grad is None
        own.step()
    private.finish()
    assert torch.equal(loss.weight, torch.ones(shape))
    said = re.findall(r"loss.*weight'\] requires a gradient, but is no parameter of the model: it gets none", caplog.text)
    assert len(said) == (how in ("plainly", "on a branch"))


def test_a_checkpoint_that_gives_the_weights_of_the_loss_a_gradient_is_refused(begin: Begin) -> None:
    """A re-entrant one works only with a backward pass that accumulates gradients everywhere."""
    outer = nn.Parameter(torch.ones(3))

    def checkpointed(model: nn.Module, batch: Any, reentrant: bool) -> torch.Tensor:
        logits = torch.utils.checkpoint.checkpoint(lambda values: values * outer, model(batch[0]), use_reentrant=reentrant)
        return nn.functional.cross_entropy(logits, batch[1], reduction="none")

    with pytest.raises(InputError, match=r"alone, found loss.*outer.*, to which a step adds one without noise: make it"):
        begin(loss=partial(checkpointed, reentrant=True), ledger=ledger())
    with open_ledger("ledger.db") as books:
        assert not books.state().runs
    outer.grad = None
    stepped(begin(loss=partial(checkpointed, reentrant=False)), STEPS).finish()
    assert outer.grad is None
    outer.requires_grad_(False)
    stepped(begin(loss=partial(checkpointed, reentrant=True), out="runs/frozen"), STEPS).finish()


def physical(model: nn.Module, batch: Any) -> torch.Tensor:
    """The derivative of the outputs by the inputs, as of a network that solves an equation."""
    inputs = batch[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
    return slope.square().sum(1) + loss_of(model, batch)


def adversarial(model: nn.Module, batch: Any) -> torch.Tensor:
    """Inputs that are moved along their gradient, in place."""
    inputs, labels = batch
    shift = torch.zeros(inputs.shape, requires_grad=True)
    (slope,) = torch.autograd.grad(loss_of(model, (inputs + shift, labels)).sum(), shift)
    inputs = (inputs + 0.1 * slope.sign()).detach().requires_grad_(True)
    return loss_of(model, (inputs, labels)) + loss_of(model, (batch[0].requires_grad_(), labels))


POINTS = torch.linspace(0.0, 1.0, 20).view(4, 5).requires_grad_()


def at_points(model: nn.Module, batch: Any) -> torch.Tensor:
    """An equation at points that are made once, and a condition at one that the loss makes."""
    edge = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]], requires_grad=True)
    slopes = [torch.autograd.grad(model(points).sum(), points, create_graph=True)[0] for points in (POINTS, edge)]
    return loss_of(model, batch) + sum(slope.square().mean() for slope in slopes)


@pytest.mark.parametrize("loss", [physical, adversarial, at_points])
def test_a_loss_may_make_leaves_of_its_own(begin: Begin, loss: Any) -> None:
    stepped(begin(loss=loss), STEPS).finish()


def ledger_of_little() -> str:
    terms = LedgerTerms("example", "add-remove", 0.3, 1e-5, filter="rdp", parameters={"order": 60.0})
    with init("poor.db", "own", terms):
        return "poor.db"


@pytest.mark.long
def test_a_loop_that_breaks_off_stays_charged_and_goes_on(begin: Begin) -> None:
    model, url = model_of(), ledger()
    private = stepped(begin(model, ledger=url), 3)
    private._steps.phase = LoopPhase.BROKEN
    del private  # of a process that was killed, nothing after the last state is left
    with open_ledger(url) as books:
        assert [run.status for run in books.state().runs.values()] == ["started"]
    with pytest.raises(InputError, match="state of a run that did not end"):
        begin(model, ledger=url)
    private = begin(model_of(7), ledger=url, resume=True)
    assert private.taken == 2  # the last state
    result = stepped(private, STEPS).finish()
    assert result.epsilon > plan_of("own.toml").account.upper and "counted twice" in result.statement
    with open_ledger(url) as books:
        assert [run.status for run in books.state().runs.values()] == ["committed", "committed"]


# The run of a program that ends within the loop by an error of its own.
FAILING = """
import torch, dpcli
from tests.train.loop.conftest import loss_of, model_of, records
model = model_of()
private = dpcli.private(model, torch.optim.SGD(model.parameters(), lr=1.0), loss_of, records(), pipeline="own.toml")
for batch in private:
    private.step(batch)
    if private.taken == 3:
        torch.save(model.state_dict(), "weights.pt")
        evaluated
"""


@pytest.mark.parametrize("how", ["a block that is left", "a name that is deleted", "an error of the program"])
def test_a_loop_that_is_left_repeats_nothing(begin: Begin, how: str) -> None:
    model = model_of()
    if how == "a block that is left":
        with begin(model) as private:
            stepped(private, 3)
    elif how == "a name that is deleted":
        private = stepped(begin(model), 3)
        del private
    else:
        ended = subprocess.run(
            [sys.executable, "-c", FAILING], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        assert ended.returncode == 1 and "name 'evaluated' is not defined" in ended.stderr
        model.load_state_dict(torch.load("weights.pt"))
    other = model_of(7)
    private = begin(other, resume=True)
    assert private.taken == 3 and torch.equal(weights(other), weights(model))
    assert stepped(private, STEPS).finish().epsilon == plan_of("own.toml").account.upper


def test_a_changed_state_is_not_saved_when_the_run_is_dropped(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    model = model_of()
    private = stepped(begin(model), 3)
    with torch.no_grad():
        model[0].weight.zero_()
    del private
    assert "the state of the run was not saved: the weights 0.weight" in caplog.text
    other = model_of(7)
    private = begin(other, resume=True)
    assert private.taken == 2 and bool(other[0].weight.any())  # the last milestone


def test_a_model_that_will_be_replaced_is_told_before_the_run(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    stepped(begin(), STEPS).finish()
    assert "earlier run" not in caplog.text
    begin()
    assert "runs/own holds the model of an earlier run, which finish() will replace: both runs cost epsilon" in caplog.text


def test_a_loop_that_stops_early_is_stated_for_all_that_was_planned(begin: Begin) -> None:
    private = stepped(begin(), 2)
    assert private.epsilon < private.planned_epsilon
    result = private.finish()
    assert (result.steps, result.epsilon) == (2, private.planned_epsilon)
    assert f"took 2 steps" in result.statement and f"{STEPS} steps were planned" in result.statement  # noqa: F541


def test_an_average_that_was_loaded_before_the_end_is_told_and_loses_nothing(begin: Begin) -> None:
    model = model_of()
    private = stepped(begin(model), STEPS)
    last = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict({name: value / 2 for name, value in last.items()})
    with pytest.raises(InputError, match=r"0\.weight: not the weights of the last private step.* train\.average"):
        private.finish()
    model.load_state_dict(last)
    assert private.finish().steps == STEPS


def test_a_seed_is_said(begin: Begin) -> None:
    result = stepped(begin(insecure_seed=3), STEPS).finish()
    assert not result.private and "NOT PRIVATE" in result.statement and "NOT PRIVATE" in str(result)
    with pytest.raises(InputError, match="insecure_seed: expected no ledger"):
        begin(insecure_seed=3, ledger="ledger.db")


def test_units_are_bounded_as_in_train(begin: Begin) -> None:
    text = FILE.replace('unit = "example"', 'unit = "user"\nmax_contributions = 2').replace('"loop"', '"loop"\nunits = "owner"')
    with pytest.raises(InputError, match=r"train\.units: expected an owner for each record"):
        begin(text=text)
    private = begin(text=text, units=torch.arange(COUNT) // 6)
    assert len(private._steps.run.prepared.trainer.records[0]) == COUNT // 3


def test_dpcli_knows_private_without_torch() -> None:
    code = "import sys, dpcli; dpcli.private, dpcli.Private; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loss_is_one_for_each_record(begin: Begin) -> None:
    with pytest.raises(InputError, match="one loss per example"):
        begin(loss=lambda model, batch: loss_of(model, batch).mean())


def test_a_loop_that_goes_on_for_ever_is_told_that_nothing_is_left(begin: Begin) -> None:
    """As a framework's does that counts the steps of its own optimizer, of which there are none."""
    private = stepped(begin(), STEPS)
    for _ in range(100):
        assert not list(private)  # a right loop may have many epochs
    with pytest.raises(InputError, match=r"all 4 planned steps are taken.*max_epochs = 1"):
        deque((list(private) for _ in range(100_000)), maxlen=0)
    assert private.finish().steps == STEPS


def test_epochs_share_the_planned_steps(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """And somebody whose first epoch took them all is told once."""
    private = begin()
    for _ in range(2):
        for batch in islice(private, STEPS // 2):
            private.step(batch)
    assert not list(private) and private.taken == STEPS
    assert not [record for record in caplog.records if record.name == "dpcli"]
    for _ in range(3):
        assert not list(private)
    (record,) = [record for record in caplog.records if record.name == "dpcli"]
    assert "a further pass has no steps; for epochs, take itertools.islice(private, steps_per_epoch)" in record.getMessage()
    assert private.finish().steps == STEPS


def test_a_module_that_its_trainer_changes_is_refused(begin: Begin) -> None:
    held = type("Digits", (type("LightningModule", (nn.Module,), {}),), {})()
    held.body = model_of()
    with pytest.raises(InputError, match="expected the network that Digits holds"):
        begin(held)


def test_a_window_is_charged_and_stated(begin: Begin) -> None:
    """Of a dataset that is cut into days: all of them, by argument or by the file; a loop that goes on is charged on the same ones."""
    terms = LedgerTerms(
        "example", "add-remove", 1e4, 0.5, filter="approx-dp", blocks={"by": "day", "column": "on", "max_blocks": 1}
    )
    init("ledger.db", "own", terms).close()
    days = ("2026-01-01", "2026-01-02")
    for window, said in (((), "expected the blocks"), ("2026-02-30", "expected a day"), (3, "expected a text")):
        with pytest.raises(InputError, match=said):
            begin(ledger="ledger.db", window=window)
    with pytest.raises(InputError, match="expected --ledger"):
        begin(window=days)
    private = begin(ledger="ledger.db", window="2026-01-01..2026-01-02")
    stepped(private)
    private.close()
    with pytest.raises(InputError, match="found the file changed"):
        begin(ledger="ledger.db", window="2026-01-01", resume=True)
    private = begin(ledger="ledger.db", window=days, resume=True)
    stepped(private, STEPS)
    assert "2026-01-01..2026-01-02 (dpcli did not check that all records lie in the window)" in private.finish().statement
    with open_ledger("ledger.db", None) as books:
        assert {run.window for run in books.state().runs.values()} == {days}


def test_a_model_in_double_precision_is_trained_in_it(begin: Begin) -> None:
    model, (inputs, labels) = model_of().double(), records()
    stepped(begin(model, (inputs.double().numpy(), labels)), STEPS).finish()
    assert all(value.dtype == torch.float64 for value in model.parameters())


@pytest.mark.long
def test_far_fewer_records_than_declared_are_told_where_their_number_is_public(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    cases = [("add-remove", 300, 0), ("zero-out", 300, 1), ("replace-one", 300, 1), ("replace-one", 66, 0)]
    for adjacency, size, warnings in cases:
        changed = FILE.replace("add-remove", adjacency).replace("dataset_size = 60", f"dataset_size = {size}")
        begin(text=changed.replace('name = "own"', f'name = "{adjacency}-{size}"'))
        said = [record.getMessage() for record in caplog.records if record.name == "dpcli"]
        assert len(said) == warnings, (adjacency, size, said)
        assert all("privacy.dataset_size = 300 is far above the 60 records of the data" in line for line in said)
        caplog.clear()
