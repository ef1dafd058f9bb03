"""Tests the emulated GPU: its thread stacks, its compiler, and parts of very large grids."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_planted import Shape

from opwright_cuda.source import Source, own_source
from opwright_cuda_emulator import HostCompiler

# ---- Indices beyond 2**31 ------------------------------------------------------------------------


def run_last_blocks(
    folder: Path, source: Source, expression: str, arguments: list[Any], blocks: int
) -> str:
    """Run the last four blocks of a grid with 256 threads per block; return the report."""
    compiler = HostCompiler(folder)
    library, (entry,) = compiler.build(source, [expression])
    driver, kernels = ctypes.CDLL(str(compiler.build_driver())), ctypes.CDLL(str(library))
    driver.emulator_run.restype = ctypes.c_char_p
    driver.emulator_runtime.restype = ctypes.c_void_p
    kernels.ow_attach(ctypes.c_void_p(driver.emulator_runtime()))
    pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
    shape = Shape((blocks, 1, 1), (256, 1, 1), 0)
    kernel = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(kernels, entry)))
    first, last = ctypes.c_uint64(blocks - 4), ctypes.c_uint64(blocks)
    wrong: bytes = driver.emulator_run(kernel, ctypes.byref(shape), pointers, first, last)
    return wrong.decode()


def test_elements_beyond_2_to_the_31_are_processed(emulator_folder: Path) -> None:
    n = 2**31 + 1_000
    # This only reserves address space, since only the last blocks touch pages.
    with mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) as memory:
        flags = (ctypes.c_uint8 * n).from_buffer(memory)
        for i in (n - 1, n - 999, n - 1_025):
            flags[i] = 0
        address = ctypes.c_void_p(ctypes.addressof(flags))
        blocks = -(-n // 256)
        arguments = [address, address, ctypes.c_int64(n), ctypes.c_char()]
        source = own_source("elementwise.cu")
        expression = "elementwise_flat<LogicalNot<bool>, bool, Inputs<bool>, 0u, 1, 1>"
        assert run_last_blocks(emulator_folder, source, expression, arguments, blocks) == ""
        assert (flags[n - 1], flags[n - 999], flags[n - 1_025]) == (1, 1, 0)
        del flags


# ---- Stacks --------------------------------------------------------------------------------------

WAITING = """
#include "kernel.h"
__global__ void wait() { __syncthreads(); }
"""


GOING_ON = """
#include "kernel.h"
__global__ void go_on() {}
"""


def count_mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def run_in_thread(function: Callable[[], None]) -> None:
    """Run a function in a thread and wait until the native thread has exited."""
    tasks = Path("/proc/self/task")
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
    while (tasks / str(thread.native_id)).exists():
        time.sleep(0.001)


def test_a_thread_frees_the_stacks_of_its_blocks_when_it_exits(emulator_folder: Path) -> None:
    def run() -> None:
        source = Source("wait.cu", WAITING, own_source("elementwise.cu").headers)
        assert run_last_blocks(emulator_folder, source, "wait", [], 4) == ""

    run_in_thread(run)  # opens the libraries
    before = count_mappings()
    for _ in range(8):
        run_in_thread(run)
    assert count_mappings() - before < 512  # 256 stacks and their guards


def test_threads_that_never_wait_share_a_stack(emulator_folder: Path) -> None:
    source = Source("go_on.cu", GOING_ON, own_source("elementwise.cu").headers)
    grown = []

    def run() -> None:
        before = count_mappings()
        assert run_last_blocks(emulator_folder, source, "go_on", [], 4) == ""
        grown.append(count_mappings() - before)

    for _ in range(2):  # the first iteration opens the libraries
        run_in_thread(run)
    assert grown[1] < 10


# ---- Compiled kernels ----------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file to which the arguments of every compiler call are written."""
    log, compiler = tmp_path / "log", tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {shutil.which("c++")} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return log


def test_each_process_compiles_in_separate_files(tmp_path: Path, log: Path) -> None:
    source = Source("go_on.cu", GOING_ON, own_source("elementwise.cu").headers)
    for _ in range(2):
        library, _names = HostCompiler(tmp_path / "kernels").build(source, ["go_on"])
        library.unlink()  # as if the other process had not finished yet
    calls = [line.split() for line in log.read_text().splitlines() if "go_on.cu" in line]
    # The shim is installed atomically and never changed.
    read = [
        {word for word in call if str(tmp_path) in word and "/shim-" not in word} for call in calls
    ]
    assert len(read) == 2
    assert read[0].isdisjoint(read[1])


def test_the_shim_is_precompiled_once_for_each_set_of_flags(tmp_path: Path, log: Path) -> None:
    headers = own_source("elementwise.cu").headers
    if "clang" in HostCompiler(tmp_path).version:
        pytest.skip("clang reads the shim itself")
    for flags in (("-O0",), ("-O0",), ("-O1",)):
        compiler = HostCompiler(tmp_path / "kernels", flags)
        compiler.build(Source("go_on.cu", GOING_ON, headers), ["go_on"])
        compiler.build(Source("wait.cu", WAITING, headers), ["wait"])
    calls = log.read_text().splitlines()
    assert sum("-x c++-header" in call for call in calls) == 2
    kernels = [call for call in calls if ".cu.cc" in call]
    assert len(kernels) == 4
    for call in kernels:
        header = Path(call.split("-include ")[1].split()[0])
        assert header.with_name("shim.h.gch").exists()
        (used,) = re.findall("^! (.*)", read_headers(call), re.MULTILINE)
        assert Path(used) == header.with_name("shim.h.gch")


def read_headers(call: str) -> str:
    """Return the headers that GCC reads in a call; ``!`` marks a precompiled header in use."""
    arguments = call.split()
    empty = ["-fsyntax-only", "-H", "-x", "c++", os.devnull]
    options = [a for a in arguments[: arguments.index("-o")] if not a.endswith(".cc")]
    command = [shutil.which("c++") or "", *options, *empty]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr
