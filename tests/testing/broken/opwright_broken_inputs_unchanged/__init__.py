"""A plugin whose kernel writes into its input."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_inputs_unchanged.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_inputs_unchanged.negate", f"{KERNELS}:NEGATE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_inputs_unchanged.negate",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:negate",
    )
