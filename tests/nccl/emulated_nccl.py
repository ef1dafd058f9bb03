"""Makes the device "cuda" the emulated GPU, and compiles the kernels of all collectives together.

Starting a compiler for each file is slow, and each process of a run would compile the same files.
"""

from __future__ import annotations

import os
from pathlib import Path

from opwright_cuda import Source
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain
from opwright_cuda_emulator import EmulatedDriver, HostCompiler
from opwright_cuda_emulator import start as start_emulator

FLAGS = ("-O0",)

TRAVELS = {
    "Half": ("float", "int32_t"),
    "BFloat16": ("float", "int32_t"),
    "float": ("float", "int32_t"),
    "double": ("double", "int64_t"),
    "int32_t": ("int32_t", None),
    "int64_t": ("int64_t", None),
}
"""Maps an element type to the type of its sums, and to the type of its maximum if different."""


def list_expressions() -> list[str]:
    """Return the kernel instances that collectives need."""
    listed = ["begin", "end", "fingerprint", "compare", "put_part"]
    for ctype, (number, key) in TRAVELS.items():
        codes = [(number, code) for code in ("Plain", "Weighted")]
        codes += [(key, code) for code in ("Greatest", "Least") if key is not None]
        for travels, code in codes:
            listed += [f"pack<{ctype},{travels},{code}>", f"unpack<{travels},{ctype},{code}>"]
    listed += [f"put<{ctype}>" for ctype in ("float", "double", "int32_t", "int64_t")]
    for whole in ("uint16_t", "uint32_t", "uint64_t"):
        listed += [f"divide<{whole}>", f"join<{whole}>"]
    return listed


def start() -> EmulatedDriver:
    """Switch this process to the emulator."""
    folder = Path(os.environ["OPWRIGHT_EMULATOR_DIR"])
    driver = start_emulator(folder, FLAGS)
    compiler = HostCompiler(folder, FLAGS)
    source = Source.of_package("opwright_nccl", "cu/collectives.cu")
    compiler.build(source, list_expressions())
    replace_toolchain(Toolchain(compiler))
    return driver
