"""Rules for operators that move numbers without computing new ones, such as view, cat or index.

They serve the proof that each record's loss depends on that record alone. tracker.py follows a model with its loss, operator by operator,
and asks the rule of each call (the table RULES in operators.py) for the *layout* of every output: along which dimension it holds records
(layout.py). `AlongRecords` says that each number depends on one record alone: along its `dim` there are `outer` times all B records, with
`inner` indices each. `Merged` says that an output depends on several records, and `Unknown` that the rule does not cover the case. A rule
raises Mixed, which refuses the program, if the operator pairs each record with other records.

If unsure, a rule must return Unknown: it only adds a doubt, and records are then processed one by one. A wrong AlongRecords breaks the
guarantee. The batch size B is a symbol: `is_symbolic` says whether a length depends on it, and `coefficient` gives c for a length c B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from dpcli.train.isolation.layout import (
    PAIRED,
    AlongRecords,
    Call,
    Layout,
    Layouts,
    Mixed,
    RecordIndices,
    Unknown,
    coefficient,
    dims_of,
    is_symbolic,
    layout_in_shape,
    require_same_dim,
    stride,
)


def elementwise_move(call: Call) -> Layouts:
    """Return the layout of an operator that leaves every number at its index. If layouts of arguments differ, return Unknown."""
    layout = call.first_record_argument().layout
    return call.output_layouts(layout) if call.records_agree_on(layout) else Unknown(call.name)


def view(call: Call) -> Layouts:
    """Return the layout after a change of shape. A view as a type of another width is not covered, because it reinterprets the numbers."""
    tensor, layout = call.first_record_argument()
    numbers_per_index = stride(tensor.shape, layout.dim)
    if numbers_per_index is None or call.outputs[0].dtype.itemsize != tensor.dtype.itemsize:
        return Unknown(call.name)
    return contiguous_layout(call.outputs[0], layout.inner * numbers_per_index) or Unknown(call.name)


def contiguous_layout(output: Tensor, step: int) -> AlongRecords | None:
    """Return the layout of a contiguous output in which successive records are `step` numbers apart; None if there is none.

    The dimension of the records is the last one whose length depends on the batch size. `trailing` is its stride.
    """
    trailing = 1
    for dim in reversed(range(output.dim())):
        length = output.shape[dim]
        if not is_symbolic(length):
            trailing *= int(length)
            continue
        times = coefficient(length)
        if times is None or trailing == 0 or step % trailing:
            return None
        inner = step // trailing
        return None if times % inner else AlongRecords(dim, times // inner, inner)
    return None


def expand(call: Call) -> Layouts:
    """Return the layout after an expansion, which may add leading dimensions."""
    tensor, layout = call.first_record_argument()
    return layout.at(layout.dim + call.outputs[0].dim() - tensor.dim())


def permute(call: Call) -> Layouts:
    """Return the layout after a permutation of the dimensions."""
    tensor, layout = call.first_record_argument()
    return layout.at(dims_of(list(call["dims"]), tensor.dim()).index(layout.dim))


def transpose(call: Call) -> Layouts:
    """Return the layout after two dimensions were exchanged."""
    tensor, layout = call.first_record_argument()
    count = tensor.dim()
    first, second = (0, count - 1) if call.name == "t" else (call["dim0"] % count, call["dim1"] % count)
    exchanged = {first: second, second: first}
    return layout.at(exchanged.get(layout.dim, layout.dim))


def unsqueeze(call: Call) -> Layouts:
    """Return the layout after a dimension of length one was inserted."""
    tensor, layout = call.first_record_argument()
    inserted = call["dim"] % (tensor.dim() + 1)
    return layout.at(after_insertion(layout.dim, inserted))


def squeeze(call: Call) -> Layouts:
    """Return the layout after dimensions of length one were removed."""
    tensor, layout = call.first_record_argument()
    dims = dims_of(call.values.get("dim"), tensor.dim())
    removed = [dim for dim in dims if not is_symbolic(tensor.shape[dim]) and tensor.shape[dim] == 1]
    return layout.at(after_removal(layout.dim, removed))


def after_insertion(dim: int, inserted: int) -> int:
    """Return the number of a dimension after another dimension was inserted: 1 becomes 2 if dimension 0 or 1 is inserted."""
    return dim + 1 if inserted <= dim else dim


def after_removal(dim: int, removed: Sequence[int]) -> int:
    """Return the number of a dimension after other dimensions were removed: 3 becomes 1 if 0 and 2 are removed."""
    return dim - sum(other < dim for other in removed)


def select(call: Call) -> Layouts:
    """Return the layout after one index of a dimension was selected. Selecting one record is a merge, unless all records are identical."""
    tensor, layout = call.first_record_argument()
    dim = call["dim"] % tensor.dim()
    if is_symbolic(call["index"]):
        return Unknown(call.name)
    if dim == layout.dim:
        return (
            layout_in_shape(call.outputs[0], layout)
            if layout.identical
            else call.merged_layout("of a record by its position in the batch")
        )
    return layout.at(after_removal(layout.dim, [dim]))


def narrow(call: Call) -> Layouts:
    """Return the layout of a slice. A slice of some of the records is a merge, unless all records have identical numbers."""
    tensor, layout = call.first_record_argument()
    dim = call["dim"] % tensor.dim()
    if dim == layout.dim:
        if layout.identical:
            return layout_in_shape(call.outputs[0], layout)
        complete = coefficient(call.outputs[0].shape[dim]) == coefficient(tensor.shape[dim])
        return layout if complete and call["step"] == 1 else call.merged_layout("of some records by their positions in the batch")
    return Unknown(call.name) if is_symbolic(call["start"]) or is_symbolic(call["end"]) else layout


def split(call: Call) -> Layouts:
    """Return the layouts of the parts of a tensor. A split between records is a merge."""
    tensor, layout = call.first_record_argument()
    if call["dim"] % tensor.dim() == layout.dim:
        return call.merged_layout("of the batch into its records")
    return [layout for _ in call.outputs]


def unbind(call: Call) -> Layouts:
    """Return the layouts of the slices along a dimension. Raises Mixed if the slices are single records, over which the program loops."""
    tensor, layout = call.first_record_argument()
    dim = call["dim"] % tensor.dim()
    if dim == layout.dim:
        raise Mixed(f"{call.name}, a loop over the records by their positions in the batch")
    return [layout.at(after_removal(layout.dim, [dim])) for _ in call.outputs]


def select_backward(call: Call) -> Layouts:
    """Return the layout of the gradient of a selection. The gradient has the selected dimension again."""
    tensor, layout = call.first_record_argument()
    inserted = call["dim"] % (tensor.dim() + 1)
    return layout.at(after_insertion(layout.dim, inserted))


def slice_backward(call: Call) -> Layouts:
    """Return the layout of the gradient of a slice, which has the full length again. A slice of some of the records is not covered."""
    tensor, layout = call.first_record_argument()
    if call["dim"] % tensor.dim() != layout.dim:
        return layout
    sliced_length, full_length = (coefficient(value.shape[layout.dim]) for value in (tensor, call.outputs[0]))
    return layout if sliced_length == full_length else Unknown(call.name)


def unfold(call: Call) -> Layouts:
    """Return the layout of windows along a dimension. Windows over the records are a merge."""
    tensor, layout = call.first_record_argument()
    return call.merged_layout() if call["dimension"] % tensor.dim() == layout.dim else layout


def scan(call: Call) -> Layouts:
    """Return the layouts of an operator that sorts, scans or normalises along some dimensions. Along the records it is a merge.

    A sort of the records by an integer, such as a length, is Unknown and not a merge. A program may restore the order afterwards.
    """
    tensor, layout = call.first_record_argument()
    dims = call.values.get("dim")
    if dims is None:
        dims = call.values.get("dims")
    if layout.dim in dims_of(dims, tensor.dim()):
        sorts_by_integer = call.name in ("sort", "argsort") and tensor.dim() == 1 and not tensor.is_floating_point()
        if sorts_by_integer:
            return Unknown(f"{call.name} of the records by an integer")
        return call.merged_layout("along the records")
    return [layout for _ in call.outputs] if call.records_agree_on(layout) else Unknown(call.name)


def triangle(call: Call) -> Layouts:
    """Return the layout of a triangle of the matrices in the last two dimensions. If these count the records, it is a merge."""
    tensor, layout = call.first_record_argument()
    if layout.dim >= tensor.dim() - 2:
        return call.merged_layout("along the records")
    return Unknown(call.name) if is_symbolic(call.values.get("diagonal")) else layout


def softmax_backward(call: Call) -> Layouts:
    """Return the layout of the gradient of a softmax. Two arguments must have the same shape, which the operator does not check."""
    shape, *others = (list(tensor.shape) for tensor in call.tensors())
    return scan(call) if all(other == shape for other in others) else Unknown(call.name)


def pad(call: Call) -> Layouts:
    """Return the layout after padding or cropping. Along the records, by any amount but 0, it is a merge."""
    tensor, layout = call.first_record_argument()
    before = 2 * (tensor.dim() - 1 - layout.dim)  # "pad" has two numbers for each dimension, from the last one on
    is_padded = any(is_symbolic(amount) or amount for amount in call["pad"][before : before + 2])
    return call.merged_layout("along the records") if is_padded else layout


def repeat(call: Call) -> Layouts:
    """Return the layout of a tensor that was repeated along its dimensions. Raises Mixed if the batch size is a repeat count."""
    tensor, layout = call.first_record_argument()
    if any(is_symbolic(number) for number in call["repeats"]):
        raise Mixed(f"{call.name}, {PAIRED}")
    dim = layout.dim + len(call["repeats"]) - tensor.dim()
    return AlongRecords(dim, layout.outer * int(call["repeats"][dim]), layout.inner)


def join(call: Call) -> Layouts:
    """Return the layout of the output of cat or stack. All tensors but empty ones must have the same layout.

    A cat along the records, and tensors of different layouts, are not covered. Raises Mixed if the records are along different dimensions.
    """
    tensors = [tensor for tensor in call["tensors"] if not (tensor.dim() == 1 and tensor.shape[0] == 0)]
    count = tensors[0].dim() + (call.name == "stack")
    dim = call["dim"] % count
    layout = require_same_dim([argument.layout for argument in call.record_arguments()], call.name)
    if not call.records_agree_on(layout) or len(call.record_arguments()) != len(tensors):
        return Unknown(call.name)
    if call.name == "stack":
        return layout.at(after_insertion(layout.dim, dim))
    return Unknown(call.name) if dim == layout.dim else layout


def gather(call: Call) -> Layouts:
    """Return the layout of the output of gather or scatter along a dimension other than the records.

    All arguments must have the same layout. Along the records it is a merge. Raises Mixed if the records are along different dimensions.
    """
    tensor, layout = call.first_record_argument()
    layouts = [argument.layout for argument in call.record_arguments()]
    if call["dim"] % max(1, tensor.dim()) == require_same_dim(layouts, call.name).dim:
        return call.merged_layout("from record to record")
    all_hold_records = len(layouts) == len([*call.tensors()])  # an index without records would refer to the first records only
    return layout if all_hold_records and call.records_agree_on(layout) else Unknown(call.name)


def index_select(call: Call) -> Layouts:
    """Return the layout of the output of index_select, where either the tensor or the index holds records.

    A selection among the records is a merge. Raises Mixed if both hold records.
    """
    layout = call.first_record_argument().layout
    dim = call["dim"] % max(1, call["self"].dim())
    self_layout = call.layout_of_argument("self")
    if not isinstance(self_layout, AlongRecords):
        return layout.at(dim)
    if self_layout.dim == dim:
        return call.merged_layout("of records by their positions in the batch")
    if isinstance(call.layout_of_argument("index"), AlongRecords):
        raise Mixed(f"{call.name}, {PAIRED}")
    return self_layout


@dataclass(frozen=True, slots=True)
class Indices:
    """The indices a and b of tensor[a, :, b], which torch broadcasts to one shape.

    Attributes:
        dims: Dimensions of the tensor that are indexed, in increasing order.
        layouts: Layout of each index after it is broadcast.
        depth: Number of dimensions of an index after it is broadcast.
    """

    dims: list[int]
    layouts: list[Layout]
    depth: int

    @classmethod
    def of(cls, call: Call) -> Indices:
        """Return the indices in a call of index or index_put."""
        indices = list(call["indices"])
        dims = [dim for dim, index in enumerate(indices) if index is not None]
        depth = max(indices[dim].dim() for dim in dims)
        return cls(dims, [add_leading_dims(call.layout_of(indices[dim]), depth - indices[dim].dim()) for dim in dims], depth)

    @property
    def adjacent(self) -> bool:
        """Return whether the indexed dimensions follow one another."""
        return self.dims == list(range(self.dims[0], self.dims[-1] + 1))

    @property
    def start(self) -> int:
        """Return the first dimension of the output that the indices give. It is the first of all if they are not adjacent."""
        return self.dims[0] if self.adjacent else 0

    @property
    def record_layouts(self) -> list[AlongRecords]:
        """Return the layouts of the indices that hold a number for each record."""
        return [layout for layout in self.layouts if isinstance(layout, AlongRecords)]

    @property
    def position_layouts(self) -> list[RecordIndices]:
        """Return the layouts of the indices that are the positions 0, 1, ..., B - 1 of the records."""
        return [layout for layout in self.layouts if isinstance(layout, RecordIndices)]


def index(call: Call) -> Layouts:
    """Return the layout of tensor[a, :, b].

    The rule covers three uses:
    1. Each record selects from a shared tensor.
    2. All records select the same entries, along other dimensions than that of the records.
    3. Each record selects from its own row, by an index that is the position of the record.

    Raises Mixed if the operator would pair the records of an index with those of another index or of the tensor.
    """
    indices, self_layout = Indices.of(call), call.layout_of(call["self"])
    layouts: list[AlongRecords | RecordIndices] = [*indices.record_layouts, *indices.position_layouts]
    if len({layout.dim for layout in layouts}) > 1:
        raise Mixed(f"{call.name}, {PAIRED}")
    if not isinstance(self_layout, AlongRecords):
        return index_shared(call, indices)
    if self_layout.dim in indices.dims:
        return index_own_rows(call, indices, self_layout)
    if layouts:
        raise Mixed(f"{call.name}, {PAIRED}")
    if indices.adjacent and self_layout.dim < indices.dims[0]:
        return self_layout
    return self_layout.at(after_removal(self_layout.dim, indices.dims) + indices.depth)


def index_shared(call: Call, indices: Indices) -> Layout:
    """Return the layout of the entries that the records select from a shared tensor."""
    layouts = indices.record_layouts
    if indices.position_layouts or not layouts or any(layout != layouts[0] for layout in layouts):
        return Unknown(call.name)
    return layouts[0].at(indices.start + layouts[0].dim)


def index_own_rows(call: Call, indices: Indices, layout: AlongRecords) -> Layout:
    """Return the layout of the entries that each record selects from its own row. Any other selection among the records is a merge."""
    selector = indices.layouts[indices.dims.index(layout.dim)]
    # With other values of outer or inner, index b along the dimension may belong to another record than b.
    one_index_per_record = all((other.outer, other.inner) == (1, 1) for other in (layout, *indices.record_layouts))
    if isinstance(selector, RecordIndices) and len(indices.position_layouts) == 1 and one_index_per_record:
        return layout.at(indices.start + selector.dim)
    return call.merged_layout("of records by their positions in the batch")


def add_leading_dims(layout: Layout, shift: int) -> Layout:
    """Return the layout of a tensor after `shift` leading dimensions were added."""
    if isinstance(layout, AlongRecords):
        return layout.at(layout.dim + shift)
    return RecordIndices(layout.dim + shift) if isinstance(layout, RecordIndices) else layout


def index_put(call: Call) -> Layouts:
    """Return the layout of a tensor after a write at indices, which select entries as in `index`.

    A write to a shared tensor is a merge. The values must hold the records as the selected entries do, or hold no records.
    """
    self_layout = call.layout_of(call["self"])
    if not isinstance(self_layout, AlongRecords):
        return call.merged_layout("of several records into one tensor")
    layout = index(call)
    if not isinstance(layout, AlongRecords):
        return layout
    values_layout = call.layout_of_argument("values")
    if not isinstance(values_layout, AlongRecords):
        return self_layout
    indices = Indices.of(call)
    dims_after_indexing = call["self"].dim() - len(indices.dims) + indices.depth
    record_dim = layout.dim + call["values"].dim() - dims_after_indexing
    expected = (record_dim, self_layout.outer, self_layout.inner)
    same_layout = (values_layout.dim, values_layout.outer, values_layout.inner) == expected
    return self_layout if same_layout else Unknown(call.name)
