"""Every module of a model: those that it has registered, and those that it holds in a list, a dictionary or an other attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from dpcli.train.loop.held import DEEPEST, SIMPLE, parts

REGISTERED = ("_parameters", "_buffers", "_modules")


def every_module(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Each once, by a name that says where it was found."""
    seen: set[int] = set()
    waiting: list[tuple[str, nn.Module]] = [("", model)]
    for place, root in waiting:
        for name, module in root.named_modules(prefix=place):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                for key, value in vars(module).items():
                    if key not in REGISTERED and type(value) not in SIMPLE:
                        waiting.extend(modules_in(f"{name}.{key}" if name else key, value, frozenset()))


def every_tensor(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Their parameters and buffers, each once."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, module in modules.items():
        for key, tensor in (*module.named_parameters(name, recurse=False), *module.named_buffers(name, recurse=False)):
            found.setdefault(id(tensor), (key, tensor))
    return dict(found.values())


def modules_in(name: str, value: Any, above: frozenset[int]) -> Iterator[tuple[str, nn.Module]]:
    """In containers of containers."""
    if isinstance(value, nn.Module):
        yield name, value
    elif id(value) not in above and len(above) < DEEPEST:
        for key, part in parts(value):
            yield from modules_in(f"{name}{key}", part, above | {id(value)})
