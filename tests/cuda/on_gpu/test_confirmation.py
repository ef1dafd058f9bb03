"""Assumptions about GPUs that must be confirmed on a real GPU; see docs/run_on_a_gpu.md."""

from __future__ import annotations

import os
import statistics
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plans import compiled, run_program

import opwright as ow
from opwright.errors import KernelError, OpwrightError, OutOfMemoryError
from opwright.op import dtype_to_numpy
from opwright.plugin import Package
from opwright_cuda import native
from opwright_cuda.compile.nvrtc import Nvrtc
from opwright_cuda.source import Source, own_source, shared_headers

pytestmark = pytest.mark.cuda

X = np.arange(-3, 5, dtype=np.float32)


TWICE = Source(
    "twice.cu",
    """
#include "kernel.h"
using namespace opwright_cuda;
template <typename T>
__global__ void twice(T* out) { out[GlobalIndex()] = Store<T>(2 * Load(out[GlobalIndex()])); }
""",
    shared_headers(),
)


def test_the_driver_loads_images_that_nvrtc_compiled_for_this_gpu() -> None:
    expressions = [f"twice<{type}>" for type in ("float", "double", "Half", "BFloat16")]
    image = Nvrtc().compile(TWICE, expressions, native.describe_gpu(0).arch)
    assert all(native.load_kernels(image.data, image.names))


def test_an_operator_returns_correct_results() -> None:
    _, call = compiled([ow.Operator("add", x="x", y="x", out="out")], ["x"], ["out"])
    for turn in range(4):
        np.testing.assert_array_equal(call(x=turn * X)[0], 2 * turn * X)


@pytest.mark.parametrize("activation", ["", "relu", "sigmoid", "tanh"])
@pytest.mark.parametrize(
    ("dtype", "library"),
    [
        *((dtype, "cublaslt") for dtype in ("float32", "float64", "float16", "bfloat16")),
        *((dtype, "small") for dtype in ("float32", "float64")),
    ],
)
def test_a_product_with_an_epilogue_is_recorded_and_replayed(
    dtype: str, library: str, activation: str
) -> None:
    rng = np.random.default_rng(1)
    numpy_dtype = dtype_to_numpy(dtype)
    shapes = {"x": (96, 64), "w": (64, 48), "b": (48,)}
    feeds = {n: rng.standard_normal(shape).astype(numpy_dtype) for n, shape in shapes.items()}
    op = ow.Operator("fc", x="x", weight="w", bias="b", out="out", activation=activation)
    with ow.context_guard(ow.current_context().with_pins({"fc": library})):
        network, call = compiled([op], list(feeds), ["out"])
        results = [call(**feeds)[0] for _ in range(4)]
    assert set(network.placement().kernels) == {f"cuda/{library}"}
    assert network.placement().graph_refusal == ""
    wide = {name: array.astype(np.float64) for name, array in feeds.items()}
    _, reference = compiled([op], list(feeds), ["out"], device="cpu")
    (wanted,) = reference(**wide)
    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
        np.testing.assert_allclose(
            result.astype(np.float64), wanted, rtol=tolerance, atol=tolerance * 8
        )


def test_float32_products_do_not_use_tf32() -> None:
    a, b = (np.random.default_rng(i).standard_normal((512, 512), np.float32) for i in range(2))
    _, call = compiled([ow.Operator("matmul", x="a", y="b", out="out")], ["a", "b"], ["out"])
    apart = np.abs(call(a=a, b=b)[0] - a.astype(np.float64) @ b).max()
    # TF32 keeps 11 bits of each factor, so its errors would be about 0.02.
    assert apart < 1e-3


HIDDEN = """
import numpy as np
import opwright as ow
from opwright_cuda import native
print("GPUs:", native.count_gpus())
network = ow.Network([ow.Operator("relu", x="x", out="out")])
try:
    network.compile(feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope())(x=np.ones(3))
except ow.errors.OpwrightError as error:
    print(type(error).__name__, error)
import cupy
print("CuPy:", cupy.cuda.is_available())
"""


def test_a_hidden_gpu_is_reported_as_hidden() -> None:
    done = run_program(HIDDEN, CUDA_VISIBLE_DEVICES="")
    assert "GPUs: 0" in done.stdout, done.stderr
    assert 'no GPU is visible, got CUDA_VISIBLE_DEVICES=""' in done.stdout
    assert "CuPy: False" in done.stdout, done.stderr


def test_the_error_for_an_unknown_gpu_names_it() -> None:
    with pytest.raises(OpwrightError, match="index of a GPU must|below|got 99"):
        compiled([ow.Operator("relu", x="x", out="out")], ["x"], ["out"], device="cuda:99")[1](x=X)


def test_a_recording_succeeds_during_concurrent_cupy_allocations() -> None:
    cupy = pytest.importorskip("cupy")
    stop = threading.Event()
    failures: list[BaseException] = []

    def allocate() -> None:
        try:
            kept: list[Any] = []
            while not stop.is_set():
                # The sizes increase, so the memory pool calls the driver each time.
                kept = [*kept[-8:], cupy.ones(1024 * (1 + len(kept)) ** 3)]
                cupy.get_default_memory_pool().free_all_blocks()
                assert float(kept[-1][-1]) == 1
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)

    thread = threading.Thread(target=allocate)
    thread.start()
    try:
        for n in range(2, 30):
            ops = [ow.Operator("add", x="x", y="x", out="h"), ow.Operator("exp", x="h", out="out")]
            network, call = compiled(ops, ["x"], ["out"])
            x = np.linspace(-1, 1, n, dtype=np.float32)
            for _ in range(4):
                np.testing.assert_allclose(call(x=x)[0], np.exp(2 * x), rtol=1e-5)
            assert network.placement().graph_refusal == ""
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


def test_a_dropout_mask_is_bitwise_identical_to_the_mask_on_the_cpu() -> None:
    x = np.ones(100_003, np.float32)
    op = ow.Operator(
        "dropout", x="x", step="step", out="out", mask="mask", probability=0.3, training=True,
        seed=7, stream=3,
    )  # fmt: skip
    calls = [compiled([op], ["x", "step"], ["mask"], device=d)[1] for d in ("cuda", "cpu")]
    for step in (0, 1, 2**33 + 1):
        masks = [call(x=x, step=np.array([step], np.int64))[0] for call in calls]
        np.testing.assert_array_equal(masks[0], masks[1])


def test_an_index_out_of_range_is_reported_and_the_gpu_stays_usable() -> None:
    op = ow.Operator("gather", x="x", index="index", out="out")
    _, call = compiled([op], ["x", "index"], ["out"])
    good = np.array([0, 3])
    np.testing.assert_array_equal(call(x=X, index=good)[0], X[good])
    with pytest.raises(KernelError, match="gather.*8"):
        call(x=X, index=np.array([0, 8]))
    for _ in range(3):
        np.testing.assert_array_equal(call(x=X, index=good)[0], X[good])


def test_the_out_of_memory_error_contains_sizes_and_the_gpu_stays_usable() -> None:
    n_bytes = 2**42
    _, call = compiled([ow.Operator("fill", out="out", shape=[n_bytes // 4])], [], ["out"],
                       fetch_device=True)  # fmt: skip
    with pytest.raises(OutOfMemoryError, match=r"no room for \d+ bytes, \d+ of \d+ bytes are free"):
        call()
    test_an_operator_returns_correct_results()


LOST = """
import ctypes
import numpy as np
import opwright as ow
from opwright_cuda.source import Source, shared_headers
from opwright.packages import Package
from opwright_cuda import Kernel
SOURCE = Source("wild.cu", '''
#include "kernel.h"
__global__ void wild(float* out) { *(volatile float*)(out + (1ll << 40)) = 1.0f; }
''', shared_headers())
def fill_in(ctx, plan):
    plan.launch(SOURCE, "wild", grid=1, block=1, arguments=[plan.output("out")])
context = ow.Context.discover()
context.kernels.add("relu", device="cuda", dtypes=["float32"], kernel=Kernel(fill_in),
                    library="wild", package=Package("wild", "wild", "1"), priority=99)
x = np.ones(4, np.float32)
with ow.context_guard(context):
    call = ow.Network([ow.Operator("relu", x="x", out="out")]).compile(
        feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope())
    for _ in range(2):
        try:
            print(call(x=x))
        except ow.errors.OpwrightError as error:
            print("ERROR", error)
"""


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_the_error_for_a_lost_context_requires_a_new_process(blocking: str) -> None:
    if os.environ.get("OPWRIGHT_CUDA_DEBUG_MEMORY"):
        pytest.skip("a memory checker stops the kernel first")
    done = run_program(LOST, OPWRIGHT_CUDA_BLOCKING=blocking)
    assert "ERROR" in done.stdout, done.stdout + done.stderr
    assert "this process cannot use it any more: restart it" in done.stdout, done.stdout
    if blocking == "1":
        assert "relu" in done.stdout.splitlines()[0]


CACHED = """
import numpy as np
import opwright as ow
call = ow.Network([ow.Operator("softplus", x="x", out="out")]).compile(
    feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope())
print(call(x=np.zeros(3, np.float32))[0])
"""


def test_a_damaged_cubin_in_the_cache_is_recompiled(tmp_path: Path) -> None:
    environ = {"OPWRIGHT_CACHE_DIR": str(tmp_path)}
    first = run_program(CACHED, **environ)
    assert "0.693" in first.stdout, first.stderr
    images = list(tmp_path.rglob("*.image"))
    assert images
    for image in images:
        image.write_bytes(image.read_bytes()[:-100] + b"\0" * 100)
    assert run_program(CACHED, **environ).stdout == first.stdout


def test_an_unwritable_cache_does_not_prevent_compilation() -> None:
    done = run_program(CACHED, OPWRIGHT_CACHE_DIR="/proc/opwright")
    assert "0.693" in done.stdout, done.stderr
    assert "cannot be cached in /proc/opwright" in done.stderr


def time_call(call: Any, wait: Any, n_calls: int) -> float:
    """Return the time per call in µs: the median over rounds that end with one synchronization."""
    times = []
    for _ in range(9):
        wait()
        began = time.perf_counter()
        for _ in range(n_calls):
            call()
        wait()
        times.append((time.perf_counter() - began) / n_calls * 1e6)
    return statistics.median(times)


def chain(n: int) -> list[ow.Operator]:
    """Return a chain of n operators; the first reads ``w``, and the last writes ``w``."""
    names = ["w", *[f"h{i}" for i in range(n - 1)], "w"]
    return [ow.Operator("negative", x=a, out=b) for a, b in pairwise(names)]


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_the_cost_of_a_graph_is_recorded(n: int, record_property: Any) -> None:
    scope = ow.Scope()
    scope.var("w").set(X)
    network, call = compiled(chain(n), scope=scope, passes=[])
    for _ in range(3):
        call()
    assert network.placement().graph_refusal == ""
    cost = time_call(call, lambda: scope.find_var("w").numpy(), 200)
    record_property(f"us of a graph of {n} nodes", round(cost, 2))
    record_property(f"us of a node in a graph of {n}", round(cost / n, 3))


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_the_cost_of_launches_is_recorded(n: int, record_property: Any) -> None:
    def pass_on(x: Any, out: Any) -> None:
        """Do nothing; since this kernel is not capturable, its plan has no graph."""

    context = ow.Context.discover()
    package = Package("test", "test", "1.0")
    context.kernels.add("assign", device="cuda", dtypes="*", kernel=pass_on, library="test",
                        package=package, priority=99, capturable=False)  # fmt: skip
    scope = ow.Scope()
    for name in ("w", "v"):
        scope.var(name).set(X)
    with ow.context_guard(context):
        ops = [*chain(n), ow.Operator("assign", x="v", out="v")]
        network, call = compiled(ops, scope=scope, passes=[])
        for _ in range(3):
            call()
        assert "not capturable" in network.placement().graph_refusal
        cost = time_call(call, lambda: scope.find_var("w").numpy(), 20)
    record_property(f"us of {n} launches", round(cost, 2))
    record_property(f"us of one of {n} launches", round(cost / n, 3))


def test_the_cost_of_a_call_with_host_arrays_is_recorded(record_property: Any) -> None:
    _, call = compiled([ow.Operator("add", x="x", y="x", out="out")], ["x"], ["out"])
    cost = time_call(lambda: call(x=X), lambda: None, 200)
    record_property("us of a call, NumPy in and out", round(cost, 2))


@pytest.mark.parametrize("gigabytes", [1, 4])
def test_the_bandwidth_of_copies_is_recorded(gigabytes: int, record_property: Any) -> None:
    cupy = pytest.importorskip("cupy")
    n_bytes = gigabytes * 10**9
    source = cupy.zeros(n_bytes, cupy.uint8)
    out = cupy.empty_like(source)

    def copy() -> None:
        cupy.copyto(out, source)

    cost = time_call(copy, cupy.cuda.Device(0).synchronize, 20)
    cupy.testing.assert_array_equal(out[-5:], source[-5:])
    rate = round(2 * n_bytes / cost / 1e3)
    record_property(f"GB/s of a copy of {gigabytes} GB, read and written", rate)
    cupy.get_default_memory_pool().free_all_blocks()


def test_the_time_to_compile_a_kernel_is_recorded(record_property: Any) -> None:
    began = time.perf_counter()
    Nvrtc().compile(own_source("elementwise.cu"), [], native.describe_gpu(0).arch)
    record_property("ms to compile elementwise.cu without an instance",
                    round((time.perf_counter() - began) * 1e3))  # fmt: skip
