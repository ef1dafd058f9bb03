"""The emulated GPU: argument packing, orders of threads, their stacks, grids too large to run."""

from __future__ import annotations

import ctypes
import mmap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct_launch import Launcher
from run_planted import Shape
from samples import Call, Sample, make_call, samples

from opwright.errors import KernelError
from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.emulator import HostCompiler
from opwright_cuda.launch import Argument, LaunchPlan, Struct
from opwright_cuda.source import Source, own_source

ORDERS = ("ascending", "descending", "random")
DTYPES = ("float32", "int64")


def one_of_each() -> list[Sample]:
    """Return one sample of each operator with kernels of ours."""
    found: dict[str, dict[str, Sample]] = {}
    for sample in samples():
        if sample.library == "native":
            found.setdefault(sample.op_type, {})[sample.dtype] = sample
    return [
        next((by_dtype[d] for d in DTYPES if d in by_dtype), next(iter(by_dtype.values())))
        for by_dtype in found.values()
    ]


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("sample", one_of_each(), ids=str)
def test_results_have_the_same_bits_in_every_order_of_threads(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: Call = make_call(sample.op_type, sample.dtype)
    results = {}
    for order in ORDERS:
        monkeypatch.setenv("OPWRIGHT_EMULATOR_ORDER", order)
        results[order] = Launcher().run(sample, called)
    for order in ORDERS[1:]:
        for slot, listed in results["ascending"].items():
            for one, other in zip(listed, results[order][slot], strict=True):
                assert one.tobytes() == other.tobytes(), f"{sample}: {slot} in order {order}"


# ---- What is packed ------------------------------------------------------------------------------

TEXT = """
#include "kernel.h"
struct Pair { float first; double second; };
struct Nothing {};
__global__ void take(float* out, int64_t n, Pair pair, int32_t last, Nothing nothing) {
  out[0] = static_cast<float>(n) + pair.first + static_cast<float>(pair.second) + last;
}
"""
PAIR = Struct(np.float32(0.25), np.float64(2.0))
RIGHT: list[Argument] = [None, np.int64(7), PAIR, np.int32(3), Struct()]


def launch(arguments: list[Argument]) -> Any:
    """Return the record of a launch whose first argument is the output."""
    ctx = PrepareContext("take", {}, {"out": [Meta((1,), "float32")]}, {}, device="cuda")
    plan = LaunchPlan(ctx)
    source = Source("take.cu", TEXT, own_source("elementwise.cu").headers)
    plan.launch(source, "take", 1, 32, [plan.output("out"), *arguments[1:]])
    return plan.finish()


@pytest.mark.cuda_kernels
def test_what_is_packed_has_the_sizes_of_the_parameters() -> None:
    assert launch(RIGHT).kernel == "cuda.launch"


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    ("place", "wrong", "sizes"),
    [
        (1, np.int32(7), (8, 4, 16, 4, 1)),
        (2, Struct(np.float32(0.25), np.float32(2.0)), (8, 8, 8, 4, 1)),
        (3, np.int64(3), (8, 8, 16, 8, 1)),
        (4, None, (8, 8, 16, 4, 8)),
    ],
)
def test_a_wrong_argument_is_told_with_the_sizes(
    place: int, wrong: Argument, sizes: tuple[int, ...]
) -> None:
    arguments = [*RIGHT[:place], wrong, *RIGHT[place + 1 :]]
    with pytest.raises(KernelError) as caught:
        launch(arguments)
    assert str(caught.value) == (
        f"take: the parameters of take in take.cu have (8, 8, 16, 4, 1) bytes, got arguments of "
        f"{sizes}; give each in the kernel's order and of its type"
    )


@pytest.mark.cuda_kernels
def test_a_missing_argument_is_told_with_the_sizes() -> None:
    with pytest.raises(KernelError, match=r"got arguments of \(8, 8, 16, 4\)"):
        launch(RIGHT[:-1])


# ---- Indices beyond 2**31 ------------------------------------------------------------------------


def run_last_blocks(
    folder: Path, source: Source, expression: str, arguments: list[Any], blocks: int
) -> str:
    """Run the last four of so many blocks of 256 threads."""
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


def test_elements_beyond_two_to_the_31_are_reached(emulator_folder: Path) -> None:
    n = 2**31 + 1_000
    # Address space that nobody touches but the last blocks.
    with mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) as memory:
        flags = (ctypes.c_uint8 * n).from_buffer(memory)
        for i in (n - 1, n - 999, n - 1_025):
            flags[i] = 0
        address = ctypes.c_void_p(ctypes.addressof(flags))
        blocks = -(-n // 256)
        arguments = [address, address, ctypes.c_int64(n), ctypes.c_char()]
        source = own_source("elementwise.cu")
        expression = "elementwise_flat<LogicalNot<bool>, bool, Inputs<bool>, 0u, 1>"
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


def test_a_thread_that_ends_gives_back_the_stacks_of_its_blocks(emulator_folder: Path) -> None:
    def run() -> None:
        source = Source("wait.cu", WAITING, own_source("elementwise.cu").headers)
        assert run_last_blocks(emulator_folder, source, "wait", [], 4) == ""

    def run_in_thread() -> None:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    run_in_thread()  # opens the libraries
    before = count_mappings()
    for _ in range(8):
        run_in_thread()
    # 256 stacks and their guards each; Python does not wait until the last one is quite gone.
    assert count_mappings() - before < 2 * 512


def test_threads_that_wait_for_nobody_share_a_stack(emulator_folder: Path) -> None:
    source = Source("go_on.cu", GOING_ON, own_source("elementwise.cu").headers)
    grown = []

    def run() -> None:
        before = count_mappings()
        assert run_last_blocks(emulator_folder, source, "go_on", [], 4) == ""
        grown.append(count_mappings() - before)

    for _ in range(2):  # the first one opens the libraries
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert grown[1] < 10
