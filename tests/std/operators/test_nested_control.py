"""Control flow within control flow: values and gradients, in every nesting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright_nn import layers

RNG = np.random.default_rng(11)
VALUES = {
    "x": RNG.normal(size=(4, 3)),
    "y": RNG.normal(size=(5, 3)) / 2,
    "w": RNG.normal(size=3),
    "p": np.array([True]),
}


def scan_in_scan(x: Any, y: Any, w: Any, p: Any) -> Any:
    def outer(h: Any, x_t: Any) -> Any:
        def inner(g: Any, y_t: Any) -> Any:
            g = multiply(add(g, y_t), w)
            return layers.tanh(g), multiply(g, x_t)

        g, out = layers.scan(inner, h, y)
        return layers.tanh(add(g, x_t)), out

    last, out = layers.scan(outer, multiply(w, w), x)
    return add(total(last), total(out))


def cond_in_scan(x: Any, y: Any, w: Any, p: Any) -> Any:
    def body(h: Any, x_t: Any) -> Any:
        positive = emit("greater", x=emit("sum", x=x_t, axis=[0], keepdims=True), y=zero(x))
        grown = layers.cond(
            positive, lambda: layers.tanh(multiply(h, w)), lambda: multiply(add(h, x_t), w)
        )
        return grown, multiply(grown, x_t)

    last, out = layers.scan(body, multiply(w, w), x)
    return add(total(last), total(out))


def scan_in_cond(x: Any, y: Any, w: Any, p: Any) -> Any:
    def true_fn() -> Any:
        return layers.scan(lambda h, t: (layers.tanh(multiply(add(h, t), w)), None), w, x)[0]

    out = layers.cond(p, true_fn, lambda: multiply(w, w))
    return total(multiply(out, w))


def while_in_scan(x: Any, y: Any, w: Any, p: Any) -> Any:
    def body(h: Any, x_t: Any) -> Any:
        squares = multiply(x_t, x_t)
        bound = emit("sum", x=squares, axis=[0], keepdims=True)

        def condition(g: Any) -> Any:
            return emit("less", x=emit("sum", x=multiply(g, g), axis=[0], keepdims=True), y=bound)

        grown = layers.while_loop(condition, lambda g: add(g, add(g, w)), w, max_steps=12)
        return layers.tanh(add(multiply(add(h, grown), w), x_t)), grown

    last, out = layers.scan(body, multiply(w, w), x)
    return add(total(last), total(multiply(out, out)))


def scan_in_while(x: Any, y: Any, w: Any, p: Any) -> Any:
    def condition(g: Any) -> Any:
        norm = emit("sum", x=multiply(g, g), axis=[0], keepdims=True)
        return emit("less", x=norm, y=emit("scale", x=one(x), scale=40.0))

    def body(g: Any) -> Any:
        last, _ = layers.scan(lambda h, t: (add(h, multiply(t, w)), None), g, y)
        return add(last, add(g, g))

    return total(layers.while_loop(condition, body, w, max_steps=20))


def emit(type: str, **arguments: Any) -> Any:
    block = ow.default_main_program().current_block()
    slots = ow.op_proto(type).input_slots
    inputs = {name: value for name, value in arguments.items() if name in slots}
    attrs = {name: value for name, value in arguments.items() if name not in slots}
    return block.var(block.append_op(type, inputs, None, attrs).output("out")[0])


def add(a: Any, b: Any) -> Any:
    return emit("add", x=a, y=b)


def multiply(a: Any, b: Any) -> Any:
    return emit("multiply", x=a, y=b)


def total(x: Any) -> Any:
    return emit("sum", x=x)


def zero(x: Any) -> Any:
    return emit("sum", x=emit("fill_like", x=x, value=0.0))


def one(x: Any) -> Any:
    return emit("mean", x=emit("fill_like", x=x, value=1.0))


CASES = [scan_in_scan, cond_in_scan, scan_in_cond, while_in_scan, scan_in_while]


def build(make: Callable[..., Any]) -> Any:
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        block = program.global_block()
        given = [
            block.create_var(name, [-1, *v.shape[1:]], str(v.dtype), is_data=True)
            for name, v in VALUES.items()
            if name in "xy"
        ]
        w = block.create_parameter("w", [3], "float64")
        p = block.create_var("p", [1], "bool", is_data=True)
        loss = make(*given, w, p)
    return program, loss.name


def run(program: Any, fetch: list[str], values: dict[str, Any], **options: Any) -> Any:
    scope = ow.Scope()
    scope.var("w").set(values["w"])
    feeds = [name for name in values if name != "w"]
    step = ow.Network(program.global_block()).compile(feeds, fetch, scope=scope, **options)
    return step(**{name: values[name] for name in feeds})


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("make", CASES)
def test_gradients_through_nested_control_flow_agree_with_central_differences(
    make: Callable[..., Any], flag: bool
) -> None:
    program, loss = build(make)
    block = program.global_block()
    reached = [name for name in ("x", "y", "w") if reaches(program, loss, name)]
    pairs = ow.append_backward(block.var(loss), reached)
    values = {**VALUES, "p": np.array([flag])}
    found = run(program, [gradient.name for _, gradient in pairs], values)
    twin = ow.Program.from_proto(program.to_proto())
    assert str(twin) == str(program)
    for (variable, _), gradient in zip(pairs, found, strict=True):
        for index in np.ndindex(gradient.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {n: np.array(v) for n, v in values.items()}
                moved[variable.name][index] += step
                ends.append(run(twin, [loss], moved)[0])
            expected = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(gradient[index], expected, rtol=1e-5, atol=1e-6)


def reaches(program: Any, loss: str, name: str) -> bool:
    pruned = program.prune([loss])
    return name in pruned.global_block().vars


@pytest.mark.parametrize("make", CASES)
def test_nested_control_flow_matches_its_pruned_and_loaded_copies(
    make: Callable[..., Any],
) -> None:
    program, loss = build(make)
    (wanted,) = run(program, [loss], VALUES)
    pruned = program.prune([loss])
    used = {n: v for n, v in VALUES.items() if n in pruned.global_block().vars}
    np.testing.assert_array_equal(run(pruned, [loss], used)[0], wanted)
