"""Norms and clipped sums against one example at a time, for every layer, model and clipping style; and the engine's use of memory."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from dpcli.train.engine import per_example
from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerLayer
from dpcli.train.engine.method import trained_parameters
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.isolation.synthetic_records import draws_like
from tests.cases import require_each
from tests.train.engine.models import (
    LARGE,
    SMALL,
    Configuration,
    Functional,
    Idle,
    Positions,
    Prompted,
    classification,
    dropout_mlp,
    mlp,
    sequences,
    vectors,
    words,
)
from tests.train.engine.oracle import clipped_sum, distance, gradients, length

CLIPS = [Flat(0.5), Automatic(0.5), PerLayer(0.5), Adaptive(0.5)]
BY_NAME = [pytest.param(configuration, id=configuration.name) for configuration in SMALL]
BY_NAME += [pytest.param(configuration, id=configuration.name, marks=pytest.mark.nightly) for configuration in LARGE]


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(2, 5)
@pytest.mark.parametrize("configuration", BY_NAME)
def test_sums_are_those_of_one_example_at_a_time(configuration: Configuration) -> None:
    model, batch = configuration.model(), configuration.draw(5)
    per_example = gradients(model, configuration.loss, batch, 5)
    norms = torch.tensor([length(one) for one in per_example])
    clip = Flat(float(norms.median()))
    engine = ClippedGradients(model, configuration.loss, clip)
    sums, expected = engine(batch), clipped_sum(per_example, clip)
    assert engine.method.name == configuration.method, engine.describe()
    assert list(sums.gradients) == list(expected)
    assert distance(sums.gradients, expected) <= 1e-9 * clip.bound
    torch.testing.assert_close(sums.norms.float(), norms, rtol=2e-6, atol=1e-7)
    assert sums.count == 5 and bool(sums.finite.all())


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("configuration", [c for c in BY_NAME if c.id in ("mlp", "cnn", "tied", "scaled", "recurrent")])
def test_every_style_with_every_method(configuration: Configuration) -> None:
    model, batch = configuration.model(), configuration.draw(4)
    each = gradients(model, configuration.loss, batch, 4)

    def agrees(clip: Clip) -> None:
        sums = ClippedGradients(model, configuration.loss, clip)(batch)
        assert distance(sums.gradients, clipped_sum(each, clip)) <= 1e-9 * clip.bound

    require_each(CLIPS, agrees)


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("configuration", BY_NAME)
def test_micro_batches_add_up(configuration: Configuration) -> None:
    engine = ClippedGradients(configuration.model(), configuration.loss, Flat(0.5))
    whole_batch = configuration.draw(5)
    whole = engine(whole_batch)
    parts = [torch.utils._pytree.tree_map(lambda leaf: leaf[rows], whole_batch) for rows in (slice(0, 2), slice(2, 2), slice(2, 5))]  # noqa: B023
    total = engine(parts[0]) + engine(parts[1]) + engine(parts[2])
    assert distance(total.gradients, whole.gradients) <= 1e-9
    torch.testing.assert_close(total.norms, whole.norms)
    assert total.count == 5


@pytest.mark.usefixtures("followed_once")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("configuration", [c for c in BY_NAME if c.id in ("mlp", "cnn", "bag", "sequence", "tied")])
def test_single_precision(configuration: Configuration) -> None:
    """Ghost norms are moved up by the rounding they may have lost, at most 1e-4 here; the sums follow."""
    model, batch = configuration.model().float(), configuration.draw(5)
    batch = torch.utils._pytree.tree_map(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, batch)
    clip = Flat(0.5)
    sums = ClippedGradients(model, configuration.loss, clip)(batch)
    expected = clipped_sum(gradients(model, configuration.loss, batch, 5), clip)
    assert {value.dtype for value in sums.gradients.values()} == {torch.float32}
    assert distance(sums.gradients, expected) <= 1e-4 * clip.bound


def test_half_precision_is_summed_in_single_precision() -> None:
    model = mlp().bfloat16()
    data = vectors(6)
    sums = ClippedGradients(model, classification, Flat(0.5))((data[0].bfloat16(), data[1]))
    assert {value.dtype for value in sums.gradients.values()} == {torch.float32}
    assert sums.norms.dtype == torch.float32


def test_empty_batch_does_not_run_the_model() -> None:
    def never(model: nn.Module, batch: object) -> torch.Tensor:
        raise AssertionError("the model ran")

    sums = ClippedGradients(mlp(), never, Flat(1.0))((torch.zeros(0, 11), torch.zeros(0, dtype=torch.long)))
    assert sums.count == 0 and length(sums.gradients) == 0.0
    assert [tuple(value.shape) for value in sums.gradients.values()] == [(8, 11), (8,), (5, 8), (5,)]


def test_only_trainable_parameters_count() -> None:
    model = mlp().double()
    model[0].requires_grad_(False)
    batch = vectors(4)
    sums = ClippedGradients(model, classification, Flat(0.5))(batch)
    assert list(sums.gradients) == ["2.weight", "2.bias"]
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9


@pytest.mark.long
def test_bias_alone() -> None:
    model = mlp().double()
    model[0].weight.requires_grad_(False)
    batch = vectors(4)
    sums = ClippedGradients(model, classification, Flat(0.5))(batch)
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9


def test_parameters_modes_and_random_numbers_are_left_alone() -> None:
    model = dropout_mlp().double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    identities = [id(p) for p in model.parameters()]
    engine = ClippedGradients(model, classification, Flat(0.5))
    batch = vectors(4)
    engine(batch)
    assert engine.method.name == "book-keeping"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert identities == [id(p) for p in model.parameters()] and all(p.grad is None for p in model.parameters())
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_dropout_is_bounded_in_training_mode() -> None:
    engine = ClippedGradients(dropout_mlp().double(), classification, Flat(0.01))
    engine(vectors(4))
    sums = engine(vectors(1))
    assert 0.0 < length(sums.gradients) <= 0.01


def test_copies_of_one_example_hide_nothing() -> None:
    """What is rehearsed on is made up."""
    engine = ClippedGradients(mlp().double(), classification, Flat(0.5))
    batch = vectors(1)
    copies = (batch[0].repeat(3, 1), batch[1].repeat(3))
    assert length(engine(copies).gradients) == pytest.approx(3.0 * length(engine(batch).gradients))
    assert engine.describe() == "book-keeping"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("positions", "first"), [(7, 3), (7, 7), (3, 7), (3, 3)])
def test_as_many_examples_as_positions(positions: int, first: int) -> None:
    """A first dimension of seven is seven positions or seven examples; only the probe's two batch sizes tell."""
    model, (ids, targets) = Positions().double(), words(7)
    batch = ids[:, :positions], targets
    engine = ClippedGradients(model, classification, Flat(0.05))
    engine((batch[0][:first], targets[:first]))
    assert distance(engine(batch).gradients, clipped_sum(gradients(model, classification, batch, 7), Flat(0.05))) <= 1e-9
    assert engine.method.name == "book-keeping"


@pytest.mark.nightly
@pytest.mark.long
def test_positions_before_examples() -> None:
    """A layer on (T, B, d) has its examples along the second dimension, where they must stay."""

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.turned = nn.Linear(11, 5), True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.body(x.transpose(0, 1)).transpose(0, 1) if self.turned else self.body(x)
            return torch.tanh(hidden).square().mean(1)

    model, batch = Turned().double(), sequences(4)
    engine = ClippedGradients(model, classification, Flat(0.05))
    engine(batch)
    assert engine.describe() == "book-keeping"
    assert distance(engine(batch).gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.05))) <= 1e-9
    model.turned = False
    engine = ClippedGradients(model, classification, Flat(0.05))
    engine(batch)
    assert engine.describe() == "book-keeping"
    model.turned = True
    sums = engine(batch)
    assert engine.describe() == "book-keeping"
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.05))) <= 1e-9


def test_losses_that_depend_on_nothing() -> None:
    def constant(model: nn.Module, batch: Any) -> torch.Tensor:
        return batch[0].sum(1)

    sums = ClippedGradients(mlp().double(), constant, Flat(1.0))(vectors(4))
    assert length(sums.gradients) == 0.0 and sums.norms.tolist() == [0.0] * 4


def test_a_layer_that_the_losses_do_not_depend_on() -> None:
    engine = ClippedGradients(Idle().double(), classification, Flat(1.0))
    sums = engine(vectors(4))
    assert engine.describe() == "book-keeping"
    assert not sums.gradients["idle.weight"].any() and not sums.gradients["head.bias"].any()
    assert sums.gradients["body.weight"].any()


@pytest.mark.long
def test_a_prompt_that_is_pooled_before_it_is_repeated() -> None:
    """There is no place in the graph with its gradient per example."""

    class Pooled(Prompted):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            prompt = self.prompt(torch.arange(3)[None]).mean(1, keepdim=True).repeat(ids.shape[0], 1, 1)
            return self.head(torch.tanh(self.body(torch.cat([prompt, self.table(ids)], 1))).square().mean(1))

    model, batch = Pooled().double(), words(5)
    engine = ClippedGradients(model, classification, Flat(0.05))
    sums = engine(batch)
    assert engine.describe() == (
        "vmap; not book-keeping: prompt runs once for all examples, and MeanBackward1 is no repetition of its output"
    )
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 5), Flat(0.05))) <= 1e-9


@pytest.mark.long
def test_a_weight_that_is_later_used_by_hand_is_no_longer_book_kept() -> None:
    class Later(Functional):
        by_hand = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if self.by_hand else self.head(torch.tanh(self.first(x)))

    model, batch = Later().double(), vectors(4)
    engine = ClippedGradients(model, classification, Flat(0.5))
    engine(batch)
    assert engine.describe() == "book-keeping"
    model.by_hand = True
    sums = engine(batch)
    assert engine.method.name == "loop" and engine.describe() == "book-keeping"  # as it was chosen before any record was read
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9


@pytest.mark.long
def test_a_parameter_that_is_unfrozen_later_counts() -> None:
    model, batch = mlp().double(), vectors(4)
    model[0].requires_grad_(False)
    engine = ClippedGradients(model, classification, Flat(0.5))
    engine(batch)
    model.requires_grad_(True)
    sums = engine(batch)
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9


@pytest.mark.long
def test_a_layer_that_later_runs_more_often_is_no_longer_book_kept() -> None:
    class Deeper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head, self.depth = nn.Linear(11, 11), nn.Linear(11, 5), 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.depth):
                x = torch.tanh(self.body(x))
            return self.head(x)

    model, batch = Deeper().double(), vectors(4)
    engine = ClippedGradients(model, classification, Flat(0.5))
    engine(batch)
    model.depth = 3
    sums = engine(batch)
    assert engine.method.name == "loop" and engine.describe() == "book-keeping"
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9


def test_a_layer_whose_refusal_the_program_catches_is_no_longer_book_kept() -> None:
    """The second call is refused by the recorder; without it the gradient would be that of another program."""

    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head, self.deep = nn.Linear(11, 11), nn.Linear(11, 5), False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.tanh(self.body(x))
            if self.deep:
                with suppress(Exception):
                    x = torch.tanh(self.body(x))
            return self.head(x)

    model, batch = Catching().double(), vectors(4)
    engine = ClippedGradients(model, classification, Flat(0.5))
    engine(batch)
    model.deep = True
    sums = engine(batch)
    assert engine.method.name == "loop" and engine.describe() == "book-keeping"
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 4), Flat(0.5))) <= 1e-9


def test_trained_parameters_are_those_that_torch_names() -> None:
    twice = nn.Linear(3, 3)
    shared = nn.ModuleList([twice, nn.Sequential(twice, nn.Tanh()), nn.Linear(3, 3)])

    def check(model: nn.Module) -> None:
        for part in (None, *model.children()):  # all are trained, and then fewer and fewer
            if part is not None:
                part.requires_grad_(False)
            named = [(name, id(parameter)) for name, parameter in model.named_parameters() if parameter.requires_grad]
            assert [(name, id(parameter)) for name, parameter in trained_parameters(model).items()] == named

    require_each([shared, *(configuration.model() for configuration in SMALL)], check)


def test_a_rehearsal_gives_back_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process no longer holds the copies that the rehearsal tried, and what later steps free is kept."""
    given: list[bool] = []
    monkeypatch.setattr(per_example, "return_memory", lambda: given.append(engine.choice is not None))
    monkeypatch.setattr(per_example, "keep_memory", lambda: given.append(len(given) == 1))

    def loss(model: nn.Module, batch: Any) -> Any:
        return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

    engine = ClippedGradients(nn.Linear(3, 2), loss, Flat(1.0))
    engine.rehearse(draws_like((torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))))
    assert given == [True, True]


def test_another_c_library_has_neither_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    per_example.return_memory()

    def none(name: object) -> object:
        raise OSError("no such library")

    for library in (none, lambda name: object()):
        monkeypatch.setattr(ctypes, "CDLL", library)
        per_example.return_memory()
        per_example.keep_memory()


FAULTS = """
import resource, sys, torch
from dpcli.train.engine import per_example

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        pieces = [torch.ones(2**16) for _ in range(64)]
        del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = page_faults()
per_example.keep_memory()
page_faults()  # the memory is received once more, and then kept
print(before, page_faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
@pytest.mark.parametrize("name", [None, *per_example.MEMORY_SETTINGS])
def test_freed_memory_is_kept_for_the_next_step(name: str | None) -> None:
    """Unless the environment sets this already."""
    environment = {own: value for own, value in os.environ.items() if own not in per_example.MEMORY_SETTINGS}
    if name is not None:
        environment[name] = "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072"
    done = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    before, after = (int(number) for number in done.stdout.split())
    assert (10 * after < before) == (name is None), (before, after)
