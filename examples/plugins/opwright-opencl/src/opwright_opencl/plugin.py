"""The table of the plugin, which names one device and its kernels without importing them."""

from __future__ import annotations

import opwright.plugin as plugin

FLOATS = ["float32", "float64"]

KERNELS: dict[str, str] = {
    "elementwise": "negative relu sigmoid tanh scale relu_grad sigmoid_grad tanh_grad add subtract "
    "multiply divide fill fill_like sum_grad mean_grad expand_like",
    "reduction": "sum mean sum_like",
    "softmax": "softmax softmax_grad",
    "losses": "cross_entropy cross_entropy_grad softmax_with_cross_entropy "
    "softmax_with_cross_entropy_grad",
    "matmul": "matmul fc",
    "sgd": "sgd",
}
"""Operator types by module; the name of a kernel is the type in capitals."""

MOVES = "assign reshape reshape_like flatten squeeze unsqueeze"
"""Operators that copy bytes, of any dtype."""

REUSE = {
    "negative relu sigmoid tanh scale softmax": ["out=x"],
    "relu_grad sigmoid_grad tanh_grad": ["x_grad=out_grad", "x_grad=out"],
    "softmax_grad": ["x_grad=out_grad", "x_grad=out"],
    "add subtract multiply divide": ["out=x", "out=y"],
    MOVES: ["out=x"],
}
"""Operators whose output can share the memory of an input."""


@plugin.hookimpl
def opwright_devices(registry: plugin.DeviceRegistrar) -> None:
    """Name the device."""
    registry.add("opencl", "opwright_opencl.device:DEVICES")


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name the kernels."""
    for module, types in KERNELS.items():
        for op_type in types.split():
            _add(registry, op_type, FLOATS, f"{module}:{op_type.upper()}")
    for op_type in MOVES.split():
        _add(registry, op_type, "*", "moves:MOVE")


def _add(
    registry: plugin.KernelRegistrar, op_type: str, dtypes: list[str] | str, kernel: str
) -> None:
    pairs = [pair for types, pairs in REUSE.items() if op_type in types.split() for pair in pairs]
    registry.add(
        op_type,
        device="opencl",
        dtypes=dtypes,
        kernel=f"opwright_opencl.kernels.{kernel}",
        may_reuse=[(out, given) for out, _, given in (pair.partition("=") for pair in pairs)],
    )
