"""The registrations of the package, which refer to objects by name."""

from __future__ import annotations

from collections.abc import Mapping

from opwright import plugin
from opwright_cpu._registrations import KERNELS

CHANNELS_LAST: Mapping[str, str] = {"data_format": "NHWC"}
PREFERS = dict.fromkeys(
    ("conv2d", "conv2d_grad", "conv2d_transpose", "cpu.conv2d_fused"), CHANNELS_LAST
)
"""Attribute values with which kernels of an operator are fastest."""

PLAN_OPS: tuple[tuple[str, str], ...] = (
    ("training", "fc_input_grad fc_sgd"),
    ("gelu_fc", "gelu_fc gelu_fc_grad"),
    ("packed_attention", "packed_attention packed_attention_grad"),
    ("folded_matmul", "folded_matmul"),
    ("lstm_train", "lstm_train lstm_train_grad"),
    ("convolution", "conv2d_fused fold_batch_norm"),
)
"""Module below ``plan_ops`` and the types, without ``cpu.``, that it defines in upper case."""

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
"""Phase and name of each pass, in execution order, and operator types of which a graph must contain
at least one; ``fuse_x`` is in ``passes.x``."""


RECOMPUTE_SHARE = 0.07
"""The fraction of the estimated time of a step. Estimates of quick operators are two to three times
too long: of a small GPT's step the share is 2 % when measured alone, and nothing that can be
measured within."""


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Register the operators that passes insert into plans."""
    for module, types in PLAN_OPS:
        for name in types.split():
            target = f"opwright_cpu.plan_ops.{module}:{name.upper()}"
            registry.add(f"cpu.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Register the passes, all for the CPU."""
    for phase, name, types in PASSES:
        function = f"opwright_cpu.passes.{name.removeprefix('fuse_')}:{name}"
        operators = types.split()
        registry.add(name, phase=phase, function=function, device="cpu", operators=operators)


@plugin.hookimpl
def opwright_options(registry: plugin.OptionRegistrar) -> None:
    """Declare how much time may be traded for memory."""
    registry.add(
        "recompute",
        default=RECOMPUTE_SHARE,
        comment="The share of a step's estimated time that may go into computing again what a late "
        "reader needs, where that saves memory; 0.0 keeps everything.",
    )


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register every kernel and its library, as listed by the build."""
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
