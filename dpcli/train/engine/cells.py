"""Recurrences over time as functions that torch can go back through: the pass forward, and its gradients at the gates.

T steps, B examples, H hidden numbers; gates (T, B, 4H) or (T, B, 3H).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

aten = torch.ops.aten
SIGMOID, TANH = aten.sigmoid_backward.grad_input, aten.tanh_backward.grad_input  # given y (1 - y), given (1 - y^2)
SLOPES = (SIGMOID, SIGMOID, TANH, SIGMOID)  # of the gates i, f, g, o


class LstmCell(torch.autograd.Function):
    """c' = f c + i g, h' = o tanh(c'), with gates of what enters plus h W^T."""

    @staticmethod
    def forward(ctx: Any, entering: Tensor, hidden: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """From what enters (T, B, 4H), the weight (4H, H), the state and the cell (B, H): all states (T + 1, B, H) and the last cell."""
        size = state.shape[-1]
        gates, states, cells = torch.empty_like(entering), begun(entering, state), begun(entering, cell)
        squashed, across = torch.empty_like(states[1:]), hidden.T
        each = zip(
            entering.unbind(), gates.unbind(), pairwise(states.unbind()), pairwise(cells.unbind()), squashed.unbind(), strict=True
        )
        for enters, now, (state, state_after), (cell, cell_after), curved in each:
            first, g, o = torch.addmm(enters, state, across, out=now).split_with_sizes([2 * size, size, size], 1)
            i, f = first.sigmoid_().chunk(2, 1)
            torch.mul(f, cell, out=cell_after).addcmul_(i, g.tanh_())
            torch.mul(o.sigmoid_(), torch.tanh(cell_after, out=curved), out=state_after)
        ctx.save_for_backward(hidden, gates, cells, squashed)
        return states, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor, last: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients at what enters, at the first state and at the first cell."""
        hidden, gates, cells, squashed = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, 2)
        found = torch.empty_like(gates)  # the slopes of the gates, until each step's gradients take their place
        for slope, given, squash, out in zip(SLOPES, (g, cells[:-1], i, squashed), (i, f, g, o), found.chunk(4, 2), strict=True):
            slope(given, squash, grad_input=out)
        through = aten.tanh_backward(o, squashed)
        state, cell = torch.zeros_like(above[0]), last
        steps = zip(found.unbind(), above[1:].unbind(), through.unbind(), f.unbind(), strict=True)
        for now, enters, curved, forgets in reversed(list(steps)):
            state = state + enters
            cell = torch.addcmul(cell, state, curved)
            now.mul_(torch.cat([cell, cell, cell, state], 1))
            state, cell = now @ hidden, cell * forgets
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
        found = torch.empty_like(gates)  # the slopes, as above
        reset, update, candidate = found.chunk(3, 2)
        TANH(1 - z, n, grad_input=candidate)
        SIGMOID(states[:-1] - n, z, grad_input=update)
        SIGMOID(products * candidate, r, grad_input=reset)
        own, state = found.clone(), torch.zeros_like(above[0])
        own.chunk(3, 2)[2].mul_(r)
        steps = zip(found.unbind(), own.unbind(), above[1:].unbind(), z.unbind(), strict=True)
        for now, inner, enters, keeps in reversed(list(steps)):
            state = state + enters
            three = state.repeat(1, 3)
            now.mul_(three)
            state = torch.addmm(state * keeps, inner.mul_(three), hidden)
        return found, own, None, None, state + above[0]


def begun(entering: Tensor, start: Tensor) -> Tensor:
    """Room for the states of all steps behind the first."""
    found = entering.new_empty(len(entering) + 1, *start.shape)
    found[0] = start
    return found
