"""Book-keeping: one forward, one backward that computes no weight gradient, then norms and sums layer by layer.

Source: Bu et al. 2023, arXiv:2210.00038, Algorithm 1; Li et al. 2021, arXiv:2110.05679, Section 4 (ghost norms).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.broadcast import repeats
from dpcli.train.engine.capture import Call, Recorder, Use, recording
from dpcli.train.engine.layers import Layer, Unsuitable, layers
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
    layers: list[Layer]
    shared: dict[Call, bool] = field(default_factory=dict)
    spread: bool = False
    name: str = "book-keeping"
    isolates: ClassVar[bool] = False

    @classmethod
    def learnt(cls, model: nn.Module, loss: Loss, batch: Batch) -> BookKeeping:
        """The method, with the role of every call read from how shapes follow the batch size (one, then all of the batch).

        Raises:
            Unsuitable: a layer has no rule, or runs on something that does not have the examples first.
        """
        method = cls(model, loss, layers(model))
        try:
            return method.learn(batch)
        except (RuntimeError, Unsuitable):
            if not any(method.shared.values()):
                raise
        method.spread = True  # the model repeats a shared output itself, and cannot take one that is repeated already
        return method.learn(batch)

    def on(self, model: nn.Module) -> BookKeeping:
        return replace(self, model=model, layers=layers(model))

    def learn(self, batch: Batch) -> BookKeeping:
        """Reads the roles off one forward of the first example and one of all."""
        alone: dict[Call, torch.Size] = {}

        def note(call: Call, inputs: Tensor) -> bool:
            alone[call] = inputs.shape
            return inputs.shape[:1] != (1,)

        def compare(call: Call, inputs: Tensor) -> bool:
            self.shared[call] = inputs.shape == alone.get(call)
            return self.shared[call]

        self.forward(take(batch, [0]), Recorder(note, 1))
        self.forward(batch, Recorder(compare, size(batch), spread=self.spread))
        return self

    def parts(self, batch: Batch) -> Iterator[Part]:
        recorder = Recorder(self.role, size(batch), spread=self.spread)
        losses = self.forward(batch, recorder)
        uses = [*recorder.uses, *(repeats(losses, recorder.once) if recorder.once else ())]
        gradients = self.gradients(losses, uses)
        with full_precision(losses.device):
            pieces = self.pieces(uses, gradients)
        yield pieces, recorder.size

    def role(self, call: Call, inputs: Tensor) -> bool:
        """What was learnt of this call."""
        if call not in self.shared:
            raise Unsuitable(f"{call[0]} runs more often than when the model was probed")
        return self.shared[call]

    def forward(self, batch: Batch, recorder: Recorder) -> Tensor:
        """The losses, while the recorder listens."""
        with recording(self.layers, recorder):
            return per_example_losses(self.model, self.loss, batch, recorder.size)

    def gradients(self, losses: Tensor, uses: list[Use]) -> list[Tensor | None]:
        """At every use's output; the true parameters are asked for too, and must be out of reach."""
        if not losses.requires_grad:
            return [None] * len(uses)
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        wanted: list[Any] = [*(use.edge for use in uses), *parameters.values()]
        found = torch.autograd.grad(losses, wanted, torch.ones_like(losses), allow_unused=True)
        for name, gradient in zip(parameters, found[len(uses) :], strict=True):
            if gradient is not None:
                raise Unsuitable(f"{name} is used outside the forward of its own module")
        return list(found[: len(uses)])

    def pieces(self, uses: list[Use], gradients: list[Tensor | None]) -> dict[str, Piece]:
        """Per parameter one piece; a use that the losses do not depend on has none."""
        found: dict[str, list[Piece]] = {}
        for use, gradient in zip(uses, gradients, strict=True):
            if gradient is not None:
                if gradient.numel() != use.output_shape.numel():
                    raise Unsuitable(f"{use.layer.name} has a gradient of shape {tuple(gradient.shape)}, not one row per example")
                ways = use.layer.rule(use.layer.module, use.inputs, gradient.reshape(use.output_shape))
                for local, name in use.layer.parameters.items():
                    found.setdefault(name, []).append(ways[local]())
        return {name: merged(several) for name, several in found.items()}
