"""The guard of the user's own training loop. It stops the run if weights or other state changed between two private steps.

With `dpcli.private`, the user's program takes the steps, and dpcli makes each step private. A change between the steps could carry private
data into the model without noise. `LoopSteps` (loop/steps.py) asks the guard before and after each step. The guard compares *marks* of the
state (loop/marks.py): values that are equal as long as nothing has changed. A *frozen* tensor is one that is not trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.method import trained_parameters
from dpcli.train.loop.marks import (
    COPIED_NUMBERS,
    REGISTERED,
    Identity,
    TensorValue,
    attributes,
    class_marks,
    every_module,
    every_tensor,
    mark,
    marks_of,
    value_mark,
    version,
)
from dpcli.train.torch_internals import global_module_hooks, tree_leaves

# Attributes of a module that are not compared by name. The guard compares registered members and the mode of a module separately. The
# library accelerate sets the last attribute, and no forward pass reads it.
NOT_COMPARED = frozenset((*REGISTERED, "training", "_is_accelerate_prepared"))


@dataclass(frozen=True, slots=True)
class FrozenTensor:
    """A tensor that is not trained, with its mark from the last time that its numbers were read.

    Attributes:
        written: Torch's count of writes to the tensor at that time, and the address of its numbers.
    """

    tensor: Tensor
    written: tuple[int, int]
    mark: object


@dataclass(slots=True)
class Guard:
    """A comparison of a run's state with its state at the start and after the last step.

    The weights and the optimizer state must be as the last step left them. Everything else must be as it was at the start. Objects are
    compared by their marks (`marks`). To save time, the values of records, and of frozen tensors of at least `COPIED_NUMBERS` numbers, are
    compared at the end only. Before each step, their identity and torch's count of writes are compared.

    Attributes:
        modes: Whether each module was in training mode at the start, and not in evaluation mode. Every step runs in these modes.
        start: Marks at the start, by name, of everything that no step may change.
        after_last_step: Marks, by name, of the weights and the optimizer state after the last step.
        records_read: Marks of the records at the start.
        frozen: Large frozen tensors whose numbers were read, by `id` of the tensor.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    records: Batch
    modes: dict[nn.Module, bool] = field(init=False)
    start: dict[str, list[object]] = field(init=False)
    after_last_step: dict[str, list[object]] = field(init=False)
    records_read: list[TensorValue] = field(init=False)
    frozen: dict[int, FrozenTensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_same_parameters(self.model, self.optimizer)
        require_readable(self.model)
        self.modes = {module: module.training for _, module in every_module(self.model)}
        self.start, self.after_last_step = by_name(self._constant_marks()), by_name(self._step_marks())
        self.records_read = [value_mark(leaf) for leaf in tree_leaves(self.records)]

    def store_state(self) -> None:
        """Store marks of the weights and the optimizer state after a step."""
        self.after_last_step = by_name(self._step_marks())

    def require_unchanged(self, rereads_frozen: bool = False) -> None:
        """Check that nothing changed since the last step. Raises an InputError that names the first change.

        The values of the records are compared at the end, by `require_same_records`.

        Args:
            rereads_frozen: Whether the numbers of large frozen tensors are read even if torch counted no write to them.
        """
        if rereads_frozen:
            self.frozen.clear()
        self.require_last_state()
        require_same(self.start, by_name(self._constant_marks()))

    def require_last_state(self) -> None:
        """Check that the weights and the optimizer state are those of the last step. Raises InputError if they are not."""
        require_same_parameters(self.model, self.optimizer)
        require_same(self.after_last_step, by_name(self._step_marks()))

    def require_last_weights(self) -> None:
        """Check that the weights are those of the last step and not, for example, an average.

        Raises:
            InputError: The weights are not those of the last step. The run does not break off, so the caller can restore them.
        """
        for name, value in trained_parameters(self.model).items():
            if self.after_last_step.get(f"the weights {name}") != [value_mark(value)]:
                raise InputError(
                    f"model: {name}: not the weights of the last private step. For a moving average, set train.average in the file: "
                    "finish() then writes the average. Otherwise load the last step's weights again, call finish(), and then load others"
                )

    def require_same_records(self) -> None:
        """Check that the records have not changed since the run began. Raises InputError if they have."""
        for number, (leaf, read) in enumerate(zip(tree_leaves(self.records), self.records_read, strict=True)):
            if value_mark(leaf) != read:
                raise _change_error(f"the records [{number}]")

    @contextmanager
    def initial_modes(self) -> Iterator[None]:
        """Set the modules to their modes at the start within the block. The user may have switched the model to evaluation."""
        current = {module: module.training for module in self.modes}
        try:
            _set_modes(self.modes)
            yield
        finally:
            _set_modes(current)

    def _step_marks(self) -> Iterator[tuple[str, object]]:
        """Yield marks of the weights and the optimizer state, which steps change."""
        for name, value in trained_parameters(self.model).items():
            yield f"the weights {name}", value_mark(value)
        known = {id(value) for value in self.model.parameters()}  # compared above, or with the constants
        for number, (key, state) in enumerate(self.optimizer.state.items()):
            yield f"the optimizer's state [{number}]: its parameter", Identity(key)
            yield from marks_of(f"the optimizer's state [{number}]", state, known)

    def _constant_marks(self) -> Iterator[tuple[str, object]]:
        """Yield marks of everything that steps do not change."""
        modules = dict(every_module(self.model))
        tensors = every_tensor(modules)
        # An attribute that refers to one of these is marked by identity: their content, or the optimizer's state, has marks of its own.
        known = {id(value) for value in (*tensors.values(), *modules.values(), self.optimizer, *tree_leaves(self.records))}
        for name, module in modules.items():
            registered_names = [tuple(vars(module)[key]) for key in REGISTERED]  # in their order
            yield f"the module {name or 'itself'}", (Identity(module), Identity(type(module)), registered_names)
            yield from attributes(f"the module {name or 'itself'}", vars(module), NOT_COMPARED, known)
        classes = dict.fromkeys(base for module in modules.values() for base in type(module).__mro__)
        for cls in classes:
            if cls is not object:
                yield from class_marks(cls)
        trained = trained_parameters(self.model)
        for name, value in tensors.items():
            hooks = value._backward_hooks or {}, getattr(value, "_post_accumulate_grad_hooks", None) or {}
            yield from marks_of(f"the hooks of the tensor {name}", hooks)
            if name not in trained:
                yield f"the tensor {name}", self._frozen_mark(value)
        for key, value in global_module_hooks().items():
            yield from marks_of(f"torch's {key.strip('_')}", value)
        for number, leaf in enumerate(tree_leaves(self.records)):
            yield f"the records [{number}]", (Identity(leaf), version(leaf), leaf.data_ptr())

    def _frozen_mark(self, tensor: Tensor) -> object:
        """Return the mark of a tensor that is not trained. A large one is read again only if torch counted a write or it moved."""
        count = version(tensor)
        if tensor.numel() < COPIED_NUMBERS or count is None or tensor.is_meta:
            return mark(tensor)
        known = self.frozen.get(id(tensor))
        if known is None or known.tensor is not tensor or known.written != (count, tensor.data_ptr()):
            known = self.frozen[id(tensor)] = FrozenTensor(tensor, (count, tensor.data_ptr()), mark(tensor))
        return known.mark


def by_name(marks: Iterable[tuple[str, object]]) -> dict[str, list[object]]:
    """Return the list of marks of each name. If two classes have the same name, the list contains the marks of both."""
    marks_by_name: dict[str, list[object]] = {}
    for name, value in marks:
        marks_by_name.setdefault(name, []).append(value)
    return marks_by_name


def require_same(earlier: Mapping[str, list[object]], later: Mapping[str, list[object]]) -> None:
    """Check that the marks are equal under each name. Raises an InputError that names the first difference."""
    for name in dict.fromkeys((*earlier, *later)):
        if earlier.get(name) != later.get(name):
            raise _change_error(name)


def require_readable(model: nn.Module) -> None:
    """Check that the numbers of every trained parameter can be compared. Raises InputError if one has none that can be read."""
    for name, value in trained_parameters(model).items():
        if value_mark(value).bits is None:
            raise InputError(
                f"model: {name}: expected a parameter whose numbers can be compared between steps, found {type(value).__name__} of layout "
                f"{value.layout}: train a dense torch.nn.Parameter"
            )


def require_same_parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Check that the optimizer has every trained parameter, and besides at most frozen ones of the model, which have no gradient.

    Another parameter would be updated by a gradient without noise. A missing parameter would never be updated.

    Raises InputError if the optimizer lacks a trained parameter, or has another tensor.
    """
    stepped = {id(value): value for group in optimizer.param_groups for value in group["params"]}
    trained = trained_parameters(model)
    missing = [name for name, value in trained.items() if id(value) not in stepped]
    if missing:
        raise InputError(
            f"optimizer: expected every parameter of the model that requires a gradient, found it without {missing[0]}: set its "
            "requires_grad to False, or give it to the optimizer"
        )
    known = {id(value): name for name, value in model.named_parameters()}
    for key, value in stepped.items():
        if key not in known:
            raise InputError(
                f"optimizer: expected parameters of the model, found {tuple(value.shape)}, the shape of another tensor, whose gradient "
                "would have no noise; make it a parameter of the model"
            )
        if not value.requires_grad and value.grad is not None:
            raise InputError(
                f"optimizer: expected frozen parameters without a gradient, found {known[key]} with one, by which each step would change "
                "it: set its .grad to None"
            )


def _set_modes(modes: dict[nn.Module, bool]) -> None:
    """Set each module to training mode (True) or evaluation mode (False)."""
    for module, training in modes.items():
        module.training = training


def _change_error(part: str) -> InputError:
    """Return the error for a part of the state that changed between two steps."""
    return InputError(
        f"{part}: expected as the last private step left it, found changed: between two steps, nothing may change the weights or "
        "anything that the model reads, because no noise covers the change; this run gives no guarantee"
    )
