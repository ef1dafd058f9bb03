"""Tests GPU pooling of small windows in strips and channel vectors, and the kernel selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError
from opwright.op import dtype_to_numpy
from opwright_cuda.kernels import pooling
from opwright_kit.testing import Sample, run_kernel

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(4)]

RNG = np.random.default_rng(23)
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-51}

Arrays = dict[str, Any]


class Launched(NamedTuple):
    """The results of an operator by slot and the names of the launched kernels."""

    arrays: Arrays
    names: list[str]


def run(
    op_type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], library: str = "native"
) -> Arrays:
    """Return the results of a CUDA or NumPy kernel; check that it writes only its outputs."""
    device = "cuda" if library == "native" else "cpu"
    dtype = inputs["x" if "x" in inputs else "out_grad"].dtype.name
    entry = next(
        e
        for e in ow.current_context().kernels.entries(op_type)
        if e.library == library and e.device in {device, "*"} and e.dtype in {dtype, "*"}
    )
    definition = ow.current_context().ops.get(op_type)
    known = {slot.name for slot in definition.proto.inputs}
    given = {slot: (array,) for slot, array in inputs.items() if slot in known}
    sample = Sample(op_type, given, definition.proto.fill_attrs(dict(attrs)))
    done = run_kernel(entry, sample)
    assert not done.broken_guards
    return {slot: arrays[0] for slot, arrays in done.outputs.items()}


class Case(NamedTuple):
    """The image shape [n, channels, height, width], the windows and the dtype of a test."""

    dtype: str
    data_format: str
    shape: tuple[int, ...]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    paddings: tuple[int, ...] = (0, 0, 0, 0)
    ceil_mode: bool = False

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the operators."""
        made = self._asdict()
        del made["dtype"], made["shape"]
        return {key: list(v) if isinstance(v, tuple) else v for key, v in made.items()}

    def images(self) -> Any:
        """Return images of integers, many of them equal, in `data_format`."""
        made = RNG.integers(-3, 4, self.shape).astype(np.float64)
        return made if self.data_format == "NCHW" else np.moveaxis(made, 1, -1).copy()

    def narrow(self, arrays: Arrays) -> Arrays:
        """Convert floats to the dtype."""
        kind = dtype_to_numpy(self.dtype)
        return {s: a.astype(kind) if a.dtype.kind == "f" else a for s, a in arrays.items()}


CASES = [
    Case("float32", "NCHW", (2, 3, 9, 11), (3, 3), (2, 2), (1, 1, 1, 1)),
    Case("float32", "NHWC", (2, 8, 9, 11), (3, 3), (2, 2), (1, 1, 1, 1)),
    Case("float16", "NHWC", (1, 16, 12, 7), (3, 3), (2, 2), (1, 1, 1, 1)),
    Case("bfloat16", "NHWC", (1, 4, 12, 7), (3, 3), (2, 2), (0, 1, 1, 0)),
    Case("float64", "NHWC", (2, 6, 8, 6), (3, 3), (2, 2), (1, 1, 1, 1)),
    Case("float32", "NHWC", (2, 5, 10, 8), (2, 2), (2, 2)),
    Case("float32", "NCHW", (1, 2, 21, 5), (2, 2), (2, 2), (1, 0, 0, 1)),
    Case("bfloat16", "NCHW", (1, 3, 7, 7), (3, 3), (1, 1), (1, 1, 1, 1)),
    Case("float32", "NHWC", (1, 4, 11, 9), (1, 2), (3, 4)),  # the stride exceeds the window
    Case("float16", "NCHW", (2, 2, 13, 13), (2, 1), (5, 3), (1, 0, 0, 0)),
    Case("float32", "NCHW", (2, 2, 6, 9), (5, 4), (1, 2), (4, 3, 1, 0)),
    Case("float32", "NHWC", (1, 4, 9, 10), (3, 2), (2, 4), (2, 2, 1, 1), ceil_mode=True),
    Case("float64", "NCHW", (1, 1, 1, 2), (1, 1), (1, 1)),
]
STRIPS = pytest.mark.parametrize("enough", [1, 2**18], ids=["many", "single"])


def assert_small(names: list[str], n: int) -> None:
    assert ["_small<" in name for name in names] == [True] * n, names


@STRIPS
@pytest.mark.parametrize("case", CASES, ids=str)
def test_max_pooling_of_small_windows_matches_numpy(
    case: Case, enough: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "ENOUGH_THREADS", enough)
    given = {"x": case.images()}
    right = run("max_pool2d", given, case.attrs(), "numpy")
    got = run("max_pool2d", case.narrow(given), case.attrs())
    given = {**given, "index": right["index"]}
    given["out_grad"] = RNG.integers(-3, 4, right["out"].shape).astype(np.float64)
    right |= run("max_pool2d_grad", given, case.attrs(), "numpy")
    got |= run("max_pool2d_grad", case.narrow(given), case.attrs())
    assert_small(launched, 2)
    for slot, array in right.items():
        np.testing.assert_array_equal(got[slot].astype(array.dtype), array, err_msg=slot)


@STRIPS
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_average_pooling_of_small_windows_matches_numpy(
    case: Case, counts: bool, enough: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "ENOUGH_THREADS", enough)
    attrs = {**case.attrs(), "count_include_pad": counts}
    given = {"x": case.images()}
    right = run("avg_pool2d", given, attrs, "numpy")
    got = run("avg_pool2d", case.narrow(given), attrs)
    given["out_grad"] = RNG.integers(-3, 4, right["out"].shape).astype(np.float64)
    right |= run("avg_pool2d_grad", given, attrs, "numpy")
    got |= run("avg_pool2d_grad", case.narrow(given), attrs)
    assert_small(launched, 2)
    for slot, array in right.items():
        near = {"rtol": EPS[case.dtype], "atol": 8 * EPS[case.dtype], "err_msg": slot}
        np.testing.assert_allclose(got[slot].astype(np.float64), array, **near)


@STRIPS
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_nan_is_the_maximum_and_infinities_are_compared(
    data_format: str, dtype: str, enough: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "ENOUGH_THREADS", enough)
    case = Case(dtype, data_format, (2, 8, 9, 8), (3, 3), (2, 2), (1, 1, 1, 1))
    x = case.images()
    for value, share in ((np.nan, 0.1), (np.inf, 0.1), (-np.inf, 0.3)):
        x[RNG.random(x.shape) < share] = value
    right = run("max_pool2d", {"x": x}, case.attrs(), "numpy")
    got = run("max_pool2d", case.narrow({"x": x}), case.attrs())
    for slot, array in right.items():
        np.testing.assert_array_equal(got[slot].astype(array.dtype), array, err_msg=slot)
    with np.errstate(invalid="ignore"):
        mean = run("avg_pool2d", {"x": x}, case.attrs(), "numpy")["out"]
    made = run("avg_pool2d", case.narrow({"x": x}), case.attrs())["out"]
    np.testing.assert_allclose(made.astype(np.float64), mean, EPS[dtype], 4 * EPS[dtype])
    assert_small(launched, 2)


@pytest.mark.parametrize("op_type", ["max_pool2d", "max_pool2d_grad", "avg_pool2d_grad"])
@pytest.mark.parametrize("case", CASES[:4], ids=str)
def test_kernels_for_small_windows_are_bitwise_identical_to_the_general_kernels(
    case: Case, op_type: str, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"x": RNG.standard_normal(case.images().shape)}
    forward = run(op_type.removesuffix("_grad"), given, case.attrs(), "numpy")
    given = {**given, "index": forward.get("index")}
    given["out_grad"] = RNG.standard_normal(forward["out"].shape)
    narrow = case.narrow({slot: a for slot, a in given.items() if a is not None})
    small = run(op_type, narrow, case.attrs())
    assert_small(launched, 1)
    monkeypatch.setattr(pooling, "SMALL", 0)
    general = run(op_type, narrow, case.attrs())
    assert "_small" not in launched[1]
    for slot, array in general.items():
        if op_type == "avg_pool2d_grad":
            close = {"rtol": 2.0**-22 if case.dtype == "float32" else EPS[case.dtype]}
            np.testing.assert_allclose(*(a.astype(float) for a in (small[slot], array)), **close)
        else:
            assert small[slot].tobytes() == array.tobytes(), slot


@pytest.mark.parametrize("value", [-1, -(2**31), 30, 2**31 - 1])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_kernels_for_small_windows_report_an_index_outside_of_an_image(
    data_format: str, value: int
) -> None:
    case = Case("float32", data_format, (1, 4, 6, 5), (3, 3), (2, 2), (1, 1, 1, 1))
    given = case.narrow({"x": case.images()})
    forward = run("max_pool2d", given, case.attrs())
    index = forward["index"].copy()
    index.reshape(-1)[-2] = value
    given |= {"index": index, "out_grad": forward["out"]}
    with pytest.raises(KernelError, match=rf"index must be in \[0, 30\), got {value}"):
        run("max_pool2d_grad", given, case.attrs())


def axes(kernel: int, stride: int, size: int = 64) -> pooling.Pooling:
    """Return a description of pooling for square images with 8 channels."""
    axis = pooling.Axis(size, (size - kernel) // stride + 1, kernel, stride)
    n = 8 * axis.n_windows**2, 8 * size**2
    return pooling.Pooling(pooling.Axis(1, 1, 1), axis, axis, *n, 8)


def has_strips(windows: pooling.Pooling, of_pixels: bool = False) -> bool:
    meta = ow.op.Meta((1, 64, 64, 8), "float32")
    return pooling._strips(windows, meta, of_pixels) is not None


def test_windows_that_are_not_small_use_the_general_kernels() -> None:
    small = axes(3, 2)
    assert has_strips(small)
    assert has_strips(small, of_pixels=True)
    assert not has_strips(axes(6, 2))
    assert not has_strips(axes(2, 6))
    assert not has_strips(small._replace(depth=pooling.Axis(2, 2, 1)))
    assert not has_strips(small._replace(height=pooling.Axis(64, 5), width=pooling.Axis(64, 5)))
    assert not has_strips(small._replace(n_pixels=2**31))
    assert not has_strips(small._replace(n_outputs=2**31))
    assert not has_strips(small._replace(n_outputs=0))
    # The image has only one window; larger images would have pixels covered by two windows.
    assert has_strips(axes(3, 2, size=4))
    assert not has_strips(axes(3, 2, size=4), of_pixels=True)


def test_each_thread_computes_several_neighbors_if_the_gpu_is_full() -> None:
    wide = axes(3, 2)._replace(n_outputs=2**21 * 31**2 * 8 // 64, n_pixels=2**30)
    meta = ow.op.Meta((1, 64, 64, 8), "float32")
    one, many = (pooling._strips(p, meta, of_pixels=False) for p in (axes(3, 2), wide))
    assert one is not None
    assert many is not None
    assert (one.each, one.n_strips, one.vector) == (1, 31, 4)
    assert (many.each, many.n_strips, many.vector) == (2, 16, 4)
    cells = pooling._strips(wide._replace(channels=1), meta, of_pixels=True)
    assert cells is not None
    assert (cells.each, cells.vector, cells.n_columns) == (4, 1, 64)
