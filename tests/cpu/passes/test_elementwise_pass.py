"""A fused chain of element-wise operators gives the same results as separate operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright_std.passes.elementwise import MAX_FUNCTIONS

PASS = ["fuse_elementwise"]
UNARY = ["abs", "negative", "sign", "square", "exp", "erf", "relu", "sigmoid", "tanh", "softplus"]
UNARY += ["silu", "gelu", "elu", "leaky_relu", "scale", "clip"]
UNARY += ["expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "log_sigmoid", "relu6", "softsign"]
UNARY += ["mish", "tanh_shrink", "selu", "celu", "hard_sigmoid", "hard_swish", "soft_shrink"]
UNARY += ["swish", "stanh", "soft_relu", "floor", "pow_scalar", "increment"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "squared_difference", "atan2"]
ATTRS: dict[str, dict[str, Any]] = {
    "scale": {"scale": -1.5, "bias": 0.25},
    "clip": {"min": -0.5, "max": 0.75},
    "elu": {"alpha": 0.7},
    "gelu": {"approximate": "tanh"},
    "pow_scalar": {"exponent": 2.0},
    "stanh": {"scale_a": 0.5, "scale_b": 1.5},
}
FEEDS = {"x": (6, 350), "y": (6, 350), "row": (350,), "column": (6, 1), "scalar": ()}


class Made:
    """A program with feeds of several shapes, to which tests append operators."""

    def __init__(self, dtype: str = "float32", columns: int = 350) -> None:
        self.block = ow.Program(seed=1).global_block()
        rng = np.random.default_rng(3)
        self.feeds: dict[str, np.ndarray] = {}
        for name, shape in FEEDS.items():
            sized = tuple(columns if size == 350 else size for size in shape)
            self.feeds[name] = np.asarray(rng.uniform(-1, 1, sized)).astype(dtype)
            self.block.create_var(name, sized, dtype, stop_gradient=False)

    def put(self, op: str, *names: str, **attrs: Any) -> str:
        slots = dict(zip("xy", names, strict=False))
        made = self.block.append_op(op, slots, attrs={**ATTRS.get(op, {}), **attrs})
        return made.output("out")[0]

    def run(self, fetch: list[str], passes: list[str]) -> tuple[list[np.ndarray], Counter[str]]:
        network = ow.Network(self.block)
        call = network.compile(feed=list(self.feeds), fetch=fetch, passes=passes)
        return call(**self.feeds), Counter(network.placement().types)

    def assert_same(self, fetch: list[str]) -> Counter[str]:
        apart, _ = self.run(fetch, [])
        together, types = self.run(fetch, PASS)
        for a, b in zip(apart, together, strict=True):
            np.testing.assert_allclose(a, b, rtol=4 * np.finfo(a.dtype).eps, atol=1e-30)
        return types


CHAIN = "std.elementwise_chain"


@pytest.mark.parametrize("first", range(0, len(UNARY), MAX_FUNCTIONS - 1))
def test_a_chain_becomes_one_step(first: int) -> None:
    made = Made()
    h = made.put("add", "x", "row")
    for op in UNARY[first : first + MAX_FUNCTIONS - 1]:
        h = made.put(op, h)
    assert made.assert_same([h]) == {CHAIN: 1}


def test_a_value_read_twice_within_a_chain_is_not_stored() -> None:
    made = Made()
    h = made.put("multiply", "x", "column")
    left, right = made.put("sigmoid", h), made.put("tanh", h)
    out = made.put("subtract", made.put("multiply", left, h), made.put("multiply", right, right))
    assert made.assert_same([out]) == {CHAIN: 1}


def test_fetched_values_are_kept() -> None:
    made = Made()
    h = made.put("add", "x", "y")
    middle = made.put("exp", h)
    out = made.put("negative", made.put("square", middle))
    assert made.assert_same([out, middle]) == {CHAIN: 2}


def test_a_value_read_by_another_operator_is_kept() -> None:
    made = Made()
    h = made.put("exp", made.put("add", "x", "y"))
    out = made.put("square", made.put("negative", h))
    total = made.put("sum", h)
    assert made.assert_same([out, total]) == {CHAIN: 2, "sum": 1}


def test_operators_on_smaller_shapes_are_not_recomputed_in_a_larger_chain() -> None:
    made = Made()
    small = made.put("exp", made.put("add", "row", "scalar"))
    out = made.put("relu", made.put("multiply", "x", small))
    assert made.assert_same([out]) == {CHAIN: 2}


def test_a_feed_is_read_before_it_is_overwritten() -> None:
    made = Made()
    h = made.put("add", "x", "y")
    made.block.append_op("negative", {"x": "x"}, {"out": "x"})
    out = made.put("multiply", h, "x")
    made.assert_same([out])


def test_long_chains_are_split() -> None:
    made = Made(columns=8)
    h = "x"
    for _ in range(100):
        h = made.put("sigmoid", made.put("add", h, "row"))
    types = made.assert_same([h])
    assert set(types) == {CHAIN}
    assert types[CHAIN] == -(-200 // 32)


def test_unsupported_dtypes_are_not_fused() -> None:
    made = Made("int32")
    out = made.put("negative", made.put("add", "x", "y"))
    assert made.run([out], PASS)[1] == {"add": 1, "negative": 1}


@pytest.mark.parametrize("dtype", [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_a_chain_in_16_bits_rounds_once(dtype: np.dtype[Any]) -> None:
    made, wide = Made(dtype.name), Made("float32")
    for name, array in made.feeds.items():
        wide.feeds[name] = array.astype(np.float32)
    found = []
    for one in (made, wide):
        out = one.put("exp", one.put("add", "x", one.put("multiply", "y", "row")))
        results, types = one.run([out], PASS)
        assert types == {CHAIN: 1}
        found += results
    np.testing.assert_array_equal(found[0], found[1].astype(found[0].dtype))


@pytest.mark.parametrize("columns", [1, 3, 350, 30_000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_give_the_same_results_with_and_without_the_pass(
    seed: int, dtype: str, columns: int
) -> None:
    made = Made(dtype, columns)
    rng = np.random.default_rng(seed)
    names = list(FEEDS)
    for _ in range(40):
        if rng.random() < 0.5:
            made_now = made.put(str(rng.choice(UNARY)), names[rng.integers(len(names))])
            made_now = made.put("clip", made_now, min=-2.0, max=2.0)
        else:
            pair = [names[i] for i in rng.integers(max(0, len(names) - 8), len(names), 2)]
            made_now = made.put("tanh", made.put(str(rng.choice(BINARY)), *pair))
        names.append(made_now)
    fetched = [names[-1], *(str(name) for name in rng.choice(names[5:], 3))]
    made.assert_same(list(dict.fromkeys(fetched)))


def test_gradients_are_the_same_with_and_without_the_pass() -> None:
    made = Made()
    h = "x"
    for op in [
        "square",
        "abs",
        "exp",
        "sigmoid",
        "tanh",
        "softplus",
        "silu",
        "gelu",
        "elu",
        "clip",
    ]:
        h = made.put(op, made.put("multiply", h, "row"))
    block = made.block
    with ow.program_guard(block.program, ow.Program()):
        loss = ow.ops.sum(block.var(h))
        pairs = ow.append_backward([loss], parameters=[block.var("x"), block.var("row")])
    types = made.assert_same([loss.name, *(gradient.name for _, gradient in pairs)])
    assert types[CHAIN] > 0
