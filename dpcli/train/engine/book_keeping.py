"""Book-keeping: one forward, one backward that computes no weight gradient, then norms and sums layer by layer.

Source: Bu et al. 2023, arXiv:2210.00038, Algorithm 1; Li et al. 2021, arXiv:2110.05679, Section 4 (ghost norms).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.block_calls import BlockRecorder, BlockUse, Form, recording_blocks
from dpcli.train.engine.block_rows import generic
from dpcli.train.engine.block_rules import rule_of
from dpcli.train.engine.blocks import Division, NotAlone, divided, needed, widened
from dpcli.train.engine.broadcast import repeats
from dpcli.train.engine.capture import Call, Recorder, Use, recording
from dpcli.train.engine.layers import NotFirst, Unsuitable, layers
from dpcli.train.engine.method import Loss, Part, per_example_losses
from dpcli.train.engine.pieces import Piece, merged
from dpcli.train.engine.precision import full_precision


@dataclass(slots=True)
class BookKeeping:
    """Sound only where each layer's row i belongs to example i, which the probe establishes before this is used.

    `shared` says of every known call whether its input is one for all examples (position ids); a call that was not seen when
    this was learnt is refused, for a dimension that happens to equal the batch size proves nothing.
    """

    model: nn.Module
    loss: Loss
    division: Division
    shared: dict[Call, bool] = field(default_factory=dict)
    forms: dict[Call, tuple[Form, Form]] = field(default_factory=dict)
    spread: bool = False
    isolates: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """With the classes for which there is no rule of their own."""
        blocks = sorted({type(block.module).__name__ for block in self.division.blocks if rule_of(block) is generic})
        return "book-keeping" + (f" with vmap of {', '.join(blocks)}" if blocks else "")

    @classmethod
    def learnt(cls, model: nn.Module, loss: Loss, batch: Batch) -> BookKeeping:
        """The method, with the role of every call read from how shapes follow the batch size (one, then all of the batch).

        Raises:
            Unsuitable: a module that has no rule cannot be taken as a block, or something runs on what does not have the examples first.
        """
        names = needed(model)
        while True:
            try:
                return cls.divided(model, loss, batch, divided(model, names))
            except NotFirst as problem:
                names |= {problem.name}
            except NotAlone as problem:
                names = widened(model, names, problem.block)
                if "" in names:
                    raise

    @classmethod
    def by_rules(cls, model: nn.Module, loss: Loss, batch: Batch) -> BookKeeping:
        """The same without blocks. Raises Unsuitable where a layer has no rule, too."""
        return cls.divided(model, loss, batch, Division(layers(model), []))

    @classmethod
    def divided(cls, model: nn.Module, loss: Loss, batch: Batch, division: Division) -> BookKeeping:
        """The same for one way to divide the model."""
        method = cls(model, loss, division)
        try:
            return method.learn(batch)
        except (RuntimeError, Unsuitable):
            if not any(method.shared.values()):
                raise
        method.spread = True  # the model repeats a shared output itself, and cannot take one that is repeated already
        return method.learn(batch)

    def on(self, model: nn.Module) -> BookKeeping:
        return replace(self, model=model, division=divided(model, frozenset(block.name for block in self.division.blocks)))

    def learn(self, batch: Batch) -> BookKeeping:
        """Reads the roles off one forward of the first example and one of all, and tries every block."""
        alone: dict[Call, torch.Size] = {}

        def note(call: Call, inputs: Tensor) -> bool:
            alone[call] = inputs.shape
            return inputs.shape[:1] != (1,)

        def compare(call: Call, inputs: Tensor) -> bool:
            self.shared[call] = inputs.shape == alone.get(call)
            return self.shared[call]

        first, several = BlockRecorder(1), BlockRecorder(size(batch))
        self.forward(take(batch, [0]), Recorder(note, 1), first)
        several.alone = first.seen
        self.forward(batch, Recorder(compare, size(batch), spread=self.spread), several)
        self.forms = several.seen
        for _ in self.parts(batch) if self.division.blocks else ():
            pass
        return self

    def parts(self, batch: Batch) -> Iterator[Part]:
        recorder, blocks = Recorder(self.role, size(batch), spread=self.spread), BlockRecorder(size(batch), self.forms)
        losses = self.forward(batch, recorder, blocks)
        uses = [*recorder.uses, *(repeats(losses, recorder.once) if recorder.once else ())]
        edges = [*(use.edge for use in uses), *(output.edge for use in blocks.uses for output in use.outputs)]
        gradients = self.gradients(losses, edges)
        with full_precision(losses.device):
            found = self.pieces(uses, gradients[: len(uses)])
            for name, several in block_pieces(blocks.uses, gradients[len(uses) :], recorder.size).items():
                found.setdefault(name, []).extend(several)
            pieces = {name: merged(several) for name, several in found.items()}
        yield pieces, recorder.size

    def role(self, call: Call, inputs: Tensor) -> bool:
        """What was learnt of this call."""
        if call not in self.shared:
            raise Unsuitable(f"{call[0]} runs more often than when the model was probed")
        return self.shared[call]

    def forward(self, batch: Batch, recorder: Recorder, blocks: BlockRecorder) -> Tensor:
        """The losses, while the recorders listen."""
        with recording(self.division.layers, recorder), recording_blocks(self.division.blocks, blocks):
            return per_example_losses(self.model, self.loss, batch, recorder.size)

    def gradients(self, losses: Tensor, edges: list[GradientEdge]) -> list[Tensor | None]:
        """At every edge; the true parameters are asked for too, and must be out of reach."""
        if not losses.requires_grad:
            return [None] * len(edges)
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        wanted: list[Any] = [*edges, *parameters.values()]
        found = torch.autograd.grad(losses, wanted, torch.ones_like(losses), allow_unused=True)
        for name, gradient in zip(parameters, found[len(edges) :], strict=True):
            if gradient is not None:
                raise Unsuitable(f"{name} is used outside the forward of its own module")
        return list(found[: len(edges)])

    def pieces(self, uses: list[Use], gradients: list[Tensor | None]) -> dict[str, list[Piece]]:
        """Per parameter a piece for each use; one that the losses do not depend on has none."""
        found: dict[str, list[Piece]] = {}
        for use, gradient in zip(uses, gradients, strict=True):
            if gradient is not None:
                if gradient.numel() != use.output_shape.numel():
                    raise Unsuitable(f"{use.layer.name} has a gradient of shape {tuple(gradient.shape)}, not one row per example")
                ways = use.layer.rule(use.layer.module, use.inputs, gradient.reshape(use.output_shape))
                for local, name in use.layer.parameters.items():
                    found.setdefault(name, []).append(ways[local]())
        return found


def block_pieces(uses: Sequence[BlockUse], gradients: Sequence[Tensor | None], size: int) -> dict[str, list[Piece]]:
    """The same for blocks, whose outputs may be several."""
    found: dict[str, list[Piece]] = {}
    start = 0
    for use in uses:
        own, start = gradients[start : start + len(use.outputs)], start + len(use.outputs)
        if any(gradient is not None for gradient in own):
            for local, piece in rule_of(use.block)(use, own, size).items():
                found.setdefault(use.block.parameters[local], []).append(piece)
    return found
