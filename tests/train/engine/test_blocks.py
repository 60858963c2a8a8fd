"""Modules without a rule, which are differentiated record by record: against one example at a time, and refused where they cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs the train extra")
from torch import Tensor, nn  # noqa: E402
from torch.nn.utils.parametrizations import weight_norm  # noqa: E402

from dpcli.train.engine.block_calls import BlockRecorder, recording_blocks  # noqa: E402
from dpcli.train.engine.block_rows import rows  # noqa: E402
from dpcli.train.engine.blocks import divided, needed  # noqa: E402
from dpcli.train.engine.book_keeping import BookKeeping  # noqa: E402
from dpcli.train.engine.choice import candidates, choose  # noqa: E402
from dpcli.train.engine.clip import Flat  # noqa: E402
from dpcli.train.engine.layers import Unsuitable  # noqa: E402
from dpcli.train.engine.per_example import ClippedGradients  # noqa: E402
from dpcli.train.engine.sums import clipped  # noqa: E402
from tests.train.engine.models import LABELS, Normed, classification, images, sequences  # noqa: E402
from tests.train.engine.oracle import clipped_sum, distance, gradients  # noqa: E402

CLIP = Flat(0.05)


class Around(nn.Module):
    """A body between two linear layers."""

    def __init__(self, body: nn.Module, width: int = 11) -> None:
        super().__init__()
        self.first, self.body, self.head = nn.Linear(11, 11), body, nn.Linear(width, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(torch.tanh(self.first(x))).mean(1))

    def run(self, x: Tensor) -> Tensor:
        return self.body(x)


class Turned(Around):
    """Positions before examples."""

    def run(self, x: Tensor) -> Tensor:
        return self.body(x.transpose(0, 1)).transpose(0, 1)


class Several(nn.Module):
    """Two outputs and nothing, one made of the other; a mask for all and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(11))

    def forward(self, x: Tensor, factor: float = 2.0, *, mask: Tensor | None = None) -> dict[str, Any]:
        first = torch.sin(x * self.scale)
        return {"first": first, "rest": [first * factor * (1.0 if mask is None else mask), None, x]}


class UsesSeveral(Around):
    """Twice, and in place on what came out."""

    def run(self, x: Tensor) -> Tensor:
        found = self.body(x, 3.0, mask=torch.linspace(0, 1, 6, dtype=x.dtype)[:, None])
        again = self.body(x)["first"]
        return again.relu_() * found["rest"][0] + found["first"] * found["rest"][2] + x


class Shared(Around):
    """One parameter in two blocks."""

    def __init__(self) -> None:
        super().__init__(Normed(11))
        self.other = Normed(11)
        self.other.scale = self.body.scale

    def run(self, x: Tensor) -> Tensor:
        return torch.tanh(self.other(self.body(x)))


class Frozen(Around):
    """Kept statistics and a scale that is learnt; of what is inside of a block, a part is frozen."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.BatchNorm1d(6), nn.Bilinear(11, 11, 3)))
        self.body[0].running_mean.normal_()
        self.body[1].bias.requires_grad_(False)

    def run(self, x: Tensor) -> Tensor:
        normal = self.body[0](x)
        return self.body[1](normal, x).repeat(1, 1, 4)[..., :11]


BLOCKS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "Normed": (lambda: Around(Normed(11)), "Normed"),
    "turned": (lambda: Turned(Normed(11)), "Normed"),
    "ConvTranspose1d": (lambda: Around(nn.ConvTranspose1d(6, 4, 3), 13), "ConvTranspose1d"),
    "PReLU": (lambda: Around(nn.PReLU()), "PReLU"),
    "encoder": (
        lambda: Around(nn.Sequential(nn.PReLU(), nn.TransformerEncoderLayer(11, 1, 16, dropout=0.0, batch_first=True).train())),
        "PReLU",
    ),
    "steps first": (lambda: Turned(nn.Sequential(nn.TransformerEncoderLayer(11, 1, 16, dropout=0.0), nn.RMSNorm(11))), ""),
    "several": (lambda: UsesSeveral(Several()), "Several"),
    "shared": (Shared, "Normed"),
    "frozen": (Frozen, "BatchNorm1d, Bilinear"),
    "weight norm": (lambda: Around(weight_norm(nn.Linear(11, 11))), "ParametrizedLinear"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_against_one_example_at_a_time(name: str) -> None:
    model, batch = BLOCKS[name][0]().double(), sequences(4)
    if name == "frozen":
        model.eval()
    before = {key: (id(p), p.clone()) for key, p in model.named_parameters()}
    method = BookKeeping.learnt(model, classification, batch)
    assert method.name == "book-keeping" + (f" with vmap of {BLOCKS[name][1]}" if BLOCKS[name][1] else "")
    for size in (4, 1, 6):
        more = sequences(size)
        parameters = {key: p for key, p in model.named_parameters() if p.requires_grad}
        sums = clipped(method.parts(more), CLIP, parameters)
        assert distance(sums.gradients, clipped_sum(gradients(model, classification, more, size), CLIP)) <= 1e-9 * CLIP.bound
    assert all(id(p) == before[key][0] and torch.equal(p, before[key][1]) for key, p in model.named_parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


class Kept(nn.Module):
    """Reads what somebody else has left on it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.left = nn.Parameter(torch.rand(11)), torch.ones(1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * torch.sigmoid(self.left[: len(x)])


class Leaves(Around):
    def run(self, x: Tensor) -> Tensor:
        self.body.left = x.detach()
        return self.body(x)


class Reads(Around):
    def run(self, x: Tensor) -> Tensor:
        return self.body(x.reshape(-1, 11)).view(x.shape)


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(11))

    def forward(self, x: Tensor, count: int) -> Tensor:
        return x * self.scale / count


class Counts(Around):
    def run(self, x: Tensor) -> Tensor:
        return self.body(x, len(x))


class OneForAll(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(11))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.scale.exp()


class UsesOneForAll(Around):
    def run(self, x: Tensor) -> Tensor:
        found, scale = self.body(x)
        return found * scale


class Layered(Around):
    """A block's parameter is a layer's too."""

    def __init__(self) -> None:
        super().__init__(Normed(11))
        self.norm = nn.LayerNorm(11)
        self.norm.weight = self.body.scale

    def run(self, x: Tensor) -> Tensor:
        return self.norm(self.body(x))


class Inside(Around):
    def run(self, x: Tensor) -> Tensor:
        return self.body(x) * self.body.scale


class Changed(Around):
    def run(self, x: Tensor) -> Tensor:
        found = self.body(x)
        x.add_(1.0)
        return found


UNSUITABLE: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "tensor of others": (lambda: Leaves(Kept()), "uses a tensor that is none of its inputs, parameters and buffers"),
    "merged positions": (lambda: Reads(Normed(11)), r"a tensor of shape \(24, 11\) for 4 examples, \(6, 11\) for one"),
    "number of examples": (lambda: Counts(Counted()), "one example alone is called in another way"),
    "output for all": (lambda: UsesOneForAll(OneForAll()), "no output of its own for each example"),
    "shared with a layer": (Layered, "its norm.weight is another module's too|its body.scale is another module's too"),
    "used outside": (lambda: Inside(Normed(11)), "body.scale is used outside the forward of its own module"),
    "random": (lambda: Around(nn.TransformerEncoderLayer(11, 1, 16, batch_first=True)), "random operation"),
    "written to": (lambda: Changed(Normed(11)), "its inputs are written to|modified by an inplace operation"),
}


@pytest.mark.parametrize("name", UNSUITABLE)
def test_what_cannot_be_called_for_one_example_alone_is_not_taken_as_a_block(name: str) -> None:
    with pytest.raises((Unsuitable, RuntimeError), match=UNSUITABLE[name][1]):
        BookKeeping.learnt(UNSUITABLE[name][0]().double(), classification, sequences(4))


class Masked(Around):
    """What is for all examples when it is learnt is not later."""

    own = False

    def run(self, x: Tensor) -> Tensor:
        mask = torch.sigmoid(x.detach()) if self.own else torch.ones(1, 6, 11, dtype=x.dtype)
        return self.body(x, mask=mask)["rest"][0]


def test_an_argument_that_is_no_longer_for_all_examples_is_refused() -> None:
    model = Masked(Several()).double()
    method = BookKeeping.learnt(model, classification, sequences(4))
    for own, size in ((False, 5), (True, 5)):
        model.own = own
        if own:
            with pytest.raises(Unsuitable, match="is called in another way than when the model was probed"):
                list(method.parts(sequences(size)))
        else:
            assert len(list(method.parts(sequences(size)))) == 1


def test_gradients_that_memory_does_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Around(Normed(11)).double()
    method = BookKeeping.learnt(model, classification, sequences(4))
    monkeypatch.setattr("dpcli.train.engine.block_rows.LARGEST", 50)
    with pytest.raises(Unsuitable, match="5 gradients of it are too large for memory"):
        list(method.parts(sequences(5)))


def test_where_vmap_is_not_known_to_keep_examples_apart_there_are_no_blocks() -> None:
    """Somebody else's operator says itself what it does there."""
    model = Around(Normed(11)).double()
    found = choose(model, classification, sequences, candidates(kept_apart=True, mapped=False))
    assert str(found) == "loop; not book-keeping: body (Normed) has no rule"
    assert choose(model, classification, sequences, candidates(kept_apart=False, mapped=True)).method.name == "vmap"


def test_one_module_without_a_rule_among_convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.PReLU(4), nn.Flatten(), nn.Linear(168, LABELS)).double()
    engine, batch = ClippedGradients(model, classification, CLIP), images(5)
    sums = engine.checked(batch, 3)
    assert engine.describe() == "book-keeping with vmap of PReLU"
    assert distance(sums.gradients, clipped_sum(gradients(model, classification, batch, 5), CLIP)) <= 1e-9 * CLIP.bound


class Mixes(nn.Module):
    """Each output has all of the batch in it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(11))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.exp() + x.sum(0)


def test_a_row_is_made_of_its_own_example_whatever_the_block_does() -> None:
    """The isolation refuses such a block before it comes to this."""
    model = nn.Sequential(nn.Identity(), Mixes()).double()
    (block,) = divided(model, needed(model)).blocks
    above, found = torch.randn(4, 6, 11, dtype=torch.float64), []
    inputs = torch.randn(4, 6, 11, dtype=torch.float64)
    for _ in range(2):
        first, several = BlockRecorder(1), BlockRecorder(4)
        for recorder, size in ((first, 1), (several, 4)):
            recorder.alone = first.seen if recorder is several else None
            with recording_blocks([block], recorder):
                model(inputs[:size])
        found.append(rows(several.uses[0], [above], 4)["scale"])
        inputs = torch.cat([inputs[:1], torch.randn(3, 6, 11, dtype=torch.float64)])
        above = torch.cat([above[:1], torch.randn(3, 6, 11, dtype=torch.float64)])
    assert torch.equal(found[0][0], found[1][0]) and not torch.equal(found[0][1], found[1][1])
