"""A plugin whose kernels write into their input."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_inputs_unchanged.operators"
OPERATORS = ("negate", "double")


@plugin.hookimpl
def opwright_ops(registry):
    for name in OPERATORS:
        registry.add(f"broken_inputs_unchanged.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in OPERATORS:
        registry.add(
            f"broken_inputs_unchanged.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
