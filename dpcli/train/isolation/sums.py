"""Operators that compute: which dimensions they add over, and which they keep apart."""

from __future__ import annotations

import re

from torch import Tensor

from dpcli.train.isolation.call import Call, dims_of, fitting, pair
from dpcli.train.isolation.kinds import SHARED, AlongRecords, Kind, Kinds, Merged, Mixed, Unknown
from dpcli.train.isolation.lengths import coefficient

NOT_REDUCED = 0  # of torch's losses: reduction="none"


def pointwise(call: Call) -> Kinds:
    """Number by number, aligned from the right."""
    if call.values.get("reduction", NOT_REDUCED) != NOT_REDUCED:
        return call.merged("over the records") if not call.name.endswith("backward") else Unknown(call.name)
    depth = max(tensor.dim() for tensor in call.tensors())
    aligned = [kind.at(kind.dim + depth - tensor.dim()) for tensor, kind in call.rows()]
    found = pair(aligned, call.name)
    return call.everywhere(found) if all(kind == found for kind in aligned) else Unknown(call.name)


def reduced(call: Call) -> Kinds:
    """Over the dimensions that are named, all where none is."""
    tensor, found = call.one()
    dims = dims_of(call.values.get("dim"), tensor.dim())
    if found.dim in dims:
        return call.merged("over the records")
    kept = call.values.get("keepdim", False)
    return [found if kept else found.at(found.dim - sum(dim < found.dim for dim in dims)) for _ in call.outputs]


def product(call: Call) -> Kinds:
    """Matrix products, with what is added to them."""
    first, second = (call[a] for a in OPERANDS[call.name])
    left, right = call.kind(first), call.kind(second)
    batched = first.dim() == 3
    found: list[AlongRecords] = []
    for kind, tensor, summed in ((left, first, first.dim() - 1), (right, second, max(0, second.dim() - 2))):
        if not isinstance(kind, AlongRecords):
            continue
        if kind.dim == summed:
            return call.merged("over the records")
        found.append(kind if batched and kind.dim == 0 else kind.at(first.dim() - 1 if tensor is second else kind.dim))
    result = pair(found, call.name)
    if any(kind != result for kind in found):
        return Unknown(call.name)
    added = call.of("self") if "mat1" in call.values or "batch1" in call.values else None
    return result if not isinstance(added, AlongRecords) or added == result else Unknown(call.name)


OPERANDS = {
    "mm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "bmm": ("self", "mat2"),
    "baddbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
}


def of_trailing(call: Call) -> Kinds:
    """Layer normalisation: over the last dimensions."""
    tensor, found = call["input"], call.of("input")
    if not isinstance(found, AlongRecords):
        return Unknown(call.name)
    if found.dim >= tensor.dim() - len(call["normalized_shape"]):
        return call.merged("over the records")
    return agreeing(call, found, call.everywhere(found))


def of_trailing_back(call: Call) -> Kinds:
    """Gradients of the input; those of weight and bias are sums over all."""
    found = call.one()[1]
    if found.dim >= call["input"].dim() - len(call["normalized_shape"]):
        return call.merged("over the records")
    return back(call, found)


def first_alone(call: Call) -> Kinds:
    """Each place of the first dimension for itself: convolutions, group normalisation."""
    found = call.one()[1]
    return agreeing(call, found, call.everywhere(found)) if found.dim == 0 and as_many(call) else Unknown(call.name)


def first_alone_back(call: Call) -> Kinds:
    found = call.one()[1]
    return back(call, found) if found.dim == 0 and as_many(call) else Unknown(call.name)


def as_many(call: Call) -> bool:
    """Group normalisation is told how many it normalises: as many as there are."""
    return "N" not in call.values or coefficient(call["N"]) == coefficient(call["input"].shape[0])


def back(call: Call, records: AlongRecords) -> Kinds:
    """(gradient of the input, of each weight in turn)."""
    first, *weights = call.outputs
    result: list[Kind] = [fitting(first, records), *(call.merged("over the records") for _ in weights)]
    return agreeing(call, records, result)


def agreeing(call: Call, records: AlongRecords, result: list[Kind]) -> Kinds:
    """The result where all arguments with records have them in the same layout, and no weights are among them."""
    weights = any(isinstance(call.of(name), AlongRecords) for name in ("weight", "bias"))
    return result if not weights and all(kind == records for _, kind in call.rows()) else Unknown(call.name)


def planes(call: Call) -> Kinds:
    """Pooling and resampling: over the last one, two or three dimensions, as the name says."""
    tensor, found = call.one()
    spatial = re.search(r"([123])d", call.name)
    if spatial is None or found.dim >= tensor.dim() - int(spatial[1]):
        return Unknown(call.name)
    return agreeing(call, found, call.everywhere(found))


def batch_norm(call: Call) -> Kinds:
    """With the batch's own statistics, each channel for itself; with kept ones, each number for itself."""
    _tensor, found = call["input"], call.of("input")
    if not isinstance(found, AlongRecords):
        return Unknown(call.name)
    own = call.values.get("training", call.name != "_batch_norm_no_update" and not call.name.endswith("no_training"))
    if own and found.dim != 1:
        return call.merged("over the records")
    first, *statistics = call.outputs
    along = AlongRecords(0, found.outer, found.inner, found.call)
    weights = [
        kind for name in ("weight", "bias", "running_mean", "running_var") if isinstance(kind := call.of(name), AlongRecords)
    ]
    if weights and (found.dim != 1 or any(kind != along for kind in weights)):
        return Unknown(call.name)
    return [fitting(first, found), *(fitting(one, along) for one in statistics)]


def batch_norm_back(call: Call) -> Kinds:
    found = call.of("input") or call.of("grad_out")
    if not isinstance(found, AlongRecords) or (call.values.get("train", True) and found.dim != 1):
        return Unknown(call.name)
    first, *weights = call.outputs
    channels: Kind = AlongRecords(0, found.outer, found.inner, found.call) if found.dim == 1 else call.merged("over the records")
    return [fitting(first, found), *(channels for _ in weights)]


def looked_up(call: Call) -> Kinds:
    """Rows of a table that all share."""
    found = call.of("indices")
    return found if isinstance(found, AlongRecords) and not isinstance(call.of("weight"), AlongRecords) else Unknown(call.name)


def added_up(call: Call) -> Kinds:
    """Gradients of what all share."""
    return [call.merged("over the records") for _ in call.outputs]


def likelihood(call: Call) -> Kinds:
    """(losses, their total weight)."""
    if call["reduction"] != NOT_REDUCED:
        return call.merged("over the records")
    found = call.of("self")
    if not isinstance(found, AlongRecords) or found.dim != 0:
        return Unknown(call.name)
    result: list[Kind] = [found, *(SHARED for _ in call.outputs[1:])]
    return agreeing(call, found, result)


def attention(call: Call) -> Kinds:
    """Each record and head for itself: (B, heads, T, d)."""
    found = call.one()[1]
    if found.dim > 1:
        return call.merged("over the records")
    if any(not isinstance(call.of(name), AlongRecords) for name in ("query", "key", "value")):
        return Unknown(call.name)  # it asks for as many of each, and does not look
    result = [fitting(output, found) for output in call.outputs]
    mask = call.values.get("attn_mask", call.values.get("attn_bias"))
    if isinstance(mask, Tensor) and mask.dim() < 4 and isinstance(call.kind(mask), AlongRecords):
        return Unknown(call.name)
    return agreeing(call, found, result)


def recurrent(call: Call) -> Kinds:
    """One layer over (T, B, d), without packing."""
    found = call.of("input")
    if not isinstance(found, AlongRecords) or found.dim != 1 or call["batch_sizes"]:
        return Unknown(call.name)
    _, *states = call.outputs
    return [found, *(found.at(max(0, state.dim() - 2)) for state in states)]


def recurrent_back(call: Call) -> Kinds:
    """(of the input, of four weights, of two states)."""
    found = call.of("input")
    if not isinstance(found, AlongRecords) or found.dim != 1 or call["batch_sizes"]:
        return Unknown(call.name)
    _, *weights, hidden, cell = call.outputs
    merged: list[Kind] = [Merged(f"{call.name} over the records") for _ in weights]
    return [found, *merged, found.at(max(0, hidden.dim() - 2)), found.at(max(0, cell.dim() - 2))]


def never(call: Call) -> Kinds:
    raise Mixed(f"{call.name} over the records")
