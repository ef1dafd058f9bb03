"""Fusing batch normalization with the following operators does not change results."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
from opwright_nn import layers

FUSED, GRAD = "std.batch_norm_activation", "std.batch_norm_activation_grad"
SHAPES = [(2100, 70), (64, 3), (9, 130), (1, 5), (3, 4, 5, 7), (2, 3, 600)]
"""Shapes of channels-last data (rows of channels) and of channels-first data."""

rng = np.random.default_rng(3)


n_threads = thread_counts(1, 3, autouse=True)


def train(
    shape: tuple[int, ...], activation: str, adds: bool, training: bool, passes: list[str]
) -> tuple[list[np.ndarray], Counter[str]]:
    """Return the result, all gradients, the running statistics, and operator type counts."""
    main, startup, scope = ow.Program(), ow.Program(), ow.Scope()
    with ow.program_guard(main, startup):
        x, y, weight = (layers.data(name, [*shape]) for name in ("x", "y", "weight"))
        x.stop_gradient = y.stop_gradient = False
        h = layers.batch_norm(x, training=training)
        h = ow.ops.add(h, y) if adds else h
        out = getattr(ow.ops, activation)(h) if activation else h
        loss = layers.mean(ow.ops.multiply(out, weight))
        wanted = ["x", *(["y"] if adds else []), *main.parameters()]
        pairs = ow.append_backward(loss, parameters=wanted)
    ow.Network(startup.global_block()).run(scope)
    numbers = np.random.default_rng(5)
    for parameter in main.parameters():
        scope.var(parameter.name).set(numbers.uniform(0.5, 2, parameter.shape).astype("float32"))
    feeds = {name: numbers.normal(1, 2, shape).astype("float32") for name in ("x", "y", "weight")}
    network = ow.Network(main.global_block())
    fetch = [out, *(grad for _, grad in pairs)]
    call = network.compile([*feeds], fetch, scope=scope, passes=passes)
    found = call(**feeds)
    states = [v for v in main.global_block().vars.values() if v.persistable]
    return [*found, *(scope.var(v.name).numpy() for v in states)], Counter(
        network.placement().types
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", ["relu", "relu6", ""])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_an_activation_and_an_addition_are_fused(
    shape: tuple[int, ...], activation: str, adds: bool, training: bool
) -> None:
    apart, _ = train(shape, activation, adds, training, [])
    together, types = train(shape, activation, adds, training, ["fuse_batch_norm"])
    assert (types[FUSED], types[GRAD]) == (bool(activation or adds), bool(activation))
    for one, other in zip(apart, together, strict=True):
        size = float(np.abs(one).max(initial=1.0))
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5 * size)


@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_match_numpy(shape: tuple[int, ...]) -> None:
    x = (rng.standard_normal(shape) + 300).astype("float32")
    ones = np.ones(shape[1], "float32")
    out, _, _, mean, inv_std = ow.ops.batch_norm(
        x,
        ones,
        0 * ones,
        0 * ones,
        ones,
        training=True,
        returns=["out", "mean_out", "variance_out", "saved_mean", "saved_inv_std"],
    )
    axes = (0, *range(2, len(shape)))
    wide = x.astype("float64")
    np.testing.assert_allclose(mean, wide.mean(axes), rtol=1e-6)
    np.testing.assert_allclose(inv_std, (wide.var(axes) + 1e-5) ** -0.5, rtol=1e-4)
    broadcast = [1, -1, *[1] * (len(shape) - 2)]
    wanted = (wide - mean.reshape(broadcast)) * inv_std.reshape(broadcast)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_a_channel_of_equal_values_is_normalized_to_zero() -> None:
    x = np.full((1000, 4), 0.1, "float32")
    ones = np.ones(4, "float32")
    out, *_ = ow.ops.batch_norm(x, ones, 0 * ones, ones, ones, training=True)
    np.testing.assert_array_equal(out, 0 * x)


def test_nan_and_infinity_affect_only_their_channel() -> None:
    x = rng.standard_normal((200, 6)).astype("float32")
    x[130, 1], x[0, 2], x[77, 3] = np.nan, np.inf, -np.inf
    ones = np.ones(6, "float32")
    out, *_ = ow.ops.batch_norm(x, ones, 0 * ones, ones, ones, training=True)
    clean = np.isfinite(out).all(axis=0)
    np.testing.assert_array_equal(clean, [True, False, False, False, True, True])


@pytest.mark.parametrize("activation", ["relu", ""])
@pytest.mark.parametrize("shape", [(64, 3), (2, 3, 5, 7)])
def test_a_fused_normalization_updates_the_running_variance_with_the_unbiased_variance(
    shape: tuple[int, ...], activation: str
) -> None:
    rows = np.random.default_rng(2).normal(3, 2, shape).astype("float32")
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [*shape])
        out = layers.batch_norm(x, activation=activation or None, unbiased=True, momentum=0.5)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    network.compile(["x"], [out], scope=scope)(x=rows)
    assert (FUSED in network.placement().types) == bool(activation)
    spread = rows.var(axis=(0, *range(2, len(shape))), ddof=1)
    np.testing.assert_allclose(
        scope.var("batch_norm_0_variance").numpy(), 0.5 + 0.5 * spread, rtol=1e-5
    )


def test_an_unbiased_variance_needs_more_than_one_element_per_channel() -> None:
    arrays = {slot: np.ones(3) for slot in ("scale", "bias", "mean", "variance")}
    match = r"batch_norm: unbiased needs more than 1 element for each channel .*\[1, 3\]"
    with pytest.raises(ow.errors.ShapeError, match=match):
        ow.ops.batch_norm(np.ones((1, 3)), **arrays, training=True, unbiased=True)
