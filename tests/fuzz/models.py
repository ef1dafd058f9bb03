"""Small initial programs: forward programs, and programs with gradients and optimizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import opwright as ow
import opwright_nn as nn
from opwright_nn import layers


def _mlp() -> Any:
    x = layers.data("x", shape=[4, 6])
    return layers.fc(layers.fc(x, 5, activation="relu"), 3)


def _images() -> Any:
    x = layers.data("x", shape=[2, 2, 6, 6])
    h = layers.conv2d(x, 4, 3, paddings=1, activation="relu")
    h = layers.max_pool2d(layers.batch_norm(h), 2)
    return layers.fc(layers.flatten(layers.avg_pool2d(h, 2, paddings=1)), 3)


def _words() -> Any:
    x = layers.data("x", shape=[3, 4], dtype="int64")
    h = layers.layer_norm(layers.embedding(x, [9, 6]))
    return layers.fc(layers.dropout(layers.flatten(layers.softmax(h))), 3)


def _branches() -> Any:
    x = layers.data("x", shape=[2, 3])
    flag = layers.data("flag", shape=[1], dtype="bool")
    h = layers.cond(flag, lambda: layers.fc(x, 4), lambda: layers.tanh(layers.fc(x, 4)))
    return layers.fc(layers.concat([h, x], axis=1), 3)


def _loops() -> Any:
    x = layers.data("x", shape=[3, 2, 4])

    def cell(h: Any, x_t: Any) -> Any:
        h = layers.tanh(layers.fc(layers.concat([x_t, layers.dropout(h)], axis=1), 4, name="cell"))
        return h, h

    last, _ = layers.scan(cell, layers.fc(layers.flatten(layers.data("h", [2, 4])), 4), x)
    grown = layers.while_loop(_is_small, lambda v: _append("add", x=v, y=v), last, max_steps=9)
    return layers.fc(layers.concat([grown, last], axis=1), 3)


def _is_small(x: Any) -> Any:
    total = _append("sum", x=_append("square", x=x))
    return _append("less", x=total, y=_append("exp", x=_append("fill_like", x=total)))


def _append(op: str, **inputs: Any) -> Any:
    block = ow.default_main_program().current_block()
    return block.var(block.append_op(op, inputs).output("out")[0])


def _movement() -> Any:
    x = layers.data("x", shape=[4, 6])
    block = x.block
    for op, inputs, attrs in (
        ("transpose", {"x": "x"}, {"axes": [1, 0]}),
        ("pad", {"x": "x"}, {"paddings": [1, 0, 0, 2]}),
        ("top_k", {"x": "x"}, {"k": 2}),
        ("nonzero", {"x": "x"}, {}),
        ("slice", {"x": "x"}, {"axes": [0], "starts": [1], "ends": [3]}),
        ("sum", {"x": "x"}, {"axis": [1]}),
    ):
        block.append_op(op, inputs, None, attrs)
    return layers.reshape(x, [3, 8])


_FORWARD: tuple[Callable[[], Any], ...] = (
    _mlp,
    _images,
    _words,
    _branches,
    _loops,
    _movement,
)


def _losses(out: Any) -> Any:
    label = layers.data("label", shape=[out.shape[0], 1], dtype="int64")
    return layers.mean(layers.softmax_with_cross_entropy(out, label))


@cache
def forward_programs() -> tuple[bytes, ...]:
    """Return the bytes of programs without gradients."""
    return tuple(_build(make, None) for make in _FORWARD)


@cache
def training_programs() -> tuple[bytes, ...]:
    """Return the bytes of training programs, one for each model and optimizer."""
    optimizers = (
        lambda: nn.optimizer.SGD(0.1),
        lambda: nn.optimizer.Momentum(0.1),
        lambda: nn.optimizer.Adam(0.01),
    )
    models = (_mlp, _images, _words, _branches, _loops)
    return tuple(_build(make, optimizer) for make in models for optimizer in optimizers)


def _build(make: Callable[[], Any], optimizer: Callable[[], Any] | None) -> bytes:
    program = ow.Program(seed=3)
    with ow.program_guard(program, ow.Program(seed=3)):
        out = make()
        if optimizer is not None:
            out = _losses(out)
            optimizer().minimize(out)
    from opwright.program.serialize import program_to_bytes

    feeds = [name for name, var in program.global_block().vars.items() if var.is_data]
    return program_to_bytes(program, feeds, [out.name])
