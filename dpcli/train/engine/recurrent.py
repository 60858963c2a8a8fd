"""torch's LSTM and GRU as linear layers over time, around a recurrence that is differentiated by hand.

Gates in torch's order, LSTM (i, f, g, o) and GRU (r, z, n). Lengths: T steps, B examples, H hidden numbers, G gates' numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from dpcli.train.engine.cells import GruCell, LstmCell
from dpcli.train.engine.compound import Forward, WrittenOut
from dpcli.train.engine.rule import Unsuitable, wide

Direction = Callable[[WrittenOut, str, Tensor, Sequence[Tensor]], tuple[Tensor, ...]]


def lstm(module: nn.Module) -> Forward | None:
    """How nn.LSTM runs."""
    return recurrent(module, lstm_direction, 2)


def gru(module: nn.Module) -> Forward | None:
    """How nn.GRU runs."""
    return recurrent(module, gru_direction, 1)


def recurrent(module: nn.Module, direction: Direction, states: int) -> Forward | None:
    """If its weights are parameters of its own, states are as long as what comes out, and nothing is dropped between its layers: torch
    draws that elsewhere, so that a record's draws could not be followed when its step is checked."""
    layer = cast("nn.RNNBase", module)
    own = {name for name, _ in layer.named_parameters(remove_duplicate=False)} == set(layer._flat_weights_names)
    drops = bool(layer.dropout) and layer.num_layers > 1
    return partial(over_layers, direction, states) if own and not layer.proj_size and not drops else None


def over_layers(direction: Direction, count: int, run: WrittenOut, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
    """The forward of nn.LSTM and nn.GRU, argument for argument.

    Args:
        direction: one pass over time.
        count: of the tensors of a state.

    Raises:
        Unsuitable: packed sequences, one without a dimension of examples, or states of another form.
    """
    layer = cast("nn.RNNBase", run.compound.module)
    if not torch.is_tensor(input) or input.dim() != 3:
        raise Unsuitable(f"{run.label}: expected sequences of several examples, found something else")
    if layer.dropout and layer.num_layers > 1:
        raise Unsuitable(f"{run.label}: expected nothing dropped between its layers, found dropout")
    values = input.transpose(0, 1) if layer.batch_first else input
    sides = 2 if layer.bidirectional else 1
    states = started(run, values, layer.num_layers * sides, (hx if count > 1 else (hx,)) if hx is not None else None, count)
    last = []
    for level in range(layer.num_layers):
        outputs = []
        for side in range(sides):
            place = level * sides + side
            found = direction(run, f"l{level}{'_reverse' * side}", turned(values, side), [one[place] for one in states])
            outputs.append(turned(found[0][1:], side))
            last.append((found[0][-1], *found[1:]))
        values = torch.cat(outputs, 2) if sides > 1 else outputs[0]
    ends = tuple(torch.stack(one) for one in zip(*last, strict=True))
    return values.transpose(0, 1) if layer.batch_first else values, ends if count > 1 else ends[0]


def started(run: WrittenOut, values: Tensor, places: int, given: Sequence[Tensor] | None, count: int) -> Sequence[Tensor]:
    """The states that it begins with, (layers * directions, B, H) each: zeros where none are given."""
    shape = (places, values.shape[1], cast("nn.RNNBase", run.compound.module).hidden_size)
    if given is None:
        return [values.new_zeros(shape)] * count
    if len(given) != count or any(one.shape != shape for one in given):
        raise Unsuitable(f"{run.label}: expected states of shape {shape}, found others")
    return given


def turned(values: Tensor, side: int) -> Tensor:
    """From the last step to the first, in the second direction."""
    return values.flip(0) if side else values


def lstm_direction(run: WrittenOut, suffix: str, inputs: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The states (T + 1, B, H) and the last cell. What enters a gate is a sum, so that both of its products have one gradient."""
    biases = [f"bias_ih_{suffix}", f"bias_hh_{suffix}"]
    entering = run.linear(inputs, f"weight_ih_{suffix}", biases if cast("nn.RNNBase", run.compound.module).bias else [])
    hidden, name = run.value(f"weight_hh_{suffix}"), f"weight_hh_{suffix}"
    assert hidden is not None
    with torch.autocast(entering.device.type, enabled=False):
        states, cell = LstmCell.apply(wide(entering), wide(hidden), *map(wide, start))  # type: ignore[no-untyped-call]
    run.note(states[:-1], entering, name)
    return states.to(entering.dtype), cell.to(entering.dtype)


def gru_direction(run: WrittenOut, suffix: str, inputs: Tensor, start: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The states (T + 1, B, H). What a state adds to the last gate is scaled there, and has a gradient of its own."""
    layer = cast("nn.RNNBase", run.compound.module)
    entering = run.linear(inputs, f"weight_ih_{suffix}", [f"bias_ih_{suffix}"] if layer.bias else [])
    hidden, bias = run.value(f"weight_hh_{suffix}"), run.value(f"bias_hh_{suffix}") if layer.bias else None
    assert hidden is not None
    nothing = torch.zeros((), dtype=entering.dtype, device=entering.device, requires_grad=True).expand_as(entering)
    with torch.autocast(entering.device.type, enabled=False):
        states = GruCell.apply(  # type: ignore[no-untyped-call]
            wide(entering), wide(nothing), wide(hidden), None if bias is None else wide(bias), wide(start[0])
        )
    run.note(states[:-1], nothing, f"weight_hh_{suffix}", [f"bias_hh_{suffix}"] if layer.bias else [])
    return (states.to(entering.dtype),)
