"""A plugin whose gradients are wrong: always, far along an axis, or in a broadcast."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_gradient.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_gradient.square", f"{KERNELS}:SQUARE")
    registry.add("broken_gradient.twice", f"{KERNELS}:TWICE")
    registry.add("broken_gradient.sum", f"{KERNELS}:SUM")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in ("square", "square_grad", "twice", "twice_grad", "sum", "sum_grad"):
        registry.add(
            f"broken_gradient.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
