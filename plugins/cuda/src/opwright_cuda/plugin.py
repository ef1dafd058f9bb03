"""The table of the CUDA kernels; it only names things.

Kernels are prepared in Python, module by module of ``kernels``, and launched by the library: where
there is no CuPy, no driver or no GPU, their first use reports what is missing.
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
CHANNELS_LAST: Final = {"data_format": "NHWC"}


class Row(NamedTuple):
    """Operators that one kernel serves.

    Attributes
    ----------
    target : str
        ``"module:ATTRIBUTE"`` below ``opwright_cuda.kernels``.
    types : str
        Operator types, separated by blanks.
    dtypes : tuple of str
        Dispatch dtypes.
    reuse : str
        Outputs that may lie where an input lies, such as ``"out=x out=y"``.
    deterministic : bool
        Two runs give the same bits.
    library : str
        Whose implementation it is.
    priority : int
        The highest is tried first.
    prefers : dict
        Attribute values with which they are at their best.
    find_refusal : str or None
        ``"module:function"`` below ``opwright_cuda`` that says why they would refuse here.
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
    """Return the kernels of a convolution: those for tensor cores want channels last."""
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


_ELEMENTWISE = "elementwise:ELEMENTWISE"

ROWS: Final[tuple[Row, ...]] = (
    Row(_ELEMENTWISE, "abs negative sign square clip relu", NUMBER, "out=x"),
    Row(_ELEMENTWISE, "exp log sqrt reciprocal erf scale", FLOAT, "out=x"),
    Row(_ELEMENTWISE, "sigmoid tanh softplus elu leaky_relu silu gelu", FLOAT, "out=x"),
    Row(
        _ELEMENTWISE,
        "abs_grad erf_grad square_grad clip_grad silu_grad gelu_grad elu_grad",
        FLOAT,
        "x_grad=x x_grad=out_grad",
    ),
    Row(
        _ELEMENTWISE,
        "sqrt_grad reciprocal_grad relu_grad leaky_relu_grad tanh_grad",
        FLOAT,
        "x_grad=out x_grad=out_grad",
    ),
    Row(_ELEMENTWISE, "softplus_grad sigmoid_grad", FLOAT, "x_grad=out x_grad=out_grad"),
    Row(_ELEMENTWISE, "add subtract multiply maximum minimum", NUMBER, "out=x out=y"),
    Row(_ELEMENTWISE, "divide", FLOAT, "out=x out=y"),
    Row(_ELEMENTWISE, "equal not_equal less less_equal greater greater_equal", NUMBER_OR_BOOL),
    Row(_ELEMENTWISE, "logical_and logical_or logical_xor logical_not", NUMBER_OR_BOOL),
    Row("elementwise:WHERE", "where", ANY, "out=x out=y"),
    Row("add_n:ADD_N", "add_n", NUMBER),
    Row("power:POWER", "power", NUMBER, "out=x out=y"),
    Row("power:POWER_GRAD", "power_grad"),
    # Reductions
    Row("reduction:REDUCE", "sum max min", NUMBER),
    Row("reduction:REDUCE", "mean"),
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
    Row("losses:ACCURACY", "accuracy"),
    # Normalization
    Row("normalization:LAYER_NORM", "layer_norm", FLOAT, "out=x"),
    Row("normalization:LAYER_NORM_GRAD", "layer_norm_grad"),
    Row("batch_norm:BATCH_NORM", "batch_norm", FLOAT, "out=x"),
    Row("batch_norm:BATCH_NORM_GRAD", "batch_norm_grad", FLOAT, "x_grad=x x_grad=out_grad"),
    Row("batch_norm:BATCH_NORM", "std.batch_norm_activation", FLOAT, "out=x out=residual"),
    Row(
        "batch_norm:BATCH_NORM_GRAD",
        "std.batch_norm_activation_grad",
        FLOAT,
        "x_grad=x x_grad=out_grad x_grad=out residual_grad=out_grad residual_grad=out",
    ),
    Row("normalization:COS_SIM", "cos_sim"),
    Row("normalization:COS_SIM_GRAD", "cos_sim_grad"),
    # Creation, copies, movement
    Row("creation:FILL", "fill fill_like", ANY),
    Row("cast:CAST", "cast cast_like", ANY),
    Row("copy:COPY", "assign reshape reshape_like flatten squeeze unsqueeze", ANY, "out=x"),
    Row("copy:EXPAND", "expand", ANY),
    Row("copy:EXPAND", "expand_like", NUMBER),
    Row("transpose:TRANSPOSE", "transpose", ANY),
    Row("concat:CONCAT", "concat", ANY),
    Row("concat:CONCAT_GRAD", "concat_grad", ANY),
    Row("concat:SPLIT", "split", ANY),
    Row("slice:SLICE", "slice", ANY),
    Row("slice:SLICE_GRAD", "slice_grad", ANY),
    Row("pad:PAD", "pad", ANY),
    Row("pad:PAD_GRAD", "pad_grad"),
    Row("one_hot:ONE_HOT", "one_hot", INDEX),
    Row("gather:GATHER", "gather embedding", ANY),
    Row("gather:GATHER_GRAD", "gather_grad embedding_grad"),
    Row("top_k:TOP_K", "top_k", NUMBER),
    Row("top_k:TOP_K_GRAD", "top_k_grad"),
    Row("optimizers:UPDATE", "sgd momentum adam adamw"),
    Row("optimizers:UPDATE", "std.multi_sgd std.multi_momentum std.multi_adam std.multi_adamw"),
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
    Row("random:DROPOUT", "dropout", FLOAT, "out=x"),
    Row("random:DROPOUT_GRAD", "dropout_grad", FLOAT, "x_grad=out_grad"),
    # Products, convolution, pooling
    Row("matmul:BLAS_MATMUL", "matmul", FLOAT, library="cublaslt", priority=60),
    Row("matmul:MATMUL", "matmul", NUMBER),
    Row("fc:FC", "fc", FLOAT, library="cublaslt", priority=60),
    *_cudnn("conv2d"),
    Row("convolution:CONV2D", "conv2d"),
    *_cudnn("conv2d_grad"),
    Row("convolution:CONV2D_GRAD", "conv2d_grad"),
    Row("pooling:MAX", "max_pool2d"),
    Row("pooling:MAX_GRAD", "max_pool2d_grad"),
    Row("pooling:AVERAGE", "avg_pool2d adaptive_avg_pool2d"),
    Row("pooling:AVERAGE_GRAD", "avg_pool2d_grad adaptive_avg_pool2d_grad"),
)

NOT_THERE: Final = {
    "nonzero": "how many elements are not 0, only the values tell: a plan that is launched, or "
    "recorded as a graph, has made the output before it runs (2026-11-22)",
}
"""Standard operators without a CUDA kernel: why, and when that was found."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the operator that the pass of this package puts into plans."""
    target = "opwright_cuda.plan_ops.bias_activation_grad:BIAS_ACTIVATION_GRAD"
    registry.add("cuda.bias_activation_grad", target, hidden=True)


@plugin.hookimpl
def opwright_options(registry: plugin.OptionRegistrar) -> None:
    """Declare what decides how kernels round."""
    registry.add(
        "allow_tf32",
        default=False,
        comment="Products and convolutions of float32 may round what they multiply to TF32, "
        "10 bits of fraction.",
    )
    registry.add(
        "tune",
        default=False,
        comment="Convolutions try cuDNN's engines out when a plan is made, and take the fastest: "
        "another process may take another engine, with other roundings.",
    )


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Name the passes for this device alone."""
    function = "opwright_cuda.passes.bias_grad:fuse_bias_grad"
    registry.add("fuse_bias_grad", phase="fuse", function=function, device="cuda")


@plugin.hookimpl
def opwright_devices(registry: plugin.DeviceRegistrar) -> None:
    """Name the device."""
    registry.add(
        "cuda", "opwright_cuda/launcher.so", arrays="opwright_cuda.arrays.cupy_arrays:ARRAYS"
    )


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name every kernel."""
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
