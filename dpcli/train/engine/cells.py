"""Recurrences over time as functions that torch can go back through: the pass forward, and its gradients at the gates.

T steps, B examples, H hidden numbers; gates (T, B, 4H) or (T, B, 3H).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class LstmCell(torch.autograd.Function):
    """c' = f c + i g, h' = o tanh(c'), with gates of what enters plus h W^T."""

    @staticmethod
    def forward(ctx: Any, entering: Tensor, hidden: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """From what enters (T, B, 4H), the weight (4H, H), the state and the cell (B, H): all states (T + 1, B, H) and the last cell."""
        size = state.shape[-1]
        gates, states, cells = torch.empty_like(entering), begun(entering, state), begun(entering, cell)
        squashed, across = torch.empty_like(states[1:]), hidden.T
        for t in range(len(entering)):
            now = torch.addmm(entering[t], states[t], across, out=gates[t])
            now[:, : 2 * size].sigmoid_()
            now[:, 2 * size : 3 * size].tanh_()
            now[:, 3 * size :].sigmoid_()
            i, f, g, o = now.chunk(4, 1)
            torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.tanh(cells[t + 1], out=squashed[t])
            torch.mul(o, squashed[t], out=states[t + 1])
        ctx.save_for_backward(hidden, gates, cells, squashed)
        return states, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor, last: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients at what enters, at the first state and at the first cell."""
        hidden, gates, cells, squashed = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, 2)
        slopes = torch.cat([g * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)], 2)
        through = o * (1 - squashed * squashed)
        found, state, cell = torch.empty_like(slopes), torch.zeros_like(above[0]), last
        for t in reversed(range(len(gates))):
            state = state + above[t + 1]
            cell = torch.addcmul(cell, state, through[t])
            torch.mul(slopes[t], torch.cat([cell, cell, cell, state], 1), out=found[t])
            state, cell = found[t] @ hidden, cell * f[t]
        return found, None, state + above[0], cell


class GruCell(torch.autograd.Function):
    """n = tanh(x + r (h W^T + b)), h' = (1 - z) n + z h, with two gates r and z of what enters plus h W^T + b."""

    @staticmethod
    def forward(ctx: Any, entering: Tensor, nothing: Tensor, hidden: Tensor, bias: Tensor | None, state: Tensor) -> Tensor:
        """From what enters (T, B, 3H), zeros that stand for what states add, the weight (3H, H), its bias, the state (B, H)."""
        size = state.shape[-1]
        gates, states = torch.empty_like(entering), begun(entering, state)
        products, across = torch.empty_like(states[1:]), hidden.T
        for t in range(len(entering)):
            own = states[t] @ across if bias is None else torch.addmm(bias, states[t], across)
            torch.add(entering[t, :, : 2 * size], own[:, : 2 * size], out=gates[t, :, : 2 * size]).sigmoid_()
            products[t] = own[:, 2 * size :]
            r, z, n = gates[t].chunk(3, 1)
            torch.addcmul(entering[t, :, 2 * size :], r, products[t], out=n).tanh_()
            torch.lerp(n, states[t], z, out=states[t + 1])
        ctx.save_for_backward(hidden, gates, states, products)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients at what enters, at what states add to it, and at the first state."""
        hidden, gates, states, products = ctx.saved_tensors
        r, z, n = gates.chunk(3, 2)
        update, candidate = (states[:-1] - n) * z * (1 - z), (1 - z) * (1 - n * n)
        reset = products * r * (1 - r) * candidate
        slopes, inner = torch.cat([reset, update, candidate], 2), torch.cat([reset, update, candidate * r], 2)
        found, own, state = torch.empty_like(slopes), torch.empty_like(slopes), torch.zeros_like(above[0])
        for t in reversed(range(len(gates))):
            state = state + above[t + 1]
            three = state.repeat(1, 3)
            torch.mul(slopes[t], three, out=found[t])
            torch.mul(inner[t], three, out=own[t])
            state = torch.addmm(state * z[t], own[t], hidden)
        return found, own, None, None, state + above[0]


def begun(entering: Tensor, start: Tensor) -> Tensor:
    """Room for the states of all steps behind the first."""
    found = entering.new_empty(len(entering) + 1, *start.shape)
    found[0] = start
    return found
