"""The emulated driver, and the function that switches a process to it."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from opwright_cuda import native
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain
from opwright_cuda_emulator.host_compiler import HostCompiler


class EmulatedDriver:
    """The emulated driver of this process, which counts calls and can inject failures."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.emulator_count.restype = ctypes.c_int64

    def count(self, what: str) -> int:
        """Return the number of live ``allocations, streams, graphs, cudnn_descriptors``, or the
        number of ``launches, replays, products, operation_graphs, cudnn_plans`` so far.
        """
        counted: int = self._library.emulator_count(what.encode())
        return counted

    def set(self, what: str, value: int) -> None:
        """Change a setting of the emulated driver.

        `what` is ``devices``, ``memory_bytes``, ``sticky`` (the error of a lost context) or
        ``cudnn_engines`` (the bit mask of offered engines).
        """
        self._library.emulator_set(what.encode(), ctypes.c_int64(value))


def start(
    folder: Path | None = None,
    flags: Sequence[str] = ("-O1",),
    environ: Mapping[str, str] | None = None,
) -> EmulatedDriver:
    """Emulate device "cuda" on the CPU in this process; must be called before CUDA is used.

    Parameters
    ----------
    folder : Path, optional
        The folder for the driver and compiled kernels; by default ``OPWRIGHT_EMULATOR_DIR`` or a
        temporary folder.
    flags : sequence of str
        The compiler flags.
    environ : mapping, optional
        Additional environment variables to set, such as ``OPWRIGHT_EMULATOR_ORDER``.
    """
    os.environ.update(environ or {})
    if folder is None:
        kept = os.environ.get("OPWRIGHT_EMULATOR_DIR")
        folder = Path(kept or tempfile.mkdtemp(prefix="opwright-emulator-"))
    compiler = HostCompiler(folder, flags)
    driver = compiler.build_driver()
    os.environ["OPWRIGHT_CUDA_DRIVER"] = str(driver)
    os.environ["OPWRIGHT_NCCL_LIBRARY"] = str(driver)
    native.set_blas_path(str(driver))
    native.set_cudnn_path(str(driver))
    replace_toolchain(Toolchain(compiler))
    return EmulatedDriver(driver)
