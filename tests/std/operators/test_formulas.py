"""``fuse_formulas``: formulas that are written out become one operator, and look-alikes do not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright_std.passes import formulas

Written = Callable[[Any, Any, Any], Any]
"""Inputs: x [2, 5, 16], and two vectors [16]."""

ops = ow.ops


def mean(x: Any, axis: int = -1) -> Any:
    return ops.mean(x, axis=[axis], keepdims=True)


def less_mean(x: Any) -> Any:
    return x - mean(x)


def erf_half(x: Any, divisor: float = math.sqrt(2)) -> Any:
    return ops.erf(x / divisor) + 1.0


def tanh_inner(x: Any, cubic: float = 0.044715) -> Any:
    return (x + ops.pow_scalar(x, exponent=3.0) * cubic) * math.sqrt(2 / math.pi)


def variance(x: Any) -> Any:
    return mean(ops.square(less_mean(x))) + 1e-5


FORMULAS: dict[str, tuple[str, Written]] = {
    "gelu": ("gelu", lambda x, w, b: x * erf_half(x) * 0.5),
    "gelu, half of x": ("gelu", lambda x, w, b: x * 0.5 * erf_half(x)),
    "gelu, half of the sum": ("gelu", lambda x, w, b: x * (erf_half(x) * 0.5)),
    "gelu, a factor": ("gelu", lambda x, w, b: 0.5 * (x * (1.0 + ops.erf(x * math.sqrt(0.5))))),
    "gelu, tanh": ("gelu", lambda x, w, b: 0.5 * x * (1.0 + ops.tanh(tanh_inner(x)))),
    "gelu, products": (
        "gelu",
        lambda x, w, b: (
            x * 0.5 * (ops.tanh(x * math.sqrt(2 / math.pi) * (x * x * 0.044715 + 1.0)) + 1.0)
        ),
    ),
    "silu": ("silu", lambda x, w, b: ops.sigmoid(x) * x),
    "hard_swish": ("hard_swish", lambda x, w, b: x * ops.relu6(x + 3.0) / 6.0),
    "hard_swish, hard_sigmoid": (
        "hard_swish",
        lambda x, w, b: x * ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
    ),
    "softmax": ("softmax", lambda x, w, b: softmax(x, -1, -1)),
    "softmax of another axis": ("softmax", lambda x, w, b: softmax(x, 1, 1)),
    "layer_norm": (
        "layer_norm",
        lambda x, w, b: less_mean(x) / ops.sqrt(variance(x)) * w + b,
    ),
    "layer_norm of one difference": ("layer_norm", lambda x, w, b: one_difference(x) * w + b),
    "layer_norm without parameters": ("layer_norm", lambda x, w, b: one_difference(x)),
    "layer_norm with a scale": ("layer_norm", lambda x, w, b: w * one_difference(x)),
    "layer_norm, rsqrt": (
        "layer_norm",
        lambda x, w, b: less_mean(x) * ops.rsqrt(variance(x)) * w + b,
    ),
    "rms_norm": ("rms_norm", lambda x, w, b: w * (x * ops.rsqrt(mean(x * x) + 1e-6))),
    "rms_norm, scale": (
        "rms_norm",
        lambda x, w, b: x * ops.rsqrt(ops.scale(mean(x * x), scale=1.0, bias=1e-2)),
    ),
    "rms_norm, quotient": ("rms_norm", lambda x, w, b: w * (x / ops.sqrt(mean(x * x) + 1e-6))),
    "rms_norm, reciprocal": (
        "rms_norm",
        lambda x, w, b: x * ops.reciprocal(ops.sqrt(mean(ops.pow_scalar(x, exponent=2.0)) + 1e-6)),
    ),
}

NEARLY: dict[str, tuple[str, Written]] = {
    "a truncated root": ("gelu", lambda x, w, b: x * (ops.erf(x * 0.70711) + 1.0) * 0.5),
    "a factor close to one": ("silu", lambda x, w, b: x * ops.sigmoid(x * 1.000009)),
    "a truncated sixth": (
        "hard_swish",
        lambda x, w, b: x * ops.hard_sigmoid(x, alpha=0.166667, beta=0.5),
    ),
}

LOOK_ALIKES: dict[str, Written] = {
    "gelu of another divisor": lambda x, w, b: x * erf_half(x, 1.4) * 0.5,
    "gelu of another factor": lambda x, w, b: x * erf_half(x) * 0.4,
    "gelu of two values": lambda x, w, b: (x * 2.0) * erf_half(x) * 0.5,
    "tanh with another cubic term": lambda x, w, b: (
        x * 0.5 * (1.0 + ops.tanh(tanh_inner(x, 0.0447)))
    ),
    "silu of another slope": lambda x, w, b: x * ops.sigmoid(x * 1.702),
    "a gate": lambda x, w, b: x * ops.sigmoid(w),
    "hard_swish of another slope": lambda x, w, b: x * ops.hard_sigmoid(x, alpha=0.2, beta=0.5),
    "softmax of two axes": lambda x, w, b: softmax(x, -1, 1),
    "softmax less the least": lambda x, w, b: (
        ops.exp(x - ops.min(x, axis=[-1], keepdims=True))
        / ops.sum(ops.exp(x - ops.min(x, axis=[-1], keepdims=True)), axis=[-1], keepdims=True)
    ),
    "moments of the first axis": lambda x, w, b: x / ops.sqrt(mean(x * x, 0) + 1e-6),
    "variance of another value": lambda x, w, b: less_mean(x) / ops.sqrt(variance(x * w)),
    "mean square below a difference": lambda x, w, b: less_mean(x) / ops.sqrt(mean(x * x) + 1e-6),
    "a root of a sum of vectors": lambda x, w, b: x / ops.sqrt(mean(x * x) + mean(b * b)),
    "the inverse of two": lambda x, w, b: x * (2.0 / ops.sqrt(mean(x * x) + 1e-6)),
    "a multiple of the mean square": lambda x, w, b: (
        x * ops.rsqrt(ops.scale(mean(x * x), scale=2.0, bias=1e-6))
    ),
    "one mean square of all": lambda x, w, b: x / ops.sqrt(ops.mean(x * x)),
    "one variance of all": lambda x, w, b: (
        (x - ops.mean(x)) / ops.sqrt(ops.mean(ops.square(x - ops.mean(x))))
    ),
    "moments of removed columns": lambda x, w, b: of_square(x, w, axis=[1], keepdims=False),
    "moments of removed rows": lambda x, w, b: of_square(x, w, axis=[0], keepdims=False),
    "moments of no axes": lambda x, w, b: of_no_axes(ops.mean(x)),
}


def softmax(x: Any, axis: int, summed: int) -> Any:
    powers = ops.exp(x - ops.max(x, axis=[axis], keepdims=True))
    return powers / ops.sum(powers, axis=[summed], keepdims=True)


def of_square(x: Any, w: Any, **attrs: Any) -> Any:
    square = ops.matmul(x[0], x[1], transpose_y=True)  # [5, 5]
    return square / ops.sqrt(ops.mean(square * square, **attrs) + 1e-6)


def of_no_axes(x: Any) -> Any:
    return x / ops.sqrt(ops.mean(x * x, keepdims=True) + 1e-6)


def one_difference(x: Any) -> Any:
    x = less_mean(x)
    return x / ops.sqrt(mean(ops.pow_scalar(x, exponent=2.0)) + 1e-5)


def run(
    write: Written, passes: list[str], fetch_all: bool = False, dtype: str = "float32"
) -> tuple[np.ndarray, Counter[str]]:
    """Return the result of a formula, and how many operators of each type computed it."""
    program, rng = ow.Program(), np.random.default_rng(18)
    feeds = {"x": rng.standard_normal((2, 5, 16)).astype(dtype) * 2}
    feeds |= {name: rng.standard_normal(16).astype(dtype) for name in "wb"}
    with ow.program_guard(program, ow.Program()):
        block = program.global_block()
        names = [block.create_var(n, a.shape, dtype, is_data=True) for n, a in feeds.items()]
        out = write(*names)
    between = [n for op in block.ops for n in op.output_names() if n != out.name]
    fetch = [out, *(between if fetch_all else ())]
    network = ow.Network(block)
    call = network.compile(feed=list(feeds), fetch=fetch, scope=ow.Scope(), passes=passes)
    return np.array(call(**feeds)[0]), Counter(network.placement().types)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_that_is_written_out_becomes_its_operator(name: str) -> None:
    op_type, write = FORMULAS[name]
    found, types = run(write, ["fuse_formulas"])
    assert set(types) == {op_type}
    np.testing.assert_allclose(found, run(write, [])[0], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", NEARLY)
def test_formula_constants_are_compared_within_the_rounding_error_of_the_dtype(name: str) -> None:
    op_type, write = NEARLY[name]
    _, types = run(write, ["fuse_formulas"])
    assert op_type in types
    found, types = run(write, ["fuse_formulas"], dtype="float64")
    assert op_type not in types
    np.testing.assert_array_equal(found, run(write, [], dtype="float64")[0])


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_in_float64_becomes_its_operator(name: str) -> None:
    op_type, write = FORMULAS[name]
    found, types = run(write, ["fuse_formulas"], dtype="float64")
    assert set(types) == {op_type}
    np.testing.assert_allclose(found, run(write, [], dtype="float64")[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_similar_formula_is_not_fused(name: str) -> None:
    found, types = run(LOOK_ALIKES[name], ["fuse_formulas"])
    plain, wanted = run(LOOK_ALIKES[name], [])
    assert types == wanted
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "rms_norm"])
def test_a_formula_is_not_fused_if_intermediate_values_are_fetched(name: str) -> None:
    op_type, write = FORMULAS[name]
    _, types = run(write, ["fuse_formulas"], fetch_all=True)
    assert op_type not in types


def test_an_activation_of_a_long_sum_is_not_fused() -> None:
    def write(x: Any, w: Any, b: Any) -> Any:
        total = x
        for _ in range(1500):
            total = total + w
        return total * ops.sigmoid(total + b)

    found, types = run(write, ["fuse_formulas"])
    assert types["sigmoid"] == 1
    np.testing.assert_array_equal(found, run(write, [])[0])


def test_activations_are_examined_only_in_graphs_with_operators_of_their_formulas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    monkeypatch.setattr(formulas, "_read_activation", lambda graph, op: read.append(op.type))
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[3])
        total = ops.add(ops.tanh(x), ops.sigmoid(x))
        product = ops.multiply(total, x)
        scaled = ops.scale(total, scale=0.5)
    for out, curves in ((total, []), (product, ["sigmoid"]), (scaled, ["tanh"])):
        network = ow.Network(main.global_block())
        network.compile(feed=["x"], fetch=[out], passes=["fuse_formulas"])(x=np.ones(3, "float32"))
        assert read == curves
        read.clear()
