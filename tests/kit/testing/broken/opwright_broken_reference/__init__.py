"""A plugin whose fast kernels are wrong at an edge, or only if they pack an input."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_reference.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_reference.tail", f"{KERNELS}:TAIL")
    registry.add("broken_reference.large", f"{KERNELS}:LARGE")
    registry.add("broken_reference.packed_end", f"{KERNELS}:PACKED_END")
    registry.add("broken_reference.packed_once", f"{KERNELS}:PACKED_ONCE")


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
    for name, kernel in (("packed_end", "PacksWithoutEnd"), ("packed_once", "PacksOnce")):
        registry.add(
            f"broken_reference.{name}",
            device="cpu",
            dtypes=["float32"],
            kernel=f"{KERNELS}:{kernel}",
        )
