"""The guard of a loop of the caller's own: what was changed between two private steps is found by comparison, and refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils._pytree import tree_leaves

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.loop.marks import (
    REGISTERED,
    Itself,
    TensorValue,
    attributes,
    class_marks,
    every_module,
    every_tensor,
    marks_of,
    numbers,
    version,
)

# Attributes of a module that are compared in another way, or that accelerate sets and no forward reads.
NOT_COMPARED = frozenset((*REGISTERED, "training", "_is_accelerate_prepared"))


@dataclass(slots=True)
class Guard:
    """A comparison of the weights and the optimizer's state with the last step, and of all else with the start of the run.

    All by value, except the records: these by identity and torch's count of versions before each step, and by value at the end.
    modes: of each module at the start, training or evaluation: every step is taken in them. start, last: marks, by name. records_read:
    the records at the start.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    records: Batch
    modes: dict[nn.Module, bool] = field(init=False)
    start: dict[str, list[object]] = field(init=False)
    last: dict[str, list[object]] = field(init=False)
    records_read: list[TensorValue] = field(init=False)

    def __post_init__(self) -> None:
        require_same_parameters(self.model, self.optimizer)
        require_readable(self.model)
        self.modes = {module: module.training for _, module in every_module(self.model)}
        self.start, self.last = by_name(self._constant_marks()), by_name(self._step_marks())
        self.records_read = [numbers(leaf) for leaf in tree_leaves(self.records)]

    def note(self) -> None:
        """Remember the weights and the optimizer's state after a step."""
        self.last = by_name(self._step_marks())

    def require_untouched(self) -> None:
        """Raise InputError, naming it, for the first thing that changed since the last step."""
        self.require_unmoved()
        require_same(self.start, by_name(self._constant_marks()))

    def require_unmoved(self) -> None:
        """Raise InputError where the weights or the optimizer's state changed since the last step."""
        require_same_parameters(self.model, self.optimizer)
        require_same(self.last, by_name(self._step_marks()))

    def require_last_weights(self) -> None:
        """Raise InputError where other weights, such as an average, were loaded after the last step; the run may still end."""
        for name, value in trained_by(self.model).items():
            if self.last.get(f"the weights {name}") != [numbers(value)]:
                raise InputError(
                    f"model: {name}: not the weights of the last private step. For a moving average set train.average "
                    "in the file, which finish() leaves; or load the last step's weights again, call finish(), and load others afterwards"
                )

    def require_same_records(self) -> None:
        """Raise InputError where the records changed since the run began."""
        for number, (leaf, read) in enumerate(zip(tree_leaves(self.records), self.records_read, strict=True)):
            if numbers(leaf) != read:
                raise _touched(f"the records [{number}]")

    @contextmanager
    def in_its_modes(self) -> Iterator[None]:
        """Put each module meanwhile into its mode at the start; the caller may have evaluated the model since."""
        now = {module: module.training for module in self.modes}
        try:
            _set(self.modes)
            yield
        finally:
            _set(now)

    def _step_marks(self) -> Iterator[tuple[str, object]]:
        """Yield marks of what steps change."""
        for name, value in trained_by(self.model).items():
            yield f"the weights {name}", numbers(value)
        known = {id(value) for value in self.model.parameters()}
        for number, (key, state) in enumerate(self.optimizer.state.items()):
            yield f"the optimizer's state [{number}]: whose it is", Itself(key)
            yield from marks_of(f"the optimizer's state [{number}]", state, known)

    def _constant_marks(self) -> Iterator[tuple[str, object]]:
        """Yield marks of what steps do not change."""
        modules = dict(every_module(self.model))
        tensors = every_tensor(modules)
        known = {id(one) for one in (*tensors.values(), *modules.values(), self.optimizer, *tree_leaves(self.records))}
        for name, module in modules.items():
            order = [tuple(vars(module)[key]) for key in REGISTERED]
            yield f"the module {name or 'itself'}", (Itself(module), Itself(type(module)), order)
            yield from attributes(f"the module {name or 'itself'}", vars(module), NOT_COMPARED, known)
        for cls in {base: None for module in modules.values() for base in type(module).__mro__ if base is not object}:
            yield from class_marks(cls)
        trained = trained_by(self.model)
        for name, value in tensors.items():
            hooks = value._backward_hooks or {}, getattr(value, "_post_accumulate_grad_hooks", None) or {}
            yield from marks_of(f"the hooks of the tensor {name}", hooks)
            if name not in trained:
                yield from marks_of(f"the tensor {name}", value)
        for key in (key for key in vars(nn_module) if key.startswith("_global")):
            yield from marks_of(f"torch's {key.strip('_')}", vars(nn_module)[key])
        for number, leaf in enumerate(tree_leaves(self.records)):
            yield f"the records [{number}]", (Itself(leaf), version(leaf), leaf.data_ptr())


def by_name(marks: Iterable[tuple[str, object]]) -> dict[str, list[object]]:
    """Return the marks of each name: several, where two classes have one name."""
    marks_by_name: dict[str, list[object]] = {}
    for name, mark in marks:
        marks_by_name.setdefault(name, []).append(mark)
    return marks_by_name


def require_same(before: Mapping[str, list[object]], now: Mapping[str, list[object]]) -> None:
    """Raise InputError, naming it, for the first mark that differs or is in one of the two alone."""
    for name in dict.fromkeys((*before, *now)):
        if before.get(name) != now.get(name):
            raise _touched(name)


def require_readable(model: nn.Module) -> None:
    """Raise InputError for a trained parameter whose numbers cannot be compared."""
    for name, value in trained_by(model).items():
        if numbers(value).bits is None:
            raise InputError(
                f"model: {name}: expected a parameter whose numbers can be compared between steps, found {type(value).__name__} of layout "
                f"{value.layout}: train a dense torch.nn.Parameter"
            )


def trained_by(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def require_same_parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Raise InputError unless the optimizer has the parameters that are trained, and no others.

    Another parameter would be stepped with whatever gradient it has; a missing one would be clipped and noised for nothing.
    """
    stepped = {id(value) for group in optimizer.param_groups for value in group["params"]}
    wanted = trained_by(model)
    missing = [name for name, value in wanted.items() if id(value) not in stepped]
    if missing:
        raise InputError(
            f"optimizer: expected every parameter of the model that requires a gradient, found it without {missing[0]}: set its "
            "requires_grad to False, or give it to the optimizer"
        )
    if stepped - {id(value) for value in wanted.values()}:
        raise InputError("optimizer: has parameters besides the model's trained ones, which no noise reaches")


def _set(modes: dict[nn.Module, bool]) -> None:
    for module, mode in modes.items():
        module.training = mode


def _touched(what: str) -> InputError:
    return InputError(
        f"{what}: expected as the last private step left it, found changed: between two steps nothing may change what is trained or "
        "what that reads, as no noise covers it; this run gives no guarantee"
    )
