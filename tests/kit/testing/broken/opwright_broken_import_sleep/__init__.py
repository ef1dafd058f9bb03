"""A plugin whose hook module sleeps while it is imported."""

import time

import opwright.plugin as plugin

KERNELS = "opwright_broken_import_sleep.operators"

time.sleep(0.1)


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_import_sleep.twice", f"{KERNELS}:TWICE")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_import_sleep.twice",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
    )
