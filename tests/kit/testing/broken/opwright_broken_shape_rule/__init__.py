"""A plugin whose shape rules differ from the outputs of its kernels."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_shape_rule.operators"
OPERATORS = ("too_long", "unknown", "resized", "rows_claimed", "rows_needed")


@plugin.hookimpl
def opwright_ops(registry):
    for name in OPERATORS:
        registry.add(f"broken_shape_rule.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in OPERATORS:
        registry.add(
            f"broken_shape_rule.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
