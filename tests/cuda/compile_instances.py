"""Compiles instances of kernels by NVRTC in a process of its own: NVRTC holds one lock.

``compile_instances.py JOBS [LIBRARY]`` reads pickled (source, expressions, architecture) and prints
NVRTC's version, then what failed. LIBRARY is another NVRTC than the installed one.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from pathlib import Path

from opwright.errors import KernelError
from opwright_cuda.nvrtc import Nvrtc


def main(jobs: Path, library: str | None = None) -> None:
    if library is not None:
        ctypes.CDLL(library)  # cuda-bindings takes the one that is there
    compiler = Nvrtc()
    print(compiler.version)
    for source, expressions, arch in pickle.loads(jobs.read_bytes()):
        try:
            image = compiler.compile(source, expressions, arch)
        except KernelError as error:
            print(f"{arch}: {error}")
            continue
        if not image.data.startswith(b"\x7fELF") or len(set(image.names)) != len(expressions):
            print(f"{arch}: {source.name}: no machine code of {expressions}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
