"""A plugin whose fast kernels are wrong at an edge."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_reference.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_reference.tail", f"{KERNELS}:TAIL")
    registry.add("broken_reference.large", f"{KERNELS}:LARGE")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in ("tail", "large"):
        registry.add(
            f"broken_reference.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:twice",
            library="numpy",
            priority=0,
        )
        registry.add(
            f"broken_reference.{name}",
            device="cpu",
            dtypes=["float32"],
            kernel=f"{KERNELS}:fast_{name}",
        )
