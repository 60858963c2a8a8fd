"""Which layers have a rule: a layer is what its forward function is, so that a subclass with another one does not pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    "torch.nn.modules.conv.Conv1d.forward": convolution,
    "torch.nn.modules.conv.Conv2d.forward": convolution,
    "torch.nn.modules.conv.Conv3d.forward": convolution,
    "torch.nn.modules.sparse.Embedding.forward": embedding,
    "torch.nn.modules.normalization.LayerNorm.forward": layer_norm,
    "torch.nn.modules.normalization.GroupNorm.forward": group_norm,
    "torch.nn.modules.normalization.RMSNorm.forward": rms_norm,
}


class Unsuitable(Exception):
    """A method of computing clipped sums does not apply to this model; the message says why, and another method is taken."""


class NotFirst(Unsuitable):
    """A layer's examples are not along its first dimension: it can perhaps be taken as a block."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Layer:
    """A module with trainable parameters of its own: local name -> name in the model."""

    name: str
    module: nn.Module
    rule: LayerRule
    parameters: dict[str, str]

    def held(self) -> Iterator[tuple[nn.Module, str]]:
        """Where its parameters are: a module, and what it calls them."""
        return ((self.module, local) for local in self.parameters)


def layers(model: nn.Module) -> list[Layer]:
    """Every module that owns trainable parameters, each with its rule.

    Raises:
        Unsuitable: one of them has none.
    """
    canonical = {id(parameter): name for name, parameter in model.named_parameters()}
    return [layer_of(name, module, canonical) for name, module in model.named_modules() if any(trainable(module))]


def layer_of(name: str, module: nn.Module, canonical: Mapping[int, str]) -> Layer:
    """A module with its rule; the names of parameters by their identity.

    Raises:
        Unsuitable: it has none.
    """
    return Layer(name, module, rule_of(name, module), {local: canonical[id(p)] for local, p in trainable(module)})


def trainable(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """A module's own parameters that are learnt."""
    return ((local, p) for local, p in module.named_parameters(recurse=False, remove_duplicate=False) if p.requires_grad)


def rule_of(name: str, module: nn.Module) -> LayerRule:
    """The rule of a module's forward function."""
    rule = found_rule(module)
    if rule is None:
        raise Unsuitable(f"{name or 'the model'} ({type(module).__name__}) has no rule")
    return rule


def ruled(module: nn.Module) -> bool:
    """Whether it has a rule."""
    return found_rule(module) is not None


def found_rule(module: nn.Module) -> LayerRule | None:
    """None for a forward function without one, and for one that was put in its place."""
    forward = type(module).forward
    return None if "forward" in vars(module) else RULES.get(f"{forward.__module__}.{forward.__qualname__}")
