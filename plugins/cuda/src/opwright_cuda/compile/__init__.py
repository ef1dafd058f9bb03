"""From CUDA sources to kernels that can be launched: compiled once, kept on disk, loaded once.

It imports nothing: a process that only compiles begins with `nvrtc_program` alone.
"""
