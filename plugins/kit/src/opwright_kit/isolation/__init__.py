"""Runs host kernels in a separate process, for plugins that the user names.

Outputs, and inputs whose data is needed, are in memory that both processes map; requests and
answers go through a pipe. A crash or a hang terminates the separate process and raises
`KernelError` here.
"""

from opwright_kit.isolation.kernel import prepare_isolated

__all__ = ["prepare_isolated"]
