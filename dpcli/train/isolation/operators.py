"""Rules for operators that compute, and the table with the rule of every operator.

The rules serve the proof that a *program* (a model with its loss) isolates records: each record's loss depends on that record alone.
tracker.py follows the program operator by operator. For each call with an argument that holds records, it asks a rule for the *layout* of
every output (layout.py), which says along which dimension the output holds records:

* `AlongRecords`: each number depends on one record alone, as in a sum over dimension 1 of a tensor (B, T) for B records.
* `Merged`: numbers depend on several records, as in a sum over dimension 0. No loss may depend on such numbers.
* `Unknown`: the rule does not cover the case, which proves nothing. If a loss or a gradient may depend on the output, each record is
  differentiated by itself, which is slower and safe.

A rule raises `Mixed` to refuse the program at once, for example if the operator pairs each record with every other record. A rule that
returns AlongRecords wrongly breaks the guarantee; tests/train/isolation compares the rules with the operators themselves. The rules of
operators that only move numbers are in moves.py. An operator that is not in the table `RULES` below has a rule only if torch tags it as
pointwise. `layout_in_shape` gives a layout to an output whose shape agrees with it, and `Shared` to one without a length that depends on
the number of records.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from torch import Tensor

from dpcli.train.isolation import moves
from dpcli.train.isolation.layout import (
    SHARED,
    AlongRecords,
    Call,
    Layout,
    Layouts,
    Mixed,
    Unknown,
    coefficient,
    dims_of,
    layout_in_shape,
    require_same_dim,
)

Rule = Callable[[Call], Layouts]

# The value that torch's loss operators receive for reduction="none".
NOT_REDUCED = 0

# Arguments, by operator, that the tracker hides from the rules. A backward operator receives them from its forward operator, and no other
# can read them.
HIDDEN_ARGUMENTS = {"mkldnn_rnn_layer_backward": "workspace"}


def pointwise(call: Call) -> Layouts:
    """Return the layout of an elementwise operator or a loss. The shapes of the arguments are aligned from the right.

    Without a reduction, records stay where they are. Any other reduction of a loss merges them; its backward is Unknown.

    Raises Mixed if the arguments hold the records along different dimensions.
    """
    if call.values.get("reduction", NOT_REDUCED) != NOT_REDUCED:
        return Unknown(call.name) if call.name.endswith("backward") else call.merged_layout()
    dim_count = max(tensor.dim() for tensor in call.tensors())
    aligned = [layout.at(layout.dim + dim_count - tensor.dim()) for tensor, layout in call.record_arguments()]
    result = require_same_dim(aligned, call.name)
    return call.output_layouts(result) if all(layout == result for layout in aligned) else Unknown(call.name)


def reduction(call: Call) -> Layouts:
    """Return the layouts of a reduction over the named dimensions, or over all if none is named. A reduction over the records merges."""
    tensor, layout = call.first_record_argument()
    dims = dims_of(call.values.get("dim"), tensor.dim())
    if layout.dim in dims:
        return call.merged_layout()
    if not call.values.get("keepdim", False):
        layout = layout.at(layout.dim - sum(dim < layout.dim for dim in dims))
    return [layout for _ in call.outputs]


# The names of the two factors in the schema of each product.
OPERANDS = {
    "mm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "bmm": ("self", "mat2"),
    "baddbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
}


def product(call: Call) -> Layouts:
    """Return the layout of a product of matrices or vectors, to which another tensor may be added.

    Records along the summed dimension merge. Every other dimension of a factor, such as the rows of the left or the columns of the right
    matrix, has the same number in the product.

    Raises Mixed if both factors hold the records, along different dimensions.
    """
    left, right = (call[name] for name in OPERANDS[call.name])
    summed_dims = (left.dim() - 1, max(0, right.dim() - 2))
    layouts: list[AlongRecords] = []
    for factor, summed_dim in zip((left, right), summed_dims, strict=True):
        layout = call.layout_of(factor)
        if not isinstance(layout, AlongRecords):
            continue
        if layout.dim == summed_dim:
            return call.merged_layout()
        layouts.append(layout)
    result = require_same_dim(layouts, call.name)
    if any(layout != result for layout in layouts):
        return Unknown(call.name)
    added = call.layout_of_argument("self") if "mat1" in call.values or "batch1" in call.values else None
    return result if not isinstance(added, AlongRecords) or added == result else Unknown(call.name)


def trailing_norm(call: Call) -> Layouts:
    """Return the layouts of a normalisation over the last dimensions, such as layer normalisation, and of its statistics."""
    tensor, layout = call["input"], call.layout_of_argument("input")
    if not isinstance(layout, AlongRecords):
        return Unknown(call.name)
    if layout.dim >= tensor.dim() - len(call["normalized_shape"]):
        return call.merged_layout()
    return if_consistent(call, layout, call.output_layouts(layout))


def trailing_norm_backward(call: Call) -> Layouts:
    """Return the layouts of the gradients of a normalisation over the last dimensions."""
    layout = call.first_record_argument().layout
    if layout.dim >= call["input"].dim() - len(call["normalized_shape"]):
        return call.merged_layout()
    return gradient_layouts(call, layout)


def batch_first(call: Call) -> Layouts:
    """Return the layouts of a convolution or a group normalisation, which treats each index of the first dimension separately.

    Records along another dimension are not covered.
    """
    layout = call.first_record_argument().layout
    if layout.dim != 0 or not has_full_length(call):
        return Unknown(call.name)
    return if_consistent(call, layout, call.output_layouts(layout))


def batch_first_backward(call: Call) -> Layouts:
    """Return the layouts of the gradients of a convolution or a group normalisation. They are covered as in `batch_first`."""
    layout = call.first_record_argument().layout
    if layout.dim != 0 or not has_full_length(call):
        return Unknown(call.name)
    return gradient_layouts(call, layout)


def has_full_length(call: Call) -> bool:
    """Return whether the argument N of group normalisation is the length of the first dimension. True for other operators."""
    return "N" not in call.values or coefficient(call["N"]) == coefficient(call["input"].shape[0])


def gradient_layouts(call: Call, layout: AlongRecords) -> Layouts:
    """Return the layouts of the gradient of the input, and of the gradients of the weights, which are sums over all records.

    The result is Unknown if `if_consistent` refuses the arguments.
    """
    input_gradient, *weight_gradients = call.outputs
    result: list[Layout] = [
        layout_in_shape(input_gradient, layout),
        *(call.merged_layout() for _ in weight_gradients),
    ]
    return if_consistent(call, layout, result)


def if_consistent(call: Call, layout: AlongRecords, result: list[Layout]) -> Layouts:
    """Return the result if all arguments that hold records have the layout and no weight holds records; Unknown otherwise."""
    weights_hold_records = any(isinstance(call.layout_of_argument(name), AlongRecords) for name in ("weight", "bias"))
    return result if not weights_hold_records and call.records_agree_on(layout) else Unknown(call.name)


def pooling(call: Call) -> Layouts:
    """Return the layouts of an operator that pools, pads or resamples over its last dimensions. Its name has their number, as in 2d."""
    tensor, layout = call.first_record_argument()
    spatial = re.search(r"([123])d", call.name)
    if spatial is None or layout.dim >= tensor.dim() - int(spatial[1]):
        return Unknown(call.name)
    return if_consistent(call, layout, call.output_layouts(layout))


def batch_norm(call: Call) -> Layouts:
    """Return the layouts of batch normalisation.

    In training it uses statistics of the batch and treats each channel (dimension 1) separately. Records along any other dimension then
    merge. With running statistics it treats each number separately.
    """
    layout = call.layout_of_argument("input")
    if not isinstance(layout, AlongRecords):
        return Unknown(call.name)
    # Operators without an argument `training` say in their names that they do not train.
    trains_by_name = call.name != "_batch_norm_no_update" and not call.name.endswith("no_training")
    if call.values.get("training", trains_by_name) and layout.dim != 1:
        return call.merged_layout()
    normalised, *statistics = call.outputs
    along_channels = AlongRecords(0, layout.outer, layout.inner)
    for name in ("weight", "bias", "running_mean", "running_var"):
        channel_layout = call.layout_of_argument(name)
        if isinstance(channel_layout, AlongRecords) and (layout.dim != 1 or channel_layout != along_channels):
            return Unknown(call.name)
    return [layout_in_shape(normalised, layout), *(layout_in_shape(statistic, along_channels) for statistic in statistics)]


def batch_norm_backward(call: Call) -> Layouts:
    """Return the layouts of the gradients of batch normalisation.

    The gradients of weight and bias are sums over all records, unless the records are along the channels. Gradients in training, of records
    along another dimension, are not covered: `batch_norm` merged such records.
    """
    layout = call.layout_of_argument("input") or call.layout_of_argument("grad_out")
    if not isinstance(layout, AlongRecords) or (call.values.get("train", True) and layout.dim != 1):
        return Unknown(call.name)
    input_gradient, *weight_gradients = call.outputs
    channels: Layout = AlongRecords(0, layout.outer, layout.inner) if layout.dim == 1 else call.merged_layout()
    return [layout_in_shape(input_gradient, layout), *(channels for _ in weight_gradients)]


def embedding(call: Call) -> Layouts:
    """Return the layout of rows that were looked up in a shared table. A table that holds records is not covered."""
    layout = call.layout_of_argument("indices")
    if not isinstance(layout, AlongRecords) or isinstance(call.layout_of_argument("weight"), AlongRecords):
        return Unknown(call.name)
    return layout


def embedding_backward(call: Call) -> Layouts:
    """Return the layout of the gradient of a shared table, which is a sum over all records."""
    return [call.merged_layout() for _ in call.outputs]


def likelihood(call: Call) -> Layouts:
    """Return the layouts of negative log-likelihood losses and their total weight (0 without reduction), or of the gradient."""
    if call["reduction"] != NOT_REDUCED:
        return call.merged_layout()
    layout = call.layout_of_argument("self")
    if not isinstance(layout, AlongRecords) or layout.dim != 0:
        return Unknown(call.name)
    result: list[Layout] = [layout, *(SHARED for _ in call.outputs[1:])]
    return if_consistent(call, layout, result)


def attention(call: Call) -> Layouts:
    """Return the layouts of attention, or of its gradients, on tensors (B, heads, T, d).

    Attention treats each index of the first two dimensions separately. Records along T or d merge.
    """
    layout = call.first_record_argument().layout
    if layout.dim > 1:
        return call.merged_layout()
    if any(not isinstance(call.layout_of_argument(name), AlongRecords) for name in ("query", "key", "value")):
        return Unknown(call.name)  # the operator requires equal batch sizes, and does not check them
    result = [layout_in_shape(output, layout) for output in call.outputs]
    mask = call.values.get("attn_mask", call.values.get("attn_bias"))
    if isinstance(mask, Tensor) and mask.dim() < 4 and isinstance(call.layout_of(mask), AlongRecords):
        return Unknown(call.name)
    return if_consistent(call, layout, result)


def recurrent(call: Call) -> Layouts:
    """Return the layouts of one recurrent layer on a tensor (T, B, d), and of its states. Packed sequences are not covered."""
    layout = call.layout_of_argument("input")
    if not isinstance(layout, AlongRecords) or layout.dim != 1 or call["batch_sizes"]:
        return Unknown(call.name)
    _, *states = call.outputs
    return [layout, *(layout.at(max(0, state.dim() - 2)) for state in states)]


def recurrent_backward(call: Call) -> Layouts:
    """Return the layouts of the gradients of the input, of four weights and of two states of a recurrent layer."""
    layout = call.layout_of_argument("input")
    if not isinstance(layout, AlongRecords) or layout.dim != 1 or call["batch_sizes"]:
        return Unknown(call.name)
    _, *weights, hidden, cell = call.outputs
    merged: list[Layout] = [call.merged_layout() for _ in weights]
    return [layout, *merged, layout.at(max(0, hidden.dim() - 2)), layout.at(max(0, cell.dim() - 2))]


def mixing(call: Call) -> Layouts:
    """Raise Mixed, for an operator that combines records with any arguments."""
    raise Mixed(f"{call.name} over the records")


# The names of the operators that each rule covers, separated by spaces.
NAMES_BY_RULE: dict[Rule, str] = {
    moves.elementwise_move: "alias detach lift lift_fresh lift_fresh_copy clone _to_copy contiguous positive bernoulli native_dropout "
    "native_dropout_backward _conj _neg_view resolve_conj resolve_neg",
    moves.view: "view _unsafe_view reshape view_copy flatten unflatten",
    moves.expand: "expand expand_copy",
    moves.permute: "permute permute_copy",
    moves.transpose: "transpose t transpose_copy swapaxes",
    moves.unsqueeze: "unsqueeze unsqueeze_copy",
    moves.squeeze: "squeeze squeeze_copy",
    moves.select: "select select_copy",
    moves.narrow: "slice slice_copy narrow",
    moves.split: "split split_with_sizes chunk split_copy split_with_sizes_copy unsafe_split unsafe_split_with_sizes",
    moves.unbind: "unbind unbind_copy",
    moves.select_backward: "select_backward",
    moves.slice_backward: "slice_backward",
    moves.unfold: "unfold",
    moves.pad: "constant_pad_nd",
    moves.repeat: "repeat",
    moves.join: "cat stack",
    moves.gather: "gather scatter scatter_add scatter_reduce gather_backward",
    moves.index_select: "index_select",
    moves.index: "index _unsafe_index",
    moves.index_put: "index_put _unsafe_index_put _index_put_impl",
    moves.softmax_backward: "_softmax_backward_data _log_softmax_backward_data",
    moves.scan: "_softmax _safe_softmax _log_softmax "
    "cumsum cumprod logcumsumexp cummax cummin sort argsort topk flip roll glu glu_backward",
    moves.triangle: "tril triu",
    pointwise: "copy fill zero masked_fill where threshold_backward gelu_backward tanh_backward sigmoid_backward silu_backward "
    "hardtanh_backward leaky_relu_backward elu_backward softplus_backward hardswish_backward hardsigmoid_backward mish_backward "
    "log_sigmoid_forward log_sigmoid_backward logit_backward softshrink_backward hardshrink_backward rrelu_with_noise "
    "rrelu_with_noise_backward _prelu_kernel _prelu_kernel_backward relu relu6 gelu silu hardswish "
    "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss "
    "mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward soft_margin_loss_backward "
    "normal uniform exponential geometric cauchy log_normal random poisson nan_to_num clamp_min clamp_max",
    reduction: "sum mean amax amin max min argmax argmin any all prod logsumexp std var var_mean std_mean norm nansum "
    "linalg_vector_norm count_nonzero aminmax median nanmedian mode kthvalue",
    product: " ".join(OPERANDS),
    trailing_norm: "native_layer_norm _fused_rms_norm",
    trailing_norm_backward: "native_layer_norm_backward _fused_rms_norm_backward",
    batch_first: "convolution _convolution native_group_norm",
    batch_first_backward: "convolution_backward native_group_norm_backward",
    batch_norm: "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm "
    "_native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update",
    batch_norm_backward: "native_batch_norm_backward cudnn_batch_norm_backward batch_norm_backward",
    embedding: "embedding",
    embedding_backward: "embedding_dense_backward embedding_sparse_backward",
    likelihood: "nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward",
    attention: "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward",
    pooling: "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "adaptive_max_pool2d adaptive_max_pool3d max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
    "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
    "upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_linear1d "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
    "reflection_pad1d_backward reflection_pad2d_backward replication_pad1d_backward replication_pad2d_backward",
    recurrent: "mkldnn_rnn_layer",
    recurrent_backward: "mkldnn_rnn_layer_backward",
    mixing: "randperm",
}
RULES: dict[str, Rule] = {name: rule for rule, names in NAMES_BY_RULE.items() for name in names.split()}


def names_in(text: str) -> frozenset[str]:
    """Return the names in a text, which are separated by spaces."""
    return frozenset(text.split())


# The three sets below are for tracker.py. A name too many in the first or the third, or one too few in the second, could break the
# guarantee; the opposite costs speed, or refuses a correct program.
# Operators that may create a tensor with the number of records as a length, although no argument holds records. `expand` and `repeat` then
# copy a shared tensor for each record.
CREATING = names_in(
    "empty zeros ones full rand randn randint normal new_empty new_zeros new_ones new_full empty_like zeros_like ones_like "
    "full_like rand_like randn_like randint_like expand repeat scalar_tensor empty_strided new_empty_strided"
)
# Creating operators whose numbers may differ between records: they are random, or whatever the memory held.
CREATING_UNEQUAL = names_in("rand randn randint normal rand_like randn_like randint_like empty new_empty empty_like")
# Operators whose rule covers an argument that depends on the batch size, such as a length of the output or the end of a slice.
GIVEN_BATCH_SIZE = names_in(
    "view _unsafe_view reshape view_copy expand expand_copy repeat select slice slice_backward select_backward "
    "native_group_norm native_group_norm_backward nll_loss_forward"
)
