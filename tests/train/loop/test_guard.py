"""Nothing that a loop does between private steps makes the guarantee false in silence: each is refused, and nothing is stated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra train is not installed")

from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

import dpcli  # noqa: E402
from dpcli.errors import InputError  # noqa: E402
from dpcli.train.tasks.loop import records_of  # noqa: E402
from tests.train.loop.conftest import FILE, STEPS, Begin, loss_of, model_of, records  # noqa: E402
from tests.train.loop.test_private import stepped, weights  # noqa: E402


@dataclass
class Loop:
    """What a loop has at hand."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    data: tuple[Tensor, Tensor]


def model_with_buffers() -> nn.Sequential:
    """Two thirds are trained; it has a frozen layer and a buffer."""
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).eval()
    model[0].requires_grad_(False)
    model[1].requires_grad_(False)
    return model


@pytest.fixture
def loop() -> Loop:
    torch.manual_seed(0)
    model = model_with_buffers()
    return Loop(model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad]), records())


def started(begin: Begin, loop: Loop) -> dpcli.Private:
    return stepped(begin(loop.model, loop.data, optimizer=loop.optimizer))


def loss_backward(loop: Loop) -> None:
    loss_of(loop.model, loop.data).mean().backward()


def another_optimizer(loop: Loop) -> None:
    loss_backward(loop)
    torch.optim.SGD(loop.model.parameters(), lr=0.1).step()


def hidden_write(loop: Loop) -> None:
    loop.model[2].weight.data[0, 0] += 1e-3  # no version counts this


def write(loop: Loop) -> None:
    with torch.no_grad():
        loop.model[4].bias.add_(loop.data[0].mean())


def other_numbers(loop: Loop) -> None:
    loop.model.double()


def other_device(loop: Loop) -> None:
    loop.model.to("meta")


def swapped_parameter(loop: Loop) -> None:
    loop.model[4].bias = nn.Parameter(loop.model[4].bias.detach().clone())


def unfrozen(loop: Loop) -> None:
    loop.model[0].requires_grad_(True)


def frozen(loop: Loop) -> None:
    loop.model[4].requires_grad_(False)


def frozen_weights(loop: Loop) -> None:
    loop.model[0].weight.data.copy_(torch.linalg.svd(loop.data[0], full_matrices=False)[2])
    loop.model[0].weight.add_(0.0)


def buffer(loop: Loop) -> None:
    loop.model[1].running_mean.copy_(loop.data[0].mean(0))


def statistics_of_private_data(loop: Loop) -> None:
    loop.model.train()
    loop.model(loop.data[0])
    loop.model.eval()


def hook(loop: Loop) -> None:
    loop.model[2].register_forward_hook(lambda module, given, output: output - output.mean(0))


def other_forward(loop: Loop) -> None:
    loop.model[2].forward = lambda x: nn.functional.linear(x - x.mean(0), loop.model[2].weight)


def other_module(loop: Loop) -> None:
    loop.model[3] = nn.ReLU()


def more_parameters(loop: Loop) -> None:
    loop.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})


def momentum(loop: Loop) -> None:
    next(iter(loop.optimizer.state.values()))["exp_avg"].add_(1.0)


def other_state(loop: Loop) -> None:
    loop.optimizer.load_state_dict(copy.deepcopy(loop.optimizer.state_dict()))


def the_records(loop: Loop) -> None:
    loop.data[0].sub_(loop.data[0].mean(0))


TOUCHED = [
    another_optimizer,
    hidden_write,
    write,
    other_numbers,
    other_device,
    swapped_parameter,
    unfrozen,
    frozen,
    frozen_weights,
    buffer,
    statistics_of_private_data,
    hook,
    other_forward,
    other_module,
    more_parameters,
    momentum,
    other_state,
    the_records,
]


@pytest.mark.parametrize("touch", TOUCHED, ids=lambda touch: touch.__name__)
def test_what_was_touched_between_steps_ends_the_run(begin: Begin, loop: Loop, touch: Callable[[Loop], None]) -> None:
    private = started(begin, loop)
    with torch.no_grad() if touch in (frozen_weights, buffer) else torch.enable_grad():
        touch(loop)
    batch = next(private)
    with pytest.raises(InputError, match=r"expected|optimizer"):
        private.step(batch)
    for call in (private.finish, lambda: next(private), lambda: private.step(batch)):
        with pytest.raises(InputError, match="broke off"):
            call()
    assert not Path("runs/own/statement.md").exists()


def test_frozen_weights_written_past_every_version_are_found_at_the_end(begin: Begin, loop: Loop) -> None:
    private = stepped(begin(loop.model, loop.data, optimizer=loop.optimizer), STEPS)
    loop.model[0].weight.data += 1.0
    with pytest.raises(InputError, match="weights that are not trained"):
        private.finish()
    assert not Path("runs/own/statement.md").exists()


def harmless_evaluation(loop: Loop) -> None:
    loop.model.train()
    loop.model.eval()
    with torch.no_grad():
        loop.model(torch.randn(4, 5))


def left_in_another_mode(loop: Loop) -> None:
    loop.model.train()


def learning_rate(loop: Loop) -> None:
    loop.optimizer.param_groups[0]["lr"] *= 0.5


def gradients(loop: Loop) -> None:
    loss_backward(loop)
    loop.optimizer.zero_grad()
    loss_backward(loop)


@pytest.mark.parametrize("use", [harmless_evaluation, left_in_another_mode, learning_rate, gradients], ids=lambda use: use.__name__)
def test_what_does_no_harm_is_allowed(begin: Begin, loop: Loop, use: Callable[[Loop], None]) -> None:
    private = started(begin, loop)
    use(loop)
    assert stepped(private, STEPS).taken == STEPS


def test_the_optimizer_steps_for_nobody_else(begin: Begin) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private, before = begin(model, optimizer=optimizer), weights(model)
    loss_of(model, records()).mean().backward()
    for _ in range(2):
        with pytest.raises(InputError, match=r"expected private\.step"):
            optimizer.step()
    assert torch.equal(weights(model), before)
    batch = next(private)
    with pytest.raises(InputError, match=r"expected private\.step"):
        optimizer.step()
    private.step(batch)  # nothing was lost
    stepped(private, STEPS).finish()
    optimizer.step()  # the run is over: what follows is the caller's


def test_a_batch_is_stepped_once_and_before_the_next(begin: Begin) -> None:
    private = begin()
    batch = next(private)
    with pytest.raises(InputError, match="once"):
        next(private)
    with pytest.raises(InputError, match="expected batch 1, the one drawn last, found 2"):
        private.step(dpcli.PrivateBatch(2))
    with pytest.raises(InputError, match="found something else"):
        private.step(records())  # type: ignore[arg-type]
    private.step(batch)
    with pytest.raises(InputError, match="expected a batch to draw"):
        private.step(batch)
    for later in private:
        private.step(later)
    with pytest.raises(StopIteration):
        next(private)
    with pytest.raises(InputError, match="expected a batch to draw"):
        private.step(dpcli.PrivateBatch(STEPS + 1))
    private.finish()
    with pytest.raises(InputError, match="has not ended"):
        private.finish()


def test_somebody_else_may_call_the_optimizer_once(begin: Begin) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = begin(model, optimizer=optimizer)
    private.backward(next(private))
    assert private.taken == 1  # its noise is drawn
    with pytest.raises(InputError, match="one step of the optimizer"):
        private.finish()
    optimizer.step()
    with pytest.raises(InputError, match="found somebody else"):
        optimizer.step()
    private.backward(next(private))
    loss_of(model, records()).mean().backward()  # adds what no noise covers
    with pytest.raises(InputError, match=r"expected the gradients as private\.backward left them"):
        optimizer.step()
    with pytest.raises(InputError, match="broke off"):
        optimizer.step() if private.finish() else None


def test_a_closure_is_refused(begin: Begin) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(InputError, match="expected one that steps without a closure, found LBFGS"):
        begin(model, optimizer=torch.optim.LBFGS(model.parameters()))
    private = begin(model, optimizer=optimizer)
    private.backward(next(private))
    with pytest.raises(InputError, match="without a closure"):
        optimizer.step(lambda: loss_of(model, records()).mean())


def test_the_optimizer_has_what_is_trained(begin: Begin) -> None:
    model = model_of()
    with pytest.raises(InputError, match=r"found it without 0\.weight"):
        begin(model, optimizer=torch.optim.SGD(model[2].parameters(), lr=1.0))
    with pytest.raises(InputError, match="found others"):
        begin(model, optimizer=torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(2))], lr=1.0))


def test_a_model_that_mixes_records_is_refused_before_anything_is_charged(begin: Begin) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(InputError, match="BatchNorm1d"):
        begin(model, ledger=None)
    assert not Path("runs/own/state.pt").exists()


class Items(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return torch.full((5,), float(row)), row % 3


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(records()[0])


def test_a_loader_that_draws_its_own_batches_is_refused(begin: Begin) -> None:
    loader = DataLoader(TensorDataset(*records()), batch_size=20, shuffle=True)
    with pytest.raises(InputError, match=r"expected the dataset itself, as loader\.dataset, found a DataLoader"):
        begin(data=loader)
    with pytest.raises(InputError, match="expected a dataset with a length"):
        begin(data=Stream())
    with pytest.raises(InputError, match="expected arrays or tensors"):
        begin(data=["a", "b"])


def test_a_dataset_is_read_once() -> None:
    inputs, labels = records_of(Items(), "own.toml")  # type: ignore[misc]
    assert inputs.shape == (6, 5) and labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert records_of(TensorDataset(*records()), "own.toml")[1] is not None  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('task = "loop"', 'task = "loop"\nlearning_rate = 0.1'), "train.learning_rate: expected no such key"),
        (('task = "loop"', 'task = "loop"\noptimizer = "adam"'), "train.optimizer: expected no such key"),
        (
            ('task = "loop"', 'task = "custom"\nlearning_rate = 1.0\nmodel = "a:b"\ndata = "a:b"\nloss = "a:b"'),
            'expected "loop" with dpcli.private, found "custom"',
        ),
        ((f"dataset_size = {60}", "dataset_size = 50"), "expected at least the number of private records, found 50"),
    ],
)
def test_the_file_says_what_the_loop_does(begin: Begin, change: tuple[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        begin(text=FILE.replace(*change))


def test_torchrun_is_refused(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="expected one process"):
        begin()
