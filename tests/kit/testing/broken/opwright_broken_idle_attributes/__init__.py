"""A plugin with an attribute that neither its kernel nor its gradient reads."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_idle_attributes.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_idle_attributes.scaled", f"{KERNELS}:SCALED")
    registry.add("broken_idle_attributes.scaled_fixed", f"{KERNELS}:SCALED_FIXED")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in ("scaled", "scaled_grad", "scaled_fixed", "scaled_fixed_grad"):
        registry.add(
            f"broken_idle_attributes.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
