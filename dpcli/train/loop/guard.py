"""The guard between two private steps: weights, modules, the optimizer's state and the records are compared before each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils._pytree import tree_leaves

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.loop.marks import (
    REGISTERED,
    Itself,
    TensorValue,
    attributes,
    every_module,
    every_tensor,
    marks_of,
    numbers,
    of_class,
    version,
)

# Of a module's attributes: compared in another way, or set by accelerate and read by no forward.
APART = frozenset((*REGISTERED, "training", "_is_accelerate_prepared"))


@dataclass(slots=True)
class Guard:
    """Compares what is trained and the optimizer's state with what the last step left, and the rest with what the run began with.

    By value, but for the records: these by identity and torch's count of versions before each step, and by value at the end.
    modes: of each module, training or evaluation, as the run began: in them every step is taken.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    records: Batch
    modes: dict[nn.Module, bool] = field(init=False)
    begun: dict[str, list[object]] = field(init=False)
    left: dict[str, list[object]] = field(init=False)
    read: list[TensorValue] = field(init=False)

    def __post_init__(self) -> None:
        require_same_parameters(self.model, self.optimizer)
        require_readable(self.model)
        self.modes = {module: module.training for _, module in every_module(self.model)}
        self.begun, self.left = together(self._lasting()), together(self._moving())
        self.read = [numbers(leaf) for leaf in tree_leaves(self.records)]

    def note(self) -> None:
        """Take what a step has left as what the next one begins with."""
        self.left = together(self._moving())

    def require_untouched(self) -> None:
        """Raise InputError, naming the first thing that is not as the last step left it."""
        self.require_unmoved()
        require_same(self.begun, together(self._lasting()))

    def require_unmoved(self) -> None:
        """Raise InputError where what the optimizer changes and reads is not as the last step left it."""
        require_same_parameters(self.model, self.optimizer)
        require_same(self.left, together(self._moving()))

    def require_last_weights(self) -> None:
        """Raise InputError where others were loaded after the last step, such as an average: nothing is lost by that."""
        for name, value in trained_by(self.model).items():
            if self.left.get(f"the weights {name}") != [numbers(value)]:
                raise InputError(
                    f"model: {name}: not the weights of the last private step. For a moving average set train.average "
                    "in the file, which finish() leaves; or load the last step's weights again, call finish(), and load others afterwards"
                )

    def require_same_records(self) -> None:
        """Raise InputError where the records are others than when the run began."""
        for number, (leaf, read) in enumerate(zip(tree_leaves(self.records), self.read, strict=True)):
            if numbers(leaf) != read:
                raise _touched(f"the records [{number}]")

    @contextmanager
    def in_its_modes(self) -> Iterator[None]:
        """Put each module in the mode in which the run began; the caller may have evaluated the model since."""
        now = {module: module.training for module in self.modes}
        try:
            _set(self.modes)
            yield
        finally:
            _set(now)

    def _moving(self) -> Iterator[tuple[str, object]]:
        """Yield marks of what steps change."""
        for name, value in trained_by(self.model).items():
            yield f"the weights {name}", numbers(value)
        known = {id(value) for value in self.model.parameters()}
        for number, (key, state) in enumerate(self.optimizer.state.items()):
            yield f"the optimizer's state [{number}]: whose it is", Itself(key)
            yield from marks_of(f"the optimizer's state [{number}]", state, known)

    def _lasting(self) -> Iterator[tuple[str, object]]:
        """Yield marks of what steps do not change."""
        modules = dict(every_module(self.model))
        tensors = every_tensor(modules)
        known = {id(one) for one in (*tensors.values(), *modules.values(), self.optimizer, *tree_leaves(self.records))}
        for name, module in modules.items():
            order = [tuple(vars(module)[key]) for key in REGISTERED]
            yield f"the module {name or 'itself'}", (Itself(module), Itself(type(module)), order)
            yield from attributes(f"the module {name or 'itself'}", vars(module), APART, known)
        for kind in {base: None for module in modules.values() for base in type(module).__mro__ if base is not object}:
            yield from of_class(kind)
        trained = trained_by(self.model)
        for name, value in tensors.items():
            hooks = value._backward_hooks or {}, getattr(value, "_post_accumulate_grad_hooks", None) or {}
            yield from marks_of(f"the hooks of the tensor {name}", hooks)
            if name not in trained:
                yield from marks_of(f"the tensor {name}", value)
        for key in (key for key in vars(nn_module) if key.startswith("_global")):
            yield from marks_of(f"torch's {key.strip('_')}", vars(nn_module)[key])
        for number, leaf in enumerate(tree_leaves(self.records)):
            yield f"the records [{number}]", _place(leaf)


def together(marks: Iterable[tuple[str, object]]) -> dict[str, list[object]]:
    """Return marks by name; where several have one name, as two classes may, none hides another."""
    marks_by_name: dict[str, list[object]] = {}
    for name, mark in marks:
        marks_by_name.setdefault(name, []).append(mark)
    return marks_by_name


def require_same(before: Mapping[str, list[object]], now: Mapping[str, list[object]]) -> None:
    """Raises InputError, naming the first mark that is another, or that one has alone."""
    for name in (*before, *(name for name in now if name not in before)):
        if name not in before or name not in now or now[name] != before[name]:
            raise _touched(name)


def require_readable(model: nn.Module) -> None:
    """Raises InputError for a trained parameter that nobody could compare."""
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
    """Raises InputError unless the optimizer has the parameters that are trained, and no others.

    One that it has besides would be stepped with whatever gradient it holds; one that it lacks would be clipped and noised for nothing.
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


def _place(value: Tensor) -> object:
    return Itself(value), version(value), value.data_ptr()


def _touched(what: str) -> InputError:
    return InputError(
        f"{what}: expected as the last private step left it, found changed: between two steps nothing may change what is trained or "
        "what that reads, as no noise covers it; this run gives no guarantee"
    )
