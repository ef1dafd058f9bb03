"""Networks that the bundle tests save and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import opwright as ow
from opwright_nn import layers

Model = tuple[ow.Network, Any, dict[str, list[int | None]]]


def make(name: str) -> Model:
    """Return a network, its compiled form, and its feed shapes by name."""
    main, startup = ow.Program(), ow.Program()
    scope = ow.Scope()
    with ow.program_guard(main, startup), ow.scope_guard(scope):
        shapes, fetches = _MODELS[name]()
        ow.Network(startup.global_block()).run(scope)
    network = ow.Network(main.global_block())
    compiled = network.compile(list(shapes), fetches, scope=scope)
    return network, compiled, shapes


def draw(shapes: dict[str, list[int | None]], n: int) -> dict[str, Any]:
    """Return feeds for a batch of n."""
    random = np.random.default_rng(n)
    dims = {name: [n if d is None else d for d in shape] for name, shape in shapes.items()}
    return {name: random.standard_normal(shape).astype("float32") for name, shape in dims.items()}


def _var(name: str, *dims: int | None) -> Any:
    shape = [-1 if dim is None else dim for dim in dims]
    return ow.default_main_program().global_block().create_var(name, shape=shape)


def _mlp() -> Any:
    hidden = layers.fc(_var("x", None, 20), 33, activation="relu")
    return {"x": [None, 20]}, [ow.ops.softmax(layers.fc(hidden, 7))]


def _convnet() -> Any:
    x = _var("x", None, 3, 12, 12)
    y = ow.ops.max_pool2d(ow.ops.relu(layers.conv2d(x, 8, 3, paddings=[1, 1])), kernel=[2, 2])
    y = ow.ops.relu(layers.conv2d(y, 8, 3, paddings=[1, 1]) + y)
    return {"x": [None, 3, 12, 12]}, [layers.fc(y, 5)]


def _lstm() -> Any:
    out, last, _ = layers.lstm(_var("x", None, 5, 6), 8)
    return {"x": [None, 5, 6]}, [out, last]


def _scan() -> Any:
    x, h = _var("x", 6, None, 4), _var("h", None, 4)

    def body(carry: Any, one: Any) -> Any:
        new = ow.ops.tanh(layers.fc(one, 4, name="in") + carry)
        return new, new * 2.0

    carry, out = layers.scan(body, h, x)
    return {"x": [6, None, 4], "h": [None, 4]}, [carry, out]


def _while() -> Any:
    x = _var("x", None, 4)

    def condition(carry: Any) -> Any:
        return ow.ops.sum(ow.ops.abs(carry)) > 1.0

    carry = layers.while_loop(condition, lambda c: ow.ops.tanh(c) * 0.5, x)
    return {"x": [None, 4]}, [carry]


def _endless() -> Any:
    x = _var("x", None, 4)
    carry = layers.while_loop(lambda c: ow.ops.sum(c) > -1.0, ow.ops.abs, x)
    return {"x": [None, 4]}, [carry]


def _cond() -> Any:
    x = _var("x", None, 4)
    is_positive = ow.ops.sum(x) > 0.0
    out = layers.cond(is_positive, lambda: ow.ops.exp(x) + x, lambda: layers.fc(x, 4) * 3.0)
    return {"x": [None, 4]}, [out]


def _inverse() -> Any:
    return {"x": [None, 3, 3]}, [ow.ops.inverse(_var("x", None, 3, 3))]


def _nonzero() -> Any:
    return {"x": [None, 3]}, [ow.ops.nonzero(_var("x", None, 3))]


def _state() -> Any:
    return {"x": [None, 3]}, [layers.batch_norm(_var("x", None, 3))]


_MODELS: dict[str, Callable[[], Any]] = {
    "mlp": _mlp,
    "convnet": _convnet,
    "lstm": _lstm,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "state": _state,
    "endless": _endless,
    "inverse": _inverse,
    "nonzero": _nonzero,
}
"""Functions that return feed shapes and fetches, by name; all fetches depend on the feeds."""

NAMES = ("mlp", "convnet", "lstm", "scan", "while", "cond", "state")
"""Models that can be bundled."""
