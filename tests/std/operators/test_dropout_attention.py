"""Tests dropout of attention weights in training, with the random numbers of the program."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright_nn import layers

rng = np.random.default_rng(4)
SHAPE = (2, 3, 40, 8)
Q, K = (rng.normal(size=SHAPE).astype("float32") for _ in range(2))
UNIT = np.broadcast_to(np.eye(40, dtype="float32"), (2, 3, 40, 40))
"""Values that make attention return its weights."""


def weights(probability: float, step: int, seed: int = 5, **attrs: bool) -> np.ndarray:
    """Return the attention weights after dropout in one run."""
    options = {"probability": probability, "training": True, "seed": seed, **attrs}
    number = np.array([step])
    return np.asarray(ow.ops.dropout_attention(Q, K, UNIT, step=number, **options))


def plain(**attrs: bool) -> np.ndarray:
    return np.asarray(ow.ops.scaled_dot_product_attention(Q, K, UNIT, **attrs))


@pytest.mark.parametrize("causal", [False, True])
def test_a_weight_is_dropped_or_divided_by_the_probability_of_keeping_it(causal):
    left, whole = weights(0.25, 0, causal=causal), plain(causal=causal)
    kept = left != 0
    np.testing.assert_allclose(left[kept], whole[kept] / 0.75, rtol=1e-5)
    share = kept.sum() / (whole != 0).sum()
    assert abs(share - 0.75) < 0.02


def test_the_dropped_weights_depend_on_seed_and_step():
    first = weights(0.5, 1)
    np.testing.assert_array_equal(first, weights(0.5, 1))
    assert (first != weights(0.5, 2)).any()
    assert (first != weights(0.5, 1, seed=6)).any()


def test_probability_1_drops_every_weight_and_probability_0_none():
    assert (weights(1.0, 0) == 0).all()
    np.testing.assert_allclose(weights(0.0, 0), plain(), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_of_16_bit_floats_are_not_rounded(dtype):
    q, k, unit = ((4 * x).astype(ow.op.dtype_to_numpy(dtype)) for x in (Q, K, UNIT))
    exact = ow.ops.scaled_dot_product_attention(*(x.astype("float32") for x in (q, k, unit)))
    out = ow.ops.dropout_attention(q, k, unit, probability=1e-12, training=True)
    np.testing.assert_allclose(np.asarray(out, "float32"), exact, rtol=0.006, atol=1e-5)


def program(training: bool) -> tuple[ow.Program, list[ow.Variable]]:
    with ow.program_guard(ow.Program(seed=9), ow.Program()) as (main, _):
        q, k, v = (
            layers.data(name, [*SHAPE[:-1], n]) for name, n in (("q", 8), ("k", 8), ("v", 40))
        )
        v.stop_gradient = False
        out = ow.ops.dropout_attention(q, k, v, probability=0.5, training=training)
        ((_, grad),) = ow.append_backward(ow.ops.sum(out), parameters=[v])
    return main, [out, grad]


def test_the_gradient_drops_the_elements_dropped_by_the_loss():
    main, fetch = program(training=True)
    call = ow.Network(main.global_block()).compile(["q", "k", "v"], fetch, scope=ow.Scope())
    runs = [[np.array(array) for array in call(q=Q, k=K, v=UNIT)] for _ in range(2)]
    for out, grad in runs:
        # For the sum of all outputs, each value's gradient is the sum of its weights.
        wanted = np.broadcast_to(out.sum(axis=-2)[..., None], grad.shape)
        np.testing.assert_allclose(grad, wanted, rtol=1e-5, atol=1e-6)
    assert (runs[0][0] != runs[1][0]).any()


def test_without_training_only_attention_is_computed():
    main, fetch = program(training=False)
    network = ow.Network(main.global_block())
    (out,) = network.compile(["q", "k", "v"], fetch[:1], scope=ow.Scope())(q=Q, k=K, v=UNIT)
    assert network.placement().types == {"scaled_dot_product_attention": 1}
    np.testing.assert_array_equal(out, plain())


def test_a_layer_drops_weights_in_training_but_not_in_a_clone_for_inference():
    with ow.program_guard(ow.Program(seed=3), ow.Program(seed=3)) as (main, _):
        layers.attention(layers.data("x", [None, 6, 8]), heads=2, dropout=0.5)
    (op,) = [op for op in main.global_block().ops if op.type == "dropout_attention"]
    assert op.attrs["training"]
    clone = main.clone(for_inference=True)
    (copy,) = [op for op in clone.global_block().ops if op.type == "dropout_attention"]
    assert not copy.attrs["training"]


def test_a_dropout_probability_of_1_is_refused():
    x = layers.data("x", [None, 5, 8])
    with pytest.raises(
        ow.errors.AttributeValueError, match=r"attention: dropout must be .* \[0, 1\), got 1.0"
    ):
        layers.attention(x, heads=2, dropout=1.0)
