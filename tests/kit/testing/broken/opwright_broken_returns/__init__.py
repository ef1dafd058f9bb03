"""A plugin whose kernels terminate the process or never return."""

import opwright.plugin as plugin

KERNELS = "opwright_broken_returns.operators"
COMPILED = ("faults", "aborts", "spins", "picks")
PYTHON = ("exits", "loops")


@plugin.hookimpl
def opwright_ops(registry):
    for name in (*COMPILED, *PYTHON, "fine"):
        registry.add(f"broken_returns.{name}", f"{KERNELS}:{name.upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for name in COMPILED:
        registry.add(
            f"broken_returns.{name}",
            device="cpu",
            dtypes=["float32"],
            kernel="opwright_broken_returns/libreturns.so",
        )
    for name in (*PYTHON, "fine"):
        registry.add(
            f"broken_returns.{name}",
            device="cpu",
            dtypes=["float32"],
            kernel=f"{KERNELS}:{name}",
        )
