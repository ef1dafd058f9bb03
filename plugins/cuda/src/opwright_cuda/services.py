"""Services of opwright-cuda for other native libraries, declared in ``services.h``."""

from __future__ import annotations

import ctypes

from opwright_cuda import native
from opwright_cuda.compile.toolchain import current_toolchain
from opwright_cuda.source import Source


def services_address() -> int:
    """Return the address of the table of ``services.h``, valid until the process ends."""
    function = native.library().opwright_cuda_services_v1
    function.restype = ctypes.c_void_p
    address: int = function()
    return address


def count_gpus() -> int:
    """Return the number of visible GPUs.

    Raises
    ------
    DeviceNotFoundError
        If the driver is missing or too old.
    """
    return native.count_gpus()


def load_kernel(source: Source, expression: str, gpu: int) -> int:
    """Return the driver handle of a kernel; compile the kernel unless it is cached.

    Parameters
    ----------
    source : Source
        The source of the kernel.
    expression : str
        The instance of the ``__global__`` function: ``"cosine<float>"``.
    gpu : int
        The index of the GPU whose architecture it is compiled for.

    Raises
    ------
    KernelError
        If it does not compile, or the driver rejects it.
    """
    arch = native.describe_gpu(gpu).arch
    (kernel,) = current_toolchain().find(source, [expression], arch)
    return kernel.handle
