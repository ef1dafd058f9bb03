"""Scripts in the style of PyTorch run unchanged, with the values that NumPy computes."""

from __future__ import annotations

import numpy as np

import opwright as ow

RNG = np.random.default_rng(3)


def data(name: str, shape: list[int], dtype: str = "float32") -> ow.Variable:
    return ow.default_main_program().global_block().create_var(name, shape, dtype, is_data=True)


def weight(name: str, shape: list[int]) -> ow.Parameter:
    return ow.default_main_program().global_block().create_parameter(name, shape)


def test_a_regression_is_trained():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x, y = data("x", [-1, 5]), data("y", [-1])
        w1, b1 = weight("w1", [5, 8]), weight("b1", [8])
        w2, b2 = weight("w2", [8, 1]), weight("b2", [1])
        h = ow.ops.relu(x @ w1 + b1)
        pred = (h @ w2 + b2)[:, -1]
        loss = ow.ops.mean((pred - y) ** 2)
        regular = loss + 1e-3 * ow.ops.sum(w1**2)
        pairs = ow.append_backward([regular], parameters=[w1, b1, w2, b2])
    scope = ow.Scope()
    for p in (w1, b1, w2, b2):
        scope.var(p.name).set(RNG.normal(0, 0.5, p.shape).astype("float32"))
    step = ow.Network(main.global_block()).compile(
        feed=["x", "y"], fetch=[loss, *(grad for _, grad in pairs)], scope=scope
    )
    inputs = RNG.normal(size=(64, 5)).astype("float32")
    wanted = inputs[:, 0] * 2 - inputs[:, 1]
    losses = []
    for _ in range(100):
        value, *grads = step(x=inputs, y=wanted)
        losses.append(float(value))
        for (p, _), grad in zip(pairs, grads, strict=True):
            found = scope.find_var(p.name)
            found.set(found.numpy() - 0.05 * grad)
    assert losses[-1] < 0.1 * losses[0]


def test_attention_with_a_causal_mask_matches_its_formula():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        q, k, v = (data(name, [-1, 6, 4]) for name in "qkv")
        scores = q @ ow.ops.transpose(k, axes=[0, 2, 1]) / np.sqrt(4)
        mask = np.triu(np.ones((6, 6), bool), 1)
        scores = ow.ops.where(mask, np.float32(-1e9), scores)
        out = ow.ops.softmax(scores, axis=-1) @ v
    values = {name: RNG.normal(size=(2, 6, 4)).astype("float32") for name in "qkv"}
    (value,) = ow.Network(main.global_block()).compile(feed=list("qkv"), fetch=[out])(**values)
    scores = values["q"] @ values["k"].transpose(0, 2, 1) / 2
    weights = np.exp(np.where(mask, -np.inf, scores))
    wanted = weights / weights.sum(-1, keepdims=True) @ values["v"]
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-6)


def test_normalization_and_rotation_of_halves_match_numpy():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = data("x", [-1, 8])
        centered = x - ow.ops.mean(x, axis=1, keepdims=True)
        scaled = centered / (ow.ops.mean(centered**2, axis=-1, keepdims=True) + 1e-5) ** 0.5
        rotated = ow.ops.concat([-scaled[..., 4:], scaled[..., :4]], axis=-1)
        positive = ow.ops.where((rotated > 0) & (rotated < 1), rotated, 0.0)
    values = RNG.normal(size=(3, 8)).astype("float32")
    (value,) = ow.Network(main.global_block()).compile(feed=["x"], fetch=[positive])(x=values)
    centered = values - values.mean(1, keepdims=True)
    scaled = centered / ((centered**2).mean(-1, keepdims=True) + 1e-5) ** 0.5
    wanted = np.concatenate([-scaled[..., 4:], scaled[..., :4]], -1)
    wanted = np.where((wanted > 0) & (wanted < 1), wanted, 0)
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-6)


def test_an_operator_without_inputs_is_appended_only_within_a_guard():
    assert isinstance(ow.ops.fill(shape=[2], value=3.0), np.ndarray)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        three = ow.ops.fill(shape=[2], value=3.0)
        noise = ow.ops.uniform(shape=[2])
        positions = ow.ops.arange(stop=2.0)
    assert [op.type for op in main.global_block().ops] == ["fill", "uniform", "arange"]
    assert isinstance(three, ow.Variable)
    assert (noise.dtype, positions.dtype) == ("float32", "int64")
    assert isinstance(ow.ops.fill(shape=[2]), np.ndarray)
