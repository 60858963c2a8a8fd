"""The compounds of torch's recurrent networks (nn.LSTM, nn.GRU, nn.RNN) and of its recurrent cells (nn.LSTMCell, ...).

Book-keeping (book_keeping.py) computes per-example gradients from records of the calls of layers. Torch computes a recurrent network by one
function. A *compound* (compound.py) is such a module that is run layer by layer instead, so that book-keeping sees its linear layers. In
nn.LSTM and nn.GRU, the product with the state occurs in every step, but is recorded as one layer over all steps, so that its gradient is
one product too. The gradient of such a recurrence is written by hand. The simple network and the cells are differentiated by autograd.
The many small functions of torch that a recurrence calls run without the mode that looks for errors (`RaisedErrors` in engine/method.py),
which would take a twentieth of the time of a step. They raise none that a program could catch, because `first_states` checks the shapes.

Shapes are written with T for the number of steps, B for the number of examples, and H for the size of a state. The gates together have 4H
numbers in torch's order (i, f, g, o) for LSTM, and 3H numbers (r, z, n) for GRU. `wide` gives the numbers in at least single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from dpcli.train.engine.compound import CompoundRun, Forward
from dpcli.train.engine.method import Unsuitable, wide
from dpcli.train.torch_internals import without_function_modes

aten = torch.ops.aten
# Operators that multiply a gradient by the derivative at output y: y (1 - y) for the sigmoid, and 1 - y^2 for tanh.
SIGMOID_BACKWARD, TANH_BACKWARD = aten.sigmoid_backward.grad_input, aten.tanh_backward.grad_input
# The operators of the gates i, f, g, o.
GATES_BACKWARD = (SIGMOID_BACKWARD, SIGMOID_BACKWARD, TANH_BACKWARD, SIGMOID_BACKWARD)

# A function that runs one layer in one direction over time. Its arguments are those of `lstm_direction`.
Direction = Callable[[CompoundRun, str, Tensor, Sequence[Tensor]], tuple[Tensor, ...]]


class LstmCell(torch.autograd.Function):
    """The LSTM recurrence: c' = f c + i g and h' = o tanh(c'), where the gates are functions of the input plus h W^T."""

    @staticmethod
    def forward(ctx: Any, gate_inputs: Tensor, state_weight: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return all states (T + 1, B, H), and the last cell (B, H).

        Args:
            gate_inputs: Inputs of the gates, (T, B, 4H).
            state_weight: Weight of the states, (4H, H).
            state: First state, (B, H).
            cell: First cell, (B, H).
        """
        size = state.shape[-1]
        gates = torch.empty_like(gate_inputs)
        states, cells = empty_states(gate_inputs, state), empty_states(gate_inputs, cell)
        cell_tanh, weight_transposed = torch.empty_like(states[1:]), state_weight.T
        steps = zip(
            gate_inputs.unbind(),
            gates.unbind(),
            pairwise(states.unbind()),
            pairwise(cells.unbind()),
            cell_tanh.unbind(),
            strict=True,
        )
        for inputs_now, gates_now, (state, state_after), (cell, cell_after), tanh_now in steps:
            torch.addmm(inputs_now, state, weight_transposed, out=gates_now)
            input_and_forget, g, o = gates_now.split_with_sizes([2 * size, size, size], 1)
            i, f = input_and_forget.sigmoid_().chunk(2, 1)
            torch.mul(f, cell, out=cell_after).addcmul_(i, g.tanh_())
            torch.mul(o.sigmoid_(), torch.tanh(cell_after, out=tanh_now), out=state_after)
        ctx.save_for_backward(state_weight, gates, cells, cell_tanh)
        return states, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, state_gradients: Tensor, last_cell_gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs, of the first state and of the first cell. The gradient of the weight is not computed."""
        state_weight, gates, cells, cell_tanh = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, 2)
        slopes = torch.empty_like(gates)  # derivatives by the inputs of the gates, which each step replaces by its gradients
        factors = (g, cells[:-1], i, cell_tanh)  # number that multiplies each gate in the new cell or the new state
        for backward, factor, gate, slope in zip(GATES_BACKWARD, factors, (i, f, g, o), slopes.chunk(4, 2), strict=True):
            backward(factor, gate, grad_input=slope)
        tanh_slopes = aten.tanh_backward(o, cell_tanh)
        state, cell = torch.zeros_like(state_gradients[0]), last_cell_gradient  # gradients of the state and of the cell
        steps = zip(slopes.unbind(), state_gradients[1:].unbind(), tanh_slopes.unbind(), f.unbind(), strict=True)
        with without_function_modes():
            for slopes_now, gradient_now, tanh_slope, f_now in reversed(list(steps)):
                state = state + gradient_now
                cell = torch.addcmul(cell, state, tanh_slope)
                slopes_now.mul_(torch.cat([cell, cell, cell, state], 1))
                state, cell = slopes_now @ state_weight, cell * f_now
        return slopes, None, state + state_gradients[0], cell


class GruCell(torch.autograd.Function):
    """The GRU recurrence: n = tanh(x + r (h W^T + b)) and h' = (1 - z) n + z h.

    The gates r and z are functions of the input plus h W^T + b.
    """

    @staticmethod
    def forward(
        ctx: Any, gate_inputs: Tensor, zero_terms: Tensor, state_weight: Tensor, bias: Tensor | None, state: Tensor
    ) -> Tensor:
        """Return all states (T + 1, B, H).

        Args:
            gate_inputs: Inputs of the gates, (T, B, 3H).
            zero_terms: Zeros (T, B, 3H), which are not used. `backward` returns the gradient of the terms h W^T + b as theirs.
            state_weight: Weight of the states, (3H, H).
            bias: Bias of the states, (3H,); None if there is none.
            state: First state, (B, H).
        """
        size = state.shape[-1]
        gates, states = torch.empty_like(gate_inputs), empty_states(gate_inputs, state)
        products, weight_transposed = torch.empty_like(states[1:]), state_weight.T
        for t in range(len(gate_inputs)):
            terms = states[t] @ weight_transposed if bias is None else torch.addmm(bias, states[t], weight_transposed)
            torch.add(gate_inputs[t, :, : 2 * size], terms[:, : 2 * size], out=gates[t, :, : 2 * size]).sigmoid_()
            products[t] = terms[:, 2 * size :]
            r, z, n = gates[t].chunk(3, 1)
            torch.addcmul(gate_inputs[t, :, 2 * size :], r, products[t], out=n).tanh_()
            torch.lerp(n, states[t], z, out=states[t + 1])
        ctx.save_for_backward(state_weight, gates, states, products)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, state_gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs, of the terms h W^T + b, and of the first state."""
        state_weight, gates, states, products = ctx.saved_tensors
        r, z, n = gates.chunk(3, 2)
        slopes = torch.empty_like(gates)  # derivatives of the gates, as in LstmCell
        reset, update, candidate = slopes.chunk(3, 2)
        TANH_BACKWARD(1 - z, n, grad_input=candidate)
        SIGMOID_BACKWARD(states[:-1] - n, z, grad_input=update)
        SIGMOID_BACKWARD(products * candidate, r, grad_input=reset)
        product_slopes = slopes.clone()
        product_slopes.chunk(3, 2)[2].mul_(r)
        state = torch.zeros_like(state_gradients[0])  # gradient of the state
        steps = zip(slopes.unbind(), product_slopes.unbind(), state_gradients[1:].unbind(), z.unbind(), strict=True)
        with without_function_modes():
            for slopes_now, product_slopes_now, gradient_now, z_now in reversed(list(steps)):
                state = state + gradient_now
                state_of_each_gate = state.repeat(1, 3)
                slopes_now.mul_(state_of_each_gate)
                state = torch.addmm(state * z_now, product_slopes_now.mul_(state_of_each_gate), state_weight)
        return slopes, product_slopes, None, None, state + state_gradients[0]


def empty_states(gate_inputs: Tensor, start: Tensor) -> Tensor:
    """Return an uninitialised tensor for the states of all steps, (T + 1, B, H), in which only the first state is set."""
    states = gate_inputs.new_empty(len(gate_inputs) + 1, *start.shape)
    states[0] = start
    return states


def recurrent(module: nn.Module, direction: Direction, state_count: int) -> Forward | None:
    """Return the layer-by-layer forward of a recurrent module.

    Returns None if the weights are not the module's own, if it has projections, or if it has hidden dropout (`hides_dropout`). The draws of
    such dropout could not be replayed for a record that is processed alone.

    Args:
        direction: Function that runs one layer in one direction over time.
        state_count: Number of tensors in a state.
    """
    layer = cast("nn.RNNBase", module)
    parameters = {name for name, _ in layer.named_parameters(remove_duplicate=False)}
    if parameters != set(layer._flat_weights_names) or layer.proj_size or hides_dropout(layer):
        return None
    return partial(over_layers, direction, state_count)


def hides_dropout(layer: nn.RNNBase) -> bool:
    """Return whether torch draws the dropout between the layers within one operator. It does so on every device but a CPU."""
    return layer.dropout > 0.0 and layer.num_layers > 1 and layer.weight_ih_l0.device.type != "cpu"


def over_layers(direction: Direction, state_count: int, run: CompoundRun, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
    """Return what the recurrent module returns for the same arguments, computed layer by layer.

    Raises:
        Unsuitable: The sequences are packed, or they have no dimension of examples. The number of states or their shape is wrong.
            Or dropout that torch hides was set after `recurrent` accepted the module.
    """
    layer = cast("nn.RNNBase", run.compound.module)
    if not torch.is_tensor(input) or input.dim() != 3:
        raise Unsuitable(f"{run.label}: expected sequences (B, T, d) of several examples")
    if hides_dropout(layer):  # `recurrent` refuses such dropout too, but a program may set it later
        raise Unsuitable(f"{run.label}: dropout between its layers")
    values = input.transpose(0, 1) if layer.batch_first else input
    endings = ("", "_reverse") if layer.bidirectional else ("",)  # what torch appends to the names of each direction's weights
    passed_states = hx if hx is None or state_count > 1 else (hx,)  # nn.GRU and nn.RNN take a tensor, nn.LSTM a pair
    states = first_states(run, values, layer.num_layers * len(endings), passed_states, state_count)
    last_states = []
    for level in range(layer.num_layers):
        outputs = []
        for side, ending in enumerate(endings):
            start = [state[level * len(endings) + side] for state in states]
            all_states, *last_cell = direction(run, f"l{level}{ending}", in_direction(values, side), start)
            outputs.append(in_direction(all_states[1:], side))
            last_states.append((all_states[-1], *last_cell))
        values = torch.cat(outputs, 2) if len(endings) > 1 else outputs[0]
        if layer.dropout and layer.training and level < layer.num_layers - 1:
            values = functional.dropout(values, layer.dropout)
    stacked = tuple(torch.stack(tensors) for tensors in zip(*last_states, strict=True))
    output = values.transpose(0, 1) if layer.batch_first else values
    return output, stacked if state_count > 1 else stacked[0]


def first_states(
    run: CompoundRun, values: Tensor, direction_count: int, passed_states: Sequence[Tensor] | None, state_count: int
) -> Sequence[Tensor]:
    """Return the first states, each of shape (layers * directions, B, H). They are zeros if the program passed none.

    Args:
        values: Input of the module, (T, B, d).
        direction_count: Number of layers times the number of directions.
        passed_states: States that the program passed; None for zeros.

    Raises:
        Unsuitable: The number of passed states or their shape is wrong.
    """
    shape = (direction_count, values.shape[1], cast("nn.RNNBase", run.compound.module).hidden_size)
    if passed_states is None:
        return [values.new_zeros(shape)] * state_count
    if len(passed_states) != state_count or any(state.shape != shape for state in passed_states):
        raise Unsuitable(f"{run.label}: expected states of shape {shape}, found {[tuple(state.shape) for state in passed_states]}")
    return passed_states


def in_direction(values: Tensor, side: int) -> Tensor:
    """Return the steps in reverse order for the second direction, and unchanged for the first."""
    return values.flip(0) if side else values


def lstm_direction(run: CompoundRun, suffix: str, inputs: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the states (T + 1, B, H) and the last cell (B, H) of one layer of nn.LSTM in one direction.

    A gate adds the products of the inputs and of the states, so both products have the same gradient.

    Args:
        suffix: End of the names of the layer's parameters, such as "l0_reverse".
        inputs: Inputs of the layer, (T, B, d).
        start: First state and first cell, (B, H) each.
    """
    has_bias = cast("nn.RNNBase", run.compound.module).bias
    biases = [f"bias_ih_{suffix}", f"bias_hh_{suffix}"] if has_bias else []
    gate_inputs = run.linear(inputs, f"weight_ih_{suffix}", biases)
    weight_name = f"weight_hh_{suffix}"
    state_weight = run.value(weight_name)
    assert state_weight is not None
    with torch.autocast(gate_inputs.device.type, enabled=False), without_function_modes():
        states, cell = LstmCell.apply(wide(gate_inputs), wide(state_weight), *map(wide, start))  # type: ignore[no-untyped-call]
    run.record(states[:-1], gate_inputs, weight_name)
    return states.to(gate_inputs.dtype), cell.to(gate_inputs.dtype)


def gru_direction(run: CompoundRun, suffix: str, inputs: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the states (T + 1, B, H) of one layer of nn.GRU in one direction. The arguments are those of `lstm_direction`.

    The last gate multiplies the product of the states by r, so this product has a gradient of its own.
    """
    has_bias = cast("nn.RNNBase", run.compound.module).bias
    input_biases, state_biases = ([f"bias_ih_{suffix}"], [f"bias_hh_{suffix}"]) if has_bias else ([], [])
    gate_inputs = run.linear(inputs, f"weight_ih_{suffix}", input_biases)
    state_weight = run.value(f"weight_hh_{suffix}")
    bias = run.value(f"bias_hh_{suffix}") if has_bias else None
    assert state_weight is not None
    # Zeros that stand for the product with the states, which GruCell computes. `run.record` takes their gradient as that of the product.
    zero_terms = torch.zeros((), dtype=gate_inputs.dtype, device=gate_inputs.device, requires_grad=True).expand_as(gate_inputs)
    with torch.autocast(gate_inputs.device.type, enabled=False), without_function_modes():
        states = GruCell.apply(  # type: ignore[no-untyped-call]
            wide(gate_inputs), wide(zero_terms), wide(state_weight), None if bias is None else wide(bias), wide(start[0])
        )
    run.record(states[:-1], zero_terms, f"weight_hh_{suffix}", state_biases)
    return (states.to(gate_inputs.dtype),)


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


def recurrent_cell(module: nn.Module, update: Update, state_count: int) -> Forward | None:
    """Return the layer-by-layer forward of a cell, whose states have `state_count` tensors; None if its weights are not its own."""
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
