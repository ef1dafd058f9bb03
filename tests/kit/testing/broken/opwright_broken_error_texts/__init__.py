"""A plugin with unhelpful errors."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_error_texts.operators"
OPERATORS = ("bare", "unnamed", "no_value")


@plugin.hookimpl
def opwright_ops(registry):
    for name in OPERATORS:
        registry.add(f"broken_error_texts.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in OPERATORS:
        registry.add(
            f"broken_error_texts.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:first_column",
        )
