"""Batch normalization in mixed precision reads and writes images in 16 bits, without casts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
import opwright_nn as nn
from opwright.op import dtype_to_numpy
from opwright_nn import layers

FUSED, GRAD = "std.batch_norm_halves", "std.batch_norm_halves_grad"
CASTS = ("cast", "cast_like")
SHAPES = [(2100, 70), (64, 3), (9, 130), (1, 5), (3, 4, 5, 7), (2, 3, 600)]
STEP = {"bfloat16": 2**-8, "float16": 2**-11}
"""Half a step of each dtype, the largest error of one rounding."""


n_threads = thread_counts(1, 3, autouse=True)


def make_feeds(shape: tuple[int, ...], dtype: str) -> dict[str, np.ndarray]:
    """Return images, the residual, and the output gradient."""
    numbers = np.random.default_rng(5)
    return {
        name: numbers.normal(1, 2, shape).astype(dtype_to_numpy(dtype))
        for name in ("x", "y", "out_grad")
    }


def train(
    feeds: dict[str, np.ndarray], activation: str, adds: bool, training: bool, passes: list[str]
) -> tuple[dict[str, np.ndarray], Counter[str]]:
    """Return the result, all gradients and statistics by name, and operator type counts."""
    main, startup, scope = ow.Program(), ow.Program(), ow.Scope()
    shape, dtype = feeds["x"].shape, feeds["x"].dtype.name
    with ow.program_guard(main, startup):
        x, y, out_grad = (layers.data(name, [*shape], dtype=dtype) for name in feeds)
        x.stop_gradient = y.stop_gradient = False
        h = layers.batch_norm(ow.ops.cast(x, dtype="float32"), training=training, name="norm")
        h = ow.ops.cast(h, dtype=dtype)
        h = ow.ops.add(h, y) if adds else h
        out = getattr(ow.ops, activation)(h) if activation else h
        wanted = ["x", *(["y"] if adds else []), *main.parameters()]
        pairs = ow.append_backward(ow.ops.multiply(out, out_grad), parameters=wanted)
    ow.Network(startup.global_block()).run(scope)
    numbers = np.random.default_rng(6)
    for parameter in main.parameters():
        scope.var(parameter.name).set(numbers.uniform(0.5, 2, parameter.shape).astype("float32"))
    network = ow.Network(main.global_block())
    fetch = [out, *(grad for _, grad in pairs)]
    call = network.compile([*feeds], fetch, scope=scope, passes=passes)
    values = call(**feeds)
    names = ["out", *(variable.name for variable, _ in pairs)]
    found = dict(zip(names, values, strict=True))
    states = [v.name for v in main.global_block().vars.values() if v.persistable]
    found |= {f"{name} then": scope.var(name).numpy() for name in states}
    return found, Counter(network.placement().types)


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", ["relu", "relu6", ""])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_casts_an_activation_and_an_addition_are_fused(
    shape: tuple[int, ...], dtype: str, activation: str, adds: bool, training: bool
) -> None:
    feeds = make_feeds(shape, dtype)
    apart, _ = train(feeds, activation, adds, training, [])
    together, types = train(feeds, activation, adds, training, ["fuse_batch_norm"])
    assert (types[FUSED], types[GRAD], sum(types[cast] for cast in CASTS)) == (1, 1, 0)
    for name, numbers in apart.items():
        assert together[name].dtype == numbers.dtype
        got, wanted = together[name].astype("float64"), numbers.astype("float64")
        size = float(np.abs(wanted).max(initial=1.0))
        step = 2 * STEP[dtype] if wanted.shape == shape else 0.0
        np.testing.assert_allclose(got, wanted, rtol=step + 1e-5, atol=1e-5 * size, err_msg=name)


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("shape", [(2100, 70), (2, 3, 600)])
def test_results_match_float64_results_rounded_once(shape: tuple[int, ...], dtype: str) -> None:
    feeds = make_feeds(shape, dtype)
    got, _ = train(feeds, "relu", False, True, ["fuse_batch_norm"])
    x, out_grad = feeds["x"].astype("float64"), feeds["out_grad"].astype("float64")
    axes = (0, *range(2, len(shape)))
    along = (1, -1, *[1] * (len(shape) - 2))
    scale, bias = np.random.default_rng(6).uniform(0.5, 2, (2, shape[1]))
    inv_std = ((x.var(axes) + 1e-5) ** -0.5).reshape(along)
    normal = (x - x.mean(axes).reshape(along)) * inv_std
    out = np.maximum(normal * scale.reshape(along) + bias.reshape(along), 0)
    out_grad = out_grad * (out > 0)
    scale_grad, bias_grad = (out_grad * normal).sum(axes), out_grad.sum(axes)
    count = x.size // shape[1]
    lost = bias_grad.reshape(along) + normal * scale_grad.reshape(along)
    wanted = {
        "out": out,
        "x": (out_grad - lost / count) * inv_std * scale.reshape(along),
        "norm_w_param": scale_grad,
        "norm_b_param": bias_grad,
    }
    for name, numbers in wanted.items():
        step = STEP[dtype] if numbers.shape == shape else 0.0
        size = float(np.abs(numbers).max())
        np.testing.assert_allclose(
            got[name].astype("float64"), numbers, rtol=step + 1e-5, atol=2e-5 * size, err_msg=name
        )


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_infinities_and_nan_affect_only_their_channel(
    dtype: str, adds: bool, special: float
) -> None:
    for slot in ("x", "out_grad"):
        feeds = make_feeds((200, 6), dtype)
        feeds[slot][130, 2] = special
        got, _ = train(feeds, "relu6", adds, True, ["fuse_batch_norm"])
        apart, _ = train(feeds, "relu6", adds, True, [])
        for name, numbers in got.items():
            wanted = np.isfinite(apart[name].astype("float64"))
            np.testing.assert_array_equal(np.isfinite(numbers.astype("float64")), wanted)
            assert wanted[..., [0, 1, 3, 4, 5]].all(), name


def normal(x: ow.Variable, activation: str | None = None) -> ow.Variable:
    h = layers.conv2d(x, 8, 3, paddings=1, bias=False)
    return layers.batch_norm(h, activation=activation, training=True)


@pytest.mark.parametrize("dtype", STEP)
def test_images_are_not_cast_in_a_residual_block_in_mixed_precision(dtype: str) -> None:
    if not ow.current_context().kernels.candidates("conv2d", "cpu", dtype):
        pytest.skip(f"opwright-cpu was built without oneDNN: it has no conv2d of {dtype}")
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup), nn.mixed_precision(dtype):
        x, y = layers.data("x", [4, 3, 6, 6]), layers.data("y", [4, 1])
        h = normal(x, "relu")
        h = layers.relu(ow.ops.add(normal(normal(h, "relu")), h))
        scores = layers.fc(layers.flatten(layers.adaptive_avg_pool2d(h, 1)), 1)
        loss = layers.mean(layers.mse(scores, y))
        nn.optimizer.SGD(0.1).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    step = network.compile(["x", "y"], [loss], scope=scope)
    numbers = np.random.default_rng(5)
    feeds = {v.name: numbers.standard_normal(v.shape, np.float32) for v in (x, y)}
    step(**feeds)
    rows = network.profile(feeds, 1).rows
    types = Counter(row.op_type for row in rows)
    assert (types[FUSED], types[GRAD]) == (3, 3)
    assert not {"relu", "relu_grad", "batch_norm", "batch_norm_grad"} & set(types)
    shapes = [row.inputs[0][2] for row in rows if row.op_type in CASTS]
    assert [shape for shape in shapes if len(shape) == 4 and shape[0] == 4] == [x.shape]
