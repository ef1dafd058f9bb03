"""The device ``opencl`` for opwright, and kernels for it in OpenCL C."""
