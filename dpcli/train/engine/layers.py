"""Which layers have a rule: a layer is what its forward function is, so that a subclass with another one does not pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from dpcli.train.engine.convolution import convolution, transposed_convolution
from dpcli.train.engine.embedding import embedding
from dpcli.train.engine.linear import linear, run_linear, transposed_linear
from dpcli.train.engine.normalisation import batch_norm, group_norm, layer_norm, rms_norm
from dpcli.train.engine.rule import LayerRule

RULES: dict[str, LayerRule] = {
    "torch.nn.modules.linear.Linear.forward": LayerRule(linear, anywhere=True, forward=run_linear),
    "transformers.pytorch_utils.Conv1D.forward": LayerRule(transposed_linear, anywhere=True),
    "torch.nn.modules.conv.Conv1d.forward": LayerRule(convolution),
    "torch.nn.modules.conv.Conv2d.forward": LayerRule(convolution),
    "torch.nn.modules.conv.Conv3d.forward": LayerRule(convolution),
    "torch.nn.modules.conv.ConvTranspose1d.forward": LayerRule(transposed_convolution),
    "torch.nn.modules.conv.ConvTranspose2d.forward": LayerRule(transposed_convolution),
    "torch.nn.modules.conv.ConvTranspose3d.forward": LayerRule(transposed_convolution),
    "torch.nn.modules.sparse.Embedding.forward": LayerRule(embedding, anywhere=True),
    "torch.nn.modules.normalization.LayerNorm.forward": LayerRule(layer_norm, anywhere=True),
    "torch.nn.modules.normalization.GroupNorm.forward": LayerRule(group_norm),
    "torch.nn.modules.normalization.RMSNorm.forward": LayerRule(rms_norm, anywhere=True),
    "torch.nn.modules.batchnorm._BatchNorm.forward": LayerRule(batch_norm),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A module with trainable parameters of its own: local name -> name in the model."""

    name: str
    module: nn.Module
    rule: LayerRule
    parameters: dict[str, str]


def trainable(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """A module's own parameters that are learnt."""
    return ((local, p) for local, p in module.named_parameters(recurse=False, remove_duplicate=False) if p.requires_grad)


def rule_of(module: nn.Module) -> LayerRule | None:
    """The rule of a module's forward function."""
    forward = type(module).forward
    return None if "forward" in vars(module) else RULES.get(f"{forward.__module__}.{forward.__qualname__}")
