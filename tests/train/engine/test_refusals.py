"""The engine refuses models and losses that mix examples, and the message names the place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from tests.cases import require_each
from tests.train.engine.models import LABELS, classification, images, mlp, vectors

REFUSED = {
    "BatchNorm1d": nn.BatchNorm1d(4),
    "BatchNorm2d": nn.BatchNorm2d(4),
    "BatchNorm3d": nn.BatchNorm3d(4),
    "SyncBatchNorm": nn.SyncBatchNorm(4),
    "BatchNorm2d without statistics": nn.BatchNorm2d(4, track_running_stats=False),
    "InstanceNorm2d": nn.InstanceNorm2d(4, track_running_stats=True),
    "Embedding with max_norm": nn.Embedding(4, 3, max_norm=1.0),
    "Embedding with frequencies": nn.Embedding(4, 3, scale_grad_by_freq=True),
    "EmbeddingBag with max_norm": nn.EmbeddingBag(4, 3, max_norm=1.0),
}


def test_refused_by_name_before_anything_runs() -> None:
    def check(name: str) -> None:
        with pytest.raises(InputError, match=r"^model: 1: expected modules that keep examples apart, found \w+, whose .*; \w+"):
            ClippedGradients(nn.Sequential(nn.Linear(4, 4), REFUSED[name]), classification, Flat(1.0))

    require_each(REFUSED, check)


def test_the_message_says_what_to_use_instead() -> None:
    with pytest.raises(InputError) as problem:
        ClippedGradients(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)), classification, Flat(1.0))
    assert str(problem.value) == (
        "model: 1: expected modules that keep examples apart, "
        "found BatchNorm2d, whose output for one example depends on the others; use GroupNorm, or freeze it: .eval()"
    )


@pytest.mark.long
def test_instance_norm_without_statistics_is_welcome() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.Linear(4 * 7 * 6, LABELS))
    engine = ClippedGradients(model.double(), classification, Flat(1.0))
    assert engine(images(4)).count == 4


def test_lazy_parameters() -> None:
    with pytest.raises(InputError, match=r"^model: 0.weight: expected a tensor with a shape, found a lazy one"):
        ClippedGradients(nn.Sequential(nn.LazyLinear(3)), classification, Flat(1.0))


def test_nothing_to_train() -> None:
    with pytest.raises(InputError, match=r"^model: no parameter has requires_grad: nothing to train"):
        ClippedGradients(mlp().requires_grad_(False), classification, Flat(1.0))


class Centred(nn.Module):
    """Takes the mean over the batch away."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Secret(nn.Module):
    """Mixes examples where no gradient passes."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (1.0 + 1e-3 * torch.tanh(x.detach().sum()))


class Previous(nn.Module):
    """Adds the example before."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-3 * torch.roll(x, 1, 0)


class Sized(nn.Module):
    """Depends on how many examples there are, and on nothing of them."""

    def forward(self, x: Tensor) -> Tensor:
        return x / x.shape[0]


class Ranked(nn.Module):
    """Keeps an example's value where it is the largest of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x == x.amax(0), x, 0.5 * x)


def test_examples_that_meet_in_a_module() -> None:
    def check(case: tuple[Callable[[], nn.Module], bool]) -> None:
        mixer, mode = case
        model = nn.Sequential(nn.Linear(11, 8), mixer(), nn.Linear(8, LABELS)).double().train(mode)
        with pytest.raises(InputError) as problem:
            ClippedGradients(model, classification, Flat(1.0))(vectors(5))
        expected = "expected an output for each example that depends on it alone, found "
        assert str(problem.value).startswith(f"model: 1 ({mixer.__name__}): {expected}")
        assert re.search(r" at test_refusals.py, line \d+; ", str(problem.value))

    require_each(itertools.product([Centred, Secret, Previous, Sized, Ranked], [True, False]), check)


def test_examples_that_meet_before_a_layer_that_starts_at_zero() -> None:
    """The losses do not show it until the last layer has moved."""
    model = nn.Sequential(nn.Linear(11, 8), Secret(), nn.Linear(8, LABELS)).double()
    nn.init.zeros_(model[2].weight)
    with pytest.raises(InputError, match=r"^model: 1 \(Secret\): expected an output for each example"):
        ClippedGradients(model, classification, Flat(1.0))(vectors(5))
    assert not model[2].weight.any()


def test_examples_that_meet_in_training_alone() -> None:
    class Sometimes(Secret):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.training else x

    model = nn.Sequential(nn.Linear(11, 8), Sometimes(), nn.Linear(8, LABELS)).double().eval()
    engine = ClippedGradients(model, classification, Flat(1.0))
    engine(vectors(5))
    model.train()
    with pytest.raises(InputError, match=r"^model: 1 \(Sometimes\): expected an output for each example"):
        engine(vectors(5))


def test_examples_that_meet_behind_dropout() -> None:
    model = nn.Sequential(nn.Linear(11, 8), nn.Dropout(0.3), Secret(), nn.Linear(8, LABELS)).double()
    with pytest.raises(InputError, match=r"^model: 2 \(Secret\): expected an output for each example"):
        ClippedGradients(model, classification, Flat(1.0))(vectors(5))


def test_examples_that_meet_in_a_model_without_a_rule() -> None:
    """vmap would isolate the examples, but the model would then compute something else than it says."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.centre, self.head = nn.Parameter(torch.ones(11)), Centred(), nn.Linear(11, LABELS)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.centre(x * self.scale))

    with pytest.raises(InputError, match=r"^model: centre \(Centred\): expected an output"):
        ClippedGradients(Odd().double(), classification, Flat(1.0))(vectors(5))


def test_examples_that_meet_in_the_loss() -> None:
    def contrastive(model: nn.Module, batch: Any) -> Tensor:
        output = model(batch[0])
        return torch.logsumexp(output @ output.mT, 1)

    with pytest.raises(
        InputError, match=r"^loss: expected a loss for each example that depends on it alone, found mm, which pairs each record"
    ):
        ClippedGradients(mlp().double(), contrastive, Flat(1.0))(vectors(5))


def test_a_buffer_that_a_forward_updates() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(11, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return x

    model = nn.Sequential(Counting(), nn.Linear(11, LABELS)).double()
    with pytest.raises(InputError) as problem:
        ClippedGradients(model, classification, Flat(1.0))(vectors(5))
    assert str(problem.value).startswith("model: 0.mean: expected a tensor that training does not change, found one that a forward")


ROWS = "batch: expected every tensor to have one row per example"


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((torch.zeros(3, 11), torch.zeros(2)), f"{ROWS}, found first dimensions 2 and 3"),
        ((torch.zeros(3, 11), torch.tensor(1)), f"{ROWS}, found first dimensions a scalar and 3"),
        ((torch.zeros(3, 11), 7), "batch: expected a dense tensor, or a tuple, list or dict of dense tensors, found int"),
        (
            (torch.zeros(3, 11).to_sparse(), torch.zeros(3)),
            "batch: expected a dense tensor, or a tuple, list or dict of dense tensors, found torch.sparse_coo",
        ),
        ((), "batch: expected a dense tensor, or a tuple, list or dict of dense tensors, found nothing"),
    ],
)
def test_batches_that_cannot_be_taken_apart(batch: Any, message: str) -> None:
    with pytest.raises(InputError) as problem:
        ClippedGradients(mlp(), classification, Flat(1.0))(batch)
    assert str(problem.value) == message


class MixesManyOnly(nn.Module):
    """Keeps a few examples apart, and many not."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(11, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x - x.max(0).values if len(x) >= 8 else x)


def test_examples_that_meet_in_larger_batches_alone_are_refused() -> None:
    engine = ClippedGradients(MixesManyOnly().double(), classification, Flat(1.0))
    with pytest.raises(InputError, match="depends on"):
        engine(vectors(6))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_what_torchscript_holds_is_refused() -> None:
    """Its attributes can count calls, and nobody sees them."""
    with pytest.raises(InputError, match="found RecursiveScriptModule, whose forward cannot be inspected; use the module"):
        ClippedGradients(nn.Sequential(torch.jit.script(nn.Linear(4, 4))), classification, Flat(1.0))


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_parameters_are_refused(kind: str) -> None:
    """They would be called with the sum of a batch's gradients, before noise, and a copy of the model has lost them."""
    model = nn.Sequential(nn.Linear(3, 2))
    getattr(model[0].bias, kind)(lambda *unused: None)
    with pytest.raises(InputError, match=r"model: 0.bias: expected a parameter without hooks, found a hook"):
        ClippedGradients(model, classification, Flat(1.0))


def test_complex_parameters_are_refused() -> None:
    """Noise is real: the imaginary part of a sum would be released as it is."""
    model = nn.Linear(3, 2, dtype=torch.cfloat)
    with pytest.raises(InputError, match="expected real parameters"):
        ClippedGradients(model, classification, Flat(1.0))
