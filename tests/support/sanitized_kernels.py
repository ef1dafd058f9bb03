"""Compiles and starts processes whose kernels run under a sanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from opwright_cuda_emulator import HostCompiler

FLAGS = {
    "none": ("-O1",),
    "address": (
        *("-O0", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"),
        # AddressSanitizer shows where code accesses memory beyond the end of an object.
        *("-fsanitize=address,undefined", "-fno-sanitize=object-size,vptr"),
    ),
    "thread": ("-O0", "-g1", "-fsanitize=thread"),
}
"""Compiler options for each sanitizer; "address" includes UBSan. Kernels run only briefly here,
but take seconds to compile, so they are not optimized."""

OPTIONS = {
    # Python does not free all memory before it exits.
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:report_signal_unsafe=0",
}


def preloaded(compiler: HostCompiler, sanitizer: str) -> str:
    """Return the library to preload into a Python that was built without the sanitizer."""
    names = {"address": ("libasan.so", "libstdc++.so"), "thread": ("libtsan.so",)}
    found = []
    for name in names.get(sanitizer, ()):
        command = [compiler.compiler, f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        found.append(str(Path(path).resolve()))
    return ":".join(found)


def run_python(
    compiler: HostCompiler,
    sanitizer: str,
    arguments: Sequence[str | Path],
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python with a sanitizer library, and return the report of the sanitizer."""
    env = {**os.environ, **OPTIONS, **(environ or {})}
    library = preloaded(compiler, sanitizer)
    if library:
        env["LD_PRELOAD"] = library
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, errors="replace", check=False
    )
