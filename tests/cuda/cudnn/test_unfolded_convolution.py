"""Tests the selection and results of convolutions by explicit im2col, used if cuDNN is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from calls import call
from one_operator import skip_without_cudnn

import opwright as ow
from opwright_cuda.kernels import unfolded_convolution
from opwright_cuda.kernels.unfolded_convolution import FOLD_SIDE, SMALL_IMAGE

RNG = np.random.default_rng(3)
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    # The cases (x, weight, attributes) cover sides longer than a tile, windows that extend beyond
    # all edges or skip pixels, a window as wide as the image, and few windows.
    ((2, 3, 13, 11), (5, 3, 3, 3), {"strides": [2, 2], "paddings": [1, 1, 1, 1]}),
    ((1, 33, 9, 7), (34, 33, 3, 2), {"strides": [2, 1], "paddings": [2, 0, 1, 1]}),
    ((3, 40, 8, 8), (16, 40, 1, 1), {"strides": [3, 2]}),
    ((2, 3, 23, 25), (6, 3, 7, 7), {"strides": [2, 2], "paddings": [3, 3, 3, 3]}),
    ((4, 32, 5, 4), (70, 32, 5, 4), {"strides": [4, 7], "paddings": [0, 4, 2, 3]}),
    ((5, 65, 7, 6), (9, 65, 3, 3), {"paddings": [1, 1, 1, 1]}),
]
KERNELS = {"unfold<float>", "fold<float>"}


@pytest.fixture(autouse=True)
def pinned(gpu: Any) -> Iterator[None]:
    """Pin the cuDNN kernels in a new Context, since cached plans depend on the size limits."""
    if gpu is not None:
        skip_without_cudnn()
    pins = {"conv2d": "cudnn", "conv2d_grad": "cudnn"}
    with ow.context_guard(ow.Context.discover().with_pins(pins)):
        yield


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the minimum size of unfolded convolutions."""
    monkeypatch.setattr(unfolded_convolution, "LEAST_WORK", 0)
    monkeypatch.setattr(unfolded_convolution, "LEAST_PART", 3)


def arrays_of(x: tuple[int, ...], weight: tuple[int, ...]) -> dict[str, Any]:
    shapes = {"x": x, "weight": weight, "bias": weight[:1]}
    return {slot: RNG.standard_normal(shape, dtype="f4") for slot, shape in shapes.items()}


def on_numpy(op_type: str, given: dict[str, Any], outputs: str, **attrs: Any) -> list[Any]:
    wide = {slot: array.astype("f8") for slot, array in given.items()}
    with ow.context_guard(ow.current_context().with_pins({op_type: "numpy"})):
        return call(op_type, wide, outputs, device="cpu", **attrs)


def compute(launched: list[str], op_type: str, given: Any, outputs: str, **attrs: Any) -> set[str]:
    """Compare an operator on the GPU with NumPy; return the launched opwright kernels."""
    launched.clear()
    for got, right in zip(
        call(op_type, given, outputs, **attrs),
        on_numpy(op_type, given, outputs, **attrs),
        strict=True,
    ):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4 * np.abs(right).max())
    return KERNELS.intersection(launched)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(("x", "weight", "attrs"), CASES, ids=str)
def test_outputs_and_gradients_match_numpy(
    x: Any, weight: Any, attrs: Any, of_any_size: None, launched: list[str]
) -> None:
    given = arrays_of(x, weight)
    used = compute(launched, "conv2d", given, "out", **attrs)
    (out,) = on_numpy("conv2d", given, "out", **attrs)
    is_small = weight[2] > 1 and out[0, 0].size <= SMALL_IMAGE
    assert used == ({"unfold<float>"} if is_small else set())
    given["out_grad"] = RNG.standard_normal(out.shape, dtype="f4")
    folds = {"fold<float>"} if x[1] >= FOLD_SIDE else set()
    unfolds = {"unfold<float>"} if "strides" in attrs else set()
    every = "x_grad weight_grad bias_grad"
    assert compute(launched, "conv2d_grad", given, every, **attrs) == folds | unfolds
    assert compute(launched, "conv2d_grad", given, "x_grad", **attrs) == folds
    assert compute(launched, "conv2d_grad", given, "weight_grad", **attrs) == unfolds


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    "attrs",
    [
        {"dilations": [2, 2]},
        {"groups": 2},
        {"data_format": "NHWC"},
        {"strides": [1, 1]},
    ],
    ids=str,
)
def test_other_convolutions_use_cudnn(
    attrs: dict[str, Any], of_any_size: None, launched: list[str]
) -> None:
    channels = 4 // attrs.get("groups", 1)
    size = 21
    shape = (2, size, size, 4) if "data_format" in attrs else (2, 4, size, size)
    given = arrays_of(shape, (6, channels, 3, 3))
    attrs = {"strides": [2, 2], **attrs}
    assert compute(launched, "conv2d", given, "out", **attrs) == set()
    (out,) = on_numpy("conv2d", given, "out", **attrs)
    given["out_grad"] = RNG.standard_normal(out.shape, dtype="f4")
    assert compute(launched, "conv2d_grad", given, "x_grad weight_grad", **attrs) == set()


@pytest.mark.cuda_kernels
def test_convolutions_that_are_small_or_lack_workspace_use_cudnn(
    monkeypatch: pytest.MonkeyPatch, launched: list[str]
) -> None:
    x, weight, attrs = CASES[0]
    given = arrays_of(x, weight)
    (out,) = on_numpy("conv2d", given, "out", **attrs)
    given["out_grad"] = RNG.standard_normal(out.shape, dtype="f4")
    n_bytes = out[:, 0].size * 27 * 4

    def used() -> set[str]:
        with ow.context_guard(ow.Context.discover().with_pins({"conv2d_grad": "cudnn"})):
            return compute(launched, "conv2d_grad", given, "weight_grad", **attrs)

    assert used() == set()
    monkeypatch.setattr(unfolded_convolution, "LEAST_WORK", 0)
    monkeypatch.setattr(unfolded_convolution, "MAX_WORKSPACE", n_bytes - 1)
    assert used() == set()
    monkeypatch.setattr(unfolded_convolution, "MAX_WORKSPACE", n_bytes)
    assert used() == {"unfold<float>"}


@pytest.mark.cuda_kernels
def test_unfolded_convolutions_use_tensor_cores_if_tf32_is_allowed(
    of_any_size: None, launched: list[str]
) -> None:
    x, weight, attrs = CASES[0]
    given = arrays_of(x, weight)
    context = ow.current_context().with_options({"cuda.allow_tf32": True})
    with ow.context_guard(context):
        call("conv2d", given, **attrs)
    assert not KERNELS.intersection(launched)
