"""A plugin that writes past the end of its output."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_guard_bytes.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_guard_bytes.twice", f"{KERNELS}:TWICE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_guard_bytes.twice",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
    )
