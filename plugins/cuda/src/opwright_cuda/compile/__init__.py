"""Compiles CUDA sources to kernels; each kernel is compiled once and cached on disk.

This module does not import other modules, because compiler processes import only `nvrtc_program`.
"""
