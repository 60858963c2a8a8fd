"""Which modules are taken as a whole: those with parameters and no rule, and the modules around them that can be called alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import nn

from dpcli.train.engine.layers import Layer, Unsuitable, layer_of, ruled, trainable


class NotAlone(Unsuitable):
    """A module cannot be called for one record alone; the one around it perhaps can."""

    def __init__(self, block: Block, why: str) -> None:
        super().__init__(f"{block.label}: {why}")
        self.block = block


@dataclass(frozen=True, slots=True)
class Block:
    """A module that is differentiated record by record, with everything inside of it: name there -> name in the model."""

    name: str
    module: nn.Module
    parameters: dict[str, str]

    @property
    def label(self) -> str:
        return f"{self.name} ({type(self.module).__name__})"

    def held(self) -> Iterator[tuple[nn.Module, str]]:
        """Where its parameters are: a module, and what it calls them."""
        return ((module, local) for module in self.module.modules() for local, _ in trainable(module))


@dataclass(frozen=True, slots=True)
class Division:
    """A model's trainable parameters, by layers that have a rule and blocks for the rest."""

    layers: list[Layer]
    blocks: list[Block]


def needed(model: nn.Module) -> frozenset[str]:
    """Names of the smallest modules that have to be blocks."""
    modules = dict(model.named_modules())
    return frozenset(
        callable_around(modules, name) for name, module in modules.items() if any(trainable(module)) and not ruled(module)
    )


def divided(model: nn.Module, names: frozenset[str]) -> Division:
    """Blocks of these names, and layers for the rest.

    Raises:
        Unsuitable: the model itself would be a block, or something outside of them has no rule.
        NotAlone: a block's parameter is somebody else's too.
    """
    if "" in names:
        raise Unsuitable(f"the model ({type(model).__name__}) has no rule")
    modules, canonical = dict(model.named_modules()), {id(parameter): name for name, parameter in model.named_parameters()}
    outermost = sorted(name for name in names if not any(within(name, other) for other in names - {name}))
    blocks = [block_of(name, modules[name], canonical) for name in outermost]
    inside = {id(module) for block in blocks for module in block.module.modules()}
    outside = {name: module for name, module in modules.items() if id(module) not in inside and any(trainable(module))}
    for block in blocks:
        require_own(block, outside, canonical)
    return Division([layer_of(name, module, canonical) for name, module in outside.items()], blocks)


def within(name: str, other: str) -> bool:
    """Whether a module is inside of another one."""
    return not other or name.startswith(f"{other}.")


def callable_around(modules: dict[str, nn.Module], name: str) -> str:
    """The innermost module from here outwards that has a forward: lists and dicts of parameters or modules have none."""
    while name and type(modules[name]).forward is nn.Module.forward:
        name = outside(name)
    return name


def outside(name: str) -> str:
    """The name of the module around one."""
    return name.rpartition(".")[0]


def block_of(name: str, module: nn.Module, canonical: dict[int, str]) -> Block:
    return Block(name, module, {local: canonical[id(p)] for local, p in module.named_parameters() if p.requires_grad})


def require_own(block: Block, others: Mapping[str, nn.Module], canonical: Mapping[int, str]) -> None:
    """Raises NotAlone where a module that is in no block has one of the block's parameters too."""
    for module in others.values():
        shared = {canonical[id(p)] for _, p in trainable(module)} & set(block.parameters.values())
        if shared:
            raise NotAlone(block, f"its {min(shared)} is another module's too")


def widened(model: nn.Module, names: frozenset[str], around: Block) -> frozenset[str]:
    """The same blocks, but what is around this one and all of its class, in their places."""
    modules, kind = dict(model.named_modules()), type(around.module)
    return frozenset(callable_around(modules, outside(name)) if type(modules[name]) is kind else name for name in names)
