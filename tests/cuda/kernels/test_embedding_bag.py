"""Bags of table rows on a GPU, which runs the body of embedding_bag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

import opwright as ow
from opwright.errors import GradientError, KernelError, KernelNotFoundError
from opwright.op import dtype_to_numpy
from opwright_nn import layers

pytestmark = pytest.mark.cuda_kernels

RNG = np.random.default_rng(8)
TABLE = RNG.integers(-4, 5, (9, 6))
INDEX = np.array([2, 0, 2, 8, 1, 3, 0, 2])
OFFSETS = np.array([0, 3, 3, 7])


def train(device: str, dtype: str, index: Any = INDEX, **attrs: Any) -> list[np.ndarray]:
    """Return the bags and the gradient of the table."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        table = layers.data("table", [9, 6], dtype=dtype)
        table.stop_gradient = False
        ids, offsets = layers.data("index", [8], "int64"), layers.data("offsets", [4], "int64")
        out = ow.ops.embedding_bag(table, ids, offsets, **attrs)
        loss = ow.ops.sum(ow.ops.multiply(out, out))
        ((_, grad),) = ow.append_backward(loss, parameters=[table])
    feeds = {"table": TABLE.astype(dtype_to_numpy(dtype)), "index": index, "offsets": OFFSETS}
    network = ow.Network(main.global_block())
    step = network.compile(feed=[*feeds], fetch=[out, grad], device=device)
    return [np.asarray(array).astype("float64") for array in step(**feeds)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("attrs", [{"mode": "sum"}, {"padding_index": 2}], ids=str)
def test_bags_and_their_gradients_match_the_cpu(dtype: str, attrs: dict[str, Any]) -> None:
    for on_gpu, on_cpu in zip(train("cuda", dtype, **attrs), train("cpu", dtype, **attrs)):
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=0.01 if dtype == "bfloat16" else 1e-6)


@pytest.mark.parametrize("wrong", [-1, 9])
def test_an_id_out_of_range_is_reported(wrong: int) -> None:
    with pytest.raises(KernelError, match=rf"index must be in \[0, 9\), got {wrong}"):
        train("cuda", "float32", np.array([0, 1, 2, 3, 4, 5, 6, wrong]))


def test_maxima_of_bags_are_refused_on_the_device() -> None:
    with pytest.raises(GradientError, match="with mode='max' it needs a kernel of the device"):
        train("cuda", "float32", mode="max")
    inputs = {"weight": TABLE.astype("float32"), "index": INDEX, "offsets": OFFSETS}
    with pytest.raises(KernelNotFoundError, match="embedding_bag"):
        call("embedding_bag", inputs, mode="max")
