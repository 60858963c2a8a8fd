"""Operators that move numbers without changing them: what becomes of the dimension that the records are along."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpcli.train.isolation.layout import (
    AlongRecords,
    Call,
    Kind,
    Kinds,
    Mixed,
    Numbers,
    Unknown,
    coefficient,
    dims_of,
    fitting,
    pair,
    records,
    stride,
)


def same(call: Call) -> Kinds:
    """Keep every place."""
    layout = call.one()[1]
    return call.everywhere(layout) if call.agreed(layout) else Unknown(call.name)


def viewed(call: Call) -> Kinds:
    """Give the same numbers in the same order another shape; read as numbers of another width they are others."""
    tensor, layout = call.one()
    after = stride(tensor.shape, layout.dim)
    if after is None or call.outputs[0].dtype.itemsize != tensor.dtype.itemsize:
        return Unknown(call.name)
    return placed(call.outputs[0], layout.inner * after) or Unknown(call.name)


def placed(output: Tensor, step: int) -> AlongRecords | None:
    """Return where in the output's shape two records are `step` numbers apart."""
    trailing = 1
    for dim in reversed(range(output.dim())):
        length = output.shape[dim]
        if not records(length):
            trailing *= int(length)
            continue
        times = coefficient(length)
        if times is None or trailing == 0 or step % trailing or times % (step // trailing):
            return None
        return AlongRecords(dim, times // (step // trailing), step // trailing)
    return None


def expanded(call: Call) -> Kinds:
    tensor, layout = call.one()
    return layout.at(layout.dim + call.outputs[0].dim() - tensor.dim())


def permuted(call: Call) -> Kinds:
    tensor, layout = call.one()
    return layout.at(dims_of(list(call["dims"]), tensor.dim()).index(layout.dim))


def transposed(call: Call) -> Kinds:
    tensor, layout = call.one()
    count = tensor.dim()
    first, second = (0, count - 1) if call.name == "t" else (call["dim0"] % count, call["dim1"] % count)
    return layout.at({first: second, second: first}.get(layout.dim, layout.dim))


def unsqueezed(call: Call) -> Kinds:
    tensor, layout = call.one()
    at = call["dim"] % (tensor.dim() + 1)
    return layout.at(layout.dim + (at <= layout.dim))


def squeezed(call: Call) -> Kinds:
    tensor, layout = call.one()
    dims = dims_of(call.values.get("dim"), tensor.dim())
    gone = [dim for dim in dims if not records(tensor.shape[dim]) and tensor.shape[dim] == 1]
    return layout.at(layout.dim - sum(dim < layout.dim for dim in gone))


def selected(call: Call) -> Kinds:
    """Take one place along a dimension."""
    tensor, layout = call.one()
    dim = call["dim"] % tensor.dim()
    if records(call["index"]):
        return Unknown(call.name)
    if dim == layout.dim:
        return fitting(call.outputs[0], layout) if layout.identical else call.merged("of a record by its place in the batch")
    return layout.at(layout.dim - (dim < layout.dim))


def sliced(call: Call) -> Kinds:
    tensor, layout = call.one()
    dim = call["dim"] % tensor.dim()
    if dim == layout.dim:
        if layout.identical:
            return fitting(call.outputs[0], layout)
        complete = coefficient(call.outputs[0].shape[dim]) == coefficient(tensor.shape[dim])
        return layout if complete and call["step"] == 1 else call.merged("of some records by their places in the batch")
    return layout if not records(call["start"]) and not records_within(call["end"]) else Unknown(call.name)


def records_within(end: Any) -> bool:
    """Return whether a slice's end depends on the batch; an end beyond all does not."""
    return isinstance(end, torch.SymInt) and records(end)


def split(call: Call) -> Kinds:
    tensor, layout = call.one()
    if call["dim"] % tensor.dim() == layout.dim:
        return call.merged("of the batch into its records")
    return [layout for _ in call.outputs]


def unbound(call: Call) -> Kinds:
    """Take a tensor apart along a dimension."""
    tensor, layout = call.one()
    dim = call["dim"] % tensor.dim()
    if dim == layout.dim:
        raise Mixed(f"{call.name}, a loop over the records by their places in the batch")
    return [layout.at(layout.dim - (dim < layout.dim)) for _ in call.outputs]


def selected_back(call: Call) -> Kinds:
    tensor, layout = call.one()
    dim = call["dim"] % (tensor.dim() + 1)
    return layout.at(layout.dim + (dim <= layout.dim))


def sliced_back(call: Call) -> Kinds:
    tensor, layout = call.one()
    if call["dim"] % tensor.dim() == layout.dim and coefficient(tensor.shape[layout.dim]) != coefficient(
        call.outputs[0].shape[layout.dim]
    ):
        return Unknown(call.name)
    return layout


def unfolded(call: Call) -> Kinds:
    tensor, layout = call.one()
    return call.merged("over the records") if call["dimension"] % tensor.dim() == layout.dim else layout


def along(call: Call) -> Kinds:
    """Reorder, scan or normalise along dimensions.

    Records may be put in the order of a whole number of each, such as a length, and back afterwards: that is not followed, and no fault.
    """
    tensor, layout = call.one()
    dims = call.values.get("dim", call.values.get("dims"))
    if layout.dim in dims_of(dims if dims is not None else call.values.get("dims"), tensor.dim()):
        lengths = call.name in ("sort", "argsort") and tensor.dim() == 1 and not tensor.is_floating_point()
        return Unknown(f"{call.name} of the records by a whole number") if lengths else call.merged("along the records")
    return [layout for _ in call.outputs] if call.agreed(layout) else Unknown(call.name)


def along_back(call: Call) -> Kinds:
    """Return gradients of a normalisation: both tensors of one shape, which the operator does not check."""
    shape, *others = (list(tensor.shape) for tensor in call.tensors())
    return along(call) if all(other == shape for other in others) else Unknown(call.name)


def padded(call: Call) -> Kinds:
    tensor, layout = call.one()
    return call.merged("along the records") if layout.dim >= tensor.dim() - len(call["pad"]) // 2 else layout


def repeated(call: Call) -> Kinds:
    tensor, layout = call.one()
    shift = len(call["repeats"]) - tensor.dim()
    times = call["repeats"][layout.dim + shift]
    if any(records(number) for number in call["repeats"]):
        raise Mixed(f"{call.name}, which pairs each record with every other")
    return AlongRecords(layout.dim + shift, layout.outer * int(times), layout.inner)


def joined(call: Call) -> Kinds:
    """Join tensors (cat, stack) that all have records in one layout."""
    tensors = [tensor for tensor in call["tensors"] if not (tensor.dim() == 1 and tensor.shape[0] == 0)]
    count = tensors[0].dim() + (call.name == "stack")
    dim = call["dim"] % count
    layout = pair([kind for _, kind in call.rows()], call.name)
    if any(kind != layout for _, kind in call.rows()) or len(call.rows()) != len(tensors):
        return Unknown(call.name)
    if call.name == "stack":
        return layout.at(layout.dim + (dim <= layout.dim))
    if dim == layout.dim:
        return Unknown(call.name)
    return layout


def picked_along(call: Call) -> Kinds:
    """Pick along another dimension (gather, scatter), every argument in the same layout."""
    tensor, layout = call.one()
    rows = [kind for _, kind in call.rows()]
    if call["dim"] % max(1, tensor.dim()) == pair(rows, call.name).dim:
        return call.merged("from record to record")
    every = len(rows) == len([*call.tensors()])  # an index without records picks from the first ones
    if not every or any(kind != layout for kind in rows):
        return Unknown(call.name)
    return layout


def index_selected(call: Call) -> Kinds:
    layout = call.one()[1]
    of_self, of_index = call.of("self"), call.of("index")
    dim = call["dim"] % max(1, call["self"].dim())
    if isinstance(of_self, AlongRecords) and of_self.dim == dim:
        return call.merged("of records by their places in the batch")
    if isinstance(of_self, AlongRecords) and isinstance(of_index, AlongRecords):
        raise Mixed(f"{call.name}, which pairs each record with every other")
    return of_self if isinstance(of_self, AlongRecords) else layout.at(dim)


def indexed(call: Call) -> Kinds:
    """Index as tensor[a, :, b]: each record's own rows, or what all share at each record's places."""
    self, indices = call["self"], list(call["indices"])
    used = [place for place, index in enumerate(indices) if index is not None]
    depth = max(indices[place].dim() for place in used)
    start = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    picked: list[Kind] = []
    for place in used:
        kind: Kind = call.kind(indices[place])
        shift = depth - indices[place].dim()
        if isinstance(kind, Numbers):
            kind = Numbers(kind.dim + shift)
        picked.append(kind.at(kind.dim + shift) if isinstance(kind, AlongRecords) else kind)
    rows = [kind for kind in picked if isinstance(kind, AlongRecords)]
    numbers = [kind for kind in picked if isinstance(kind, Numbers)]
    own = call.kind(self)
    if len({row.dim for row in rows} | {number.dim for number in numbers}) > 1:
        raise Mixed(f"{call.name}, which pairs each record with every other")
    if not isinstance(own, AlongRecords):
        unlike = any(kind != rows[0] for kind in rows)  # places of different records, taken together
        return Unknown(call.name) if numbers or not rows or unlike else rows[0].at(start + rows[0].dim)
    if own.dim not in used:
        if rows or numbers:
            raise Mixed(f"{call.name}, which pairs each record with every other")
        together = used == list(range(used[0], used[-1] + 1))
        if together and own.dim < used[0]:
            return own
        return own.at(own.dim - sum(place < own.dim for place in used) + depth)
    by = picked[used.index(own.dim)]
    plain = len(numbers) == 1 and all(
        (one.outer, one.inner) == (1, 1) for one in (own, *rows)
    )  # a place elsewhere is another's too
    if isinstance(by, Numbers) and plain:
        return own.at(start + by.dim)
    return call.merged("of records by their places in the batch")


def put(call: Call) -> Kinds:
    """Write at indices: into what all share, the records add up; else as `indexed`."""
    own = call.kind(call["self"])
    if not isinstance(own, AlongRecords):
        return call.merged("of several records in one place")
    layout = indexed(call)
    if not isinstance(layout, AlongRecords):
        return layout
    value = call.of("values")
    if isinstance(value, AlongRecords) and (value.outer, value.inner) != (own.outer, own.inner):
        return Unknown(call.name)
    reached = layout.dim + call["values"].dim() - landing(call)
    return own if not isinstance(value, AlongRecords) or value.dim == reached else Unknown(call.name)


def landing(call: Call) -> int:
    """Return how many dimensions self[indices] has."""
    used = [index for index in call["indices"] if index is not None]
    return int(call["self"].dim() - len(used) + max(index.dim() for index in used))
