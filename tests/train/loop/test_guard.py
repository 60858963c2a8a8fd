"""Every change that a loop makes between private steps, and that would break the guarantee, is refused. Nothing is then stated."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import dpcli
from dpcli.base.errors import InputError
from dpcli.train.loop.guard import require_readable
from dpcli.train.loop.marks import COPIED_NUMBERS, value_mark
from dpcli.train.tasks.custom import records_of
from tests.cases import require_each
from tests.train.loop.conftest import FILE, STEPS, Begin, loss_of, model_of, records, stepped, weights


@dataclass
class Loop:
    """What a loop has at hand."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    data: tuple[Tensor, Tensor]


class Own(nn.Tanh):
    """It has attributes of every kind, and so has its class."""

    scale, several = 1.0, [1.0]

    def __init__(self) -> None:
        super().__init__()
        self.held = {"tensors": (torch.ones(3),), "numbers": [1.0, "one"], "array": np.ones(2), "module": nn.Linear(2, 2)}
        self.deep = [1.0]
        for _ in range(12):
            self.deep = [{"more": self.deep}]

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


class OwnParameter(nn.Parameter):
    """As some libraries have, to know theirs again."""


class ListsInItsState(torch.optim.Optimizer):
    """As some optimizers have: tensors in lists in dictionaries, and numbers."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-3, "momentum": 0.9})

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for value in group["params"]:
                state = self.state[value]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(value), torch.zeros_like(value)
                    state["held"] = [{"several": (torch.ones(3), torch.ones(3000)), "number": 0}]
                state["exp_avg"].lerp_(value.grad, 0.1)
                state["exp_avg_sq"].lerp_(value.grad.square(), 0.1)
                state["held"][0]["number"] += 1
                with torch.no_grad():
                    value.add_(state["exp_avg"], alpha=-group["lr"])


def model_with_buffers() -> nn.Sequential:
    """Two thirds are trained; it has a frozen layer and a buffer."""
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Linear(5, 8), Own(), nn.Linear(8, 3)).eval()
    model[0].requires_grad_(False)
    model[1].requires_grad_(False)
    model[4].weight = OwnParameter(model[4].weight.detach())
    return model


@contextlib.contextmanager
def at_hand() -> Iterator[Loop]:
    """A loop; what is done to classes meanwhile is undone."""
    own = Own.forward, list(Own.several)
    torch.manual_seed(0)
    model = model_with_buffers()
    yield Loop(model, ListsInItsState([p for p in model.parameters() if p.requires_grad]), records())
    Own.forward, Own.scale, Own.several[:] = own[0], 1.0, own[1]  # type: ignore[method-assign]
    nn.modules.module._global_forward_hooks.pop(-1, None)


@pytest.fixture
def loop() -> Iterator[Loop]:
    with at_hand() as found:
        yield found


def started(begin: Begin, loop: Loop) -> dpcli.Private:
    return stepped(begin(loop.model, loop.data, optimizer=loop.optimizer))


def loss_backward(loop: Loop) -> None:
    loss_of(loop.model, loop.data).mean().backward()


def another_optimizer(loop: Loop) -> None:
    loss_backward(loop)
    torch.optim.SGD(loop.model.parameters(), lr=0.1).step()


def written(loop: Loop) -> None:
    with torch.no_grad():
        loop.model[4].bias.add_(loop.data[0].mean())


def statistics_of_private_data(loop: Loop) -> None:
    loop.model.train()
    loop.model(loop.data[0])
    loop.model.eval()


def deep_number(loop: Loop) -> None:
    value = loop.model[3].deep
    while isinstance(value[0], dict):
        value = value[0]["more"]
    value[0] = 2.0


def states_exchanged(loop: Loop) -> None:
    one, other = (parameter for parameter in loop.optimizer.state if parameter.shape in ((8,), (3,)))
    every = {{id(one): other, id(other): one}.get(id(key), key): value for key, value in loop.optimizer.state.items()}
    loop.optimizer.state.clear()
    loop.optimizer.state.update(every)


def centred(module: Any, given: Any, output: Tensor) -> Tensor:
    return output - output.mean(0)


def state_of(loop: Loop) -> Any:
    return loop.optimizer.state[loop.model[2].weight]


# What no version counts is written through .data or numpy.
TOUCHED: dict[str, Callable[[Loop], Any]] = {
    "another optimizer": another_optimizer,
    "a weight": written,
    "a weight past its version": lambda loop: loop.model[2].weight.data[0].add_(1e-3),
    "a parameter of a class of its own": lambda loop: loop.model[4].weight.data[0].add_(1e-3),
    "another precision": lambda loop: loop.model.double(),
    "another device": lambda loop: loop.model.to("meta"),
    "another parameter": lambda loop: setattr(loop.model[4], "bias", nn.Parameter(loop.model[4].bias.detach().clone())),
    "an unfrozen layer": lambda loop: loop.model[0].requires_grad_(True),
    "a frozen layer": lambda loop: loop.model[4].requires_grad_(False),
    "frozen weights past their version": lambda loop: loop.model[0].weight.data[0].add_(1.0),
    "a buffer": lambda loop: loop.model[1].running_mean.copy_(loop.data[0].mean(0)),
    "a buffer past its version": lambda loop: loop.model[1].running_var.data[1].add_(0.5),
    "statistics": statistics_of_private_data,
    "a hook": lambda loop: loop.model[2].register_forward_hook(centred),
    "a hook on a weight": lambda loop: loop.model[2].weight.register_hook(lambda gradient: gradient * 2.0),
    "a hook on all modules": lambda loop: nn.modules.module._global_forward_hooks.update({-1: centred}),
    "another forward": lambda loop: setattr(loop.model[2], "forward", lambda x: x - x.mean(0)),
    "another module": lambda loop: loop.model.__setitem__(3, nn.ReLU()),
    "the order of modules": lambda loop: loop.model._modules.update({"3": loop.model._modules.pop("3")}),
    "more parameters": lambda loop: loop.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]}),
    "momentum": lambda loop: state_of(loop)["exp_avg"].add_(1.0),
    "momentum past its version": lambda loop: state_of(loop)["exp_avg"].data.add_(1.0),
    "a list in the state": lambda loop: state_of(loop)["held"][0]["several"][1].data[700:].add_(1e-7),
    "a number in the state": lambda loop: state_of(loop)["held"][0].update(number=9),
    "states exchanged": states_exchanged,
    "the records": lambda loop: loop.data[0].sub_(loop.data[0].mean(0)),
    "a tensor attribute": lambda loop: setattr(loop.model[3], "scale", loop.data[0].std(0)),
    "a tensor attribute past its version": lambda loop: loop.model[3].held["tensors"][0].numpy().fill(2.0),
    "a number attribute": lambda loop: setattr(loop.model[1], "eps", float(loop.data[0].std())),
    "a list attribute": lambda loop: loop.model[3].held["numbers"].append(2.0),
    "an array attribute": lambda loop: loop.model[3].held["array"].fill(7.0),
    "a hidden module": lambda loop: loop.model[3].held["module"].weight.data.add_(1.0),
    "a deep number": deep_number,
    "a number of the class": lambda loop: setattr(Own, "scale", 2.0),
    "a list of the class": lambda loop: Own.several.append(2.0),
    "a method of the class": lambda loop: setattr(Own, "forward", lambda self, x: x - x.mean(0)),
}


@pytest.mark.long
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("part", range(4))
def test_what_was_touched_between_steps_ends_the_run(begin: Begin, tmp_path: Path, part: int) -> None:
    def ended(name: str) -> None:
        place = tmp_path / name
        place.mkdir()
        with contextlib.chdir(place), at_hand() as loop:
            private = started(begin, loop)
            with torch.set_grad_enabled(name != "a buffer"):
                TOUCHED[name](loop)
            batch = next(private)
            with pytest.raises(InputError, match=r"expected as the last private step left it|^optimizer: expected"):
                private.step(batch)
            for call in (private.finish, lambda: next(private), lambda: private.step(batch)):
                with pytest.raises(InputError, match="broke off"):
                    call()
            assert not Path("runs/own/statement.md").exists()

    require_each([*TOUCHED][part::4], ended)


def test_frozen_weights_written_past_every_version_are_found_at_the_end(begin: Begin, loop: Loop) -> None:
    private = stepped(begin(loop.model, loop.data, optimizer=loop.optimizer), STEPS)
    loop.model[0].weight.data += 1.0
    with pytest.raises(InputError, match=r"the tensor 0\.weight"):
        private.finish()
    assert not Path("runs/own/statement.md").exists()


@pytest.mark.parametrize("end", ["finish", "close"])
def test_large_frozen_weights_written_past_every_version_are_found_at_the_end(begin: Begin, loop: Loop, end: str) -> None:
    loop.model[3].register_buffer("table", torch.zeros(2**16))
    private = stepped(begin(loop.model, loop.data, optimizer=loop.optimizer), 1)
    loop.model[3].table.add_(1.0)
    loop.model[3].table.sub_(1.0)
    private.step(next(private))
    loop.model[3].table.data[7] = 1.0
    with pytest.raises(InputError, match=r"the tensor 3\.table"):
        getattr(private, end)()
    assert not Path("runs/own/statement.md").exists()


def test_a_counted_write_to_large_frozen_weights_is_found_before_the_next_step(begin: Begin, loop: Loop) -> None:
    loop.model[3].register_buffer("table", torch.zeros(2**16))
    private = stepped(begin(loop.model, loop.data, optimizer=loop.optimizer), 1)
    loop.model[3].table[7] = 1.0
    batch = next(private)
    with pytest.raises(InputError, match=r"the tensor 3\.table"):
        private.step(batch)


@pytest.mark.parametrize("end", ["finish", "close"])
def test_records_written_past_every_version_are_found_at_the_end(begin: Begin, loop: Loop, end: str) -> None:
    private = stepped(begin(loop.model, loop.data, optimizer=loop.optimizer), STEPS)
    loop.data[0].numpy()[:] -= loop.data[0].mean(0).numpy()
    with pytest.raises(InputError, match=r"the records \[0\]"):
        getattr(private, end)()
    assert not Path("runs/own/statement.md").exists()


def test_every_number_of_a_tensor_counts() -> None:
    """One, all by a power of two or by their sign, halves exchanged, two exchanged; and a NaN is equal to itself."""

    def check(case: tuple[int, torch.dtype]) -> None:
        size, kind = case
        torch.manual_seed(0)
        made = torch.randn(size, dtype=kind) if kind.is_floating_point or kind.is_complex else torch.randint(0, 2, (size,)).to(kind)
        changes: list[Callable[[Tensor], Any]] = [
            lambda t: t[size // 2].copy_(~t[size // 2] if kind == torch.bool else t[size // 2] + 1)
        ]
        if kind != torch.bool and kind != torch.int64:
            changes += [lambda t: t.mul_(2), lambda t: t.mul_(0.5), lambda t: t.neg_(), lambda t: t.mul_(0)]
        if size > 1:
            changes += [lambda t: t.copy_(t.flip(0)), lambda t: t.copy_(t.roll(1)), lambda t: t.copy_(t.roll(size // 2))]
        before = value_mark(made)
        for change in changes:
            other = made.clone()
            assert value_mark(other) == before
            change(other)
            assert value_mark(other) != before or torch.equal(other, made)
        if kind.is_floating_point:
            made[0] = torch.nan
            assert value_mark(made) == value_mark(made.clone())

    require_each(
        itertools.product(
            [1, 1000, COPIED_NUMBERS, COPIED_NUMBERS + 7, 1021 * 1024],
            [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64],
        ),
        check,
    )


def harmless_evaluation(loop: Loop) -> None:
    loop.model.train()
    loop.model.eval()
    with torch.no_grad():
        loop.model(torch.randn(4, 5))


def left_in_another_mode(loop: Loop) -> None:
    loop.model.train()


def learning_rate(loop: Loop) -> None:
    loop.optimizer.param_groups[0]["lr"] *= 0.5


def written_back(loop: Loop) -> None:
    """As an average of the weights is, for an evaluation."""
    kept = [value.detach().clone() for value in loop.model.parameters() if value.requires_grad]
    for value, before in zip((v for v in loop.model.parameters() if v.requires_grad), kept, strict=True):
        value.data.zero_()
        value.data.copy_(before)


def all_of_it_written_back(loop: Loop) -> None:
    """Frozen weights and buffers too: their versions are others, and their numbers the same."""
    kept = {name: value.clone() for name, value in loop.model.state_dict().items()}
    loop.model.load_state_dict({name: torch.zeros_like(value) for name, value in kept.items()})
    loop.model.load_state_dict(kept)


def hooks_that_are_gone(loop: Loop) -> None:
    loop.model[2].register_forward_hook(lambda module, given, output: None).remove()
    loop.model[2].weight.register_hook(lambda gradient: gradient).remove()
    loop.optimizer.register_step_post_hook(lambda *unused: None).remove()


def schedules(loop: Loop) -> None:
    """They wrap the optimizer's step, and write to its groups."""
    for scheduled in (torch.optim.lr_scheduler.LambdaLR(loop.optimizer, lambda step: 0.5), cycled(loop.optimizer)):
        loop.optimizer._opt_called = True  # type: ignore[attr-defined]  # else each warns of its order
        scheduled.step()


def cycled(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=9)


def gradients(loop: Loop) -> None:
    loss_backward(loop)
    loop.optimizer.zero_grad()
    loss_backward(loop)


HARMLESS = [
    harmless_evaluation,
    left_in_another_mode,
    learning_rate,
    written_back,
    all_of_it_written_back,
    hooks_that_are_gone,
    schedules,
    gradients,
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("use", HARMLESS, ids=lambda use: use.__name__)
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
        with pytest.raises(InputError, match=r"expected a step by private\.step"):
            optimizer.step()
    assert torch.equal(weights(model), before)
    batch = next(private)
    with pytest.raises(InputError, match=r"expected a step by private\.step"):
        optimizer.step()
    private.step(batch)  # nothing was lost
    stepped(private, STEPS).finish()
    optimizer.step()  # the run is over: what follows is the caller's


def test_a_batch_is_stepped_once_and_before_the_next(begin: Begin) -> None:
    private = begin()
    batch = next(private)
    with pytest.raises(InputError, match="a batch shows no records; pass it to"):
        _inputs, _targets = batch  # type: ignore[misc]
    with pytest.raises(InputError, match="once"):
        next(private)
    with pytest.raises(InputError, match="expected batch 1, which was drawn last, found 2"):
        private.step(dpcli.PrivateBatch(2))
    with pytest.raises(InputError, match="expected the batch that the run drew last, found "):
        private.step(records())  # type: ignore[arg-type]
    private.step(batch)
    with pytest.raises(InputError, match="draw a batch first"):
        private.step(batch)
    for later in private:
        private.step(later)
    with pytest.raises(StopIteration):
        next(private)
    with pytest.raises(InputError, match="draw a batch first"):
        private.step(dpcli.PrivateBatch(STEPS + 1))
    private.finish()
    with pytest.raises(InputError, match="the run has ended"):
        private.finish()


def test_somebody_else_may_call_the_optimizer_once(begin: Begin) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = begin(model, optimizer=optimizer)
    private.backward(next(private))
    assert private.taken == 1  # its noise is drawn
    with pytest.raises(InputError, match="must take one step first"):
        private.finish()
    optimizer.step()
    with pytest.raises(InputError, match="found one by other code"):
        optimizer.step()
    private.backward(next(private))
    loss_of(model, records()).mean().backward()  # adds what no noise covers
    with pytest.raises(InputError, match=r"expected the gradients as private\.backward left them"):
        optimizer.step()
    with pytest.raises(InputError, match="broke off"):
        optimizer.step() if private.finish() else None


def test_an_optimizer_that_needs_a_closure_is_refused(begin: Begin) -> None:
    model = model_of()
    with pytest.raises(InputError, match="expected one that steps without a closure, found LBFGS"):
        begin(model, optimizer=torch.optim.LBFGS(model.parameters()))


def closure_of(model: nn.Module, optimizer: torch.optim.Optimizer, fault: str) -> Callable[[], Any]:
    """What a framework passes to the step, with a fault."""

    def closure() -> Any:
        match fault:
            case "backward":
                loss_of(model, records()).mean().backward()
            case "backward anew":
                optimizer.zero_grad()
                loss_of(model, records()).mean().backward()
            case "scaled":
                for parameter in model.parameters():
                    parameter.grad *= 2.0  # type: ignore[operator]
            case "weights":
                with torch.no_grad():
                    next(model.parameters()).add_(1.0)
            case "error":
                raise ValueError("of the caller's")
        return torch.tensor(0.25)

    return closure


@pytest.mark.parametrize("named", [False, True])
def test_a_closure_that_leaves_the_gradients_is_called(begin: Begin, named: bool) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = begin(model, optimizer=optimizer)
    for batch in private:
        private.backward(batch)
        closure = closure_of(model, optimizer, "none")
        loss = optimizer.step(closure=closure) if named else optimizer.step(closure)
        assert loss is None  # the optimizer could scale its step by it
    assert private.finish().steps == STEPS


@pytest.mark.parametrize("fault", ["backward", "backward anew", "scaled", "weights", "error"])
def test_a_closure_that_changes_what_the_step_uses_ends_the_run(begin: Begin, fault: str) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = begin(model, optimizer=optimizer)
    private.backward(next(private))
    with pytest.raises(ValueError if fault == "error" else InputError, match=r"of the caller's|found"):
        optimizer.step(closure_of(model, optimizer, fault))
    with pytest.raises(InputError, match="broke off"):
        private.finish()


class Derived(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Centred(torch.optim.SGD):
    """It changes the gradients, and steps twice."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.ones_like(parameter)
        return super().step(closure)


def test_a_step_that_calls_the_one_of_its_class_is_one_step(begin: Begin) -> None:
    torch.optim.SGD(model_of().parameters(), lr=1.0)  # from now on the class has hooks of its own
    model = model_of()
    optimizer = Derived(model.parameters(), lr=1.0)
    private = begin(model, optimizer=optimizer)
    for batch in private:
        private.step(batch)
    assert private.finish().steps == STEPS
    other = model_of()
    private = begin(other, optimizer=Centred(other.parameters(), lr=1.0))
    with pytest.raises(InputError, match="gradient without noise"):
        private.step(next(private))


def test_other_arguments_of_a_step_are_refused(begin: Begin) -> None:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = begin(model, optimizer=optimizer)
    private.backward(next(private))
    with pytest.raises(InputError, match="expected a step without arguments, found float"):
        optimizer.step(0.5)  # type: ignore[call-overload]


class Wrapped(Tensor):
    """It says itself what operators do."""

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        raise NotImplementedError


def test_weights_that_nobody_could_compare_are_refused() -> None:
    model = nn.Linear(2, 2)
    model.weight = nn.Parameter(torch.eye(2).to_sparse())
    with pytest.raises(
        InputError, match="weight: expected a parameter whose numbers can be compared between steps, found Parameter of"
    ):
        require_readable(model)
    assert value_mark(Wrapped._make_wrapper_subclass(Wrapped, (2,))).bits is None  # type: ignore[attr-defined]


def test_an_optimizer_may_have_frozen_parameters(begin: Begin) -> None:
    """As AdamW(model.parameters()) of a model with adapters. They have no gradient, so nothing moves them."""
    model = model_of()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    private = begin(model, optimizer=optimizer)
    for batch in private:
        private.step(batch)
    assert private.finish().steps == STEPS and torch.equal(model[0].weight, before)
    model[0].weight.grad = torch.ones_like(before)
    with pytest.raises(InputError, match=r"frozen parameters without a gradient, found 0\.weight with one.*set its \.grad to None"):
        begin(model, optimizer=optimizer)


def test_an_optimizer_that_cannot_take_a_step_is_told_before_the_run(begin: Begin) -> None:
    class Wrapping(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            self.param_groups, self.state, self.inner = inner.param_groups, inner.state, inner

    model = model_of()
    with pytest.raises(InputError, match=r"calls that of torch\.optim\.Optimizer, found Wrapping"):
        begin(model, optimizer=Wrapping(torch.optim.SGD(model.parameters(), lr=0.1)))
    with pytest.raises(InputError, match="dense gradients, found SparseAdam"):
        begin(model, optimizer=torch.optim.SparseAdam(list(model.parameters())))


def test_the_optimizer_has_what_is_trained(begin: Begin) -> None:
    model = model_of()
    with pytest.raises(InputError, match=r"found it without 0\.weight"):
        begin(model, optimizer=torch.optim.SGD(model[2].parameters(), lr=1.0))
    with pytest.raises(InputError, match=r"expected parameters of the model, found \(.*\), the shape of another tensor"):
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
    with pytest.raises(InputError, match="expected dense arrays or tensors"):
        begin(data=["a", "b"])


def test_a_dataset_is_read_once() -> None:
    inputs, labels = records_of(Items(), "own.toml", model_of())  # type: ignore[misc]
    assert inputs.shape == (6, 5) and labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert records_of(TensorDataset(*records()), "own.toml", model_of())[1] is not None  # type: ignore[index]


class Tokens(Dataset[dict[str, Any]]):
    """As a tokenizer leaves them: lists of numbers, which default_collate alone would transpose."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": [row, 1, 2], "boxes": [[row, 0.5]] * 2, "labels": row % 2}


def test_lists_in_a_dataset_are_rows() -> None:
    class OfAnotherLibrary:
        __len__, __getitem__ = Tokens.__len__, Tokens.__getitem__

    OfAnotherLibrary.__module__ = "datasets.arrow_dataset"
    for data in (Tokens(), OfAnotherLibrary()):
        batch: Any = records_of(data, "own.toml", model_of())
        assert batch["input_ids"].tolist() == [[row, 1, 2] for row in range(4)]
        assert batch["boxes"].shape == (4, 2, 2) and batch["labels"].tolist() == [0, 1, 0, 1]


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
