"""A plugin whose calls share one buffer."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_threads.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_threads.twice", f"{KERNELS}:TWICE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_threads.twice",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
    )
