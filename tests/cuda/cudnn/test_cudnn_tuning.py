"""cuDNN engines are benchmarked without memory leaks, and the fastest engine is used."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from calls import call
from test_convolution import whole
from test_cudnn import (  # noqa: F401 - the fixture
    DTYPES,
    check,
    convolving,
    feeds,
    installed,
    offered,
    pinned,
)

import opwright as ow
from opwright.errors import KernelError
from opwright_cuda.options import ALLOW_TF32, ALLOW_VARYING, TUNE

pytestmark = pytest.mark.cuda_kernels

TUNED = {ALLOW_TF32: True, TUNE: True}


@contextlib.contextmanager
def taking(gpu: Any, milliseconds: dict[int, int]) -> Iterator[None]:
    """Set the times of some emulated cuDNN engines; all other engines take 1 ms."""
    for engine, time in milliseconds.items():
        gpu.set(f"cudnn_milliseconds_{engine}", time)
    try:
        yield
    finally:
        for engine in milliseconds:
            gpu.set(f"cudnn_milliseconds_{engine}", 1)


@pytest.mark.parametrize(
    ("tunes", "milliseconds", "engine"),
    [(False, 9, 5), (True, 9, 6), (True, 0, 5), (True, 1, 5)],
    ids=["untuned", "slow", "fast", "equal"],
)
def test_engines_are_benchmarked_on_request(
    gpu: Any, tunes: bool, milliseconds: int, engine: int
) -> None:
    options = {ALLOW_TF32: True, TUNE: tunes}  # engine 5 then rounds, engine 6 does not
    given = feeds(1 + 2.0**-20)
    gc.collect()  # an earlier plan with the same graph would share it
    with offered(gpu, 5, 6, 7), taking(gpu, {5: milliseconds}):
        before = gpu.count("cudnn_plans")
        with pinned("cudnn", options):
            (out,) = call("conv2d", given)
        factor = 1.0 if engine == 5 else 1 + 2.0**-20
        np.testing.assert_allclose(out, np.full((2, 4, 6, 6), 27 * factor), rtol=2.0**-22)
        assert gpu.count("cudnn_plans") == before + (2 if tunes else 1)


@pytest.mark.parametrize(
    ("allows", "deterministic", "n_tried"), [(False, False, 1), (True, False, 2), (True, True, 1)]
)
def test_nondeterministic_engines_are_used_on_request(
    gpu: Any, allows: bool, deterministic: bool, n_tried: int
) -> None:
    options = {TUNE: True, ALLOW_VARYING: allows}
    network = ow.Network([ow.Operator("conv2d", x="x", weight="weight", out="out")])
    gc.collect()
    with offered(gpu, 0, 6, 7), pinned("cudnn", options):  # engine 0 is nondeterministic
        before = gpu.count("cudnn_plans")
        compute = network.compile(["x", "weight"], ["out"], "cuda", deterministic=deterministic)
        filters = 9 + 2 * allows + deterministic  # a size that no earlier plan has
        compute(x=np.ones((2, 3, 8, 8), np.float32), weight=np.ones((filters, 3, 3, 3), np.float32))
        assert gpu.count("cudnn_plans") == before + n_tried


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_fastest_engines_return_correct_results(dtype: str) -> None:
    attrs: dict[str, Any] = {"paddings": [1, 1, 1, 1], "data_format": "NHWC"}
    attrs["options"] = {TUNE: True}
    given = {"x": whole((2, 8, 9, 7), "NHWC"), "weight": whole((16, 8, 3, 3))}
    given["bias"] = whole((16,))
    (out,) = check("conv2d", given, "out", dtype, **attrs)
    given["out_grad"] = np.sign(out)
    check("conv2d_grad", given, "x_grad weight_grad bias_grad", dtype, **attrs)


def test_tuning_frees_its_streams_and_memory(gpu: Any) -> None:
    with offered(gpu, 5, 6):
        counts = []
        for filters in (21, 22, 23):
            convolving({"conv2d": "cudnn"}, filters, TUNED)
            gc.collect()
            counts.append((gpu.count("streams"), gpu.count("allocations")))
    assert counts[1] == counts[2]


def test_the_error_for_too_little_memory_to_benchmark_engines_suggests_a_remedy(gpu: Any) -> None:
    with offered(gpu, 5, 6):
        gpu.set("memory_bytes", 1)
        try:
            with pytest.raises(
                KernelError,
                match=r"conv2d\[cuda.*trying a library's algorithms out takes 1536 bytes more, "
                "got CUDA_ERROR_OUT_OF_MEMORY.*; leave out the option cuda.tune",
            ):
                convolving({"conv2d": "cudnn"}, options=TUNED)
        finally:
            gpu.set("memory_bytes", 1 << 34)
        convolving({"conv2d": "cudnn"}, options=TUNED)
