"""A plugin that leaves part of its output unwritten."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_writes_every_element.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_writes_every_element.twice", f"{KERNELS}:TWICE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_writes_every_element.twice",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
    )
