"""Region operators on a GPU report invalid boxes and sum the gradients of one pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelError

pytestmark = pytest.mark.cuda_kernels

X = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4)


def pool(x: Any, rois: Any, images: Any, **attrs: Any) -> list[Any]:
    inputs = {"x": x, "rois": np.array(rois, x.dtype), "batch_index": np.array(images)}
    return call("roi_pool", inputs, "out index", output_size=[1, 2], **attrs)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0**21])
def test_a_box_far_outside_is_reported(wrong: float) -> None:
    match = r"roi_pool: rois times spatial_scale must be in .* but box 1 is outside"
    with pytest.raises(KernelError, match=match):
        pool(X, [[0, 0, 1, 1], [0, wrong, 1, 1]], [0, 1])


@pytest.mark.parametrize("wrong", [-1, 2, 2**40])
def test_an_unknown_image_index_is_reported(wrong: int) -> None:
    with pytest.raises(KernelError, match=rf"roi_pool: batch_index must be .* got {wrong}"):
        pool(X, [[0, 0, 1, 1], [0, 0, 1, 1]], [0, wrong])


def test_a_bin_outside_its_image_is_0_with_index_minus_1() -> None:
    out, index = pool(X, [[-9, 0, -5, 1], [0, 0, 3, 2]], [0, 1])
    np.testing.assert_array_equal(out.reshape(2, 2), [[0, 0], [21, 23]])
    np.testing.assert_array_equal(index.reshape(2, 2), [[-1, -1], [9, 11]])


def test_nan_is_greater_than_every_number() -> None:
    x = X.copy()
    x[0, 0, 1, 0] = x[0, 0, 2, 1] = np.nan
    out, index = pool(x, [[0, 0, 3, 2]], [0])
    np.testing.assert_array_equal(out.reshape(2), [np.nan, 11])
    np.testing.assert_array_equal(index.reshape(2), [4, 11])


def gradients(index: Any, images: Any) -> Any:
    index = np.array(index, np.int32).reshape(-1, 1, 1, 2)
    grads = np.array([1, 2, 4, 8, 16, 32], np.float32)[: index.size].reshape(index.shape)
    rois = np.zeros((len(index), 4), np.float32)
    given = {"x": X, "rois": rois, "batch_index": np.array(images), "index": index}
    attrs = {"output_size": [1, 2]}
    return call("roi_pool_grad", given | {"out_grad": grads}, "x_grad", **attrs)[0]


def test_gradients_of_one_pixel_are_summed_and_empty_bins_are_ignored() -> None:
    x_grad = gradients([[3, 3], [-1, 11], [3, 11]], [0, 1, 0])
    expected = np.zeros((2, 12), np.float32)
    expected[0, 3], expected[1, 11], expected[0, 11] = 1 + 2 + 16, 8, 32
    np.testing.assert_array_equal(x_grad.reshape(2, 12), expected)


@pytest.mark.parametrize("wrong", [-2, 12])
def test_an_index_outside_of_the_image_is_reported(wrong: int) -> None:
    match = rf"roi_pool_grad: index must be in \[-1, 12\), got {wrong}"
    with pytest.raises(KernelError, match=match):
        gradients([[0, wrong]], [0])
    with pytest.raises(KernelError, match="roi_pool_grad: batch_index must be .* got 7"):
        gradients([[0, 1]], [7])
