"""A plugin whose calls share one buffer."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_threads.operators"


@plugin.hookimpl
def opwright_ops(registry):
    for name in ("twice", "twice_fixed"):
        registry.add(f"broken_threads.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in ("twice", "twice_fixed"):
        registry.add(
            f"broken_threads.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{name}",
        )
