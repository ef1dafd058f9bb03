"""What this package brings, by name only: the library is opened when it is first used."""

import opwright.plugin as plugin

LIBRARY = "opwright_cos_sim/acme_cos_sim.so"


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Name the operators that the library describes."""
    registry.add("acme.cos_sim", LIBRARY)


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Name the library's kernels, those of the gradient too."""
    for op_type in ("acme.cos_sim", "acme.cos_sim_grad"):
        registry.add(op_type, device="cpu", dtypes=["float32", "float64"], kernel=LIBRARY)
