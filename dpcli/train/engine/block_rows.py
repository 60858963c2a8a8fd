"""The generic rule: each example's gradient of a block, by vmap of the block's own vector-Jacobian product.

Given what went in for one example and the gradient of what came out of it, the gradient of its parameters is a function of these alone;
vmap evaluates it for every example, so that nothing of another one can enter.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.func import functional_call, vjp, vmap
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from dpcli.train.engine.block_calls import BlockUse, Output
from dpcli.train.engine.blocks import Block, NotAlone
from dpcli.train.engine.layers import Unsuitable
from dpcli.train.engine.pieces import Piece, PlainRows
from dpcli.train.engine.rule import wide

LARGEST = 2**26  # numbers of a block's gradients that are in memory at once


class WithoutHooks(nn.Module):
    """A module's own forward, without the hooks that are on it: what they do is before and after what was kept of it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.module.forward(*args, **kwargs)


class OnlyGiven(TorchFunctionMode):
    """Refuses an operator on a tensor that was neither given to the block nor made in it: it may hold other examples."""

    def __init__(self, block: Block, given: Sequence[Tensor]) -> None:
        super().__init__()
        self.block = block
        self.known = {id(tensor): tensor for tensor in given}

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if torch.is_tensor(leaf) and not is_functorch_wrapped_tensor(leaf) and id(leaf) not in self.known:
                raise NotAlone(self.block, "it uses a tensor that is none of its inputs, parameters and buffers")
        found = func(*args, **(kwargs or {}))
        self.known.update({id(leaf): leaf for leaf in tree_leaves(found) if torch.is_tensor(leaf)})
        return found


def rows(use: BlockUse, gradients: Sequence[Tensor | None], size: int) -> dict[str, Tensor]:
    """Each example's gradient of every parameter of a block, by its name there, (B, *shape), in at least single precision.

    Args:
        gradients: of the summed losses at each of the use's edges; None where the losses do not depend on it.

    Raises:
        Unsuitable: the block draws random numbers, its inputs were written to, or there is too much of it for memory.
        NotAlone: it cannot be called for one example.
    """
    block, outputs = use.block, use.outputs
    require_possible(use, size)
    tensors, dims, places = [numbers(one) for one in use.inputs.tensors], use.dims, [one.dim for one in outputs]
    shared = [one for one, dim in zip(tensors, dims, strict=True) if dim is None]
    each = [one for one, dim in zip(tensors, dims, strict=True) if dim is not None]
    learnt, rest = state(block)
    module, given = WithoutHooks(block.module), [*shared, *rest.values()]

    def made(values: dict[str, Tensor], args: Any, kwargs: Any) -> list[Tensor]:
        with OnlyGiven(block, given):
            found = functional_call(module, {**values, **rest}, (args, kwargs))
        leaves = [leaf for leaf in tree_leaves(found) if torch.is_tensor(leaf)]
        return [for_one(block, leaves[output.place], output) for output in outputs]

    def gradient(values: dict[str, Tensor], own: list[Tensor], above: list[Tensor]) -> dict[str, Tensor]:
        args, kwargs = use.inputs.arranged(with_shared(own, shared, dims))
        found, pull, *_ = vjp(lambda values: made(values, args, kwargs), values)
        upper = [g.unsqueeze(dim).to(one.dtype) for g, dim, one in zip(above, places, found, strict=True)]
        pulled: dict[str, Tensor] = pull(upper)[0]
        return pulled

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # an operation without a batching rule is looped over
            mapped = vmap(gradient, in_dims=(None, [dim for dim in dims if dim is not None], places), randomness="error")
            found = mapped(learnt, each, filled(gradients, outputs))
    except Unsuitable:
        raise
    except Exception as problem:  # whatever torch or the module raises under vmap
        raise NotAlone(block, " ".join(str(problem).split())[:120] or type(problem).__name__) from problem
    return {name.removeprefix("module."): wide(values.detach()) for name, values in found.items()}


def generic(use: BlockUse, gradients: Sequence[Tensor | None], size: int) -> dict[str, Piece]:
    """Each example's gradient by vmap."""
    return {name: PlainRows(values) for name, values in rows(use, gradients, size).items()}


def require_possible(use: BlockUse, size: int) -> None:
    """Raises Unsuitable where the inputs are no longer what they were, or the gradients are too many."""
    if not use.inputs.unchanged():
        raise Unsuitable(f"{use.block.label}: its inputs are written to after they went in")
    if size * sum(p.numel() for p in use.block.module.parameters() if p.requires_grad) > LARGEST:
        raise Unsuitable(f"{use.block.label}: {size} gradients of it are too large for memory")


def with_shared(own: Sequence[Tensor], shared: Sequence[Tensor], dims: Sequence[int | None]) -> list[Tensor]:
    """Arguments for one example, in their order: its own as a batch of one, and those that all share."""
    following, common = iter(own), iter(shared)
    return [next(common) if dim is None else next(following).unsqueeze(dim) for dim in dims]


def filled(gradients: Sequence[Tensor | None], outputs: Sequence[Output]) -> list[Tensor]:
    """The gradients in the outputs' shapes, zeros where the losses do not depend on one."""
    like = next(wide(one) for one in gradients if one is not None)
    return [like.new_zeros(o.shape) if g is None else wide(g).reshape(o.shape) for g, o in zip(gradients, outputs, strict=True)]


def for_one(block: Block, output: Tensor, several: Output) -> Tensor:
    """What came out for one example. Raises NotAlone where that is not a part of what came out for several."""
    if output.shape != (*several.shape[: several.dim], 1, *several.shape[several.dim + 1 :]):
        raise NotAlone(block, f"an output of shape {tuple(output.shape)} for one example, {tuple(several.shape)} for several")
    return output


def numbers(tensor: Tensor) -> Tensor:
    """In at least single precision, where it has numbers that are not whole."""
    return wide(tensor) if tensor.is_floating_point() else tensor


def state(block: Block) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(what is learnt, parameters that are not and buffers) of a block, by the names that `WithoutHooks` gives them."""
    named = [*block.module.named_parameters(), *block.module.named_buffers()]
    values = {name: numbers(value.detach()) for name, value in named}
    learnt = {f"module.{name}": values[name] for name in block.parameters}
    return learnt, {f"module.{name}": value for name, value in values.items() if name not in block.parameters}
