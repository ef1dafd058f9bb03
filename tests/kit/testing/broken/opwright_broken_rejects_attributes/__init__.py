"""A plugin whose declared ranges allow values that its kernels cannot compute."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_rejects_attributes.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_rejects_attributes.scaled", f"{KERNELS}:SCALED")
    registry.add("broken_rejects_attributes.raised", f"{KERNELS}:RAISED")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in ("scaled", "raised"):
        registry.add(
            f"broken_rejects_attributes.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
