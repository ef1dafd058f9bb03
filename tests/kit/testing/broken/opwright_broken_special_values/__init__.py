"""A plugin whose kernels turn NaN or infinity into finite values, or fail on them."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_special_values.operators"
OPERATORS = ("drops_nan", "drops_infinity", "raises", "like_reference")


@plugin.hookimpl
def opwright_ops(registry):
    for name in OPERATORS:
        registry.add(f"broken_special_values.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in OPERATORS:
        registry.add(
            f"broken_special_values.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
    registry.add(
        "broken_special_values.like_reference",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:twice",
        library="numpy",
        priority=0,
    )
