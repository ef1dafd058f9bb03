"""Runs CUDA kernels of opwright on the CPU, for tests on machines without a GPU.

The sources are the very same: a C++ compiler takes them together with ``native/shim.h``, and a
driver that is made here launches them. The launcher of opwright-cuda, its packing of arguments and
its graphs stand in between. ``native/shim.h`` says which mistakes show, and which cannot.

>>> import opwright_cuda_emulator
>>> driver = opwright_cuda_emulator.start()
>>> ...  # device="cuda" is the CPU from here on, until the process ends
"""

from opwright_cuda_emulator._version import __version__
from opwright_cuda_emulator.driver import EmulatedDriver, start
from opwright_cuda_emulator.host_compiler import HostCompiler

__all__ = ["EmulatedDriver", "HostCompiler", "start", "__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
