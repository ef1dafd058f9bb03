"""A plugin with missing or wrong declarations of shared memory."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_aliases.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_aliases.reverse", f"{KERNELS}:REVERSE")
    registry.add("broken_aliases.accumulate", f"{KERNELS}:ACCUMULATE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_aliases.reverse",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:reverse",
        may_reuse=[("out", "x")],
    )
    registry.add(
        "broken_aliases.accumulate",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:accumulate",
    )
