"""Several adapters in one forward pass: one copy of the context for each, which low-rank layers multiply by that adapter's matrices.

No copy meets another: what one adapter holds, NaN too, moves no bit of another's answer, as long as their number and order stay. How many
there are may move the last bits of all.

Memory: a pass takes at most ROOM bytes beside the model, by what it has at once for each copy: its matrices, and for each of T tokens 3
numbers for each word of the vocabulary, 64 for each of the widest adapted layer and 64 for each token, of 8 bytes. More adapters than that
are asked in several passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from dpcli.train.tasks.lm_models import logits

ROOM = 2 * 2**30
Adapter = Mapping[str, Tensor]  # the low-rank matrices by their parameters' names


class NotTogether(Exception):
    """The model's adapters cannot be asked in one pass."""


@torch.no_grad()
def last_scores(model: nn.Module, adapters: Sequence[Adapter], tokens: Sequence[int], vocabulary: int) -> Tensor:
    """Logits after the tokens by the model with each of the adapters, (adapters, vocabulary).

    Raises NotTogether where an adapted layer is no matrix, or does not see one copy of the context for each adapter.
    """
    most = at_once(adapters[0], len(tokens), vocabulary)
    parts = [adapters[start : start + most] for start in range(0, len(adapters), most)]
    return torch.cat([_pass(model, part, tokens) for part in parts])


def at_once(adapter: Adapter, tokens: int, vocabulary: int) -> int:
    """How many adapters a pass may have: at least one."""
    widest = max(max(value.shape) for value in adapter.values())
    numbers = sum(value.numel() for value in adapter.values()) + tokens * (3 * vocabulary + 64 * (widest + tokens))
    return max(1, ROOM // (8 * numbers))


def _pass(model: nn.Module, adapters: Sequence[Adapter], tokens: Sequence[int]) -> Tensor:
    place = next(iter(model.parameters())).device
    with _stacked(model, adapters):
        return logits(model, torch.tensor([list(tokens)] * len(adapters), device=place))[:, -1]


@contextmanager
def _stacked(model: nn.Module, adapters: Sequence[Adapter]) -> Iterator[None]:
    """The model, each of whose low-rank layers multiplies the copies by the adapters' matrices, in order."""
    with ExitStack() as hooks:
        for name in adapters[0]:
            owner, _, own = name.rpartition(".")
            layer = model.get_submodule(owner)
            if not isinstance(layer, nn.Linear) or own != "weight" or layer.bias is not None:
                raise NotTogether(owner)
            held = torch.stack([adapter[name] for adapter in adapters]).to(layer.weight)
            hooks.callback(layer.register_forward_hook(_by(held)).remove)
        yield


def _by(held: Tensor) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        (x,) = inputs
        if x.dim() != 3 or x.shape[0] != held.shape[0]:
            raise NotTogether(f"copies of shape {tuple(x.shape)}")
        return torch.bmm(x, held.transpose(1, 2))

    return hook
