"""Which layers have a rule: a layer is what its forward function is, so that a subclass with another one does not pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from dpcli.train.engine.convolution import convolution
from dpcli.train.engine.embedding import embedding
from dpcli.train.engine.linear import linear, transposed_linear
from dpcli.train.engine.normalisation import group_norm, layer_norm, rms_norm
from dpcli.train.engine.rule import LayerRule

RULES: dict[str, LayerRule] = {
    "torch.nn.modules.linear.Linear.forward": linear,
    "transformers.pytorch_utils.Conv1D.forward": transposed_linear,
    "torch.nn.modules.conv.Conv2d.forward": convolution,
    "torch.nn.modules.sparse.Embedding.forward": embedding,
    "torch.nn.modules.normalization.LayerNorm.forward": layer_norm,
    "torch.nn.modules.normalization.GroupNorm.forward": group_norm,
    "torch.nn.modules.normalization.RMSNorm.forward": rms_norm,
}


class Unsuitable(Exception):
    """A method of computing clipped sums does not apply to this model; the message says why, and another method is taken."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A module with trainable parameters of its own: local name -> name in the model."""

    name: str
    module: nn.Module
    rule: LayerRule
    parameters: dict[str, str]


def layers(model: nn.Module) -> list[Layer]:
    """Every module that owns trainable parameters, each with its rule.

    Raises:
        Unsuitable: one of them has none.
    """
    canonical = {id(parameter): name for name, parameter in model.named_parameters()}
    return [
        Layer(name, module, rule_of(name, module), {local: canonical[id(p)] for local, p in owned})
        for name, module in model.named_modules()
        if (owned := list(trainable(module)))
    ]


def trainable(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """A module's own parameters that are learnt."""
    return ((local, p) for local, p in module.named_parameters(recurse=False, remove_duplicate=False) if p.requires_grad)


def rule_of(name: str, module: nn.Module) -> LayerRule:
    """The rule of a module's forward function."""
    forward = type(module).forward
    rule = RULES.get(f"{forward.__module__}.{forward.__qualname__}")
    if rule is None or "forward" in vars(module):
        raise Unsuitable(f"{name or 'the model'} ({type(module).__name__}) has no rule")
    return rule
