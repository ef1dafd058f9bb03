"""Runs opwright CUDA kernels on the CPU, for tests on machines without a GPU.

The kernel sources are unchanged. A C++ compiler compiles these sources with ``native/shim.h``, and
an emulated driver launches them. The launcher of opwright-cuda, its argument packing and its graphs
are also used unchanged. ``native/shim.h`` lists the detectable errors.

>>> import opwright_cuda_emulator
>>> driver = opwright_cuda_emulator.start()
>>> ...  # device="cuda" is the CPU from here on, until the process exits
"""

from opwright_cuda_emulator._version import __version__
from opwright_cuda_emulator.driver import EmulatedDriver, start
from opwright_cuda_emulator.host_compiler import HostCompiler

__all__ = ["EmulatedDriver", "HostCompiler", "start", "__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
