"""Recurrent layers: run again step by step, and back, for the gradients at the gates; each weight is then a linear layer over time.

Gates in torch's order, LSTM (i, f, g, o) and GRU (r, z, n). Lengths: T steps, B examples, H hidden numbers, G gates' numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from dpcli.train.engine.block_calls import BlockUse
from dpcli.train.engine.layers import Unsuitable
from dpcli.train.engine.pieces import Outer, Piece, PlainRows
from dpcli.train.engine.rule import wide


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one layer in one direction. hidden: (G, H), and its bias (G,)."""

    hidden: Tensor
    bias: Tensor | None

    def times(self, state: Tensor) -> Tensor:
        """(B, H) -> (B, G)."""
        return state @ self.hidden.T if self.bias is None else torch.addmm(self.bias, state, self.hidden.T)


class Tape(Protocol):
    """A pass over time that can be gone back."""

    @property
    def states(self) -> Tensor:
        """(T + 1, B, H), the first one that it began with."""

    def back(self, above: Tensor, last: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        """Gradients where the input's (T, B, G) and the state's products (T, B, G) enter.

        Args:
            above: at every state but the first, (T, B, H).
            last: at the last hidden state and the last cell, where there are such.
        """


@dataclass(frozen=True, slots=True)
class Lstm:
    """activations: (T, B, 4H), of the gates; cells: (T + 1, B, H); squashed: tanh of all but the first."""

    weights: Weights
    states: Tensor
    activations: Tensor
    cells: Tensor
    squashed: Tensor

    @classmethod
    def run(cls, weights: Weights, entering: Tensor, start: Sequence[Tensor]) -> Lstm:
        size = start[0].shape[-1]
        states, cells = begun(entering, start[0]), begun(entering, start[1])
        squashed = torch.empty_like(states[1:])
        for t, gates in enumerate(entering):
            gates += weights.times(states[t])
            gates[:, : 2 * size].sigmoid_()
            gates[:, 2 * size : 3 * size].tanh_()
            gates[:, 3 * size :].sigmoid_()
            i, f, g, o = gates.chunk(4, 1)
            torch.addcmul(i * g, f, cells[t], out=cells[t + 1])
            torch.tanh(cells[t + 1], out=squashed[t])
            torch.mul(o, squashed[t], out=states[t + 1])
        return cls(weights, states, entering, cells, squashed)

    def back(self, above: Tensor, last: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        i, f, g, o = self.activations.chunk(4, 2)
        slopes = torch.cat([g * i * (1 - i), self.cells[:-1] * f * (1 - f), i * (1 - g * g), self.squashed * o * (1 - o)], 2)
        through = o * (1 - self.squashed * self.squashed)
        found, hidden, cell = torch.empty_like(slopes), *(torch.zeros_like(above[0]) if one is None else one for one in last)
        for t in reversed(range(len(above))):
            hidden = hidden + above[t]
            cell = torch.addcmul(cell, hidden, through[t])
            torch.mul(slopes[t], torch.cat([cell, cell, cell, hidden], 1), out=found[t])
            hidden, cell = found[t] @ self.weights.hidden, cell * f[t]
        return found, found


@dataclass(frozen=True, slots=True)
class Gru:
    """activations: (T, B, 3H), of the gates; products: (T, B, H), what the state adds to the last gate before it is reset."""

    weights: Weights
    states: Tensor
    activations: Tensor
    products: Tensor

    @classmethod
    def run(cls, weights: Weights, entering: Tensor, start: Sequence[Tensor]) -> Gru:
        size = start[0].shape[-1]
        states = begun(entering, start[0])
        products = torch.empty_like(states[1:])
        for t, gates in enumerate(entering):
            own = weights.times(states[t])
            gates[:, : 2 * size] += own[:, : 2 * size]
            gates[:, : 2 * size].sigmoid_()
            products[t] = own[:, 2 * size :]
            r, z, n = gates.chunk(3, 1)
            n.addcmul_(r, products[t]).tanh_()
            torch.lerp(n, states[t], z, out=states[t + 1])
        return cls(weights, states, entering, products)

    def back(self, above: Tensor, last: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        r, z, n = self.activations.chunk(3, 2)
        update, candidate = (self.states[:-1] - n) * z * (1 - z), (1 - z) * (1 - n * n)
        reset = self.products * r * (1 - r) * candidate
        slopes, inner = torch.cat([reset, update, candidate], 2), torch.cat([reset, update, candidate * r], 2)
        found, own = torch.empty_like(slopes), torch.empty_like(slopes)
        hidden = torch.zeros_like(above[0]) if last[0] is None else last[0]
        for t in reversed(range(len(above))):
            hidden = hidden + above[t]
            three = hidden.repeat(1, 3)
            torch.mul(slopes[t], three, out=found[t])
            torch.mul(inner[t], three, out=own[t])
            hidden = torch.addmm(hidden * z[t], own[t], self.weights.hidden)
        return found, own


def begun(entering: Tensor, start: Tensor) -> Tensor:
    """Room for the states of all steps behind the first."""
    found = entering.new_empty(len(entering) + 1, *start.shape)
    found[0] = start
    return found


CELLS: dict[str, type[Lstm] | type[Gru]] = {"LSTM": Lstm, "GRU": Gru}


def recurrent(use: BlockUse, gradients: Sequence[Tensor | None], size: int) -> dict[str, Piece]:
    """Pieces of nn.LSTM and nn.GRU, of any number of layers and directions.

    Raises:
        Unsuitable: dropout between layers, projections, packed or unbatched sequences, which have no rule.
    """
    module, label = cast("nn.RNNBase", use.block.module), use.block.label
    inputs, *states = [wide(one) for one in use.inputs.tensors]
    first = 0 if module.batch_first else 1
    if (module.dropout and module.training and module.num_layers > 1) or module.proj_size:
        raise Unsuitable(f"{label}: dropout and projections have no rule")
    if inputs.dim() != 3 or use.dims != (first, *[1] * len(states)) or len(states) not in (0, 1 + (module.mode == "LSTM")):
        raise Unsuitable(f"{label}: expected a sequence for each example and states for all or none, found something else")
    if not use.inputs.unchanged():
        raise Unsuitable(f"{label}: its inputs are written to after they went in")
    above = {output.place: None if g is None else wide(g) for output, g in zip(use.outputs, gradients, strict=True)}
    with torch.no_grad():
        return over_layers(module, inputs.transpose(0, 1) if module.batch_first else inputs, states, above, size)


def over_layers(
    module: nn.RNNBase, inputs: Tensor, states: Sequence[Tensor], above: dict[int, Tensor | None], size: int
) -> dict[str, Piece]:
    """Upwards through the layers, and down again. inputs (T, B, d); above: gradients by the place of an output."""
    directions = 2 if module.bidirectional else 1
    weights = {name: wide(value.detach()) for name, value in module.named_parameters()}
    tapes: list[Tape] = []
    entered = [inputs]
    for layer in range(module.num_layers):
        outputs = []
        for suffix, place in named(layer, directions):
            start = [one[place] for one in states] or [inputs.new_zeros(size, module.hidden_size)] * (1 + (module.mode == "LSTM"))
            tape = CELLS[module.mode].run(*entering(weights, suffix, turned(entered[-1], place % directions)), start)
            tapes.append(tape)
            outputs.append(turned(tape.states[1:], place % directions))
        entered.append(torch.cat(outputs, 2))
    upper = above.get(0)
    upper = torch.zeros_like(entered[-1]) if upper is None else upper.transpose(0, 1) if module.batch_first else upper
    found: dict[str, Piece] = {}
    for layer in reversed(range(module.num_layers)):
        parts, below = upper.chunk(directions, 2), []
        for suffix, place in named(layer, directions):
            side = place % directions
            last = [None if (g := above.get(1 + which)) is None else g[place] for which in range(2)]
            at_input, at_state = tapes[place].back(turned(parts[side], side), last)
            found |= pieces(weights, suffix, turned(entered[layer], side), tapes[place].states[:-1], at_input, at_state)
            if layer:
                below.append(turned(at_input @ weights[f"weight_ih_{suffix}"], side))
        upper = torch.stack(below).sum(0) if layer else upper
    return {name: found[name] for name, p in module.named_parameters() if p.requires_grad}


def named(layer: int, directions: int) -> list[tuple[str, int]]:
    """The endings of the names of a layer's weights, and the places of its states."""
    return [(f"l{layer}{'_reverse' if side else ''}", layer * directions + side) for side in range(directions)]


def turned(values: Tensor, backwards: int) -> Tensor:
    """From the last step to the first, in the second direction."""
    return values.flip(0) if backwards else values


def entering(weights: dict[str, Tensor], suffix: str, inputs: Tensor) -> tuple[Weights, Tensor]:
    """What goes in at every step is multiplied at once."""
    bias = weights.get(f"bias_ih_{suffix}")
    product = inputs @ weights[f"weight_ih_{suffix}"].T
    return Weights(weights[f"weight_hh_{suffix}"], weights.get(f"bias_hh_{suffix}")), product if bias is None else product.add_(
        bias
    )


def pieces(
    weights: dict[str, Tensor], suffix: str, inputs: Tensor, states: Tensor, at_input: Tensor, at_state: Tensor
) -> dict[str, Piece]:
    """Sums over time of outer products, and of the gradients themselves for the biases."""
    found: dict[str, Piece] = {}
    for kind, right, left in (("ih", inputs, at_input), ("hh", states, at_state)):
        weight = weights[f"weight_{kind}_{suffix}"]
        found[f"weight_{kind}_{suffix}"] = Outer(left.transpose(0, 1), right.transpose(0, 1), weight.shape)
        if f"bias_{kind}_{suffix}" in weights:
            found[f"bias_{kind}_{suffix}"] = PlainRows(left.sum(0))
    return found
