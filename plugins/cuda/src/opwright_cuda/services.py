"""What opwright-cuda does for native libraries of other packages; ``services.h`` is its C side."""

from __future__ import annotations

import ctypes

from opwright_cuda import native
from opwright_cuda.compile.toolchain import current_toolchain
from opwright_cuda.source import Source


def services_address() -> int:
    """Return the address of the table of ``services.h``, which lives as long as the process."""
    function = native.library().opwright_cuda_services_v1
    function.restype = ctypes.c_void_p
    address: int = function()
    return address


def count_gpus() -> int:
    """Return how many GPUs the driver shows.

    Raises
    ------
    DeviceNotFoundError
        There is no driver, or it is too old.
    """
    return native.count_gpus()


def load_kernel(source: Source, expression: str, gpu: int) -> int:
    """Return the driver's handle of a kernel, compiled where it is not kept.

    Parameters
    ----------
    source : Source
        Where the kernel is.
    expression : str
        The instance of the ``__global__`` function: ``"cosine<float>"``.
    gpu : int
        The number of the GPU whose architecture it is compiled for.

    Raises
    ------
    KernelError
        It does not compile, or the driver does not take it.
    """
    arch = native.describe_gpu(gpu).arch
    (kernel,) = current_toolchain().find(source, [expression], arch)
    return kernel.handle
