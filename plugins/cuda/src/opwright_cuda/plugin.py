"""Registrations of the CUDA kernels.

Kernels are prepared in Python, by the modules of ``kernels``, and launched by the library. If CuPy,
a driver or a GPU is missing, their first use raises an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from opwright import plugin

FLOAT: Final = ("float16", "bfloat16", "float32", "float64")
WIDE: Final = ("float32", "float64")
HALF: Final = ("float16", "bfloat16")
SINGLE: Final = ("float32",)
INT: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBER: Final = FLOAT + INT
NUMBER_OR_BOOL: Final = (*NUMBER, "bool")
INDEX: Final = ("int32", "int64")
ANY: Final = ("*",)
UNMEASURED: Final = 40
"""The priority of kernels that were never timed on a GPU: they run only if they are pinned."""

CHANNELS_LAST: Final = {"data_format": "NHWC"}


class Row(NamedTuple):
    """The operators of one kernel.

    Attributes
    ----------
    target : str
        ``"module:ATTRIBUTE"`` below ``opwright_cuda.kernels``.
    types : str
        Operator types, separated by blanks.
    dtypes : tuple of str
        Dispatch dtypes.
    reuse : str
        Outputs that may reuse the memory of an input, such as ``"out=x out=y"``.
    deterministic : bool
        Whether results are bitwise identical in every run.
    library : str
        The library that implements it.
    priority : int
        The highest is tried first.
    prefers : dict
        Attribute values with the best performance.
    find_refusal : str or None
        ``"module:function"`` below ``opwright_cuda`` that returns the reason for a refusal, if any.
    """

    target: str
    types: str
    dtypes: tuple[str, ...] = FLOAT
    reuse: str = ""
    deterministic: bool = True
    library: str = "native"
    priority: int = 50
    prefers: Mapping[str, str] = MappingProxyType({})
    find_refusal: str | None = None


def _cudnn(op_type: str) -> tuple[Row, ...]:
    """Return the kernels of a convolution; kernels for tensor cores prefer channels last."""
    target = f"cudnn_convolution:{op_type.upper()}"
    single = Row(
        target, op_type, SINGLE, library="cudnn", priority=60, find_refusal="cudnn:find_refusal"
    )
    half = single._replace(dtypes=HALF, prefers=CHANNELS_LAST)
    tf32 = half._replace(
        target=f"{target}_TF32",
        dtypes=SINGLE,
        library="cudnn_tf32",
        priority=61,
        find_refusal="cudnn:find_tf32_refusal",
    )
    return half, tf32, single


def _batch_norm(kind: str, dtypes: tuple[str, ...]) -> tuple[Row, Row]:
    """Return the kernels of batch_norm with fused residual and activation."""
    reuse = "x_grad=x x_grad=out_grad x_grad=out residual_grad=out_grad residual_grad=out"
    return (
        Row("batch_norm:BATCH_NORM", f"std.batch_norm_{kind}", dtypes, "out=x out=residual"),
        Row("batch_norm:BATCH_NORM_GRAD", f"std.batch_norm_{kind}_grad", dtypes, reuse),
    )


_ELEMENTWISE = "elementwise:ELEMENTWISE"

ROWS: Final[tuple[Row, ...]] = (
    Row(_ELEMENTWISE, "abs negative sign square clip relu", NUMBER, "out=x"),
    Row(_ELEMENTWISE, "exp log sqrt reciprocal erf erfc scale", FLOAT, "out=x"),
    Row(_ELEMENTWISE, "sigmoid tanh softplus elu leaky_relu silu gelu", FLOAT, "out=x"),
    Row(
        _ELEMENTWISE,
        "abs_grad erf_grad square_grad clip_grad silu_grad gelu_grad elu_grad",
        FLOAT,
        "x_grad=x x_grad=out_grad",
    ),
    Row(
        _ELEMENTWISE,
        "sqrt_grad reciprocal_grad relu_grad leaky_relu_grad tanh_grad softplus_grad sigmoid_grad "
        "rsqrt_grad tan_grad relu6_grad hard_sigmoid_grad log_sigmoid_grad",
        FLOAT,
        "x_grad=out x_grad=out_grad",
    ),
    Row(_ELEMENTWISE, "expm1 log1p log2 rsqrt pow_scalar", FLOAT, "out=x"),
    Row(_ELEMENTWISE, "increment ceil floor round nan_to_num", NUMBER, "out=x"),
    Row(_ELEMENTWISE, "isnan isinf isfinite", NUMBER_OR_BOOL),
    Row(_ELEMENTWISE, "sin cos tan asin acos atan sinh cosh", FLOAT, "out=x"),
    Row(_ELEMENTWISE, "relu6 hard_sigmoid hard_swish hard_shrink soft_shrink", FLOAT, "out=x"),
    Row(_ELEMENTWISE, "thresholded_relu prelu log_sigmoid softsign mish", FLOAT, "out=x"),
    Row(_ELEMENTWISE, "tanh_shrink selu celu swish stanh soft_relu", FLOAT, "out=x"),
    Row(
        _ELEMENTWISE,
        "asin_grad acos_grad atan_grad nan_to_num_grad hard_swish_grad hard_shrink_grad "
        "soft_shrink_grad thresholded_relu_grad softsign_grad mish_grad tanh_shrink_grad "
        "selu_grad celu_grad swish_grad stanh_grad soft_relu_grad",
        FLOAT,
        "x_grad=x x_grad=out_grad",
    ),
    Row(_ELEMENTWISE, "squared_difference mod floor_divide", NUMBER, "out=x out=y"),
    Row(_ELEMENTWISE, "atan2 atan2_derivative copysign", FLOAT, "out=x out=y"),
    Row(_ELEMENTWISE, "bitwise_and bitwise_or bitwise_xor bitwise_not", (*INT, "bool"), "out=x"),
    Row(_ELEMENTWISE, "left_shift right_shift", INT, "out=x"),
    Row(_ELEMENTWISE, "lerp"),
    Row(_ELEMENTWISE, "add subtract multiply maximum minimum", NUMBER, "out=x out=y"),
    Row(_ELEMENTWISE, "divide", FLOAT, "out=x out=y"),
    Row(_ELEMENTWISE, "equal not_equal less less_equal greater greater_equal", NUMBER_OR_BOOL),
    Row(_ELEMENTWISE, "logical_and logical_or logical_xor logical_not", NUMBER_OR_BOOL),
    Row("elementwise:WHERE", "where", ANY, "out=x out=y"),
    Row("add_n:ADD_N", "add_n", NUMBER),
    Row("power:POWER", "power", NUMBER, "out=x out=y"),
    Row("power:POWER_GRAD", "power_grad"),
    # Reductions
    Row("reduction:REDUCE", "sum prod max min any all", NUMBER_OR_BOOL),
    Row("reduction:REDUCE", "mean norm"),
    Row("reduction:SUM_LIKE", "sum_like", NUMBER),
    Row("reduction:EXPAND", "sum_grad mean_grad"),
    Row("reduction:EXTREMUM_GRAD", "max_grad min_grad"),
    Row("reduction:POSITION", "argmax argmin", NUMBER_OR_BOOL),
    # Losses
    Row("softmax:SOFTMAX", "softmax log_softmax", FLOAT, "out=x"),
    Row(
        "softmax:SOFTMAX_GRAD",
        "softmax_grad log_softmax_grad",
        FLOAT,
        "x_grad=out x_grad=out_grad",
    ),
    Row("losses:SOFTMAX_LOSS", "softmax_with_cross_entropy", FLOAT, "softmax=logits"),
    Row(
        "losses:SOFTMAX_LOSS_GRAD", "softmax_with_cross_entropy_grad", FLOAT, "logits_grad=softmax"
    ),
    Row("losses:CROSS_ENTROPY", "cross_entropy"),
    Row("losses:CROSS_ENTROPY_GRAD", "cross_entropy_grad"),
    Row("losses:ELEMENTS", "mse sigmoid_cross_entropy_with_logits", FLOAT, "out=x out=label"),
    Row("losses:ELEMENTS_GRAD", "mse_grad sigmoid_cross_entropy_with_logits_grad"),
    Row("losses:NLL", "nll"),
    Row("losses:NLL_GRAD", "nll_grad"),
    Row(
        "pointwise_losses:LOSS",
        "l1 smooth_l1 huber hinge log_loss kl_div margin_rank_loss rank_loss",
        FLOAT,
        "out=x out=label",
    ),
    Row(
        "pointwise_losses:LOSS_GRAD",
        "l1_grad smooth_l1_grad huber_grad hinge_grad log_loss_grad kl_div_grad "
        "margin_rank_loss_grad rank_loss_grad",
    ),
    Row("losses:ACCURACY", "accuracy"),
    Row("ctc_loss:CTC_LOSS", "ctc_loss"),
    Row("ctc_loss:CTC_LOSS_GRAD", "ctc_loss_grad"),
    Row("metrics:AUC", "auc"),
    Row("metrics:PRECISION_RECALL", "precision_recall"),
    Row("counting:BINCOUNT", "bincount", INDEX),
    Row("counting:HISTOGRAM", "histogram", NUMBER),
    # Normalization
    Row("normalization:LAYER_NORM", "layer_norm", FLOAT, "out=x"),
    Row("normalization:LAYER_NORM_GRAD", "layer_norm_grad"),
    Row("normalization:RMS_NORM", "rms_norm", FLOAT, "out=x"),
    Row("normalization:RMS_NORM_GRAD", "rms_norm_grad"),
    Row("normalization:GROUP_NORM", "group_norm instance_norm", FLOAT, "out=x"),
    Row("normalization:GROUP_NORM_GRAD", "group_norm_grad instance_norm_grad"),
    Row("batch_norm:BATCH_NORM", "batch_norm", FLOAT, "out=x"),
    Row("batch_norm:BATCH_NORM_GRAD", "batch_norm_grad", FLOAT, "x_grad=x x_grad=out_grad"),
    *_batch_norm("activation", FLOAT),
    *_batch_norm("halves", HALF),
    Row("rotary:ROTARY", "rotary_embedding"),
    Row("rotary:ROTARY_GRAD", "rotary_embedding_grad"),
    Row("recurrent_cells:LSTM_CELL", "lstm_cell"),
    Row("recurrent_cells:LSTM_CELL_GRAD", "lstm_cell_grad"),
    Row("recurrent_cells:GRU_CELL", "gru_cell"),
    Row("recurrent_cells:GRU_CELL_GRAD", "gru_cell_grad"),
    Row("recurrent_layers:LAYERS", "lstm gru rnn"),
    Row("recurrent_layers_grad:LAYERS_GRAD", "lstm_grad gru_grad rnn_grad"),
    Row("linear_chain_crf:LINEAR_CHAIN_CRF", "linear_chain_crf"),
    Row("linear_chain_crf:LINEAR_CHAIN_CRF_GRAD", "linear_chain_crf_grad"),
    Row("linear_chain_crf:VITERBI_DECODE", "viterbi_decode"),
    Row("edit_distance:EDIT_DISTANCE", "edit_distance", INDEX),
    Row("sequence:SEQUENCE_MASK", "sequence_mask", INDEX),
    Row("sequence:SEQUENCE_REVERSE", "sequence_reverse", ANY),
    Row("sequence:SEQUENCE_POOL", "sequence_pool"),
    Row("sequence:SEQUENCE_POOL_GRAD", "sequence_pool_grad"),
    Row("sequence_packing:SEQUENCE_UNPACK", "sequence_unpack", ANY),
    Row("sequence_packing:SEQUENCE_UNPACK_GRAD", "sequence_unpack_grad", ANY),
    Row("sequence_packing:SEQUENCE_PACK_GRAD", "sequence_pack_grad", ANY),
    Row("attention:ATTENTION", "scaled_dot_product_attention"),
    Row("attention:ATTENTION_GRAD", "scaled_dot_product_attention_grad"),
    Row(
        "fused_attention:ATTENTION",
        "scaled_dot_product_attention",
        HALF,
        library="tensor_cores",
        priority=UNMEASURED,
    ),
    Row(
        "fused_attention:ATTENTION_GRAD",
        "scaled_dot_product_attention_grad",
        HALF,
        library="tensor_cores",
        priority=UNMEASURED,
    ),
    Row("normalization:COS_SIM", "cos_sim"),
    Row("normalization:COS_SIM_GRAD", "cos_sim_grad"),
    # Creation, copies, movement
    Row("creation:FILL", "fill fill_like", ANY),
    Row("cast:CAST", "cast cast_like", ANY),
    Row(
        "copy:COPY", "assign reshape reshape_like flatten squeeze unsqueeze bit_cast", ANY, "out=x"
    ),
    Row("copy:EXPAND", "expand", ANY),
    Row("copy:EXPAND", "expand_like", NUMBER),
    Row("transpose:TRANSPOSE", "transpose", ANY),
    Row("concat:CONCAT", "concat stack", ANY),
    Row("concat:CONCAT_GRAD", "concat_grad", ANY),
    Row("concat:SPLIT", "split unstack", ANY),
    Row("slice:SLICE", "slice", ANY),
    Row("slice:SLICE_GRAD", "slice_grad", ANY),
    Row("slice:SLICE_SCATTER", "slice_scatter", ANY, "out=x"),
    Row("flip:FLIP", "flip", ANY),
    Row("flip:ROLL", "roll", ANY),
    Row("tile:TILE", "tile", ANY),
    Row("tile:TILE_GRAD", "tile_grad"),
    Row("triangle:TRIANGLE", "triu tril", ANY, "out=x"),
    Row("pad:PAD", "pad", ANY),
    Row("pad:PAD_GRAD", "pad_grad"),
    Row("one_hot:ONE_HOT", "one_hot", INDEX),
    Row("gather:GATHER", "gather embedding", ANY),
    Row("gather:GATHER_GRAD", "gather_grad embedding_grad"),
    Row("gather_nd:GATHER_ND", "gather_nd", ANY),
    Row("gather_nd:GATHER_ND_GRAD", "gather_nd_grad"),
    Row("scatter:TAKE_ALONG_AXIS", "take_along_axis", ANY),
    Row("scatter:TAKE_ALONG_AXIS_GRAD", "take_along_axis_grad"),
    Row("scatter:SCATTER", "scatter scatter_nd", NUMBER_OR_BOOL, "out=x"),
    Row("scatter:SCATTER_GRAD", "scatter_grad scatter_nd_grad"),
    Row("top_k:TOP_K", "top_k", NUMBER),
    Row("searchsorted:SEARCHSORTED", "searchsorted", NUMBER),
    Row("top_k:TOP_K_GRAD", "top_k_grad sort_grad"),
    Row("cumulative:RUNNING", "cumsum cumprod", NUMBER),
    Row("cumulative:CUMPROD_GRAD", "cumprod_grad"),
    *(
        Row("optimizers:UPDATE", f"{name} std.multi_{name}")
        for name in (
            *("sgd", "momentum", "lion", "adam", "adamw", "adamax", "nadam", "radam"),
            *("adagrad", "adadelta", "rmsprop", "proximal_gd", "proximal_adagrad", "ftrl"),
        )
    ),
    Row("sparse_optimizers:UPDATE_ROWS", "sparse_sgd sparse_momentum sparse_adagrad sparse_adam"),
    Row("norms:LAMB", "lamb"),
    Row("norms:CLIP_BY_NORM", "clip_by_norm clip_by_global_norm"),
    Row(
        "losses:SOFTMAX_CROSS_ENTROPY",
        "std.softmax_cross_entropy",
        FLOAT,
        "logits_grad=logits",
    ),
    Row(
        "bias_activation_grad:BIAS_ACTIVATION_GRAD",
        "cuda.bias_activation_grad",
        FLOAT,
        "x_grad=out x_grad=out_grad",
    ),
    Row("elementwise_chain:ELEMENTWISE_CHAIN", "std.elementwise_chain", FLOAT, "out=x"),
    Row("random:UNIFORM", "uniform"),
    Row("random:NORMAL", "normal"),
    Row("random:TRUNCATED_NORMAL", "truncated_normal"),
    Row("random:BERNOULLI", "bernoulli"),
    Row("random:BERNOULLI_PART", "std.bernoulli_part"),
    Row("random:RANDINT", "randint", INT),
    Row("described:CONSTANT", "constant", ANY),
    Row("described:STEPS", "arange", NUMBER),
    Row("described:STEPS", "linspace"),
    Row("described:EYE", "eye", ANY),
    Row("multiplex:MULTIPLEX", "multiplex", ANY),
    Row("multiplex:MULTIPLEX_GRAD", "multiplex_grad"),
    Row("random:DROPOUT", "dropout", FLOAT, "out=x"),
    Row("random:DROPOUT_PART", "std.dropout_part", FLOAT, "out=x"),
    Row("random:DROPOUT_GRAD", "dropout_grad", FLOAT, "x_grad=out_grad"),
    # Products, convolution, pooling
    Row("matmul:SMALL_MATMUL", "matmul", WIDE, library="small", priority=61),
    Row("matmul:BLAS_MATMUL", "matmul", FLOAT, library="cublaslt", priority=60),
    Row("matmul:MATMUL", "matmul", NUMBER),
    Row("grouped:GROUPED_MATMUL", "grouped_matmul"),
    Row("grouped:GROUPED_OUTER", "grouped_outer"),
    Row("fc:SMALL_FC", "fc", WIDE, library="small", priority=61),
    Row("fc:FC", "fc", FLOAT, library="cublaslt", priority=60),
    Row("layer_grads:LAYER_GRADS", "cuda.layer_grads", WIDE, library="small"),
    *_cudnn("conv2d"),
    Row("convolution:CONVOLUTION", "conv2d conv3d"),
    Row("convolution:CONV_TRANSPOSE", "conv2d_transpose conv3d_transpose"),
    *_cudnn("conv2d_grad"),
    Row("convolution:CONVOLUTION_GRAD", "conv2d_grad conv3d_grad"),
    Row("pooling:MAX", "max_pool2d max_pool3d adaptive_max_pool2d adaptive_max_pool3d"),
    Row("pooling:MAX_GRAD", "max_pool2d_grad max_pool3d_grad"),
    Row("pooling:MAX_GRAD", "adaptive_max_pool2d_grad adaptive_max_pool3d_grad"),
    Row("unpool:UNPOOL", "max_unpool2d"),
    Row("unpool:UNPOOL_GRAD", "max_unpool2d_grad"),
    Row("regions:ROI_ALIGN", "roi_align"),
    Row("regions:ROI_ALIGN_GRAD", "roi_align_grad"),
    Row("regions:ROI_POOL", "roi_pool"),
    Row("regions:ROI_POOL_GRAD", "roi_pool_grad"),
    Row("prior_box:PRIOR_BOX", "prior_box"),
    Row("interpolate:INTERPOLATE", "interpolate"),
    Row("watching:ASSERT_TRUE", "assert_true", ("bool",)),
    Row("interpolate:INTERPOLATE_GRAD", "interpolate_grad"),
    Row("pooling:AVERAGE", "avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d"),
    Row("pooling:AVERAGE_GRAD", "avg_pool2d_grad avg_pool3d_grad"),
    Row("pooling:AVERAGE_GRAD", "adaptive_avg_pool2d_grad adaptive_avg_pool3d_grad"),
)

OPTIONS: Final = {
    "allow_tf32": "Products and convolutions of float32 may round factors to TF32, which has 10 "
    "bits of fraction.",
    "tune": "When a plan is created, convolutions benchmark cuDNN engines, products benchmark "
    "cuBLASLt algorithms, and both use the fastest. The choice, and with it the rounding, can "
    "differ between processes.",
    "allow_varying": "Convolutions may use nondeterministic cuDNN engines, which compute some "
    "gradients in float32 faster.",
}
"""Options of the plugin, off by default."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Register the operators that the passes of this package create."""
    for name in ("layer_grads", "bias_activation_grad"):
        target = f"opwright_cuda.plan_ops.{name}:{name.upper()}"
        registry.add(f"cuda.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_options(registry: plugin.OptionRegistrar) -> None:
    """Declare the options that affect rounding."""
    for name, comment in OPTIONS.items():
        registry.add(name, default=False, comment=comment)


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Register the passes for this device."""
    derivatives = ("relu_grad", "sigmoid_grad", "tanh_grad")
    for name, types in (("layer_grads", ("matmul",)), ("bias_grad", derivatives)):
        target = f"opwright_cuda.passes.{name}:fuse_{name}"
        registry.add(f"fuse_{name}", phase="fuse", function=target, device="cuda", operators=types)


@plugin.hookimpl
def opwright_devices(registry: plugin.DeviceRegistrar) -> None:
    """Register the device."""
    registry.add(
        "cuda", "opwright_cuda/launcher.so", arrays="opwright_cuda.arrays.cupy_arrays:ARRAYS"
    )


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register every kernel."""
    for row in ROWS:
        pairs = (pair.partition("=") for pair in row.reuse.split())
        reuse = [(output, source) for output, _, source in pairs]
        for op_type in row.types.split():
            registry.add(
                op_type,
                device="cuda",
                dtypes="*" if row.dtypes == ANY else list(row.dtypes),
                kernel=f"opwright_cuda.kernels.{row.target}",
                library=row.library,
                priority=row.priority,
                may_reuse=reuse,
                capturable=True,
                deterministic=row.deterministic,
                prefers=row.prefers,
                find_refusal=row.find_refusal and f"opwright_cuda.{row.find_refusal}",
            )
