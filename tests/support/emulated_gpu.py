"""Runs the tests of CUDA kernels on the CPU if there is no GPU.

A compiler needs 0.2 s for each file, and 0.01 s for each kernel instance. Therefore, the tests
first run with kernels that do nothing, to collect all instances that they need. These instances are
then compiled together.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opwright_cuda import native
from opwright_cuda.compile.compiler import Instance
from opwright_cuda.compile.toolchain import LoadedKernel, Toolchain, replace_toolchain
from opwright_cuda.source import Source
from opwright_cuda_emulator import EmulatedDriver, HostCompiler, start
from rehearsal import rehearse

wanted_by_tests: dict[Source, set[str]] = {}
"""The kernels that the tests of this session would use on a GPU."""

INSTANCES_PER_FILE = 60
"""With more instances per file, some compilers would be idle while others are busy."""

FLAGS = ("-O0",)
"""Kernels are small and run briefly, so optimizing them takes longer than it saves."""


class Collector(Toolchain):
    """Records requested compilations; returns a kernel that does nothing."""

    def __init__(self, compiler: HostCompiler) -> None:
        super().__init__(compiler)
        self.wanted: dict[Source, set[str]] = {}
        self.nothing = Source("nothing.cu", '#include "shim.h"\n__global__ void nothing() {}')

    def must_compile(self, instance: Instance) -> bool:
        return False

    def find(self, source: Source, expressions: Sequence[str], arch: str) -> list[LoadedKernel]:
        self.wanted.setdefault(source, set()).update(expressions)
        (kernel,) = super().find(self.nothing, ["nothing"], arch)
        return [LoadedKernel(kernel.handle, None)] * len(expressions)


def collect(items: Sequence[pytest.Item], compiler: HostCompiler) -> dict[Source, set[str]]:
    """Return the kernel instances that the tests need."""
    collector = Collector(compiler)
    rehearse(items, collector)
    return collector.wanted


def compile_together(wanted: dict[Source, set[str]], compiler: HostCompiler) -> None:
    """Compile instances in parallel, at most `INSTANCES_PER_FILE` in each file."""
    parts = []
    for source, expressions in wanted.items():
        listed = sorted(expressions)
        n_parts = -(-len(listed) // INSTANCES_PER_FILE)
        parts += [(source, listed[i::n_parts]) for i in range(n_parts)]
    parts.sort(key=lambda part: -len(part[1]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for built in [pool.submit(compiler.build, *part) for part in parts]:
            # Compile errors are ignored here, since the tests that need the kernels report them.
            with contextlib.suppress(Exception):
                built.result()


def emulate(folder: Path, items: Sequence[pytest.Item]) -> Iterator[EmulatedDriver]:
    """Emulate "cuda" on the CPU, with the kernels of these tests compiled."""
    driver = start(folder, FLAGS)
    compiler = HostCompiler(folder, FLAGS)
    wanted_by_tests.update(collect(items, compiler))
    compile_together(wanted_by_tests, compiler)
    replace_toolchain(Toolchain(compiler))
    assert native.count_gpus() >= 1
    yield driver
