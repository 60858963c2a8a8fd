"""Which blocks have a rule of their own: modules with several inputs or outputs whose gradients are cheaper another way than by vmap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from dpcli.train.engine.attention import attention
from dpcli.train.engine.block_calls import BlockUse
from dpcli.train.engine.block_rows import generic, require_possible
from dpcli.train.engine.blocks import Block
from dpcli.train.engine.layers import found_rule
from dpcli.train.engine.linear import linear, transposed_linear
from dpcli.train.engine.normalisation import layer_norm, rms_norm
from dpcli.train.engine.pieces import Piece
from dpcli.train.engine.recurrent import recurrent
from dpcli.train.engine.rule import LayerRule

BlockRule = Callable[[BlockUse, Sequence[Tensor | None], int], Mapping[str, Piece]]

RULES: dict[str, BlockRule] = {
    "torch.nn.modules.activation.MultiheadAttention.forward": attention,
    "torch.nn.modules.rnn.LSTM.forward": recurrent,
    "torch.nn.modules.rnn.GRU.forward": recurrent,
}
POSITIONWISE = frozenset({linear, transposed_linear, layer_norm, rms_norm})  # over the last dimensions, alike at all others


def moved(use: BlockUse, gradients: Sequence[Tensor | None], size: int) -> Mapping[str, Piece]:
    """Of a layer whose rule is the same for every position: its examples are moved to the front."""
    (inputs,), (dim,), (output,) = use.inputs.tensors, use.dims, use.outputs
    (gradient,) = gradients
    if dim is None or gradient is None or use.inputs.plain != (Tensor,):
        return generic(use, gradients, size)
    require_possible(use, size)
    ways = layer_rule(use.block.module)(use.block.module, inputs.movedim(dim, 0), gradient.movedim(output.dim, 0))
    return {local: ways[local]() for local in use.block.parameters}


def layer_rule(module: nn.Module) -> LayerRule:
    """Of a layer that has one."""
    rule = found_rule(module)
    assert rule is not None
    return rule


def rule_of(block: Block) -> BlockRule:
    """The rule of a block's forward function, else the generic one."""
    forward = type(block.module).forward
    if "forward" in vars(block.module):
        return generic
    if found_rule(block.module) in POSITIONWISE and not any(block.module.children()):
        return moved
    return RULES.get(f"{forward.__module__}.{forward.__qualname__}", generic)
