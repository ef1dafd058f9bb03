"""Kernels: what each operator launches, decided in ``prepare``. No file here imports pyopencl."""
