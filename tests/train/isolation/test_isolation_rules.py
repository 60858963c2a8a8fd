"""Generated programs that the rules pass without a doubt are isolated by brute force. No other part of the check takes part."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental import symbolic_shapes
from torch.nn import functional

from dpcli.base.errors import InputError
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.isolation.traced_program import analyze
from dpcli.train.replay.record_draws import OwnDraws
from tests.cases import require_each

WIDTH, RECORDS = 6, 12
Step = Callable[[Tensor], Any]


class Own(nn.Module):
    """A parameter, so that there is a gradient, and what is done to the records."""

    def __init__(self, done: Step) -> None:
        super().__init__()
        self.done, self.scale = done, nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.done(x) * self.scale
        return scaled.sum(1)


def loss(model: nn.Module, batch: Any) -> Tensor:
    found: Tensor = model(batch)
    return found


def passes(done: Step) -> bool:
    """Followed to the end, every operator with a rule."""
    try:
        return analyze(Own(done), loss, torch.zeros(2, WIDTH)).doubt is None
    except InputError:
        return False


def isolates(done: Step) -> bool:
    """Whatever the others are, and whether one of them is there at all, a record's rows stay."""
    x = torch.randn(RECORDS, WIDTH, dtype=torch.double)
    with torch.no_grad():
        whole = done(x.clone())
        for row in (0, 5, RECORDS - 1):
            kept = [other for other in range(RECORDS) if other != row]
            if not torch.allclose(done(x[kept]), whole[kept], atol=1e-9):
                return False
    return True


def written(view: Step, picked: Step, late: bool) -> Step:
    """Records are put into new numbers through one view, and read from another, made before or after."""

    def done(x: Tensor) -> Any:
        found = torch.zeros(x.shape[0], WIDTH, dtype=x.dtype)
        before = picked(found)
        view(found).copy_(view(x))
        return x + (picked(found) if late else before)

    return done


def added_to(x: Tensor) -> Any:
    total = torch.zeros(WIDTH, dtype=x.dtype)
    torch._foreach_add_([total], [x.mean(0)])
    return x + total


def statistics(x: Tensor) -> Any:
    mean, variance = torch.zeros(WIDTH, dtype=x.dtype), torch.ones(WIDTH, dtype=x.dtype)
    functional.batch_norm(x, mean, variance, training=True, momentum=1.0)
    return x + mean


def some_set(x: Tensor) -> Any:
    found = torch.ones(x.shape[0], 1, dtype=x.dtype)
    found[2] = 5.0
    return x * found


def exchanged(x: Tensor) -> Any:
    mean = torch.zeros(WIDTH, dtype=x.dtype)
    mean.data = x.mean(0)
    return x + mean


def behind_torch(x: Tensor) -> Any:
    mean = torch.zeros(WIDTH, dtype=x.dtype)
    mean.untyped_storage().copy_(x.mean(0).untyped_storage())
    return x + mean


def in_two_orders(x: Tensor) -> Any:
    ids = (x[:, :3].abs() * 3).long().clamp(max=9)
    table = torch.linspace(-1, 1, 100, dtype=x.dtype).view(10, 10)
    return x + table[ids.reshape(-1), ids.t().reshape(-1)].view(x.shape[0], 3).sum(1, keepdim=True)


def updated(x: Tensor) -> Any:
    ones, zeros = torch.ones(WIDTH, dtype=x.dtype), torch.zeros(WIDTH, dtype=x.dtype)
    return torch.ops.aten._batch_norm_with_update(x, ones, zeros, zeros.clone(), ones.clone(), 0.1, 1e-5)[0]


def crossed(x: Tensor) -> Any:
    rows = x[:, :3].reshape(-1)
    columns = x[:, :3].t().reshape(-1) > 0
    return x + torch.ops.aten.native_dropout_backward(rows, columns, 1.0).view(x.shape[0], 3).sum(1, keepdim=True)


def turned_over(x: Tensor) -> Any:
    """The places of all records, read row by row as three for each."""
    return x + x[torch.arange(x.shape[0]).expand(3, -1).contiguous().view(-1, 3)].sum(1)


def read_as_narrower(x: Tensor) -> Any:
    """Half of each place is zero: the first record's."""
    return x + x[torch.arange(x.shape[0])[:, None].view(torch.int32).long()].sum(1)


def read_as_wider(x: Tensor) -> Any:
    """Two records' numbers, one behind the other, are one number of another kind."""
    pairs = x.detach().float()[:, :2].repeat(2, 1).view(torch.float64).view(-1, 2)
    return x + (pairs > 0.0).any(1, keepdim=True)


def zeros(count: int) -> Tensor:
    found: Tensor = torch.zeros(count, 1, dtype=torch.long)
    return found


MIXING: dict[str, Step] = {
    "picked by an index without records": lambda x: x + x.gather(1, zeros(1)),
    "put by an index without records": lambda x: x.scatter(1, zeros(3), 5.0),
    "put into what all have alike": lambda x: torch.ones(x.shape[0], WIDTH, dtype=x.dtype).scatter(1, zeros(3), 0.0) * x,
    "renormalised over the others": lambda x: x.renorm(2, 1, 0.5),
    "one group of all records": lambda x: torch.native_group_norm(x, None, None, 1, 1, x.numel(), 1, 1e-5)[0],
    "unsqueezed in place from behind": lambda x: x + x.t().clone().unsqueeze_(-2).amax(-1).squeeze(1).t(),
    "a list added in place": added_to,
    "statistics of the call": statistics,
    "one of those that are alike": some_set,
    "as often as there are records": lambda x: x * torch.ones(x.shape[0], 1).expand(-1, x.shape[0]).sum(1, keepdim=True).to(x),
    "drawn below the number of records": lambda x: x * torch.randint(x.shape[0], (x.shape[0], 1)),
    "another's numbers behind a tensor": exchanged,
    "a storage written to": behind_torch,
    "looked up by places in two orders": in_two_orders,
    "two orders in one operator": crossed,
    "statistics by an operator that always takes them": updated,
    "drawn below what the batch holds": lambda x: x * torch.randint_like(x, (x.abs().max() * 50).long() + 2),
    "places turned over": turned_over,
    "places read as narrower numbers": read_as_narrower,
    "numbers read as wider ones": read_as_wider,
    "a branch on len": lambda x: x - x.mean(0) if len(x) < 100 else x,
    **{
        f"read {'after' if late else 'before'} it is written through {name}": written(view, lambda t: t[0], late)
        for name, view in {"a slice": lambda t: t[:, :], "a column": lambda t: t[:, 0], "a transpose": lambda t: t.t()}.items()
        for late in (False, True)
    },
}


@pytest.mark.long
def test_what_mixes_does_not_pass_the_rules() -> None:
    def mixes(name: str) -> None:
        torch.manual_seed(4)
        assert not isolates(MIXING[name])
        assert not passes(MIXING[name])

    require_each(MIXING, mixes)


@pytest.mark.long
def test_places_in_a_narrow_number_are_no_places() -> None:
    """They begin again, or are rounded to another's, from some number of records on."""

    def check(kind: Any) -> None:
        assert not passes(lambda x: x[torch.arange(x.shape[0]).to(kind).long()])
        assert not passes(lambda x: x[torch.arange(x.shape[0], dtype=kind).long()])
        assert passes(lambda x: x[torch.arange(x.shape[0]).to(torch.int32).long()])

    require_each([torch.int8, torch.uint8, torch.int16, torch.half, torch.bfloat16, torch.float32], check)


class Sized(nn.Module):
    """Does something else for some sizes of the batch."""

    def __init__(self, mixes: Callable[[Any], Any]) -> None:
        super().__init__()
        self.mixes, self.scale = mixes, nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.scale
        return (x - x.mean(0) if self.mixes(x.shape[0]) else x).square().sum(1)


BRANCHES: list[Callable[[Any], Any]] = [
    lambda n: n == 20,
    lambda n: 700 <= n < 703,
    lambda n: 3 * n + 1 == 4321,
    lambda n: n > 10**7,
    lambda n: n % 13 == 1,
    lambda n: n * n == 169,
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mixes", BRANCHES)
def test_no_branch_on_any_size(mixes: Callable[[Any], Any]) -> None:
    with pytest.raises(
        InputError, match=r"found a branch on the batch size|over the records|whose result is combined with records"
    ):
        analyze(Sized(mixes), loss, torch.zeros(2, WIDTH))


def test_the_line_that_branches_is_named_and_torch_imports_no_compiler_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def imports() -> set[str]:
        raise AssertionError("asked for the files of torch's compilers")

    monkeypatch.setattr(symbolic_shapes, "uninteresting_files", imports)
    with pytest.raises(
        InputError, match=r"found a branch on the batch size \(s\d+ >= 1000\) at test_isolation_rules\.py, line \d+"
    ):
        analyze(Sized(lambda n: n < 1000), loss, torch.zeros(2, WIDTH))


def test_what_torch_asks_under_another_mode_is_no_branch() -> None:
    """As a replay follows it, which gives each record its draws: a convolution chooses its way by the batch's size."""
    draws, model = OwnDraws(1), nn.Sequential(nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 4, 3), nn.Flatten())
    with draws:
        found = analyze(model, draws.loss(lambda net, x: net(x).sum(1)), torch.zeros(2, WIDTH))
    assert found.doubt is None


class Lengths(torch.autograd.Function):  # type: ignore[misc, name-defined]
    """The backward pass divides by the largest singular value of all gradients together: an operator without a rule."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient / torch.linalg.svdvals(gradient).max()


class Unclear(Own):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = Lengths.apply(x * self.scale)
        return found.sum(1)


def test_a_doubt_in_the_backward_pass_stays() -> None:
    assert analyze(Unclear(lambda x: x), loss, torch.zeros(2, WIDTH)).doubt is not None


@pytest.mark.parametrize("name", ["tolist", "data_ptr"])
def test_numbers_that_are_read_without_an_operator_are_a_doubt(name: str) -> None:
    model = Own(lambda x: x)
    model.done = lambda x: x + (len(str(getattr(model.scale, name)())) > 10**6)
    doubt = analyze(model, loss, torch.zeros(2, WIDTH)).doubt
    assert doubt is not None and doubt.startswith(f"numbers are read by Tensor.{name} at test_isolation_rules.py, line ")


def of_its_own() -> nn.Module:
    """Its Function says itself what becomes of it under vmap, and is wrong. The class goes when the model does."""

    class Mapped(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Tensor) -> tuple[Any, int]:
            return Mapped.apply(x) / x.norm(), 0

    return Own(lambda x: Mapped.apply(x) + torch.linalg.svdvals(x[:, None]))


@pytest.mark.nightly
@pytest.mark.long
def test_a_rule_of_somebody_elses_for_vmap_is_not_believed() -> None:
    x = torch.randn(RECORDS, WIDTH)
    engine = ClippedGradients(of_its_own(), loss, Flat(1.0))
    engine(x)
    assert engine.program is not None and engine.program.doubt is not None and not engine.program.mapped
    assert engine.method.name == "loop"
    del engine
    gc.collect()
    assert analyze(Own(lambda x: x), loss, x).mapped


def flipped(x: Tensor) -> Tensor:
    return x.flip(0)


reversed_ = torch.library.custom_op("dpcli_tests::clone", flipped, mutates_args=())
reversed_.register_fake(torch.empty_like)
reversed_.register_autograd(lambda context, gradient: gradient)


def test_a_rule_is_for_the_operator_of_torch_with_that_name() -> None:
    assert not passes(lambda x: x + reversed_(x))
