"""What nobody may touch between two private steps: weights, modules, the optimizer's state and the records, compared before each step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from dpcli.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.trained.weights import frozen_digest

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(slots=True)
class Guard:
    """Compares by value what is trained, and by identity and version what is not: a write through .data or numpy is seen in weights alone.

    modes: of each module, training or evaluation, as the run began: in them every step is taken.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    records: Batch
    modes: dict[nn.Module, bool] = field(init=False)
    values: dict[str, Tensor] = field(init=False)
    marks: dict[str, object] = field(init=False)
    frozen: str | None = field(init=False)

    def __post_init__(self) -> None:
        require_same_parameters(self.model, self.optimizer)
        self.modes = {module: module.training for module in self.model.modules()}
        self.values = {name: value.detach().clone() for name, value in trained_by(self.model).items()}
        self.marks = dict(self._marks())
        self.frozen = frozen_digest(self.model)

    def note(self) -> None:
        """What a step has left is what the next one begins with."""
        with torch.no_grad():
            for name, value in trained_by(self.model).items():
                self.values[name].copy_(value)
        self.marks = dict(self._marks())

    def require_untouched(self) -> None:
        """Raises InputError, naming the first thing that is not as the last step left it."""
        require_same_parameters(self.model, self.optimizer)
        found = trained_by(self.model)
        for name, value in self.values.items():
            if name not in found or not _equal(found[name], value):
                raise _touched(f"the weights {name}")
        if len(found) != len(self.values):
            raise _touched("which weights are trained")
        marks = dict(self._marks())
        for name in (*self.marks, *(name for name in marks if name not in self.marks)):
            if name not in marks or name not in self.marks or marks[name] != self.marks[name]:
                raise _touched(name)

    def require_frozen(self) -> None:
        """Raises InputError where what is not trained has other values than when the run began."""
        if frozen_digest(self.model) != self.frozen:
            raise _touched("the weights that are not trained")

    @contextmanager
    def in_its_modes(self) -> Iterator[None]:
        """Each module in the mode in which the run began; the caller may have evaluated the model since."""
        now = {module: module.training for module in self.modes}
        try:
            _set(self.modes)
            yield
        finally:
            _set(now)

    def _marks(self) -> Iterator[tuple[str, object]]:
        for name, module in self.model.named_modules():
            hooks = tuple(tuple(getattr(module, kind, None) or ()) for kind in HOOKS)
            yield f"the module {name or 'itself'}", (id(module), id(vars(module).get("forward")), hooks)
        for name, value in (*self.model.named_parameters(), *self.model.named_buffers()):
            if name not in self.values:
                yield f"the tensor {name}", _mark(value)
        for number, state in enumerate(self.optimizer.state.values()):
            for key, value in state.items():
                yield f"the optimizer's {key} [{number}]", _mark(value) if isinstance(value, Tensor) else repr(value)
        for number, leaf in enumerate(tree_leaves(self.records)):
            yield f"the records [{number}]", _mark(leaf)


def trained_by(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def require_same_parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Raises InputError unless the optimizer has the parameters that are trained, and no others.

    One that it has besides would be stepped with whatever gradient it holds; one that it lacks would be clipped and noised for nothing.
    """
    held = {id(value) for group in optimizer.param_groups for value in group["params"]}
    wanted = trained_by(model)
    missing = [name for name, value in wanted.items() if id(value) not in held]
    if missing:
        raise InputError(
            f"optimizer: expected every parameter of the model that requires a gradient, found it without {missing[0]}: set its "
            "requires_grad to False, or give it to the optimizer"
        )
    if held - {id(value) for value in wanted.values()}:
        raise InputError("optimizer: expected the model's trained parameters alone, found others, which no noise reaches")


def _set(modes: dict[nn.Module, bool]) -> None:
    for module, mode in modes.items():
        module.training = mode


def _mark(value: Tensor) -> object:
    return id(value), value._version, value.data_ptr()


def _equal(a: Tensor, b: Tensor) -> bool:
    """A NaN is equal to itself; nothing is equal to what is elsewhere, or in other numbers."""
    if (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
        return False
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _touched(what: str) -> InputError:
    return InputError(
        f"{what}: expected as the last private step left it, found changed: between two steps nothing may change what is trained, as no "
        "noise covers that; this run gives no guarantee"
    )
