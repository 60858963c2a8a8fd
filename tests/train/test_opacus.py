"""engine = "opacus": correct where Opacus is, and refused where it is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from dpcli.base.errors import InputError
from dpcli.train.engine import opacus as opacus_engine
from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerLayer
from dpcli.train.engine.opacus import OpacusGradients
from tests.cases import require_each
from tests.train.engine.models import (
    LARGE,
    SMALL,
    Configuration,
    Idle,
    classification,
    cnn,
    dropout_mlp,
    images,
    mlp,
    vectors,
)
from tests.train.engine.oracle import clipped_sum, distance, gradients, length

CONFIGURATIONS = {configuration.name: configuration for configuration in SMALL + LARGE}
CLIPS = [Flat(0.5), Automatic(0.5), PerLayer(0.5), Adaptive(0.5)]


def plain(model: nn.Module) -> nn.Module:
    """In training mode, without dropout, and without operations in place, which Opacus cannot have behind its hooks."""
    for module in model.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.double().train()


def test_opacus_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise opacus_engine.PackageNotFoundError(name)

    monkeypatch.setattr(opacus_engine, "version", nothing)
    with pytest.raises(InputError) as problem:
        OpacusGradients(mlp(), classification, Flat(1.0))
    assert str(problem.value) == ("train.engine: engine = \"opacus\" needs Opacus: pip install 'dpcli[opacus]'")


@pytest.fixture
def opacus() -> None:
    pytest.importorskip("opacus", reason="the comparison needs the opacus extra")


pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),  # torch's own, where no input needs a gradient
    pytest.mark.filterwarnings("ignore::DeprecationWarning:opacus"),
]


def padded_with_zeros() -> nn.Module:
    """The other convolutional model pads in a circle, which Opacus takes for zeros."""
    model = cnn()
    model[5].padding_mode = "zeros"
    return model


CONFIGURATIONS["cnn with zeros"] = Configuration("cnn with zeros", padded_with_zeros, images)


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("name", ["mlp", "cnn with zeros", "tied", "scaled", pytest.param("gpt2 lora", marks=pytest.mark.nightly)])
def test_sums_are_those_of_one_example_at_a_time(opacus: None, name: str) -> None:
    configuration = CONFIGURATIONS[name]

    def agrees(clip: Clip) -> None:
        model, batch = plain(configuration.model()), configuration.draw(5)
        per_example = gradients(model, configuration.loss, batch, 5)
        engine = OpacusGradients(model, configuration.loss, copy.copy(clip))
        sums = engine(batch)
        assert engine.method.name == "opacus" and engine.describe().endswith("hooks, compared with one example at a time")
        assert list(sums.gradients) == list(per_example[0])
        assert distance(sums.gradients, clipped_sum(per_example, clip)) <= 1e-9 * clip.bound
        torch.testing.assert_close(sums.norms.float(), torch.tensor([length(one) for one in per_example]), rtol=2e-6, atol=1e-7)
        assert sums.finite.all()

    require_each(CLIPS, agrees)


def without(batch: Any, row: int, size: int) -> Any:
    rows = [other for other in range(size) if other != row]
    return torch.utils._pytree.tree_map(lambda leaf: leaf[rows], batch)


def test_influence(opacus: None) -> None:
    engine = OpacusGradients(plain(mlp()), classification, Flat(1e-3))
    batch = vectors(5)
    whole = engine(batch)
    found = [distance(whole.gradients, engine(without(batch, row, 5)).gradients) / 1e-3 for row in range(5)]
    assert min(found) > 0.9 and max(found) <= 1.0 + 1e-6


@pytest.mark.long
def test_an_example_that_is_not_finite_adds_zero(opacus: None) -> None:
    engine = OpacusGradients(plain(mlp()), classification, Flat(0.05))
    data, targets = vectors(5)
    engine((data, targets))
    poisoned = data.clone()
    poisoned[1] = float("nan")
    sums = engine((poisoned, targets))
    assert sums.finite.tolist() == [True, False, True, True, True]
    assert distance(sums.gradients, engine(without((data, targets), 1, 5)).gradients) <= 1e-12


def test_an_empty_batch_does_not_run_the_model(opacus: None) -> None:
    def never(model: nn.Module, batch: object) -> torch.Tensor:
        raise AssertionError("the model ran")

    sums = OpacusGradients(mlp(), never, Flat(1.0))((torch.zeros(0, 11), torch.zeros(0, dtype=torch.long)))
    assert sums.count == 0 and length(sums.gradients) == 0.0


@pytest.mark.long
def test_one_example_is_enough_to_begin_with(opacus: None) -> None:
    """What is compared is made up."""
    engine = OpacusGradients(plain(mlp()), classification, Flat(0.5))
    assert engine.method.name == "loop" and engine.describe().endswith("not compared yet: one example at a time")
    data, targets = vectors(1)
    engine((data.expand(3, -1), targets.expand(3)))
    assert engine.method.name == "opacus"


@pytest.mark.long
def test_the_model_is_left_as_it_was(opacus: None) -> None:
    model = plain(mlp())
    engine = OpacusGradients(model, classification, Flat(0.5))
    values = {name: value.clone() for name, value in model.state_dict().items()}
    model[0].weight.grad = torch.ones_like(model[0].weight)
    engine(vectors(4))
    assert all(torch.equal(value, values[name]) for name, value in model.state_dict().items())
    assert torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight)) and model[2].weight.grad is None
    for module in model.modules():
        assert not module._forward_hooks and not module._backward_hooks and not hasattr(module, "activations")
    for parameter in model.parameters():
        assert not hasattr(parameter, "grad_sample") and not hasattr(parameter, "_forward_counter")


@pytest.mark.long
def test_what_a_layer_left_is_gone_before_the_next_batch(opacus: None) -> None:
    """The layer runs without being part of the loss: its inputs would stay."""
    model = Idle().double()
    engine = OpacusGradients(model, classification, Flat(0.5))
    for _ in range(3):
        batch = vectors(4)
        sums = engine(batch)
        assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9
        assert not hasattr(model.idle, "activations")


@pytest.mark.long
def test_dropout_is_compared_without_and_drawn_with(opacus: None) -> None:
    model = dropout_mlp().double()
    engine = OpacusGradients(model, classification, Flat(0.5))
    batch = vectors(4)
    first, second = engine(batch), engine(batch)
    assert engine.method.name == "opacus" and distance(first.gradients, second.gradients) > 0.0
    assert all(module.training for module in model.modules())


PROMPT = "prompt_encoder.default.embedding.weight"
REFUSED = {
    "mlp": ("Sequential", "Output 0 of BackwardHookFunction is a view and is being modified inplace"),
    "prompted": ("Prompted", "it leaves a tensor of shape (1, 3, 6) for the 3 gradients of prompt.weight"),
    "positions": ("Positions", "it leaves a tensor of shape (7, 7, 6) for the 3 gradients of places.weight"),
    "functional": ("Functional", "its norms differ from norms computed one example at a time"),
    "gpt2 untied": ("GPT2LMHeadModel", "it leaves a tensor of shape (1, 16, 8) for the 3 gradients of transformer.wpe.weight"),
    "gpt2 soft prompt": ("PeftModelForCausalLM", f"it leaves a tensor of shape (1, 3, 8) for the 3 gradients of {PROMPT}"),
}


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name == "gpt2 untied" else []) for name in REFUSED]
)
def test_refused_where_its_gradients_are_others(opacus: None, name: str) -> None:
    """Soft prompts above all: their embedding runs once for all examples, and its gradient is the batch's."""
    configuration, (model, reason) = CONFIGURATIONS[name], REFUSED[name]
    engine = OpacusGradients(configuration.model().train(), configuration.loss, Flat(1.0))
    with pytest.raises(InputError) as problem:
        engine(configuration.draw(4))
    assert str(problem.value) == (
        f"train.engine: expected Opacus' gradients of {model} to equal gradients computed one example at a time, "
        f'found a difference: {reason}; use engine = "dpcli"'
    )


@pytest.mark.long
def test_padding_that_opacus_takes_for_zeros(opacus: None) -> None:
    configuration = CONFIGURATIONS["cnn"]
    engine = OpacusGradients(plain(configuration.model()), configuration.loss, Flat(1.0))
    with pytest.raises(
        InputError, match=r"found a difference: its norms differ from norms computed one example at a time; use engine"
    ):
        engine(configuration.draw(4))


def test_a_later_batch_that_does_not_fit_is_refused(opacus: None) -> None:
    class Later(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.turned = nn.Linear(11, 5), False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x[:, None].transpose(0, 1))[0] if self.turned else self.head(x)

    model = Later().double()
    engine = OpacusGradients(model, classification, Flat(0.5))
    engine(vectors(4))
    model.turned = True
    with pytest.raises(
        InputError, match=r"found a difference: it leaves a tensor of shape \(1, 5, 11\) for the 4 gradients of head.weight; use"
    ):
        engine(vectors(4))


def test_modules_that_mix_are_refused_before_opacus_sees_them(opacus: None) -> None:
    with pytest.raises(InputError, match="found BatchNorm1d"):
        OpacusGradients(nn.Sequential(nn.Linear(11, 4), nn.BatchNorm1d(4)), classification, Flat(1.0))


def test_a_mean_is_refused(opacus: None) -> None:
    def mean(model: nn.Module, batch: Any) -> torch.Tensor:
        return classification(model, batch).mean()

    with pytest.raises(InputError, match="expected one loss per example"):
        OpacusGradients(plain(mlp()), mean, Flat(1.0))(vectors(4))
