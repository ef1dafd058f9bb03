"""Registrations of the standard operators, their NumPy kernels and passes."""

from __future__ import annotations

import builtins
from typing import Final

from opwright import plugin
from opwright_std.foreign_names import FOREIGN_NAMES
from opwright_std.names import CURVES, OPTIMIZERS, ROOTS, SCALED_CURVES, UFUNCS
from opwright_std.rows import FLOAT, INT, NO_KERNEL, ROWS


def _kernel(module: str, op_type: str) -> str:
    if op_type in UFUNCS:
        return f"opwright_std.numerics.ufuncs:{op_type}"
    name = f"{op_type}_" if hasattr(builtins, op_type) else op_type
    return f"opwright_std.operators.{module}:{name}"


CROSS_ENTROPY_GRADS: Final = ("softmax_with_cross_entropy_grad", "cross_entropy_grad")

CONVOLUTIONS: Final = ("conv2d", "conv2d_grad", "conv2d_transpose", "*.conv2d_fused")

PASSES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("simplify", "canonicalize", "remove_identities", ()),
    ("simplify", "canonicalize", "shrink_activation_grad", ("max_pool2d_grad",)),
    ("products", "canonicalize", "fold_transposes", ("transpose",)),
    ("formulas", "canonicalize", "fuse_formulas", ("exp", *CURVES, *SCALED_CURVES, *ROOTS)),
    ("fc", "fuse", "fuse_fc", ("matmul", "fc")),
    ("softmax_cross_entropy", "fuse", "fuse_softmax_cross_entropy", CROSS_ENTROPY_GRADS),
    ("optimizers", "fuse", "fuse_optimizers", OPTIMIZERS),
    ("batch_norm", "fuse", "fuse_batch_norm", ("batch_norm",)),
    ("elementwise", "fuse", "fuse_elementwise", ()),  # last: it fuses the remaining operators
    ("nhwc", "layout", "nhwc", CONVOLUTIONS),
    # This pass runs after nhwc, for channels-last images.
    ("conv_pool_grad", "layout", "fuse_conv_pool_grad", ("conv2d_grad",)),
)
"""Module below ``passes``, phase, name and required operators (any), in order of execution."""

PLAN_OPS: tuple[tuple[str, str], ...] = (
    ("optimizers", "multi_sgd multi_momentum multi_lion multi_adam multi_adamw multi_adamax"),
    ("optimizers", "multi_nadam multi_radam multi_adagrad multi_adadelta multi_rmsprop"),
    ("optimizers", "multi_proximal_gd multi_proximal_adagrad multi_ftrl"),
    ("softmax_cross_entropy", "softmax_cross_entropy"),
    ("batch_norm", "batch_norm_activation batch_norm_activation_grad"),
    ("batch_norm", "batch_norm_halves batch_norm_halves_grad"),
    ("elementwise_chain", "elementwise_chain"),
    ("conv2d_pool_grad", "conv2d_pool_grad"),
    ("parts", "dropout_part bernoulli_part"),
    ("as_shape", "as_shape"),
)
"""Module below ``plan_ops`` and the types, without ``std.``, of its upper-case definitions."""

PLAN_KERNELS: tuple[tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]], ...] = (
    ("parts", "dropout_part", FLOAT, (("out", "x"),)),
    ("parts", "bernoulli_part", FLOAT, ()),
    ("as_shape", "as_shape", INT, ()),
)
"""Module below ``plan_ops``, type, dtypes and reusable inputs of operators with NumPy kernels."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Register the definitions of all standard operators and all fused operators."""
    for row in ROWS:
        if row.kernel_only:
            continue
        for op_type in row.types.split():
            target = f"opwright_std.operators.{row.module}:{op_type.upper()}"
            aliases = FOREIGN_NAMES.get(op_type, "").split()
            registry.add(op_type, target, hidden=row.hidden, aliases=aliases)
    for module, types in PLAN_OPS:
        for name in types.split():
            target = f"opwright_std.plan_ops.{module}:{name.upper()}"
            registry.add(f"std.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the NumPy kernels of the standard operators."""
    for row in ROWS:
        if row.dtypes == NO_KERNEL:
            continue
        pairs = (pair.partition("=") for pair in row.reuse.split())
        reuse = [(output, source) for output, _, source in pairs]
        for op_type in row.types.split():
            registry.add(
                op_type,
                device="cpu",
                dtypes=list(row.dtypes),
                kernel=_kernel(row.module, op_type),
                library="numpy",
                priority=0,
                may_reuse=reuse,
                deterministic=row.deterministic,
            )
    for module, name, dtypes, may_reuse in PLAN_KERNELS:
        registry.add(
            f"std.{name}",
            device="cpu",
            dtypes=list(dtypes),
            kernel=f"opwright_std.plan_ops.{module}:{name}",
            library="numpy",
            priority=0,
            may_reuse=may_reuse,
        )


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Register the passes for standard operators."""
    for module, phase, name, operators in PASSES:
        function = f"opwright_std.passes.{module}:{name}"
        registry.add(name, phase=phase, function=function, operators=operators)


@plugin.hookimpl
def opwright_annexes(registry: plugin.AnnexRegistrar) -> None:
    """Register ONNX rows, foreign names, operation counts and batching rules."""
    registry.add("flops", "count", "opwright_std.flops:count_flops")
    registry.add("onnx", "rows.std", "opwright_std.onnx_rows:ROWS")
    registry.add("batches", "broadcast.std", "opwright_std.batches:BROADCAST")
    registry.add("batches", "axes.std", "opwright_std.batches:AXES")
    registry.add("batches", "folded.std", "opwright_std.batches:FOLDED")
