"""The names of this package's objects; their modules are imported at first use."""

import opwright.plugin as plugin


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the operators."""
    registry.add("acme.swish", "opwright_swish.swish:SWISH")


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name the kernels, including the gradient's kernel."""
    for op_type, function in [("acme.swish", "swish"), ("acme.swish_grad", "swish_grad")]:
        registry.add(
            op_type,
            device="cpu",
            dtypes=["float32", "float64"],
            kernel=f"opwright_swish.swish:{function}",
        )
