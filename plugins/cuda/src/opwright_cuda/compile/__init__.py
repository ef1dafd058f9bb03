"""Compilation of CUDA sources to kernels, each of which is compiled once and cached on disk.

This module does not import others, because compiler processes import only `nvrtc_program`.
"""
