"""The compounds of torch's recurrent cells and of its simple recurrent network. Each consists of two linear layers and activations.

A compound (engine/compound.py) is run layer by layer, so that book-keeping sees its linear layers; autograd differentiates the rest.

Shapes are written with T for the number of steps, B for the number of examples, and H for the size of a state. Gates are in torch's order:
(i, f, g, o) for LSTM, and (r, z, n) for GRU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from dpcli.train.engine.compound import CompoundRun, Forward
from dpcli.train.engine.method import Unsuitable

# A function of the terms of the input and of the terms of the state, (B, gates * H) each, and of the state that returns the new state.
Update = Callable[[Tensor, Tensor, Any], Any]


def lstm_update(of_input: Tensor, of_state: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the new state and the new cell of an LSTM, (B, H) each."""
    i, f, g, o = (of_input + of_state).chunk(4, 1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_update(of_input: Tensor, of_state: Tensor, state: Tensor) -> Tensor:
    """Return the new state of a GRU, (B, H)."""
    (r_input, z_input, n_input), (r_state, z_state, n_state) = of_input.chunk(3, 1), of_state.chunk(3, 1)
    r, z = (r_input + r_state).sigmoid(), (z_input + z_state).sigmoid()
    return torch.lerp((n_input + r * n_state).tanh(), state, z)


def rnn_update(activation: Callable[[Tensor], Tensor], of_input: Tensor, of_state: Tensor, state: Tensor) -> Tensor:
    """Return the new state of a simple recurrent network, (B, H)."""
    return activation(of_input + of_state)


def activation_of(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the activation of a simple recurrent network or cell."""
    return torch.relu if module.nonlinearity == "relu" else torch.tanh


def cell(module: nn.Module, update: Update, state_count: int) -> Forward | None:
    """Return the layer-by-layer forward of a cell; None if its weights are not its own.

    Args:
        state_count: Number of tensors in a state.
    """
    biases = ("bias_ih", "bias_hh") if module.bias else ()
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return partial(one_step, update, state_count) if parameters == {"weight_ih", "weight_hh", *biases} else None


def one_step(update: Update, state_count: int, run: CompoundRun, input: Tensor, hx: Any = None) -> Any:
    """Return what a cell returns for the same arguments, computed layer by layer.

    Raises Unsuitable if the input has no dimension of examples, or the number of states or their shape is wrong.
    """
    module = cast("nn.RNNCellBase", run.compound.module)
    if not torch.is_tensor(input) or input.dim() != 2:
        raise Unsuitable(f"{run.label}: expected inputs (B, d) of several examples")
    shape = (len(input), module.hidden_size)
    states: Sequence[Tensor] = (hx,) if torch.is_tensor(hx) else hx or [input.new_zeros(shape)] * state_count
    if len(states) != state_count or any(state.shape != shape for state in states):
        raise Unsuitable(f"{run.label}: expected states of shape {shape}, found {[tuple(state.shape) for state in states]}")
    of_input = run.linear(input, "weight_ih", ["bias_ih"] if module.bias else [])
    of_state = run.linear(states[0], "weight_hh", ["bias_hh"] if module.bias else [])
    return update(of_input, of_state, tuple(states) if state_count > 1 else states[0])


def rnn_direction(run: CompoundRun, suffix: str, inputs: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the states (T + 1, B, H) of one layer of nn.RNN in one direction."""
    module = cast("nn.RNNBase", run.compound.module)
    input_biases, state_biases = ([f"bias_ih_{suffix}"], [f"bias_hh_{suffix}"]) if module.bias else ([], [])
    activation, states = activation_of(module), [start[0]]
    for of_input in run.linear(inputs, f"weight_ih_{suffix}", input_biases):
        of_state = run.linear(states[-1], f"weight_hh_{suffix}", state_biases)
        states.append(rnn_update(activation, of_input, of_state, states[-1]))
    return (torch.stack(states),)
