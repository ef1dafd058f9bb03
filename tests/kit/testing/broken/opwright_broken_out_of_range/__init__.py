"""A plugin whose kernels do not check indices."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_out_of_range.operators"


@plugin.hookimpl
def opwright_ops(registry):
    for name in ("pick", "pick_clipped"):
        registry.add(f"broken_out_of_range.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name, kernel, library, priority in (
        ("pick", "pick_by_index", "numpy", 0),
        ("pick_clipped", "pick", "numpy", 0),
        ("pick_clipped", "pick_clipped", "fast", 50),
    ):
        registry.add(
            f"broken_out_of_range.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{kernel}",
            library=library,
            priority=priority,
        )
