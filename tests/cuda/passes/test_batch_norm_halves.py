"""In mixed precision on a GPU, images are not cast before and after batch normalization."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.op import dtype_to_numpy
from opwright_nn import layers

pytestmark = pytest.mark.cuda_kernels

FUSED, GRAD = "std.batch_norm_halves", "std.batch_norm_halves_grad"
APART = {"relu", "batch_norm", "batch_norm_grad", "std.elementwise_chain"}
CASTS = ("cast", "cast_like")
N_CONVOLUTIONS = 6


def normal(x: Any, filters: int, stride: int = 1, kernel: int = 3, **options: Any) -> Any:
    """Return a convolution followed by batch normalization."""
    h = layers.conv2d(x, filters, kernel, strides=stride, paddings=kernel // 2, bias=False)
    return layers.batch_norm(h, training=True, **options)


def residual(x: Any, filters: int, stride: int) -> Any:
    """Return a residual block of two convolutions; if the size changes, x is also convolved."""
    h = normal(normal(x, filters, stride, activation="relu"), filters)
    if stride != 1:
        x = normal(x, filters, stride, kernel=1)
    return layers.relu(ow.ops.add(h, x))


class Ran(NamedTuple):
    """The losses of two steps, the parameters, the operators by type, and the cast shapes."""

    losses: list[float]
    parameters: dict[str, Any]
    types: Counter[str]
    cast: list[tuple[int, ...]]


def train(dtype: str, passes: list[str] | None = None) -> Ran:
    """Train a small residual network in mixed precision."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup), nn.mixed_precision(dtype):
        x = layers.data("x", shape=[None, 3, 16, 16])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        h = layers.max_pool2d(normal(x, 8, activation="relu"), 2)
        h = residual(residual(h, 8, 1), 16, 2)
        scores = layers.fc(layers.flatten(layers.adaptive_avg_pool2d(h, 1)), 10)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, y))
        nn.optimizer.Momentum(0.01, 0.9).minimize(loss)
    startup.seed = 3
    scope, rng = ow.Scope(), np.random.default_rng(0)
    ow.Network(startup.global_block()).run(scope)
    feeds = {"x": rng.standard_normal((4, 3, 16, 16), np.float32), "y": rng.integers(0, 10, (4, 1))}
    network = ow.Network(main.global_block())
    step = network.compile([*feeds], [loss], device="cuda", scope=scope, passes=passes)
    losses = [step(**feeds)[0].item() for _ in range(2)]
    parameters = {p.name: scope.var(p.name).numpy() for p in main.parameters()}
    rows = network.profile(feeds, 1).rows
    cast = [row.inputs[0][2] for row in rows if row.op_type in CASTS]
    return Ran(losses, parameters, Counter(network.placement().types), cast)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_only_images_that_are_fed_are_cast(dtype: str) -> None:
    ran = train(dtype)
    assert (ran.types[FUSED], ran.types[GRAD]) == (N_CONVOLUTIONS, N_CONVOLUTIONS)
    assert not APART & set(ran.types)
    assert ran.types["relu_grad"] == 1  # for the pooled images
    images = [shape for shape in ran.cast if len(shape) == 4 and shape[0] == 4]
    assert images == [(4, 3, 16, 16)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_matches_a_network_with_casts(dtype: str) -> None:
    together, apart = train(dtype), train(dtype, ["-fuse_batch_norm"])
    assert apart.types[FUSED] == 0
    assert len(apart.cast) > len(together.cast)
    np.testing.assert_allclose(together.losses, apart.losses, rtol=0.02)
    for name, value in apart.parameters.items():
        size = float(np.abs(value).max())
        np.testing.assert_allclose(
            together.parameters[name], value, rtol=0.01, atol=0.01 * size, err_msg=name
        )


def test_casts_are_removed_even_if_the_activation_has_no_fused_kernel() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [6, 8], "bfloat16")
        with nn.mixed_precision("bfloat16"):
            out = ow.ops.relu6(layers.batch_norm(x, training=True))
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    call = network.compile(["x"], [out], device="cuda", scope=scope)
    call(x=np.arange(48).reshape(6, 8).astype(dtype_to_numpy("bfloat16")))
    types = Counter(network.placement().types)
    assert (types[FUSED], types["relu6"], sum(types[cast] for cast in CASTS)) == (1, 1, 0)
