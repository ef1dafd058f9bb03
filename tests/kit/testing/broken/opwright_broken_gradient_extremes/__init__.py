"""A plugin whose gradients are correct only for ordinary numbers."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_gradient_extremes.operators"
OPERATORS = ("multiplies", "drops_nan", "cancels", "overflows", "ends")


@plugin.hookimpl
def opwright_ops(registry):
    for name in (*OPERATORS, "composed"):
        registry.add(f"broken_gradient_extremes.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for kernel in (*OPERATORS, *(f"{name}_grad" for name in OPERATORS), "composed"):
        registry.add(
            f"broken_gradient_extremes.{kernel}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{kernel}",
        )
