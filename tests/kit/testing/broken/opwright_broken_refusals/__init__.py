"""A plugin that declines without a reason, or declines everything that it registered."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_refusals.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("broken_refusals.silent", f"{KERNELS}:SILENT")
    registry.add("broken_refusals.all", f"{KERNELS}:ALL")


@plugin.hookimpl
def opwright_kernels(registry):
    for op_type in ("broken_refusals.silent", "broken_refusals.all"):
        registry.add(
            op_type,
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:twice",
            library="numpy",
            priority=0,
        )
    registry.add(
        "broken_refusals.silent",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:Silent",
    )
    registry.add(
        "broken_refusals.all",
        device="cpu",
        dtypes=["float32", "float64"],
        kernel=f"{KERNELS}:OnlyFloat32",
    )
