"""Hooks that keep what a block was called with and where its outputs' gradients will pass; which dimension counts the examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dpcli.train.engine.blocks import Block, NotAlone
from dpcli.train.engine.capture import Call, Originals, detach_parameters, originals_of, restore_parameters
from dpcli.train.engine.layers import Unsuitable

PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)  # what may stand among arguments beside tensors


@dataclass(frozen=True, slots=True)
class TakenApart:
    """Arguments or results taken apart.

    versions: how often each tensor was written to. plain: all else, with the class in the place of a tensor. spec: how they are arranged.
    """

    tensors: list[Tensor]
    versions: list[int]
    plain: tuple[object, ...]
    spec: TreeSpec

    @classmethod
    def of(cls, block: Block, values: Any) -> TakenApart:
        """Raises NotAlone where something in it is no tensor and no plain value: nobody sees what is inside of it."""
        leaves, spec = tree_flatten(values)
        tensors = [leaf.detach() for leaf in leaves if torch.is_tensor(leaf)]
        plain = tuple(Tensor if torch.is_tensor(leaf) else leaf for leaf in leaves)
        strange = next((type(leaf).__name__ for leaf in plain if leaf is not Tensor and not isinstance(leaf, PLAIN)), None)
        if strange is not None:
            raise NotAlone(block, f"{strange} goes in or comes out")
        return cls(tensors, [one._version for one in tensors], plain, spec)

    def arranged(self, tensors: Sequence[Tensor]) -> Any:
        """The same with other tensors."""
        following = iter(tensors)
        return tree_unflatten([next(following) if leaf is Tensor else leaf for leaf in self.plain], self.spec)

    def unchanged(self) -> bool:
        """Whether nothing was written to since."""
        return [one._version for one in self.tensors] == self.versions


@dataclass(frozen=True, slots=True)
class Form:
    """How a call looks whatever the examples are. dims: per tensor the dimension that counts them, None where all share it."""

    plain: tuple[object, ...]
    spec: TreeSpec
    shapes: list[torch.Size]
    dims: tuple[int | None, ...] = ()

    @classmethod
    def of(cls, values: TakenApart) -> Form:
        return cls(values.plain, values.spec, [one.shape for one in values.tensors])

    def beside(self, block: Block, alone: Form, size: int) -> Form:
        """With its dimensions, from the form of a call for one example. Raises NotAlone where they cannot be told."""
        if (self.plain, self.spec) != (alone.plain, alone.spec):
            raise NotAlone(block, "one example alone is called in another way")
        dims = [dimension(block, one, several, size) for one, several in zip(alone.shapes, self.shapes, strict=True)]
        return Form(self.plain, self.spec, self.shapes, tuple(dims))

    def require(self, block: Block, values: TakenApart, size: int) -> None:
        """Raises Unsuitable where a call does not have this form."""
        same = (values.plain, values.spec) == (self.plain, self.spec)
        if not same or not all(map(fits, self.shapes, self.dims, values.tensors, [size] * len(values.tensors))):
            raise Unsuitable(f"{block.label} is called in another way than when the model was probed")


def dimension(block: Block, one: torch.Size, several: torch.Size, size: int) -> int | None:
    """Where a tensor for one example and one for several differ."""
    if one == several:
        return None
    differing = [dim for dim, (a, b) in enumerate(zip(one, several, strict=False)) if a != b]
    if len(one) != len(several) or len(differing) != 1 or (one[differing[0]], several[differing[0]]) != (1, size):
        raise NotAlone(block, f"a tensor of shape {tuple(several)} for {size} examples, {tuple(one)} for one")
    return differing[0]


def fits(shape: torch.Size, dim: int | None, tensor: Tensor, size: int) -> bool:
    """Examples along that dimension; of a tensor that all share the same shape, or another with nothing along the first dimension."""
    if tensor.dim() != len(shape):
        return False
    return tensor.shape[dim] == size if dim is not None else tensor.shape == shape or tensor.shape[:1] == shape[:1] == (1,)


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that came out of a block and that gradients reach: its place there, its shape, the dimension that counts examples."""

    place: int
    shape: torch.Size
    dim: int
    edge: GradientEdge


@dataclass(frozen=True, slots=True)
class BlockUse:
    """One call of a block: what went in, which dimensions of it count the examples, and what came out."""

    block: Block
    inputs: TakenApart
    dims: tuple[int | None, ...]
    outputs: list[Output]


@dataclass(slots=True)
class BlockRecorder:
    """What the hooks of blocks write to.

    known: the forms of inputs and outputs by call, from when they were learnt; what is learnt now goes to `seen`. `alone`: the forms
    for one example, where this is a forward from which they are learnt.
    """

    size: int
    known: dict[Call, tuple[Form, Form]] | None = None
    alone: dict[Call, tuple[Form, Form]] | None = None
    seen: dict[Call, tuple[Form, Form]] = field(default_factory=dict)
    uses: list[BlockUse] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    pending: dict[str, tuple[TakenApart, Form]] = field(default_factory=dict)

    def enter(self, block: Block, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before it runs: fresh leaves for its parameters."""
        if block.name in self.pending:
            raise NotAlone(block, "it calls itself")
        inputs = TakenApart.of(block, (args, kwargs))
        self.pending[block.name] = inputs, self.form(block, inputs, 0)
        detach_parameters(block)

    def leave(self, block: Block, output: Any) -> Any:
        """After it ran: copies of what came out, whose gradients are those of the uses outside."""
        (inputs, form), values = self.pending.pop(block.name), TakenApart.of(block, output)
        call, shape = (block.name, self.counts.get(block.name, 0)), self.form(block, values, 1)
        self.counts[block.name] = call[1] + 1
        self.seen[call] = form, shape
        leaves, spec = tree_flatten(output)
        copies = [leaf.clone() if torch.is_tensor(leaf) and leaf.requires_grad else leaf for leaf in leaves]
        if self.known is not None or self.alone is not None:
            self.uses.append(BlockUse(block, inputs, form.dims, reached(block, copies, shape)))
        return tree_unflatten(copies, spec)

    def form(self, block: Block, values: TakenApart, which: int) -> Form:
        """Of a call: what is known of it, or what is learnt now."""
        call, found = (block.name, self.counts.get(block.name, 0)), Form.of(values)
        if self.known is not None:
            if call not in self.known:
                raise Unsuitable(f"{block.label} runs more often than when the model was probed")
            self.known[call][which].require(block, values, self.size)
            return self.known[call][which]
        if self.alone is None:
            return found
        if call not in self.alone:
            raise NotAlone(block, "one example alone is called less often")
        return found.beside(block, self.alone[call][which], self.size)


def reached(block: Block, copies: Sequence[Any], form: Form) -> list[Output]:
    """The outputs that gradients reach.

    Raises:
        NotAlone: there is none, or all examples share one.
    """
    tensors = zip([copy for copy in copies if torch.is_tensor(copy)], form.dims, strict=True)
    found = [(place, tensor, dim) for place, (tensor, dim) in enumerate(tensors) if tensor.requires_grad]
    if not found or any(dim is None for _, _, dim in found):
        raise NotAlone(block, "no output of its own for each example that gradients reach")
    return [Output(place, tensor.shape, dim, get_gradient_edge(tensor)) for place, tensor, dim in found if dim is not None]


@contextmanager
def recording_blocks(blocks: list[Block], recorder: BlockRecorder) -> Iterator[None]:
    """Hooks on the blocks for the length of one forward; the parameters are as before afterwards, whatever happened."""
    originals = [originals_of(block) for block in blocks]
    handles = [handle for block, own in zip(blocks, originals, strict=True) for handle in hook(block, recorder, own)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for own in originals:
            restore_parameters(own)


def hook(block: Block, recorder: BlockRecorder, own: Originals) -> Iterator[torch.utils.hooks.RemovableHandle]:
    """Last before the block's forward and first after it, so that other hooks see what they always saw."""

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder.enter(block, args, kwargs)

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        restore_parameters(own)
        return recorder.leave(block, output)

    yield block.module.register_forward_pre_hook(before, with_kwargs=True)
    yield block.module.register_forward_hook(after, prepend=True)
