"""Which blocks have a rule of their own: modules with several inputs or outputs whose gradients are cheaper another way than by vmap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from dpcli.train.engine.block_calls import BlockUse
from dpcli.train.engine.block_rows import rows
from dpcli.train.engine.blocks import Block
from dpcli.train.engine.pieces import Piece, PlainRows
from dpcli.train.engine.recurrent import recurrent

BlockRule = Callable[[BlockUse, Sequence[Tensor | None], int], Mapping[str, Piece]]

RULES: dict[str, BlockRule] = {
    "torch.nn.modules.rnn.LSTM.forward": recurrent,
    "torch.nn.modules.rnn.GRU.forward": recurrent,
}


def generic(use: BlockUse, gradients: Sequence[Tensor | None], size: int) -> dict[str, Piece]:
    """Each example's gradient by vmap."""
    return {name: PlainRows(values) for name, values in rows(use, gradients, size).items()}


def rule_of(block: Block) -> BlockRule:
    """The rule of a block's forward function, else the generic one."""
    forward = type(block.module).forward
    own = "forward" not in vars(block.module)
    return RULES.get(f"{forward.__module__}.{forward.__qualname__}", generic) if own else generic
