"""Operators that move images or have axis attributes run channels last between convolutions."""

from __future__ import annotations

from typing import Any

import pytest
from image_nets import Net, conv, parameter

import opwright as ow
from opwright_nn import layers

ops = ow.ops


def shuffled(x: Any) -> Any:
    h = ops.transpose(ops.reshape(x, shape=[-1, 2, 3, 9, 8]), axes=[0, 2, 1, 3, 4])
    return ops.reshape(h, shape=[-1, 6, 9, 8])


def gated(h: Any) -> Any:
    return ops.multiply(h, ops.sigmoid(conv(layers.adaptive_avg_pool2d(h, 1), 4, 1)))


AS_THEY_LIE = {
    "joined channels": lambda x: conv(ops.concat([conv(x), conv(x)], axis=1)),
    "joined rows": lambda x: conv(ops.concat([conv(x), conv(x)], axis=-2)),
    "cut channels": lambda x: conv(ops.slice(conv(x, 5), axes=[-3], starts=[1], ends=[4])),
    "parts": lambda x: ops.add(*[conv(part) for part in ops.split(conv(x), axis=1, num=2)]),
    "reversed columns": lambda x: conv(
        ops.slice(conv(x), axes=[3, 1], starts=[-1, 0], ends=[-9, 4], steps=[-2, 1])
    ),
    "a border": lambda x: conv(ops.pad(conv(x), paddings=[0, 1, 1, 2, 3, 4, 5, 6], value=2.0)),
    "a gate": lambda x: conv(gated(conv(x))),
    "a number for each channel": lambda x: conv(ops.add(conv(x), parameter("c", (4, 1, 1)))),
    "a number for each column": lambda x: conv(ops.multiply(conv(x), parameter("w", (8,)))),
    "shuffled channels": lambda x: conv(shuffled(conv(x, 6))),
    "a mean over pixels": lambda x: layers.fc(ops.mean(conv(x), axis=[2, 3]), size=3),
    "a mean that stays": lambda x: conv(ops.mean(conv(x), axis=[3], keepdims=True), 2, 1),
    "a maximum over channels": lambda x: conv(ops.max(conv(x), axis=[1], keepdims=True), 2, 1),
}


@pytest.mark.parametrize("write", AS_THEY_LIE.values(), ids=AS_THEY_LIE.keys())
def test_operators_with_axis_attributes_run_in_nhwc_between_convolutions(write):
    Net(write, training=True).check()
    assert Net(write).check()["transpose"] <= 2 + ("shuffled" in write.__code__.co_names)


ORDERED = {
    "rows gone": lambda x: ops.mean(conv(x), axis=[2]),
    "everything": lambda x: ops.sum(conv(x)),
    "channels behind rows": lambda x: conv(ops.transpose(conv(x), axes=[0, 2, 1, 3])),
    "pixels as channels": lambda x: conv(ops.reshape(conv(x), shape=[-1, 9, 4, 8])),
    "an outer product": lambda x: ops.add(conv(x), parameter("other", (5, 1, 1, 1, 8))),
}


@pytest.mark.parametrize("write", ORDERED.values(), ids=ORDERED.keys())
def test_operators_that_depend_on_the_axis_order_keep_their_layout(write):
    Net(write, training=True).check()


def test_pixels_viewed_as_a_sequence_do_not_need_more_transposes():
    def write(x):
        h = ops.transpose(ops.reshape(conv(x), shape=[-1, 4, 72]), axes=[0, 2, 1])
        h = layers.fc(h, size=4, num_flatten_dims=2)
        return conv(ops.reshape(ops.transpose(h, axes=[0, 2, 1]), shape=[-1, 4, 9, 8]))

    assert Net(write).check()["transpose"] == 2
