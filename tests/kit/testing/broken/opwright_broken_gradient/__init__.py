"""A plugin whose gradients are always wrong, or wrong far along an axis or for broadcast inputs."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_gradient.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_gradient.square", f"{KERNELS}:SQUARE")
    registry.add("broken_gradient.twice", f"{KERNELS}:TWICE")
    registry.add("broken_gradient.sum", f"{KERNELS}:SUM")
    registry.add("broken_gradient.branch", f"{KERNELS}:BRANCH")
    registry.add("broken_gradient.branch_fixed", f"{KERNELS}:BRANCH_FIXED")


@plugin.hookimpl
def opwright_kernels(registry):
    names = ("square", "twice", "sum", "branch", "branch_fixed")
    for name in (*names, *(f"{name}_grad" for name in names)):
        registry.add(
            f"broken_gradient.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
