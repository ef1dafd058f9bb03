"""Kernels of the host that run in a process of their own, for plugins that a user names.

`process` is one such process as this one sees it, `memory` what both share, `kernel` what stands in
the place of an isolated kernel in a plan. The other side is `opwright.run.kernel_server`.
"""

from opwright.lowering.isolation.kernel import prepare_isolated
from opwright.lowering.isolation.memory import SharedMemory
from opwright.lowering.isolation.process import KernelCall

__all__ = [
    "prepare_isolated",
    "SharedMemory",
    "KernelCall",
]
