"""Kernels of the standard operators for the CPU, in C++; ``plugin`` registers everything."""

from opwright_cpu._version import __version__

__all__ = ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
