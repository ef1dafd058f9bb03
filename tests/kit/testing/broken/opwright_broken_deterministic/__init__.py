"""A plugin that does not declare that its summation order differs in every run."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_deterministic.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_deterministic.center", f"{KERNELS}:CENTER")


@plugin.hookimpl
def opwright_kernels(registry):
    registry.add(
        "broken_deterministic.center",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:center",
    )
