"""A plugin without faults."""

import opwright.plugin as plugin

KERNELS = "opwright_good.operators"


@plugin.hookimpl
def opwright_ops(registry):
    registry.add("good.scaled_product", f"{KERNELS}:SCALED_PRODUCT")
    registry.add("good.descend", f"{KERNELS}:DESCEND")
    registry.add("good.row_sums", f"{KERNELS}:ROW_SUMS")
    registry.add("good.pick", f"{KERNELS}:PICK")


@plugin.hookimpl
def opwright_devices(registry):
    registry.add("good", "opwright_good.device:DEVICE")


@plugin.hookimpl
def opwright_kernels(registry):
    for name, kernel, may_reuse in (
        ("scaled_product", "scaled_product", [("out", "x"), ("out", "y")]),
        ("scaled_product_grad", "scaled_product_grad", []),
        ("descend", "descend", []),
        ("row_sums", "RowSums", []),
        ("row_sums_grad", "row_sums_grad", []),
        ("pick", "pick", []),
    ):
        registry.add(
            f"good.{name}",
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"{KERNELS}:{kernel}",
            may_reuse=may_reuse,
        )


@plugin.hookimpl
def opwright_passes(registry):
    registry.add(
        "good_double", phase="fuse", function="opwright_good.passes:double", operators=["add"]
    )


@plugin.hookimpl
def opwright_annexes(registry):
    registry.add("table", "good", "opwright_good.tables:ROWS")
    registry.add("check", "table", "opwright_good.tables:check_table")
