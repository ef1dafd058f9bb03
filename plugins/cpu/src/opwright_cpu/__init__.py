"""Kernels of the standard operators for the CPU, in C++; everything is named in ``plugin``."""

__version__ = "0.1.0"
