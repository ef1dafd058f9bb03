"""Kernels of the host that run in a separate process, for plugins that a user names.

`process` starts the process and sends it requests, `memory` is shared with it, and `kernel` is
what a plan runs instead of an isolated kernel. The other side is `opwright.run.kernel_server`.
"""

from opwright.lowering.isolation.kernel import prepare_isolated
from opwright.lowering.isolation.memory import SharedMemory
from opwright.lowering.isolation.process import KernelCall

__all__ = [
    "prepare_isolated",
    "SharedMemory",
    "KernelCall",
]
