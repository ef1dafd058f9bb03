"""Kernels of the host that run in a process of their own, for plugins that a user names.

`process` is one such process as this one sees it, `memory` what both share, `kernel` what stands in
the place of an isolated kernel in a plan. The other side is `opwright.isolated_kernels`, and
`child` what it has in common with other processes that answer requests.
"""

from opwright.isolation.kernel import prepare_isolated
from opwright.isolation.memory import SharedMemory
from opwright.isolation.process import KernelCall

__all__ = [
    "prepare_isolated",
    "SharedMemory",
    "KernelCall",
]
