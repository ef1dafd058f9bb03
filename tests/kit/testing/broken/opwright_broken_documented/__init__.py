"""A plugin whose operator has meaningless comments."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_documented.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_documented.twice", f"{KERNELS}:TWICE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_documented.twice",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
    )
