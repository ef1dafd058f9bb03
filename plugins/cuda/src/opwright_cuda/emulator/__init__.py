"""Runs CUDA kernels on the CPU, for tests on machines without a GPU.

The sources are the very same: a C++ compiler takes them together with ``shim.h``, and a driver that
is made here launches them, with the native launcher, its packing of arguments and its graphs in
between. See ``shim.h`` for what it finds out and what it cannot.

>>> import opwright_cuda.emulator
>>> opwright_cuda.emulator.start()
>>> ...  # device="cuda" is the CPU from here on, until the process ends
"""

from opwright_cuda.emulator.host_compiler import EmulatedDriver, HostCompiler, start

__all__ = ["EmulatedDriver", "HostCompiler", "start"]
