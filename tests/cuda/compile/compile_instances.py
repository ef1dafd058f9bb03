"""Compiles kernel instances with NVRTC in a separate process, since NVRTC has a global lock.

``compile_instances.py JOBS [LIBRARY]`` reads pickled (source, expressions, architecture) and prints
the NVRTC version, then the failures. LIBRARY is an NVRTC to use instead of the installed one.

The compiler stores thread-local arrays with dynamic indices and spilled registers in local memory;
a kernel that needs local memory counts as a failure, too. Only the CUDA sine and tangent are
allowed to use such an array; they need it for large arguments.
"""

from __future__ import annotations

import ctypes
import pickle
import re
import struct
import sys
from pathlib import Path

from opwright.errors import KernelError
from opwright_cuda.compile.nvrtc import Nvrtc

SPILLED = 8
"""Allowed bytes of spilled registers per thread: two 32-bit values under a launch bound."""

SPILLED_WIDE = 24
WIDE = ("double", "int64_t")

SPILLED_BY_TURNS = 40
"""Allowed bytes per thread for digits of 2 / pi, which reduce angles beyond `kMostTurning`."""

TURNS = re.compile(r"\b(Sin|Cos|Tan)<(float|double)>")
"""Matches trigonometric functions in an instance name or a fused chain of operators."""

_KERNEL_FACTS = ".nv.info"
_FRAME_SIZE = 0x11


def read_frames(cubin: bytes) -> dict[str, int]:
    """Return the local memory per thread, in bytes, of each function in a cubin, by function name.

    Source: the ELF format of cubins as ``cuobjdump --dump-elf`` shows it.
    """
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]

    def text(section: int, place: int) -> str:
        begin = sections[section][4] + place
        return cubin[begin : cubin.index(b"\0", begin)].decode()

    frames = {}
    for section, _, _, _, begin, n_bytes, link, *_ in sections:
        if text(names, section) != _KERNEL_FACTS:
            continue
        at = begin
        while at < begin + n_bytes:
            form, fact, length = struct.unpack_from("<BBH", cubin, at)
            if fact == _FRAME_SIZE:
                symbol, frame = struct.unpack_from("<II", cubin, at + 4)
                (name,) = struct.unpack_from("<I", cubin, sections[link][4] + 24 * symbol)
                frames[text(sections[link][6], name)] = frame
            at += 4 + (length if form == 4 else 0)  # other forms use the length as value
    return frames


def allowed_bytes(text: str, expression: str) -> int:
    """Return the bytes of local memory that each thread of an instance may use."""
    if TURNS.search(expression) or TURNS.search(text):
        return SPILLED_BY_TURNS
    return SPILLED_WIDE if any(kind in expression for kind in WIDE) else SPILLED


def main(jobs: Path, library: str | None = None) -> None:
    if library is not None:
        ctypes.CDLL(library)  # cuda-bindings uses the loaded library
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
            continue
        frames = read_frames(image.data)
        for expression, name in zip(expressions, image.names, strict=True):
            if frames[name] > allowed_bytes(source.text, expression):
                print(f"{arch}: {expression}: {frames[name]} bytes of a thread are in memory")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
