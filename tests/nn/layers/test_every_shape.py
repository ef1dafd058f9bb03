"""One program of a transformer or U-Net trains with every batch size, length and image size."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright import ops
from opwright_nn import layers

COLUMNS, HEADS, WORDS = 16, 4, 11


def sizes_of(x, *axes):
    """Return axis lengths: numbers if they are declared, otherwise variables."""
    lengths = ops.shape(x)
    return [x.shape[axis] if x.shape[axis] != -1 else lengths[axis] for axis in axes]


def attention(x, name):
    n, time = sizes_of(x, 0, 1)

    def heads_of(role):
        flat = layers.fc(layers.reshape(x, [n * time, COLUMNS]), COLUMNS, name=f"{name}_{role}")
        return ops.transpose(layers.reshape(flat, [n, time, HEADS, -1]), axes=[0, 2, 1, 3])

    q, k, v = heads_of("q"), heads_of("k"), heads_of("v")
    scores = ops.matmul(q, ops.transpose(k, axes=[0, 1, 3, 2]))
    ahead = ops.subtract(ops.fill(shape=[time, time], value=1.0), ops.eye(n_rows=time))
    weights = ops.softmax(ops.subtract(scores, ops.triu(ahead) * 1e4))
    joined = ops.transpose(ops.matmul(weights, v), axes=[0, 2, 1, 3])
    return layers.reshape(joined, [n, time, COLUMNS])


def transformer(shape):
    """Append the layers from words [n, time] to the loss of predicting the next words."""
    words = layers.data("x", shape=shape, dtype="int64")
    (time,) = sizes_of(words, 1)
    positions = layers.embedding(ops.arange(stop=time), [32, COLUMNS], name="positions")
    h = ops.add(layers.embedding(words, [WORDS, COLUMNS], name="words"), positions)
    for i in range(2):
        h = ops.add(
            h,
            attention(layers.layer_norm(h, begin_norm_axis=2, name=f"norm_{i}"), f"attention_{i}"),
        )
    seen = ops.slice(h, axes=[1], starts=[0], ends=[time - 1])
    following = ops.slice(words, axes=[1], starts=[1], ends=[time])
    logits = layers.fc(layers.reshape(seen, [-1, COLUMNS]), WORDS, name="logits")
    return layers.mean(
        layers.softmax_with_cross_entropy(logits, layers.reshape(following, [-1, 1]))
    )


def unet(shape):
    """Append a U-Net from images [n, 3, height, width] to the mean squared error of its output."""
    images = layers.data("x", shape=shape)
    high = layers.conv2d(images, 4, 3, paddings=1, activation="relu", name="high")
    low = layers.max_pool2d(high, 2, ceil_mode=True)
    low = layers.conv2d(low, 8, 3, paddings=1, activation="relu", name="low")
    up = ops.interpolate(low, output_size=sizes_of(high, 2, 3), mode="bilinear")
    joined = layers.concat([up, high], axis=1)
    return layers.mse(layers.conv2d(joined, 3, 3, paddings=1, name="out"), images)


def words_of(rng, i):
    return rng.integers(0, WORDS, (1 + i % 5, 2 + i))


def images_of(rng, i):
    return rng.normal(size=(1 + i % 3, 3, 4 + i, 5 + 2 * i % 7)).astype(np.float32)


class Trained:
    """A program with its parameters; a step returns the loss."""

    def __init__(self, build, shape):
        self.main, startup, self.scope = ow.Program(), ow.Program(), ow.Scope()
        with ow.program_guard(self.main, startup):
            loss = build(shape)
            nn.optimizer.SGD(learning_rate=0.1).minimize(loss)
        ow.Network(startup.global_block()).run(self.scope)
        network = ow.Network(self.main.global_block())
        self.step = network.compile(feed=["x"], fetch=[loss], scope=self.scope)

    def parameters(self):
        return {p.name: self.scope.var(p.name).numpy().copy() for p in self.main.parameters()}


@pytest.mark.parametrize(
    ("build", "unknown", "draw"),
    [(transformer, (None, None), words_of), (unet, (None, 3, None, None), images_of)],
)
def test_one_program_trains_with_every_shape_like_a_program_built_for_that_shape(
    build, unknown, draw
):
    rng = np.random.default_rng(0)
    every = Trained(build, unknown)
    n_operators = len(every.main.global_block().ops)
    for i in range(20):
        x = draw(rng, i)
        own = Trained(build, x.shape)
        own.scope.set_all(every.parameters())
        for _ in range(2):
            np.testing.assert_allclose(every.step(x=x)[0], own.step(x=x)[0], rtol=1e-5)
        expected = own.parameters()
        for name, value in every.parameters().items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)
    assert len(every.main.global_block().ops) == n_operators


def ones_of(x):
    n, time = sizes_of(x, 0, 1)
    return ops.reshape(ops.fill(shape=[n * 8, time], value=1.0), shape=[n, time, 8])


def test_bodies_of_loops_and_branches_can_read_outer_sizes(programs):
    x = layers.data("x", shape=[None, None, 8])
    holds = layers.data("holds", shape=[], dtype="bool")
    counter = ops.fill(shape=[], dtype="int64")
    _, looped = layers.while_loop(
        lambda i, h: i < 3, lambda i, h: [i + 1, ops.add(h, ones_of(x))], [counter, x]
    )
    n, time = sizes_of(x, 0, 1)
    chosen = layers.cond(
        holds,
        lambda: ops.add(x, ones_of(x)),
        lambda: ops.expand(ops.fill(shape=[1, 1, 8]), shape=[n, time, 8]),
    )
    f = ow.Network(x.block).compile(feed=["x", "holds"], fetch=[looped, chosen])
    for shape in [(2, 3, 8), (4, 1, 8)]:
        for value in (True, False):
            array = np.ones(shape, np.float32)
            after, either = f(x=array, holds=np.array(value))
            np.testing.assert_array_equal(after, array + 3)
            np.testing.assert_array_equal(either, (array + 1) * value)


def test_gradients_of_bodies_can_read_outer_sizes(programs):
    x = layers.data("x", shape=[None, 8])
    holds = layers.data("holds", shape=[], dtype="bool")
    n = ops.shape(x)[0]

    def half(h):
        return ops.pad(
            ops.slice(h, axes=[0], starts=[n // 2], ends=[n]), paddings=[n // 2, 0, 0, 0]
        )

    carried, _ = layers.scan(lambda h, _: (half(ops.square(h)), None), x, length=2)
    chosen = layers.cond(holds, lambda: half(carried), lambda: ops.scale(carried, scale=2.0))
    loss = ops.sum(chosen)
    grad = ow.append_backward(loss, [x])[0][1]
    f = ow.Network(x.block).compile(feed=["x", "holds"], fetch=[loss, grad])
    for rows in (1, 4, 7):
        for value in (True, False):
            array = np.random.default_rng(rows).normal(size=(rows, 8)).astype(np.float32)
            expected = 4 * array**3 * (1 if value else 2)
            expected[: rows // 2] = 0
            np.testing.assert_allclose(f(x=array, holds=np.array(value))[1], expected, rtol=1e-4)
