"""The table of the CPU kernels; it only names things."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from opwright import plugin

WIDE = ("float32", "float64")
INT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBER = WIDE + INT
NUMBER_OR_BOOL = (*NUMBER, "bool")
ANY = ("*",)  # operators that only move bytes
CHANNELS_LAST = {"data_format": "NHWC"}


class Row(NamedTuple):
    """Kernels of one library.

    Attributes
    ----------
    room : str
        The library, ``opwright_cpu/<room>.so``, built from ``native/<room>``.
    types : str
        Operator types, separated by blanks.
    dtypes : tuple of str
        Dispatch dtypes.
    library : str
        Whose implementation, ``"native"`` or ``"onednn"``.
    priority : int
    prefers : dict
        Attribute values with which they are at their best.
    """

    room: str
    types: str
    dtypes: tuple[str, ...] = WIDE
    library: str = "native"
    priority: int = 50
    prefers: Mapping[str, str] = MappingProxyType({})


ROWS: tuple[Row, ...] = (
    Row("elementwise", "abs negative sign square clip", NUMBER),
    Row("elementwise", "exp log sqrt reciprocal erf scale"),
    Row("elementwise", "abs_grad erf_grad sqrt_grad reciprocal_grad square_grad clip_grad"),
    Row("elementwise", "relu", NUMBER),
    Row("elementwise", "sigmoid tanh softplus elu leaky_relu silu gelu"),
    Row("elementwise", "relu_grad leaky_relu_grad tanh_grad softplus_grad elu_grad"),
    Row("elementwise", "sigmoid_grad silu_grad gelu_grad"),
    Row("elementwise", "add subtract multiply power maximum minimum add_n", NUMBER),
    Row("elementwise", "divide power_grad"),
    Row("elementwise", "equal not_equal less less_equal greater greater_equal", NUMBER_OR_BOOL),
    Row("elementwise", "logical_and logical_or logical_xor logical_not", NUMBER_OR_BOOL),
    Row("elementwise", "where cast cast_like assign fill fill_like", ANY),
    Row("elementwise", "std.elementwise_chain"),
    Row("movement", "reshape reshape_like squeeze unsqueeze flatten transpose", ANY),
    Row("movement", "concat concat_grad split slice slice_grad gather embedding nonzero", ANY),
    Row("movement", "pad", NUMBER_OR_BOOL),
    Row("movement", "pad_grad gather_grad embedding_grad"),
    Row("movement", "one_hot", ("int32", "int64")),
    Row("movement", "uniform normal dropout dropout_grad"),
    Row("movement", "sgd momentum adam adamw"),
    Row("movement", "std.multi_sgd std.multi_momentum std.multi_adam std.multi_adamw"),
    Row("reduction", "max min sum_like expand_like", NUMBER),
    Row("reduction", "sum", (*WIDE, "int64", "uint64")),
    Row("reduction", "mean sum_grad mean_grad max_grad min_grad"),
    Row("reduction", "expand", ANY),
    Row("reduction", "argmax argmin", NUMBER_OR_BOOL),
    Row("reduction", "top_k", NUMBER),
    Row("reduction", "top_k_grad accuracy cos_sim cos_sim_grad"),
    Row("reduction", "softmax softmax_grad log_softmax log_softmax_grad"),
    Row("reduction", "cross_entropy cross_entropy_grad mse mse_grad"),
    Row("reduction", "softmax_with_cross_entropy softmax_with_cross_entropy_grad"),
    Row("reduction", "sigmoid_cross_entropy_with_logits sigmoid_cross_entropy_with_logits_grad"),
    Row("reduction", "layer_norm layer_norm_grad batch_norm batch_norm_grad"),
    Row("training", "fc", priority=60),
    Row("training", "cpu.fc_input_grad cpu.fc_sgd std.softmax_cross_entropy"),
    Row("onednn", "matmul", (*NUMBER, "bfloat16"), "onednn"),
    Row("onednn", "fc", (*WIDE, "bfloat16"), "onednn"),
    Row("onednn", "conv2d conv2d_grad", (*WIDE, "bfloat16"), "onednn", prefers=CHANNELS_LAST),
    Row("onednn", "cpu.conv2d_fused", ("float32", "bfloat16"), "onednn", prefers=CHANNELS_LAST),
    Row("onednn", "std.conv2d_pool_grad cpu.fold_batch_norm", ("float32",), "onednn"),
    Row("onednn", "max_pool2d avg_pool2d adaptive_avg_pool2d", WIDE, "onednn"),
    Row("onednn", "max_pool2d_grad avg_pool2d_grad adaptive_avg_pool2d_grad", WIDE, "onednn"),
)

PLAN_OPS: tuple[tuple[str, str], ...] = (
    ("training", "fc_input_grad fc_sgd"),
    ("convolution", "conv2d_fused fold_batch_norm"),
)
"""Module below ``plan_ops`` and the types, without ``cpu.``, that it defines in upper case."""

PASSES: tuple[tuple[str, str], ...] = (
    ("fuse", "fuse_fc_sgd"),
    ("fuse", "fuse_fc_input_grad"),
    ("fuse", "fuse_conv"),
)
"""Phase and name of each pass, in the order in which they run; ``fuse_x`` lies in ``passes.x``."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the operators that passes put into plans."""
    for module, types in PLAN_OPS:
        for name in types.split():
            target = f"opwright_cpu.plan_ops.{module}:{name.upper()}"
            registry.add(f"cpu.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Name the passes, all for the CPU."""
    for phase, name in PASSES:
        function = f"opwright_cpu.passes.{name.removeprefix('fuse_')}:{name}"
        registry.add(name, phase=phase, function=function, device="cpu")


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name every kernel and the library that has it."""
    for row in ROWS:
        for op_type in row.types.split():
            registry.add(
                op_type,
                device="cpu",
                dtypes="*" if row.dtypes == ANY else list(row.dtypes),
                kernel=f"opwright_cpu/{row.room}.so",
                library=row.library,
                priority=row.priority,
                prefers=row.prefers,
            )
