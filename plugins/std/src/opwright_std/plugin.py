"""The table of the standard operators and of their NumPy kernels; it only names things.

A new operator is a file of its own and one row here. By convention the module holds the
definition under the upper-case operator type and the kernel under the type itself, with an
underscore behind it where the type is a Python builtin (``SUM`` and ``sum_``).
"""

from __future__ import annotations

import builtins
from typing import NamedTuple

from opwright import plugin

FLOAT = ("float16", "float32", "float64")
WIDE = ("float32", "float64")
INT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBER = FLOAT + INT
NUMBER_OR_BOOL = (*NUMBER, "bool")
INDEX = ("int32", "int64")
ANY = ("*",)  # operators that only move bytes
NO_KERNEL = ()


class Row(NamedTuple):
    """Operators that share a module, the dtypes of their kernels and what these may reuse.

    Attributes
    ----------
    module : str
        Module below ``opwright_std.operators``.
    types : str
        Operator types, separated by blanks.
    dtypes : tuple of str
        Dispatch dtypes of the NumPy kernels; ``NO_KERNEL`` for operators that are lowered
        otherwise (control flow, composites).
    reuse : str
        Outputs that may lie where an input lies, such as ``"out=x out=y"``.
    kernel_only : bool
        The operator is derived from another one (``<type>_grad``): only its kernel is named.
    hidden : bool
        A gradient helper, listed only on request.
    deterministic : bool
        Equal inputs give equal bits, also for repeated indices.
    """

    module: str
    types: str
    dtypes: tuple[str, ...] = FLOAT
    reuse: str = ""
    kernel_only: bool = False
    hidden: bool = False
    deterministic: bool = True


def gradient(module: str, types: str, dtypes: tuple[str, ...] = FLOAT, reuse: str = "") -> Row:
    """Row of derived gradient operators: ``types`` are the forward ones."""
    names = " ".join(f"{name}_grad" for name in types.split())
    return Row(module, names, dtypes, reuse, kernel_only=True)


def helper(module: str, types: str, dtypes: tuple[str, ...] = FLOAT, reuse: str = "") -> Row:
    """Row of operators that only gradients emit."""
    return Row(module, types, dtypes, reuse, hidden=True)


ROWS: tuple[Row, ...] = (
    # Element-wise
    Row("unary", "abs negative sign square", NUMBER, "out=x"),
    Row("unary", "clip", NUMBER, "out=x"),
    Row("unary", "exp log sqrt reciprocal erf scale", FLOAT, "out=x"),
    gradient("unary", "abs erf", reuse="x_grad=x"),
    gradient("unary", "sqrt reciprocal", reuse="x_grad=out"),
    gradient("unary", "square clip", reuse="x_grad=x x_grad=out_grad"),
    Row("activations", "relu", NUMBER, "out=x"),
    Row("activations", "sigmoid tanh softplus elu leaky_relu", FLOAT, "out=x"),
    Row("activations", "silu gelu"),
    gradient("activations", "relu leaky_relu", reuse="x_grad=out x_grad=out_grad"),
    gradient("activations", "tanh softplus", reuse="x_grad=out"),
    gradient("activations", "elu", reuse="x_grad=x"),
    gradient("activations", "sigmoid silu gelu"),
    Row("binary", "add subtract multiply power maximum minimum", NUMBER, "out=x out=y"),
    Row("binary", "divide", FLOAT, "out=x out=y"),
    gradient("binary", "power"),
    Row("comparison", "equal not_equal less less_equal greater greater_equal", NUMBER_OR_BOOL),
    Row("logical", "logical_and logical_or logical_xor logical_not", NUMBER_OR_BOOL),
    Row("where", "where", ANY, "out=y"),
    Row("add_n", "add_n", NUMBER),
    # Reductions
    Row("reduction", "sum max min", NUMBER),
    Row("reduction", "mean"),
    gradient("reduction", "sum mean max min"),
    Row("reduction", "argmax argmin", NUMBER_OR_BOOL),
    # Shape and movement
    Row("reshape", "reshape", ANY, "out=x"),
    helper("reshape", "reshape_like", ANY, "out=x"),
    Row("flatten", "flatten", ANY, "out=x"),
    Row("squeeze", "squeeze unsqueeze", ANY, "out=x"),
    Row("transpose", "transpose", ANY),
    Row("concat", "concat", ANY),
    gradient("concat", "concat"),
    Row("split", "split", ANY),
    Row("slice", "slice", ANY),
    gradient("slice", "slice"),
    Row("pad", "pad", ANY),
    gradient("pad", "pad"),
    Row("expand", "expand", ANY),
    helper("sum_like", "sum_like expand_like", NUMBER),
    Row("cast", "cast", ANY),
    helper("cast", "cast_like", ANY),
    Row("assign", "assign", ANY, "out=x"),
    Row("gather", "gather", ANY),
    gradient("gather", "gather"),
    Row("one_hot", "one_hot", INDEX),
    Row("top_k", "top_k", NUMBER),
    gradient("top_k", "top_k"),
    Row("nonzero", "nonzero", ANY),
    # Creation
    Row("fill", "fill fill_like", ANY),
    Row("random", "uniform normal"),
    # Matrix
    Row("matmul", "matmul", NUMBER),
    Row("fc", "fc", NO_KERNEL),
    Row("cos_sim", "cos_sim", WIDE),
    gradient("cos_sim", "cos_sim", WIDE),
    # Neural network
    Row("embedding", "embedding"),
    gradient("embedding", "embedding"),
    Row("conv2d", "conv2d", WIDE),
    gradient("conv2d", "conv2d", WIDE),
    Row("max_pool2d", "max_pool2d", WIDE),
    gradient("max_pool2d", "max_pool2d", WIDE),
    Row("avg_pool2d", "avg_pool2d", WIDE),
    gradient("avg_pool2d", "avg_pool2d", WIDE),
    Row("adaptive_avg_pool2d", "adaptive_avg_pool2d", WIDE),
    gradient("adaptive_avg_pool2d", "adaptive_avg_pool2d", WIDE),
    Row("dropout", "dropout", FLOAT, "out=x"),
    gradient("dropout", "dropout", reuse="x_grad=out_grad"),
    Row("softmax", "softmax", WIDE, "out=x"),
    gradient("softmax", "softmax", WIDE),
    Row("log_softmax", "log_softmax", WIDE, "out=x"),
    gradient("log_softmax", "log_softmax", WIDE, "x_grad=out"),
    Row("layer_norm", "layer_norm", WIDE),
    gradient("layer_norm", "layer_norm", WIDE),
    Row("batch_norm", "batch_norm", WIDE),
    gradient("batch_norm", "batch_norm", WIDE),
    # Losses
    Row("cross_entropy", "cross_entropy", WIDE),
    gradient("cross_entropy", "cross_entropy", WIDE),
    Row("softmax_with_cross_entropy", "softmax_with_cross_entropy", WIDE),
    gradient("softmax_with_cross_entropy", "softmax_with_cross_entropy", WIDE),
    Row("sigmoid_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits", WIDE),
    gradient("sigmoid_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits", WIDE),
    Row("mse", "mse", WIDE, "out=x out=label"),
    gradient("mse", "mse", WIDE),
    # Control flow
    Row("cond", "cond", NO_KERNEL),
    # Optimizers and metrics
    Row("optimizers", "sgd momentum", WIDE),
    Row("adam", "adam adamw", WIDE),
    Row("accuracy", "accuracy"),
)


def _attribute(op_type: str) -> str:
    return f"{op_type}_" if hasattr(builtins, op_type) else op_type


PASSES: tuple[tuple[str, str, str], ...] = (
    ("simplify", "canonicalize", "remove_identities shrink_activation_grad"),
    ("fc", "fuse", "fuse_fc"),
    ("softmax_cross_entropy", "fuse", "fuse_softmax_cross_entropy"),
    ("optimizers", "fuse", "fuse_optimizers"),
    ("batch_norm", "fuse", "fuse_batch_norm"),
    ("elementwise", "fuse", "fuse_elementwise"),  # last: it takes what the others leave
    ("nhwc", "layout", "nhwc"),
    ("conv_pool_grad", "layout", "fuse_conv_pool_grad"),  # where images lie channels last
)
"""Module below ``passes``, phase and names, in the order in which they run on any device."""


PLAN_OPS: tuple[tuple[str, str], ...] = (
    ("optimizers", "multi_sgd multi_momentum multi_adam multi_adamw"),
    ("softmax_cross_entropy", "softmax_cross_entropy"),
    ("batch_norm", "batch_norm_activation batch_norm_activation_grad"),
    ("elementwise_chain", "elementwise_chain"),
    ("conv2d_pool_grad", "conv2d_pool_grad"),
)
"""Module below ``plan_ops`` and the types, without ``std.``, that it defines in upper case."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the definition of every standard operator, and of what passes fuse them into."""
    for row in ROWS:
        if row.kernel_only:
            continue
        for op_type in row.types.split():
            target = f"opwright_std.operators.{row.module}:{op_type.upper()}"
            registry.add(op_type, target, hidden=row.hidden)
    for module, types in PLAN_OPS:
        for name in types.split():
            target = f"opwright_std.plan_ops.{module}:{name.upper()}"
            registry.add(f"std.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name the NumPy kernel of every standard operator that has one."""
    for row in ROWS:
        if row.dtypes == NO_KERNEL:
            continue
        pairs = (pair.partition("=") for pair in row.reuse.split())
        reuse = [(output, source) for output, _, source in pairs]
        for op_type in row.types.split():
            registry.add(
                op_type,
                device="cpu",
                dtypes="*" if row.dtypes == ANY else list(row.dtypes),
                kernel=f"opwright_std.operators.{row.module}:{_attribute(op_type)}",
                library="numpy",
                priority=0,
                may_reuse=reuse,
                deterministic=row.deterministic,
            )


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Name the passes that know what standard operators mean."""
    for module, phase, names in PASSES:
        for name in names.split():
            registry.add(name, phase=phase, function=f"opwright_std.passes.{module}:{name}")
