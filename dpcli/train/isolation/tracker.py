"""A dispatch mode that follows a program operator by operator, and tracks along which dimension each tensor holds records.

traced_program.py runs a *program* (a model with its loss) in this mode on fake tensors, which have shapes and no numbers, to prove that
each record's loss depends on that record alone. A dispatch mode of torch intercepts every operator that a program calls, in the forward
and the backward pass. The *layout* of a tensor says along which dimension it holds records (layout.py); the rule of each operator, which
gives the layouts of its outputs, is in operators.py or moves.py. `track` is the centre: it finds the layouts of a call's outputs and stores
them. Views share memory, so a write to one of them may change the layouts of all (`StorageState`).

The mode collects its results in `IsolationFindings`. A *refusal* is an error, because an operator combines records. A *doubt* is a reason
why isolation is not proven; each record is then differentiated by itself.

The batch size B is a symbol: `is_symbolic` says whether a length depends on it, and `coefficient` gives c for a length c B. `own_line`
gives the line of the user's code that is running, for messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from dpcli.audit.own_code import own_line
from dpcli.base.errors import InputError
from dpcli.train.engine.draws import REMEDY, draws_numbers
from dpcli.train.isolation.layout import (
    PAIRED,
    SHARED,
    AlongRecords,
    Call,
    Layout,
    Layouts,
    Merged,
    Mixed,
    RecordIndices,
    Shared,
    Unknown,
    coefficient,
    has_records_at,
    is_symbolic,
    layout_if_consistent,
    leaves,
)
from dpcli.train.isolation.operators import (
    CREATING,
    CREATING_UNEQUAL,
    GIVEN_BATCH_SIZE,
    HIDDEN_ARGUMENTS,
    RULES,
    Rule,
    pointwise,
)
from dpcli.train.torch_internals import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    TorchDispatchMode,
    without_dispatch_modes,
)

# Advice at the end of messages.
ADVICE = "apply it over the dimensions of one example, never over the batch"
TORCH_NAMESPACES = ("aten", "prims", "prim")  # namespaces of the operators that torch itself defines
# Operators that move all numbers of a tensor, so that record indices remain record indices.
REARRANGING = ("view", "unsqueeze", "expand", "clone", "detach", "alias", "_to_copy", "reshape", "squeeze", "slice")
SPLITTING = ("split", "unsafe_split")
INDEXING = ("index", "index_put", "_unsafe_index")  # operators in which record indices select each record's own row
INDEX_TYPES = (torch.int32, torch.int64)  # integer types that are wide enough to count the records
# Schema types of arguments that may be lengths of the output.
SIZE_ARGUMENTS = ("int", "Optional[int]", "List[int]", "Optional[List[int]]")
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


class Unfollowed(Exception):
    """The program cannot be followed further, because it depends on values, which fake tensors lack, or on the number of records."""


@dataclass(slots=True)
class IsolationFindings:
    """Findings about a program, collected while it is followed.

    Attributes:
        refusal: Error for the first operator that combines records.
        unknown: Operators without a rule whose results may enter the losses.
        doubts: Reasons why the program is not proven to isolate records.
        coarsest: Machine epsilon of the least precise floating-point type in the program.
        random: Whether the program draws random numbers.
        custom_operators: Whether the program calls an operator that torch does not define. The behaviour of such an operator under vmap is
            unknown.
    """

    refusal: InputError | None = None
    unknown: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    coarsest: float = 0.0
    random: bool = False
    custom_operators: bool = False

    def doubt(self, reason: str) -> None:
        """Add a reason for doubt, with the line of the user's code that is running."""
        line = own_line()
        self.doubts.append(f"{reason} at {line}" if line else reason)


@dataclass(slots=True)
class StorageState:
    """The storage that a tensor shares with its views.

    Attributes:
        storage: The storage. The reference keeps its address from being reused.
        layout: Layout of the last tensor in the storage.
        shape: Shape of the last tensor in the storage.
        has_records: Whether a tensor in the storage holds records.
        written: Whether a view of the storage was written to.
        overwritten: Layout of all tensors in the storage after a write that merged records or has no rule; None if there was no such write.
    """

    storage: Any
    layout: Layout
    shape: tuple[object, ...]
    has_records: bool = False
    written: bool = False
    overwritten: Layout | None = None


class LayoutTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that tracks along which dimension each tensor holds records. A tensor without records has the layout SHARED.

    Args:
        findings: Findings about the program. The mode adds to them.
        size: Symbol for the batch size.
        running_module: Function that returns the name of the running module.
        names: Names of the tensors that outlive a call of the program, by identity. The program must not write to them.
    """

    def __init__(
        self, findings: IsolationFindings, size: torch.SymInt, running_module: Callable[[], str], names: dict[int, str]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.findings, self.size, self.running_module, self.names = findings, size, running_module, names
        self.recorded_layouts: Any = WeakIdKeyDictionary()
        self.addresses: Any = WeakIdKeyDictionary()  # address (`_cdata`) of each tensor's storage when its layout was stored
        self.storages: dict[int, StorageState] = {}
        self.batch_storages: set[int] = set()  # addresses of the storages of the batch itself

    def register(self, tensor: Tensor, layout: Layout) -> None:
        """Register a tensor of the batch with its layout."""
        self.recorded_layouts[tensor] = layout
        self.batch_storages.add(storage_of(tensor)._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        # These operators ask for a property of a tensor, such as a length, and not for its numbers.
        if func.namespace == "prim" or name.startswith("sym_"):
            return func(*args, **kwargs)
        values = bind_arguments(func, args, kwargs)
        self.require_unwritten(func, values)
        self.require_no_loop(name, values)
        # A constant is a tensor that existed before the call, so that it is not fake, and needs no gradient.
        reads_number = name == "_local_scalar_dense"
        reads_constant = reads_number and not isinstance(values["self"], FakeTensor) and not values["self"].requires_grad
        try:
            result = number_in(values["self"]) if reads_constant else func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise self.add_doubt("a branch or a shape depends on values") from None
        self.track(func, values, list(leaves(result if isinstance(result, list | tuple) else [result])))
        return result

    def track(self, func: Any, values: Mapping[str, Any], outputs: list[Tensor]) -> None:
        """Store the layouts of an operator's outputs, and of the tensors to which it wrote. Raises InputError if it combines records.

        Args:
            values: Arguments of the operator, by their names in its schema.
        """
        name = func.overloadpacket.__name__
        plain_name = name.rstrip("_") if not name.startswith("__") else name  # add_ has the rule of add; __and__ keeps its name
        # HIDDEN_ARGUMENTS: values that a forward operator passes to its backward operator, and that no other operator can read.
        readable = {key: value for key, value in values.items() if key != HIDDEN_ARGUMENTS.get(plain_name)}
        call = Call(plain_name, readable, outputs, self.layout_of)
        self.record_properties(func, call)
        targets = [(tensor, self.layout_of(tensor)) for tensor in written_tensors(func, values)]
        try:
            layouts = self.result_layouts(func, call)
        except Mixed as mixed:
            raise self.refuse_mixing(str(mixed)) from None
        layout_list = layouts if isinstance(layouts, list) else [layouts] * len(outputs)
        for output, layout in zip(outputs, layout_list, strict=True):
            self.store(output, layout_if_consistent(output, layout, plain_name))
        self.write(plain_name, targets, layouts if isinstance(layouts, list) else [layouts])

    def require_no_loop(self, name: str, values: Mapping[str, Any]) -> None:
        """Check that the operator does not split the batch into single records. Raises Unfollowed if it does."""
        if name == "unbind" or (name in SPLITTING and not is_symbolic(values["split_size"])):
            layout = self.layout_of(values["self"])
            if isinstance(layout, AlongRecords) and layout.dim == values["dim"] % values["self"].dim():
                raise self.add_doubt(f"{name} loops over the records")

    def add_doubt(self, reason: str) -> Unfollowed:
        """Record a reason for doubt, and return the exception that ends the analysis."""
        self.findings.doubt(reason)
        return Unfollowed(reason)

    def record_properties(self, func: Any, call: Call) -> None:
        """Record whether the operator is torch's own, whether it is random, and how precise its outputs are."""
        self.findings.custom_operators |= func.namespace not in TORCH_NAMESPACES
        self.findings.random |= draws_numbers(func, (), dict(call.values))
        for output in call.outputs:
            if output.is_floating_point():
                self.findings.coarsest = max(self.findings.coarsest, float(torch.finfo(output.dtype).eps))

    def layout_of(self, tensor: Tensor) -> Layout:
        """Return the layout of a tensor; Unknown if the mode did not observe the operator that created it."""
        if not isinstance(tensor, FakeTensor):
            return SHARED
        storage = storage_of(tensor)
        stored = None if storage is None else self.storages.get(storage._cdata)
        if stored is not None and stored.overwritten is not None:
            return stored.overwritten
        # An assignment to tensor.data replaces the storage without an operator.
        is_replaced = storage is not None and self.addresses.get(tensor, storage._cdata) != storage._cdata
        layout: Layout | None = None if is_replaced else self.recorded_layouts.get(tensor)
        # A tensor that was made without an operator has the layout of the last tensor in its storage, if it has the same shape.
        if layout is None and stored is not None and stored.shape == tuple(tensor.shape):
            layout = stored.layout
        if layout is None:
            return Unknown("a tensor of unknown origin")
        return layout if stored is None or not stored.written else layout_after_write(layout, stored)

    def store(self, tensor: Tensor, layout: Layout) -> None:
        """Store the layout of an operator's output. An unknown layout is also a finding.

        The description of a merge gets the line of the user's code that is running, unless it has a line already.
        """
        if isinstance(layout, Unknown) and layout.operator not in self.findings.unknown:
            self.findings.unknown.append(layout.operator)
        if isinstance(layout, Merged) and " at " not in layout.how and (line := own_line()):
            layout = Merged(f"{layout.how} at {line}")
        self.recorded_layouts[tensor] = layout
        storage = storage_of(tensor)
        if storage is not None:
            self.addresses[tensor] = storage._cdata
            stored = self.storages.setdefault(storage._cdata, StorageState(storage, layout, ()))
            stored.layout, stored.shape = layout, tuple(tensor.shape)
            stored.has_records |= isinstance(layout, AlongRecords)

    def result_layouts(self, func: Any, call: Call) -> Layouts:
        """Return the layout of each output of a call, from the layouts of its arguments.

        Raises Mixed if the call combines records with numbers that depend on several of them, or its rule raises it.
        """
        arguments = [*map(self.layout_of, call.tensors())]
        batch_size = batch_size_uses(func, call.values)
        uses_shape_only = call.name.endswith("_like") or (call.name.startswith("new_") and call.name in CREATING)
        if not batch_size.in_numbers and uses_shape_only and len(arguments) == 1:  # the numbers of the argument are not read
            return [self.created(call, output) for output in call.outputs]
        unknown = [layout for layout in arguments if isinstance(layout, Unknown)]
        if unknown:
            return unknown[0]
        record_layouts = [layout for layout in arguments if isinstance(layout, AlongRecords | RecordIndices)]
        merged = [layout for layout in arguments if isinstance(layout, Merged)]
        if call.name == "arange" and not record_layouts and not merged and (batch_size.in_shape or batch_size.in_numbers):
            counts_from_zero = call.values.get("start", 0) == 0 and call.values.get("step", 1) == 1
            return RecordIndices(0) if counts_from_zero and counts_records(call.outputs[0], 0) else Unknown("arange")
        if merged or batch_size.in_numbers:  # numbers that depend on several records, or on their number
            how = merged[0].how if merged else f"{call.name} with the number of records"
            if record_layouts:
                raise Mixed(how)
            return Merged(how)
        if not record_layouts:
            return self.layouts_without_records(call)
        if call.name not in INDEXING and any(isinstance(layout, RecordIndices) for layout in record_layouts):
            return self.index_layout(call)
        if batch_size.in_shape and call.name not in GIVEN_BATCH_SIZE:  # no rule covers this use of the batch size as a length
            return Unknown(f"{call.name} with the number of records")
        return mark_differing(rule_of(func, call.name)(call), record_layouts)

    def layouts_without_records(self, call: Call) -> Layouts:
        """Return the layout of each output of a call whose arguments hold no records. Calls in CREATING may still count records."""
        if not any(is_symbolic(length) for output in call.outputs for length in output.shape):
            return SHARED
        return [self.created(call, output) if call.name in CREATING else Unknown(call.name) for output in call.outputs]

    def created(self, call: Call, output: Tensor) -> Layout:
        """Return the layout of a new tensor, such as one of zeros.

        If an argument has a layout that agrees with the new shape, the new tensor has this layout. Otherwise the records are along the only
        dimension that counts records.
        """
        dims = [dim for dim, length in enumerate(output.shape) if is_symbolic(length)]
        if not dims:
            return SHARED
        for _, layout in call.record_arguments():
            if dims == [layout.dim] and has_records_at(output, layout):
                return replace(layout, identical=False)
        times = coefficient(output.shape[dims[0]])
        if len(dims) > 1 or not times:
            return Unknown(call.name)
        return AlongRecords(dims[0], outer=1, inner=times, identical=call.name not in CREATING_UNEQUAL)  # random or uninitialised

    def index_layout(self, call: Call) -> Layout:
        """Return the layout of record indices after an operator. Record indices that are only rearranged remain record indices."""
        if call.name in REARRANGING:
            by_id = {id(tensor): as_records(self.layout_of(tensor)) for tensor in call.tensors()}
            layouts = RULES[call.name](replace(call, layout_of=lambda tensor: by_id[id(tensor)]))
            (layout,) = layouts if isinstance(layouts, list) else [layouts]
            (output,) = call.outputs
            if isinstance(layout, AlongRecords) and (layout.outer, layout.inner) == (1, 1) and counts_records(output, layout.dim):
                return RecordIndices(layout.dim)
        return Unknown(f"{call.name} of the records' positions")

    def require_unwritten(self, func: Any, values: Any) -> None:
        """Check that an operator does not write to the batch or to a tensor that outlives the call. Raises InputError if it does."""
        for tensor in written_tensors(func, values):
            if not isinstance(tensor, FakeTensor):
                name = self.names.get(id(tensor), "a tensor that outlives it")
                raise self.refuse_write(f"{func.overloadpacket.__name__}, which writes to {name}")
            if storage_of(tensor)._cdata in self.batch_storages:
                raise self.refuse_write(f"{func.overloadpacket.__name__}, which writes to the batch")

    def write(self, name: str, targets: Sequence[tuple[Tensor, Layout]], layouts: Sequence[Layout]) -> None:
        """Update the layouts of storages after a write. A write to a view counts as a write to the whole storage.

        Args:
            targets: Tensors that are written to, each with its earlier layout.
            layouts: Layouts of the operator's results. The least favourable layout is used.
        """
        layout = least_favourable(layouts)
        for tensor, earlier in targets:
            storage = storage_of(tensor)
            stored = self.storages.setdefault(storage._cdata, StorageState(storage, earlier, ()))
            stored.written = True
            moves_records = isinstance(layout, AlongRecords) and layout != earlier
            reaches_records = isinstance(earlier, Shared) and stored.has_records  # through a view that holds none itself
            if isinstance(layout, Merged | Unknown):
                stored.overwritten = layout
            elif moves_records or reaches_records:
                stored.overwritten = Unknown(name)

    def refuse_mixing(self, operation: str) -> InputError:
        """Record that an operator combines records, and return the error to raise.

        Args:
            operation: Description of the operator, with its line if it is not the one that is running.
        """
        line = own_line()
        if line and line not in operation:
            merged_earlier = " at " in operation
            operation += f", whose result is combined with records at {line}" if merged_earlier else f" at {line}"
        place, advice = self.running_module(), REMEDY if PAIRED in operation else ADVICE  # REMEDY: for pairs of records
        result = "a loss" if place == "loss" else "an output"
        return self.record_refusal(
            f"{place}: expected {result} for each example that depends on it alone, found {operation}; {advice}"
        )

    def refuse_write(self, operation: str) -> InputError:
        """Record that an operator writes to a tensor that outlives the call, and return the error to raise."""
        line = own_line()
        if line and line not in operation:
            operation += f" at {line}"
        return self.record_refusal(
            f"{self.running_module()}: expected a forward that writes to no state, found {operation}; "
            "compute the tensor before training instead"
        )

    def record_refusal(self, message: str) -> InputError:
        """Record an error if it is the first, and return the first. It is the verdict even if the user's code catches it."""
        self.findings.refusal = self.findings.refusal or InputError(message)
        return self.findings.refusal


def layout_after_write(layout: Layout, stored: StorageState) -> Layout:
    """Return the layout of a view after another view of its storage was written to."""
    if isinstance(layout, Shared) and stored.has_records:
        return Unknown("a view of an overwritten tensor")
    return differing(layout)


def least_favourable(layouts: Sequence[Layout]) -> Layout:
    """Return the layout that proves the least: one that merged records, or else is unknown, or else holds records."""
    for kind in (Merged, Unknown, AlongRecords):
        for layout in layouts:
            if isinstance(layout, kind):
                return layout
    return SHARED


def mark_differing(layouts: Layouts, arguments: Sequence[Layout]) -> Layouts:
    """Return the layouts of the results. A result counts as differing between records if an argument differs between records."""
    if all(isinstance(layout, AlongRecords) and layout.identical for layout in arguments):
        return layouts
    if isinstance(layouts, list):
        return [differing(layout) for layout in layouts]
    return differing(layouts)


def differing(layout: Layout) -> Layout:
    """Return the layout of numbers that may differ between records."""
    return replace(layout, identical=False) if isinstance(layout, AlongRecords) else layout


def as_records(layout: Layout) -> Layout:
    """Return the layout of record indices as the layout of one number for each record. Return other layouts unchanged."""
    return AlongRecords(layout.dim) if isinstance(layout, RecordIndices) else layout


def counts_records(output: Tensor, dim: int) -> bool:
    """Return whether a tensor can hold one index for each record. A narrower integer type would overflow."""
    return coefficient(output.shape[dim]) == 1 and output.dtype in INDEX_TYPES


def number_in(constant: Tensor) -> Any:
    """Return the number that a constant with one entry holds."""
    with without_dispatch_modes():
        return constant.item()


def rule_of(func: Any, name: str) -> Rule:
    """Return the rule of an operator. An operator of aten that torch tags as pointwise needs no entry in the table."""
    if func.namespace != "aten":
        return no_rule
    return RULES.get(name, pointwise if torch.Tag.pointwise in func.tags else no_rule)


def no_rule(call: Call) -> Layouts:
    """Return Unknown, for an operator without a rule."""
    return Unknown(call.name)


def written_tensors(func: Any, values: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments that an operator writes to."""
    targets = [argument for argument in func._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
    return [*leaves(values[argument.name] for argument in targets)]


def storage_of(tensor: Tensor) -> Any:
    """Return the storage of a strided tensor, which its views share; None for a tensor that is not strided."""
    return tensor.untyped_storage() if tensor.layout is torch.strided else None


def bind_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names in the operator's schema."""
    arguments = list(func._schema.arguments)
    values = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    positional = [argument.name for argument in arguments if not argument.kwarg_only]
    return {**values, **dict(zip(positional, args, strict=False)), **kwargs}


class BatchSizeUses(NamedTuple):
    """The arguments of an operator that depend on the batch size.

    Attributes:
        in_shape: Whether an argument that may be a length of the output depends on it.
        in_numbers: Whether any other number depends on it.
    """

    in_shape: bool
    in_numbers: bool


def batch_size_uses(func: Any, values: Mapping[str, Any]) -> BatchSizeUses:
    """Return which arguments of a call depend on the batch size."""
    in_shape = in_numbers = False
    for argument in func._schema.arguments:
        value = values.get(argument.name)
        numbers = value if isinstance(value, list | tuple) else [value]
        if any(is_symbolic(number) for number in numbers):
            # The integers `high` and `low` of randint limit its numbers and are not lengths.
            if str(argument.real_type) in SIZE_ARGUMENTS and argument.name not in ("high", "low"):
                in_shape = True
            else:
                in_numbers = True
    return BatchSizeUses(in_shape, in_numbers)
