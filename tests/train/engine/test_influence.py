"""The promise of the engine: removing one example moves the clipped sum by at most C, whatever the examples are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dpcli.base.errors import InputError
from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerGroup, PerLayer
from dpcli.train.engine.per_example import ClippedGradients
from tests.cases import require_each
from tests.train.engine.models import LARGE, SMALL, Configuration, classification, mlp, texts, vectors
from tests.train.engine.oracle import distance, influence, length, without

SLACK = 1.0 + 1e-6
CLIPS = [Flat(1e-3), Automatic(1e-3, 1e-3), PerLayer(1e-3), Adaptive(1e-3)]
EVERY = [pytest.param(configuration, id=configuration.name) for configuration in SMALL]
# dpcli's own tasks on such models: tasks/test_language_gradients.py
EVERY += [pytest.param(configuration, id=configuration.name, marks=pytest.mark.nightly) for configuration in LARGE]
DENSE = [parameter for parameter in EVERY if parameter.id in ("mlp", "cnn", "sequence", "functional", "recurrent")]


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("configuration", EVERY)
def test_influence_on_random_data(configuration: Configuration) -> None:
    """A prompt's embedding, which runs at batch 1, among them: with ghost clipping elsewhere its influence is 4.76 C."""

    def bounded(clip: Clip) -> None:
        engine = ClippedGradients(configuration.model(), configuration.loss, copy.copy(clip))
        assert 0.5 < influence(engine, configuration.draw(4), 4) <= SLACK
        assert engine.method.name == configuration.method

    require_each(CLIPS, bounded)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("depth", "count"), [(64, 29), (64, 33), (5, 10), (31, 7)])
def test_influence_at_a_kink(depth: int, count: int) -> None:
    """An absolute error whose targets are the model's first answers: the last digit of each decides the sign of a gradient."""
    torch.manual_seed(1)
    model, inputs = nn.Sequential(nn.Linear(depth, 6), nn.ReLU(), nn.Linear(6, 1)), torch.randn(count, depth)

    def error(model: nn.Module, batch: Any) -> Tensor:
        return (model(batch[0]).squeeze(1) - batch[1]).abs()

    engine = ClippedGradients(model, error, Flat(1.0))
    assert influence(engine, (inputs, model(inputs).detach().squeeze(1)), count) <= SLACK
    assert engine.method.name == "book-keeping"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("budgets", [{"0": 3.0, "2": 4.0}, {"0.weight": 1.0, "*": 0.1}, {"*": 1.0, "2.bias": 5.0, "0": 2.0}])
def test_groups_together_stay_within_the_bound(budgets: dict[str, float]) -> None:
    """C is reached by an example that is long in every group, and each group's part of the change is its own share at most."""
    clip, batch = PerGroup(1e-3, tuple(budgets.items())), vectors(4)
    engine = ClippedGradients(mlp().double(), classification, clip)
    assert influence(engine, batch, 4) == pytest.approx(1.0, rel=1e-5)
    whole, less = engine(batch).gradients, engine(without(batch, 2, 4)).gradients
    root = sum(budget**2 for budget in budgets.values()) ** 0.5
    for group, budget in zip(clip.groups(list(whole)), budgets.values(), strict=True):
        moved = distance({name: whole[name] for name in group}, {name: less[name] for name in group})
        assert moved <= SLACK * clip.bound * budget / root


def poisoned(data: Tensor, row: int, value: float) -> Tensor:
    changed = data.clone()
    changed[row] = value
    return changed


ADVERSARIES: dict[str, Callable[[Tensor], Tensor]] = {
    "huge": lambda data: data * torch.tensor([1.0, 1e6, 1e12, 1e-12, 1.0], dtype=data.dtype).view(-1, *[1] * (data.dim() - 1)),
    "nan": lambda data: poisoned(data, 1, float("nan")),
    "infinite": lambda data: poisoned(data, 2, float("inf")),
    "beyond the number format": lambda data: poisoned(data, 3, 1e300),
    "duplicates": lambda data: data[[0, 0, 0, 0, 1]],
    "zeros": lambda data: data * 0.0,
    "one value": lambda data: torch.ones_like(data) * torch.arange(5.0).to(data).view(-1, *[1] * (data.dim() - 1)),
}


@pytest.mark.usefixtures("followed_once")  # which sees made-up records alone
@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("configuration", DENSE)
def test_influence_on_adversarial_data(configuration: Configuration) -> None:
    """As the first batch too: whatever the probe makes of such data, the sums stay bounded."""
    chosen = ClippedGradients(configuration.model(), configuration.loss, Flat(0.05))
    chosen(configuration.draw(3))

    def bounded(adversary: str) -> None:
        data, targets = configuration.draw(5)
        batch = ADVERSARIES[adversary](data), targets
        assert influence(chosen, batch, 5) <= SLACK
        assert chosen.method.name == configuration.method
        assert influence(ClippedGradients(configuration.model(), configuration.loss, Flat(0.05)), batch, 5) <= SLACK

    require_each(ADVERSARIES, bounded)


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("configuration", DENSE)
def test_a_record_that_is_not_finite_adds_zero_and_spoils_nothing(configuration: Configuration) -> None:
    engine = ClippedGradients(configuration.model(), configuration.loss, Flat(0.05))
    data, targets = configuration.draw(5)
    sums = engine((poisoned(data, 1, float("nan")), targets))
    rest = engine(without((data, targets), 1, 5))
    assert sums.finite.tolist() == [True, False, True, True, True]
    assert sums.norms[1] == torch.inf
    assert distance(sums.gradients, rest.gradients) <= 1e-9


@pytest.mark.long
@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize(
    "configuration", [parameter for parameter in EVERY if parameter.id in ("mlp", "cnn", "bag", "sequence", "tied")]
)
def test_one_example_alone_in_single_precision(configuration: Configuration) -> None:
    """Without other examples, whose rounding would move too, the bound holds to the last digits of single precision."""

    def bounded(scale: float) -> None:
        def loss(model: nn.Module, batch: Any) -> Tensor:
            return configuration.loss(model, batch) * scale

        engine = ClippedGradients(configuration.model().float(), loss, Flat(0.05))
        for _ in range(10):
            batch = tree_map(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, configuration.draw(2))
            engine(batch)
            assert length(engine(without(batch, 0, 2)).gradients) <= 0.05

    require_each([1e-3, 1.0, 1e3, 1e8], bounded)


@pytest.mark.long
def test_a_wide_layer_in_single_precision() -> None:
    """Norms are taken a little longer than computed: without that every second example here is longer than C."""
    engine = ClippedGradients(nn.Linear(784, 256), classification, Flat(1.0))
    data, targets = torch.randn(40, 784), torch.randint(0, 256, (40,))
    engine((data, targets))
    assert max(length(engine((data[row : row + 1], targets[row : row + 1])).gradients) for row in range(40)) <= 1.0


def test_terms_that_cancel_in_single_precision() -> None:
    """A ghost norm is a small difference of large numbers here: |sum g_t a_t| is 1e-4 of sum |g_t||a_t|."""

    class Cancelling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(64, 64, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return (model(batch[0]) * batch[1]).sum((1, 2))

    engine = ClippedGradients(Cancelling(), loss, Flat(0.05))
    for size in (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        row, g = torch.randn(16, 1, 64), torch.randn(16, 1, 64)
        batch = torch.cat([row, row + size * torch.randn(16, 1, 64)], 1), torch.cat([g, -g], 1)
        engine(batch)
        assert engine.method.name == "book-keeping"
        for one in range(16):
            exact = (batch[1][one].double().mT @ batch[0][one].double()).norm()
            sums = engine(tree_map(lambda leaf: leaf[one : one + 1], batch))  # noqa: B023
            assert length(sums.gradients) <= 0.05 * SLACK
            assert float(sums.norms[0]) >= float(exact) * (1.0 - 1e-6)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_loss_in_low_precision_keeps_the_fast_method(name: str) -> None:
    """The gradients of two methods then differ by the rounding of bfloat16, and not by that of the parameters."""
    configuration = next(one for one in SMALL if one.name == name)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return configuration.loss(model, batch)

    engine = ClippedGradients(configuration.model().float(), loss, Flat(1e-3))
    data, targets = configuration.draw(5)
    for _ in range(3):
        engine.checked_sums((data.float(), targets), 3)
        assert length(engine((data[:1].float(), targets[:1])).gradients) <= 1e-3 * SLACK
    assert engine.method.name == configuration.method, engine.describe()


@pytest.mark.sampled(1, 1)
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # torch's own, of RMSNorm under autocast
@pytest.mark.parametrize("name", ["mlp", "cnn", "sequence", "scaled"])
def test_one_example_alone_in_low_precision_of_the_model(name: str) -> None:
    """The model may run in half precision or with coarse products; norms and sums do not."""
    configuration = next(one for one in SMALL if one.name == name)
    engine = ClippedGradients(configuration.model().float(), configuration.loss, Flat(1e-3))
    torch.set_float32_matmul_precision("medium")
    try:
        for _ in range(5):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                data, targets = configuration.draw(2)
                engine((data.float(), targets))
                sums = engine((data[:1].float(), targets[:1]))
            assert 0.99e-3 <= length(sums.gradients) <= 1e-3 * SLACK
            assert engine.method.name == configuration.method, engine.describe()
            assert {value.dtype for value in sums.gradients.values()} == {torch.float32}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_scalar_loss_is_refused() -> None:
    """Ghost clipping behind out.loss.backward() elsewhere: an influence of 5.92 C without an error."""

    def mean(model: nn.Module, batch: Any) -> Tensor:
        return classification(model, batch).mean()

    with pytest.raises(InputError) as problem:
        ClippedGradients(mlp().double(), mean, Flat(1.0))(vectors(4))
    assert str(problem.value) == (
        "loss: expected one loss per example, shape (B,) for B examples, found shape (); "
        'a mean over the batch hides the contribution of each example: use reduction="none", '
        "on the logits where the model returns a loss of its own"
    )


@pytest.mark.long
def test_the_models_own_mean_loss_is_refused() -> None:
    configuration = LARGE[0]
    with pytest.raises(InputError, match=r"expected one loss per example, shape \(B,\) for B examples, found shape \(\)"):
        ClippedGradients(configuration.model(), lambda model, batch: model(**batch, labels=batch["input_ids"]).loss, Flat(1.0))(
            texts(4)
        )


def test_a_mean_in_disguise_is_refused_with_adaptive_clipping() -> None:
    """A mean-reducing loss with adaptive clipping elsewhere: 2287 C. Losses that are divided by the batch size have the right shape."""

    def divided(model: nn.Module, batch: Any) -> Tensor:
        losses = classification(model, batch)
        return losses / losses.shape[0]

    def repeated(model: nn.Module, batch: Any) -> Tensor:
        losses = classification(model, batch)
        return losses.mean().expand_as(losses)

    for loss in (divided, repeated):
        with pytest.raises(InputError, match="expected a loss for each example that depends on it alone"):
            ClippedGradients(mlp().double(), loss, Adaptive(1.0))(vectors(4))
