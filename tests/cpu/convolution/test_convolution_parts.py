"""If a convolution has fewer images than threads, the output rows are divided among threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow

n_threads = thread_counts(1, 2, 3, 5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("size", "kernel", "attrs"),
    [
        ((20, 18), 2, {"strides": [2, 2]}),
        ((21, 16), 4, {"strides": [2, 2], "paddings": [1, 1, 1, 1]}),
        ((16, 17), 3, {"strides": [2, 2], "paddings": [1, 0, 0, 1]}),
        ((16, 16), 3, {"strides": [2, 2], "paddings": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((9, 14), 3, {"strides": [3, 1], "dilations": [2, 3], "paddings": [2, 3, 1, 2]}),
        ((25, 9), 3, {"paddings": [2, 2, 2, 2]}),
        ((24, 20), 2, {"strides": [3, 3]}),  # rows of zeros between windows
        ((14, 13), 3, {"strides": [2, 2], "groups": 4}),
        ((40, 30), 1, {}),
    ],
    ids=str,
)
def test_a_transposed_convolution_divided_among_threads_matches_numpy(
    size: tuple[int, int], kernel: int, attrs: dict[str, Any], bias: bool, n_threads: int
) -> None:
    rng = np.random.default_rng(3)
    channels, filters = 64, 48
    x = rng.standard_normal((1, *size, channels))
    weight = rng.standard_normal((channels, filters // attrs.get("groups", 1), kernel, kernel))
    offset = rng.standard_normal(filters) if bias else None
    wanted = ow.ops.conv2d_transpose(x, weight, offset, data_format="NHWC", **attrs)
    narrow = [None if a is None else a.astype("float32") for a in (x, weight, offset)]
    got = ow.ops.conv2d_transpose(*narrow, data_format="NHWC", **attrs)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("side", [7, 13, 14])
@pytest.mark.parametrize("channels", [(48, 192), (64, 200), (96, 40)], ids=str)
def test_pixels_are_divided_among_threads_in_any_preferred_layout(
    side: int, channels: tuple[int, int], n_threads: int
) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, side, side, channels[0]))
    weight = rng.standard_normal((channels[1], channels[0], 1, 1))
    wanted = np.maximum(x @ weight[:, :, 0, 0].T, 0)
    block, scope = ow.Program().global_block(), ow.Scope()
    block.create_var("weight", weight.shape, "float32", persistable=True)
    scope.var("weight").set(weight.astype("float32"))
    block.create_var("x", x.shape, "float32")
    slots = {"x": "x", "weight": "weight"}
    [h] = block.append_op("conv2d", slots, attrs={"data_format": "NHWC"}).output("out")
    [out] = block.append_op("relu", {"x": h}).output("out")
    run = ow.Network(block).compile(feed=["x"], fetch=[out], scope=scope)
    np.testing.assert_allclose(run(x=x.astype("float32"))[0], wanted, rtol=2e-5, atol=2e-4)


COUNT_THREADS = """
import os, sys
import numpy as np, opwright as ow
ow.set_num_threads(2)
x, weight = (np.ones(shape, "float32") for shape in ((1, 40, 40, 64), (64, 64, 2, 2)))
ow.ops.exp(np.ones(10**6, "float32"))  # starts the team
before = len(os.listdir("/proc/self/task"))
for _ in range(100):
    # There are rows of zeros between the windows, so the rows are not divided among threads.
    ow.ops.conv2d_transpose(x, weight, strides=[3, 3], data_format="NHWC")
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_small_convolutions_do_not_start_threads_of_another_library() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    found = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) == 0
