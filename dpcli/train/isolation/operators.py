"""Which operator has which rule. One that is not here, and that torch does not tag as pointwise, is not understood."""

from __future__ import annotations

from collections.abc import Callable

from dpcli.train.isolation import moves, sums
from dpcli.train.isolation.call import Call
from dpcli.train.isolation.kinds import Kinds

Rule = Callable[[Call], Kinds]

NAMES: dict[Rule, str] = {
    moves.same: "alias detach lift lift_fresh lift_fresh_copy clone _to_copy contiguous positive bernoulli native_dropout "
    "native_dropout_backward _conj _neg_view resolve_conj resolve_neg",
    moves.viewed: "view _unsafe_view reshape view_copy flatten unflatten",
    moves.expanded: "expand expand_copy",
    moves.permuted: "permute permute_copy",
    moves.transposed: "transpose t transpose_copy swapaxes",
    moves.unsqueezed: "unsqueeze unsqueeze_copy",
    moves.squeezed: "squeeze squeeze_copy",
    moves.selected: "select select_copy",
    moves.sliced: "slice slice_copy narrow",
    moves.split: "split split_with_sizes chunk split_copy split_with_sizes_copy",
    moves.unbound: "unbind unbind_copy",
    moves.selected_back: "select_backward",
    moves.sliced_back: "slice_backward",
    moves.unfolded: "unfold",
    moves.padded: "constant_pad_nd",
    moves.repeated: "repeat",
    moves.joined: "cat stack",
    moves.picked_along: "gather scatter scatter_add scatter_reduce gather_backward",
    moves.index_selected: "index_select",
    moves.indexed: "index _unsafe_index",
    moves.put: "index_put _unsafe_index_put _index_put_impl",
    moves.along_back: "_softmax_backward_data _log_softmax_backward_data",
    moves.along: "_softmax _safe_softmax _log_softmax "
    "cumsum cumprod logcumsumexp cummax cummin sort argsort topk flip roll glu glu_backward tril triu_indices",
    sums.pointwise: "copy fill zero masked_fill where threshold_backward gelu_backward tanh_backward sigmoid_backward silu_backward "
    "hardtanh_backward leaky_relu_backward elu_backward softplus_backward hardswish_backward hardsigmoid_backward mish_backward "
    "log_sigmoid_forward log_sigmoid_backward logit_backward softshrink_backward hardshrink_backward rrelu_with_noise "
    "rrelu_with_noise_backward _prelu_kernel _prelu_kernel_backward relu relu6 gelu silu "
    "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss "
    "mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward soft_margin_loss_backward "
    "normal uniform exponential geometric cauchy log_normal random poisson nan_to_num clamp_min clamp_max",
    sums.reduced: "sum mean amax amin max min argmax argmin any all prod logsumexp std var var_mean std_mean norm nansum "
    "linalg_vector_norm count_nonzero aminmax median nanmedian mode kthvalue",
    sums.product: " ".join(sums.OPERANDS),
    sums.of_trailing: "native_layer_norm _fused_rms_norm",
    sums.of_trailing_back: "native_layer_norm_backward _fused_rms_norm_backward",
    sums.first_alone: "convolution _convolution native_group_norm",
    sums.first_alone_back: "convolution_backward native_group_norm_backward",
    sums.batch_norm: "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm "
    "_native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update",
    sums.batch_norm_back: "native_batch_norm_backward cudnn_batch_norm_backward batch_norm_backward",
    sums.looked_up: "embedding",
    sums.added_up: "embedding_dense_backward embedding_sparse_backward",
    sums.likelihood: "nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward",
    sums.attention: "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward",
    sums.planes: "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "adaptive_max_pool2d adaptive_max_pool3d max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
    "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
    "upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_linear1d "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
    "reflection_pad1d_backward reflection_pad2d_backward replication_pad1d_backward replication_pad2d_backward",
    sums.recurrent: "mkldnn_rnn_layer",
    sums.recurrent_back: "mkldnn_rnn_layer_backward",
    sums.never: "randperm",
}
RULES: dict[str, Rule] = {name: rule for rule, names in NAMES.items() for name in names.split()}

MADE = frozenset(
    [
        "empty",
        "zeros",
        "ones",
        "full",
        "rand",
        "randn",
        "randint",
        "normal",
        "new_empty",
        "new_zeros",
        "new_ones",
        "new_full",
        "empty_like",
        "zeros_like",
        "ones_like",
        "full_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "expand",
        "repeat",
        "scalar_tensor",
        "empty_strided",
        "new_empty_strided",
    ]
)  # whose content does not depend on how many records there are, only its shape
SIZED = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "view_copy",
        "expand",
        "expand_copy",
        "repeat",
        "select",
        "slice",
        "slice_backward",
        "select_backward",
        "native_group_norm",
        "native_group_norm_backward",
        "nll_loss_forward",
    ]
)  # which may be told the batch's size: as a length of what comes out

DRAWN = frozenset(
    [
        "rand",
        "randn",
        "randint",
        "normal",
        "rand_like",
        "randn_like",
        "randint_like",
        "empty",
        "new_empty",
        "empty_like",
    ]
)

OPAQUE = {"mkldnn_rnn_layer_backward": "workspace"}  # what an operator takes over from its own forward, and nobody else can read
