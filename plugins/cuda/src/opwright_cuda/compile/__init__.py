"""From CUDA sources to launchable kernels: compiled once, cached on disk, loaded once.

It imports nothing, since compiler processes start with `nvrtc_program` only.
"""
