"""The registrations of the package, which name objects instead of importing them."""

from __future__ import annotations

from collections.abc import Mapping

from opwright import plugin
from opwright_cpu._registrations import KERNELS

CHANNELS_LAST: Mapping[str, str] = {"data_format": "NHWC"}
PREFERS = dict.fromkeys(
    ("conv2d", "conv2d_grad", "conv2d_transpose", "cpu.conv2d_fused"), CHANNELS_LAST
)
"""Attribute values for which the kernels of an operator are fastest."""

PLAN_OPS: tuple[tuple[str, str], ...] = (
    ("training", "fc_input_grad fc_sgd"),
    ("gelu_fc", "gelu_fc gelu_fc_grad"),
    ("packed_attention", "packed_attention packed_attention_grad"),
    ("folded_matmul", "folded_matmul"),
    ("lstm_train", "lstm_train lstm_train_grad"),
    ("convolution", "conv2d_fused fold_batch_norm"),
)
"""Modules of ``plan_ops``, each with the operator types (without ``cpu.``) that it defines in upper
case."""

PASSES: tuple[tuple[str, str, str], ...] = (
    ("fuse", "fuse_fc_sgd", "sgd"),
    ("fuse", "fuse_fc_input_grad", "relu_grad sigmoid_grad tanh_grad"),
    ("fuse", "fuse_gelu_fc", "gelu_grad"),
    ("fuse", "fuse_packed_attention", "scaled_dot_product_attention"),
    ("fuse", "fuse_folded_matmul", "matmul"),
    ("fuse", "fuse_conv", "conv2d"),
    ("fuse", "train_lstm", "lstm_grad"),
    ("memory", "recompute", ""),
)
"""Phase and name of each pass, in execution order, and operator types; a graph must contain at
least one of these types. ``fuse_x`` is in ``passes.x``."""


RECOMPUTE_SHARE = 0.07
"""The default of ``cpu.recompute``, as a fraction of the estimated time of a step. Estimates of
quick operators are two to three times too long. In a step of a small GPT, the recomputed operators
take 2 % of the time if they are measured alone; within the step, the difference is too small to
measure."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Register the operators that passes insert into plans."""
    for module, types in PLAN_OPS:
        for name in types.split():
            target = f"opwright_cpu.plan_ops.{module}:{name.upper()}"
            registry.add(f"cpu.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Register the passes, all of them for the CPU."""
    for phase, name, types in PASSES:
        function = f"opwright_cpu.passes.{name.removeprefix('fuse_')}:{name}"
        operators = types.split()
        registry.add(name, phase=phase, function=function, device="cpu", operators=operators)


@plugin.hookimpl
def opwright_options(registry: plugin.OptionRegistrar) -> None:
    """Declare the option that limits the time for recomputation."""
    registry.add(
        "recompute",
        default=RECOMPUTE_SHARE,
        comment="The share of a step's estimated time that may be spent on recomputing values for "
        "late readers if this saves memory; 0.0 stores every value.",
    )


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register all kernels and their libraries from the list that the build has written."""
    for file, op_type, dtypes, library, priority in KERNELS:
        registry.add(
            op_type,
            device="cpu",
            dtypes=dtypes,
            kernel=f"opwright_cpu/{file}.so",
            library=library,
            priority=priority,
            prefers=PREFERS.get(op_type),
        )
