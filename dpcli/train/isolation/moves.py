"""Operators that move numbers without changing them: what becomes of the dimension that the records are along."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpcli.train.isolation.call import Call, dims_of, fitting, pair
from dpcli.train.isolation.kinds import AlongRecords, Kind, Kinds, Mixed, Numbers, Unknown
from dpcli.train.isolation.lengths import coefficient, following, records


def same(call: Call) -> Kinds:
    """Places stay."""
    _tensor, found = call.one()
    return call.everywhere(found) if agreed(call, found) else Unknown(call.name)


def agreed(call: Call, along_records: AlongRecords) -> bool:
    """Whether all that holds records has them in this layout."""
    return all(kind == along_records for _, kind in call.rows())


def viewed(call: Call) -> Kinds:
    """Another shape of the same numbers in the same order; read as numbers of another width they are others."""
    tensor, found = call.one()
    after = following(tensor.shape, found.dim)
    if after is None or call.outputs[0].dtype.itemsize != tensor.dtype.itemsize:
        return Unknown(call.name)
    return placed(call.outputs[0], found.inner * after, found) or Unknown(call.name)


def placed(output: Tensor, step: int, along_records: AlongRecords) -> AlongRecords | None:
    """Where in the output's shape two records are `step` numbers apart."""
    trailing = 1
    for dim in reversed(range(output.dim())):
        length = output.shape[dim]
        if not records(length):
            trailing *= int(length)
            continue
        times = coefficient(length)
        if times is None or trailing == 0 or step % trailing or times % (step // trailing):
            return None
        return AlongRecords(dim, times // (step // trailing), step // trailing, along_records.call)
    return None


def expanded(call: Call) -> Kinds:
    tensor, found = call.one()
    return found.at(found.dim + call.outputs[0].dim() - tensor.dim())


def permuted(call: Call) -> Kinds:
    tensor, found = call.one()
    return found.at(dims_of(list(call["dims"]), tensor.dim()).index(found.dim))


def transposed(call: Call) -> Kinds:
    tensor, found = call.one()
    count = tensor.dim()
    first, second = (0, count - 1) if call.name == "t" else (call["dim0"] % count, call["dim1"] % count)
    return found.at({first: second, second: first}.get(found.dim, found.dim))


def unsqueezed(call: Call) -> Kinds:
    tensor, found = call.one()
    at = call["dim"] % (tensor.dim() + 1)
    return found.at(found.dim + (at <= found.dim))


def squeezed(call: Call) -> Kinds:
    tensor, found = call.one()
    asked = dims_of(call.values.get("dim"), tensor.dim())
    gone = [dim for dim in asked if not records(tensor.shape[dim]) and tensor.shape[dim] == 1]
    return found.at(found.dim - sum(dim < found.dim for dim in gone))


def selected(call: Call) -> Kinds:
    """One place along a dimension."""
    tensor, found = call.one()
    dim = call["dim"] % tensor.dim()
    if records(call["index"]):
        return Unknown(call.name)
    if dim == found.dim:
        return fitting(call.outputs[0], found) if found.alike else call.merged("of a record by its place in the batch")
    return found.at(found.dim - (dim < found.dim))


def sliced(call: Call) -> Kinds:
    tensor, found = call.one()
    dim = call["dim"] % tensor.dim()
    if dim == found.dim:
        if found.alike:
            return fitting(call.outputs[0], found)
        whole = coefficient(call.outputs[0].shape[dim]) == coefficient(tensor.shape[dim])
        return found if whole and call["step"] == 1 else call.merged("of some records by their places in the batch")
    return found if not records(call["start"]) and not records_within(call["end"]) else Unknown(call.name)


def records_within(end: Any) -> bool:
    """Whether a slice's end depends on the batch; an end beyond all is none."""
    return isinstance(end, torch.SymInt) and records(end)


def split(call: Call) -> Kinds:
    tensor, found = call.one()
    if call["dim"] % tensor.dim() == found.dim:
        return call.merged("of the batch into its records")
    return [found for _ in call.outputs]


def unbound(call: Call) -> Kinds:
    """Also what is selected and put back: select_backward."""
    tensor, found = call.one()
    dim = call["dim"] % tensor.dim()
    if dim == found.dim:
        raise Mixed(f"{call.name}, a loop over the records by their places in the batch")
    return [found.at(found.dim - (dim < found.dim)) for _ in call.outputs]


def selected_back(call: Call) -> Kinds:
    tensor, found = call.one()
    dim = call["dim"] % (tensor.dim() + 1)
    return found.at(found.dim + (dim <= found.dim))


def sliced_back(call: Call) -> Kinds:
    tensor, found = call.one()
    if call["dim"] % tensor.dim() == found.dim and coefficient(tensor.shape[found.dim]) != coefficient(
        call.outputs[0].shape[found.dim]
    ):
        return Unknown(call.name)
    return found


def unfolded(call: Call) -> Kinds:
    tensor, found = call.one()
    return call.merged("over the records") if call["dimension"] % tensor.dim() == found.dim else found


def along(call: Call) -> Kinds:
    """What reorders, scans or normalises along dimensions."""
    tensor, found = call.one()
    asked = call.values.get("dim", call.values.get("dims"))
    if found.dim in dims_of(asked if asked is not None else call.values.get("dims"), tensor.dim()):
        return call.merged("along the records")
    return [found for _ in call.outputs] if agreed(call, found) else Unknown(call.name)


def along_back(call: Call) -> Kinds:
    """Gradients of what normalises: both tensors of one shape, which the operator does not look at."""
    shape, *others = (list(tensor.shape) for tensor in call.tensors())
    return along(call) if all(other == shape for other in others) else Unknown(call.name)


def padded(call: Call) -> Kinds:
    tensor, found = call.one()
    return call.merged("along the records") if found.dim >= tensor.dim() - len(call["pad"]) // 2 else found


def repeated(call: Call) -> Kinds:
    tensor, found = call.one()
    shift = len(call["repeats"]) - tensor.dim()
    times = call["repeats"][found.dim + shift]
    if any(records(number) for number in call["repeats"]):
        raise Mixed(f"{call.name}, which pairs each record with every other")
    return AlongRecords(found.dim + shift, found.outer * int(times), found.inner, found.call)


def joined(call: Call) -> Kinds:
    """cat and stack: what has records beside what is of each record alike."""
    tensors = [tensor for tensor in call["tensors"] if not (tensor.dim() == 1 and tensor.shape[0] == 0)]
    count = tensors[0].dim() + (call.name == "stack")
    dim = call["dim"] % count
    found = pair([kind for _, kind in call.rows()], call.name)
    if any(kind != found for _, kind in call.rows()) or len(call.rows()) != len(tensors):
        return Unknown(call.name)
    if call.name == "stack":
        return found.at(found.dim + (dim <= found.dim))
    if dim == found.dim:
        return Unknown(call.name)
    return found


def picked_along(call: Call) -> Kinds:
    """gather and scatter: every argument with the same layout, and picked along another dimension."""
    tensor, found = call.one()
    rows = [kind for _, kind in call.rows()]
    if call["dim"] % max(1, tensor.dim()) == pair(rows, call.name).dim:
        return call.merged("from record to record")
    whole = len(rows) == len([*call.tensors()])  # an index without records picks from the first ones
    if not whole or any(kind != found for kind in rows):
        return Unknown(call.name)
    return found


def index_selected(call: Call) -> Kinds:
    _tensor, found = call.one()
    of_self, of_index = call.of("self"), call.of("index")
    dim = call["dim"] % max(1, call["self"].dim())
    if isinstance(of_self, AlongRecords) and of_self.dim == dim:
        return call.merged("of records by their places in the batch")
    if isinstance(of_self, AlongRecords) and isinstance(of_index, AlongRecords):
        raise Mixed(f"{call.name}, which pairs each record with every other")
    return of_self if isinstance(of_self, AlongRecords) else found.at(dim)


def indexed(call: Call) -> Kinds:
    """tensor[a, :, b]: each record's own rows, or what all share at each record's places."""
    self, indices = call["self"], list(call["indices"])
    used = [place for place, index in enumerate(indices) if index is not None]
    depth = max(indices[place].dim() for place in used)
    start = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    picked: list[Kind] = []
    for place in used:
        kind: Kind = call.kind(indices[place])
        shift = depth - indices[place].dim()
        if isinstance(kind, Numbers):
            kind = Numbers(kind.dim + shift, kind.call)
        picked.append(kind.at(kind.dim + shift) if isinstance(kind, AlongRecords) else kind)
    rows = [kind for kind in picked if isinstance(kind, AlongRecords)]
    numbers = [kind for kind in picked if isinstance(kind, Numbers)]
    own = call.kind(self)
    if len({one.dim for one in rows} | {one.dim for one in numbers}) > 1:
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
    """index_put: into what all share, the records add up; else as `indexed`."""
    own = call.kind(call["self"])
    if not isinstance(own, AlongRecords):
        return call.merged("of several records in one place")
    found = indexed(call)
    if not isinstance(found, AlongRecords):
        return found
    value = call.of("values")
    if isinstance(value, AlongRecords) and (value.outer, value.inner) != (own.outer, own.inner):
        return Unknown(call.name)
    reached = found.dim + call["values"].dim() - landing(call)
    return own if not isinstance(value, AlongRecords) or value.dim == reached else Unknown(call.name)


def landing(call: Call) -> int:
    """How many dimensions self[indices] has."""
    used = [index for index in call["indices"] if index is not None]
    return int(call["self"].dim() - len(used) + max(index.dim() for index in used))
