"""What is known of each module that learns: a rule for it, how it is written out as several layers, or only its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from dpcli.train.engine.attention import attention
from dpcli.train.engine.compound import Compound, Forward
from dpcli.train.engine.layers import Layer, rule_of, trainable
from dpcli.train.engine.operands import Operand
from dpcli.train.engine.recurrent import gru, lstm

COMPOUNDS: dict[type[nn.Module], Callable[[nn.Module], Forward | None]] = {
    nn.MultiheadAttention: attention,
    nn.LSTM: lstm,
    nn.GRU: gru,
}


@dataclass(frozen=True, slots=True)
class Division:
    """A model's trainable parameters: of layers that have a rule, of modules that are written out, and those that stand alone."""

    layers: list[Layer]
    compounds: list[Compound]
    operands: list[Operand]


def divided(model: nn.Module) -> Division:
    """Every module with trainable parameters of its own."""
    canonical = {id(parameter): name for name, parameter in model.named_parameters()}
    found, inside = Division([], [], []), set[int]()
    for name, module in model.named_modules():
        forward = written_out(module)
        if forward is not None and any(p.requires_grad for p in module.parameters()):
            own = {local: canonical[id(p)] for local, p in module.named_parameters(remove_duplicate=False) if p.requires_grad}
            found.compounds.append(Compound(name, module, own, forward))
            inside |= {id(each) for each in module.modules()}
        elif id(module) not in inside:
            add(found, name, module, canonical)
    return found


def add(found: Division, name: str, module: nn.Module, canonical: dict[int, str]) -> None:
    """A module that is one layer, or has parameters that stand alone."""
    own, rule = {local: canonical[id(p)] for local, p in trainable(module)}, rule_of(module)
    if own and rule is not None:
        found.layers.append(Layer(name, module, rule, own))
    else:
        found.operands.extend(Operand(module, local, canonical_name) for local, canonical_name in own.items())


def written_out(module: nn.Module) -> Forward | None:
    """How a module of exactly that class runs, if nobody changed its forward and it is set in a way that is known."""
    build = COMPOUNDS.get(type(module))
    untouched = "forward" not in vars(module) and module._compiled_call_impl is None
    return build(module) if build is not None and untouched else None
