"""More models and losses that mix records: by views, transforms, hooks and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.train.isolation.mixing_models import LABELS, WIDTH, Net, data, loss

__all__ = ["data", "loss"]


def by_sign(x: Tensor) -> Tensor:
    return (x[:, 0] > 0.0).long()


def pooled(x: Tensor) -> Tensor:
    return x - 0.1 * torch.zeros(2, WIDTH).index_add(0, by_sign(x), x)[by_sign(x)]


def put(x: Tensor) -> Tensor:
    return x - 0.1 * torch.zeros(2, WIDTH).index_put((by_sign(x),), x, accumulate=True)[by_sign(x)]


def to_the_longest(x: Tensor) -> Tensor:
    longest = int((x.abs() > 1.0).sum(1).max())
    return x * longest


def neighbours(x: Tensor) -> Tensor:
    return (functional.pad(x, (0, 0, 0, 1)).unfold(0, 2, 1) * torch.tensor([1.0, 0.1])).sum(2)


def of_a_graph(x: Tensor) -> Tensor:
    near = ((x @ x.T) > 3.0).float()
    return x + 0.1 * torch.sparse.mm(near.to_sparse(), x)


def seeded_by_the_batch(x: Tensor) -> Tensor:
    torch.manual_seed(int(x.detach().abs().sum() * 1e3) % 2**31)
    return functional.dropout(x, 0.5)


def by_default(x: Tensor, seen: list[Tensor] = []) -> Tensor:  # noqa: B006
    seen.append(x.detach().mean(0))
    return x - 0.1 * seen[0]


@torch.library.custom_op("dpcli_tests::centred", mutates_args=())
def opaque(x: Tensor) -> Tensor:
    return x - x.mean(0)


opaque.register_fake(torch.empty_like)
opaque.register_autograd(lambda context, gradient: gradient - gradient.mean(0))


DONE: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": lambda x: x + 0.1 * functional.pad(x, (0, 0, 0, 1)).as_strided(x.shape, x.stride(), WIDTH),
    "unfolded": neighbours,
    "pooled_by_sign": pooled,
    "put_by_sign": put,
    "fourier": lambda x: torch.fft.fft(x, dim=0).abs(),
    "largest_so_far": lambda x: x.cummax(0).values,
    "counted": lambda x: x * 0.1 * torch.bincount(by_sign(x), minlength=2)[by_sign(x)][:, None],
    "covariance": lambda x: x @ torch.cov(x.T),
    "orthonormal": lambda x: torch.linalg.qr(x)[0] if x.shape[0] >= WIDTH else x,
    "padded_to_the_longest": to_the_longest,
    "convolved": lambda x: functional.conv1d(x.T[:, None], torch.ones(1, 1, 3), padding=1)[:, 0].T,
    "averaged": lambda x: functional.avg_pool1d(x.T[None], 3, 1, 1)[0].T,
    "records_as_channels": lambda x: functional.group_norm(x[None], 1)[0],
    "over_all_dimensions": lambda x: functional.layer_norm(x, x.shape),
    "mapped_over_columns": torch.vmap(lambda column: column - column.mean(), in_dims=1, out_dims=1),
    "checkpointed": lambda x: checkpoint(lambda y: y - y.mean(0), x, use_reentrant=False),
    "forward_mode": lambda x: torch.func.jvp(lambda y: y - y.mean(0), (x,), (x,))[1],
    "sparse_graph": of_a_graph,
    "seeded_by_the_batch": seeded_by_the_batch,
    "default_argument": by_default,
    "opaque_operator": lambda x: opaque(x),
    "quantile": lambda x: x.clamp(max=float(x.detach().quantile(0.9))),
    "quantile_of_columns": lambda x: torch.minimum(x, x.quantile(0.9, dim=0)),
    "differences": lambda x: torch.diff(x, dim=0, prepend=x[:1]),
    "places_among_others": lambda x: x + 0.1 * torch.searchsorted(x[:, 0].sort().values, x[:, :1]),
    "lower_triangle": lambda x: x + 0.1 * (x @ x.T).tril(-1).sum(1, keepdim=True),
    "masked_scatter": lambda x: x.masked_scatter(x > 0.0, x.abs()),
    "renormed_columns": lambda x: torch.renorm(x, 2, 1, 1.0),
    "dropped_as_the_batch_says": lambda x: functional.dropout(x, min(float(x.detach().abs().mean()) / 10.0, 0.9)),
    "quantised": lambda x: torch.fake_quantize_per_tensor_affine(x, float(x.detach().abs().max()) / 7.0, 0, -8, 7),
    "compiled": torch.compile(lambda x: x - x.mean(0), backend="eager"),
    "nested": lambda x: torch.stack(list(torch.nested.nested_tensor(list(x)).unbind())) - x.mean(0),
    "kth": lambda x: x - x.kthvalue(1, 0).values,
    "logarithms": lambda x: x - x.logcumsumexp(0),
    "gathered": lambda x: x + 0.1 * x.gather(0, x.argsort(0)),
    "half_swapped": lambda x: torch.cat([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]),
    "chunked": lambda x: x + 0.1 * torch.cat([part.flip(0) for part in x.chunk(2)]),
    "broadcast": lambda x: x + 0.1 * x.expand(2, *x.shape).reshape(-1, WIDTH)[1 : 1 + 2 * x.shape[0] : 2][: x.shape[0]],
    "kronecker": lambda x: x + 0.01 * torch.kron(x, x)[:: max(x.shape[0] - 1, 1), :WIDTH][: x.shape[0]],
}


class StepsAreRecords(Net):
    """An LSTM that was given (records, 1, numbers) and takes records for steps."""

    kind: type[nn.Module] = nn.LSTM

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = self.kind(WIDTH, WIDTH)

    def done(self, x: Tensor) -> Tensor:
        return self.recurrent(x[:, None])[0][:, 0]


class GruStepsAreRecords(StepsAreRecords):
    kind = nn.GRU


class AttentionAcross(Net):
    """The same mistake with an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.encoder = nn.Linear(WIDTH, 4), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
        self.body = nn.Linear(4, 8)

    def done(self, x: Tensor) -> Tensor:
        return self.encoder(self.first(x)[:, None])[:, 0]


class HeadsAcross(Net):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 1)

    def done(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Renorming(Net):
    """An embedding that shortens the rows that it is asked for, in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, WIDTH, max_norm=0.5)

    def done(self, x: Tensor) -> Tensor:
        return self.table((x[:, 0].abs() * 5).long().clamp(max=19))


class ByFrequency(Net):
    """An embedding whose gradients are divided by how often each word is in the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, WIDTH, scale_grad_by_freq=True)

    def done(self, x: Tensor) -> Tensor:
        return self.table((x[:, 0].abs() * 5).long().clamp(max=19))


class BackwardHook(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body.register_full_backward_hook(lambda module, inputs, outputs: tuple(g - g.mean(0) for g in inputs if g is not None))
        self.first = nn.Linear(WIDTH, WIDTH)

    def done(self, x: Tensor) -> Tensor:
        return self.first(x)


class BackwardPreHook(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body.register_full_backward_pre_hook(lambda module, outputs: tuple(g / (1e-3 + g.norm()) for g in outputs))


class PreHook(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body.register_forward_pre_hook(lambda module, inputs: (inputs[0] - inputs[0].mean(0),))


class SavedTensors(Net):
    """What the backward pass reads is not what the forward pass wrote."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(
            lambda kept: kept, lambda kept: kept - kept.mean(0) if kept.dim() > 1 else kept
        ):
            return super().forward(x)


class Observed(Net):
    def __init__(self) -> None:
        super().__init__()
        from torch.ao.quantization import FakeQuantize

        self.quantise = FakeQuantize()

    def done(self, x: Tensor) -> Tensor:
        return self.quantise(x)


class LazyNorm(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LazyBatchNorm1d()

    def done(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Parametrised(Net):
    """Weights that are divided by what the last batch was."""

    def __init__(self) -> None:
        super().__init__()
        self.size = [1.0]
        outer = self

        class Scaled(nn.Module):
            def forward(self, weight: Tensor) -> Tensor:
                return weight / outer.size[0]

        nn.utils.parametrize.register_parametrization(self.body, "weight", Scaled())

    def done(self, x: Tensor) -> Tensor:
        self.size[0] = 1.0 + float(x.detach().norm())
        return x


class ReplacesAParameter(Net):
    def done(self, x: Tensor) -> Tensor:
        self.head.bias = nn.Parameter(self.head.bias.detach() + 1e-3 * x.detach().mean())
        return x


class SwapsAModule(Net):
    def done(self, x: Tensor) -> Tensor:
        if float(x.detach().max()) > 2.5:
            self.body = nn.Linear(WIDTH, 8)
        return x


class FreezesByTheBatch(Net):
    def done(self, x: Tensor) -> Tensor:
        self.body.bias.requires_grad_(float(x.detach().mean()) > 0.0)
        return x


class ScaledByAHook(Net):
    """A hook of a module's backward pass that keeps a running scale."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.first = 1.0, nn.Linear(WIDTH, WIDTH)
        self.body.register_full_backward_hook(self.divided)

    def divided(self, module: nn.Module, inputs: Any, outputs: Any) -> Any:
        self.scale = 0.9 * self.scale + 0.1 * float(outputs[0].norm())
        return tuple(None if one is None else one / self.scale for one in inputs)

    def done(self, x: Tensor) -> Tensor:
        return self.first(x)


class ScaledByTheFirst(ScaledByAHook):
    """As above, with the scale of the gradient that was the first."""

    def divided(self, module: nn.Module, inputs: Any, outputs: Any) -> Any:
        self.scale = float(outputs[0].norm()) if self.scale == 1.0 else self.scale
        return tuple(None if one is None else one / self.scale for one in inputs)


MIXING: dict[str, type[Net]] = {
    **{name: type(name, (Net,), {"done": lambda self, x, f=function: f(x)}) for name, function in DONE.items()},
    **{
        kind.__name__: kind
        for kind in (
            StepsAreRecords, GruStepsAreRecords, AttentionAcross, HeadsAcross, Renorming, ByFrequency, BackwardHook, BackwardPreHook,
            PreHook, SavedTensors, Observed, LazyNorm, Parametrised, ReplacesAParameter, SwapsAModule, FreezesByTheBatch,
            ScaledByAHook, ScaledByTheFirst,
        )
    },
}  # fmt: skip
globals().update(MIXING)


def penalty_of_all(model: nn.Module, batch: Any) -> Tensor:
    x = batch[0].detach().requires_grad_(True)
    losses = functional.cross_entropy(model(x), batch[1], reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
    return losses + 0.1 * gradient.norm()


def weighted_by_classes(model: nn.Module, batch: Any) -> Tensor:
    """Weights of the classes as they are in the batch."""
    return loss(model, batch) / torch.bincount(batch[1], minlength=LABELS)[batch[1]]


def mean_of_all(model: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1]).expand(len(batch[1]))


def distilled(model: nn.Module, batch: Any) -> Tensor:
    """Towards the mean of all answers."""
    scores = model(batch[0]).log_softmax(1)
    return functional.kl_div(scores, scores.detach().exp().mean(0).expand_as(scores), reduction="none").sum(1)


class RunningScale(torch.autograd.Function):
    """Divides the gradient by a running scale of gradients."""

    scale = 1.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        RunningScale.scale = 0.9 * RunningScale.scale + 0.1 * float(gradient.abs().max())
        return gradient / RunningScale.scale


SCALE = {"of a hook": 1.0}


def scaled_backwards(model: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(RunningScale.apply(model(batch[0])), batch[1], reduction="none")


def scaled_by_a_hook(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])

    def divided(gradient: Tensor) -> Tensor:
        SCALE["of a hook"] = 0.9 * SCALE["of a hook"] + 0.1 * float(gradient.norm())
        return gradient / SCALE["of a hook"]

    scores.register_hook(divided)
    return functional.cross_entropy(scores, batch[1], reduction="none")


# What they keep is of the backward pass: a record's gradient depends on those that were taken before.
BACKWARDS = {f.__name__: f for f in (scaled_backwards, scaled_by_a_hook)}
LOSSES = {f.__name__: f for f in (penalty_of_all, weighted_by_classes, mean_of_all, distilled)} | BACKWARDS
