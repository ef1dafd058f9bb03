"""A plugin whose shape rules do not compare the sizes that its kernels rely on."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_inconsistent_inputs.operators"


@plugin.hookimpl
def opwright_ops(registry):
    for name in ("reads_beside", "writes_beside", "cuts"):
        registry.add(f"broken_inconsistent_inputs.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name, kernel, library, priority in (
        ("reads_beside", "reads_beside", "numpy", 0),
        ("writes_beside", "writes_beside", "numpy", 0),
        ("cuts", "adds", "numpy", 0),
        ("cuts", "cuts", "fast", 50),
    ):
        registry.add(
            f"broken_inconsistent_inputs.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{kernel}",
            library=library,
            priority=priority,
        )
