"""A sound plugin whose requirements the machine lacks, and one kernel whose package is damaged."""

import opwright.plugin as plugin

OPERATORS = "opwright_lacking.operators"
LACKING = {
    "lacking.module": "ImportsInPrepare",
    "lacking.module_in_run": "imports_in_run",
    "lacking.library": "AsksForLibrary",
    "lacking.own_module": "ImportsItself",
    "lacking.processor": "OnlyFloat32Here",
}


@plugin.hookimpl
def opwright_ops(registry):
    for op_type in LACKING:
        registry.add(op_type, f"{OPERATORS}:{op_type.partition('.')[2].upper()}")


@plugin.hookimpl
def opwright_kernels(registry):
    for op_type, kernel in LACKING.items():
        for name, library, priority in (("twice", "numpy", 0), (kernel, "lacking", 50)):
            registry.add(
                op_type,
                device="cpu",
                dtypes=["float32", "float64"],
                kernel=f"{OPERATORS}:{name}",
                library=library,
                priority=priority,
            )
