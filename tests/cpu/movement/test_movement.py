"""Tests movement kernels with many threads, many tiles and long rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeValueError, KernelError
from opwright_std.numerics.philox import random_words

NATIVE, NUMPY = "native", "numpy"
BIG = 300_000  # elements, enough for several threads


def call(op: str, library: str, threads: int, *args: Any, **attrs: Any) -> Any:
    ow.set_num_threads(threads)
    context = ow.current_context()
    with ow.context_guard(context.with_pins({op: library})):
        return getattr(ow.ops, op)(*args, **attrs)


def listed(result: Any) -> list[np.ndarray]:
    return list(result) if isinstance(result, tuple | list) else [result]


def assert_moves(op: str, *args: Any, **attrs: Any) -> None:
    wanted = listed(call(op, NUMPY, 1, *args, **attrs))
    for threads in (1, 2, 3):
        for got, number in zip(
            listed(call(op, NATIVE, threads, *args, **attrs)), wanted, strict=True
        ):
            np.testing.assert_array_equal(got, number)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((131, 1031), (1, 0)),
        ((3, 65, 17, 33), (0, 2, 3, 1)),
        ((3, 17, 33, 65), (0, 3, 1, 2)),
        ((9, 130, 4, 24), (0, 2, 1, 3)),
        ((40, 30, 50, 2), (2, 1, 0, 3)),
        ((70, 50, 90), (2, 1, 0)),
        ((70, 50, 3), (1, 2, 0)),
        ((3, 50, 70), (1, 2, 0)),
        ((2, 4, 31, 9), (0, 2, 3, 1)),
        ((2, 501), (1, 0)),
        ((7, 8, 9, 10, 11), (4, 2, 0, 3, 1)),
        ((90, 100, 3), (1, 0, 2)),
    ],
)
def test_transpose_matches_numpy_for_any_number_of_threads(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    assert_moves("transpose", numbers(*shape, dtype=dtype), axes=list(axes))


def test_outputs_written_with_streaming_stores_match_numpy() -> None:
    x = numbers(2100, 2112)
    assert_moves("transpose", x, axes=[1, 0])
    assert_moves("reshape", x, shape=[-1])
    assert_moves("concat", [x, x[:, :5]], axis=1)
    assert_moves("slice", x, axes=[1], starts=[3], ends=[2100])


@pytest.mark.parametrize("axis", [0, 1])
def test_concat_and_split_match_numpy_for_any_number_of_threads(axis: int) -> None:
    parts = [numbers(700, 300), numbers(700, 300)[:, ::2], numbers(700, 1)]
    if axis == 0:
        parts = [part.T.copy() for part in parts]
    assert_moves("concat", parts, axis=axis)
    whole = np.concatenate(parts, axis)
    lengths = [part.shape[axis] for part in parts]
    wanted = np.split(whole, np.cumsum(lengths)[:-1], axis)
    for threads in (1, 2):
        ow.set_num_threads(threads)
        for got, part in zip(ow.ops.split(whole, axis=axis, sections=lengths), wanted, strict=True):
            np.testing.assert_array_equal(got, part)


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [
        ([1, 2], [600, 399], [1, 1]),
        ([0, 1], [700, 400], [3, 2]),
        ([-1, -2], [-900, -900], [-2, -3]),
        ([5, 0], [6, 400], [2**62, 1]),
    ],
)
def test_slice_matches_numpy_for_any_number_of_threads(starts: Any, ends: Any, steps: Any) -> None:
    assert_moves("slice", numbers(700, 400), axes=[0, 1], starts=starts, ends=ends, steps=steps)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("shape", [(600, 500), (4, 5, 60, 70), (1000, 301)])
def test_pad_matches_numpy_for_any_number_of_threads(mode: str, shape: tuple[int, ...]) -> None:
    paddings = [1, 0, 2, 3, 3, 1, 0, 2][: 2 * len(shape)]
    assert_moves("pad", numbers(*shape), paddings=paddings, mode=mode, value=2.5)


@pytest.mark.parametrize("shape", [(600, 500), (4, 50, 60, 70), (1000, 301)])
def test_cropping_matches_numpy_for_any_number_of_threads(shape: tuple[int, ...]) -> None:
    paddings = [-1, 1, 2, -30, -30, -1, 5, -20][: 2 * len(shape)]
    assert_moves("pad", numbers(*shape), paddings=paddings, value=2.5)


@pytest.mark.parametrize("value", [300.0, -1.0, float("nan")])
def test_padding_with_a_value_outside_the_dtype_is_refused(value: float) -> None:
    with pytest.raises(AttributeValueError, match=rf"to become uint8, got value={value}"):
        ow.ops.pad(np.zeros(1, "uint8"), paddings=[1, 0], value=value)


@pytest.mark.parametrize("row", [1, 2, 3, 8, 64, 200])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_gather_matches_numpy_for_any_number_of_threads(row: int, dtype: str) -> None:
    index = np.random.default_rng(1).integers(-50, 50, BIG // row)
    assert_moves("gather", numbers(50, row, dtype=dtype), index)
    assert_moves("gather", numbers(3, 50, row, dtype=dtype), index[:5000].astype("int32"), axis=1)


def test_gather_nd_matches_numpy_for_any_number_of_threads() -> None:
    index = np.random.default_rng(1).integers(0, 50, (60, 100))
    assert_moves("embedding", numbers(50, 48), index, padding_index=3)
    assert_moves("one_hot", index, depth=70)


@pytest.mark.parametrize("wrong", [50, -51])
def test_the_error_for_a_position_out_of_range_names_it(wrong: int) -> None:
    index = np.zeros(BIG, "int64")
    index[-1] = wrong
    with pytest.raises(KernelError, match=rf"index must be in \[-50, 50\), got {wrong}"):
        ow.ops.gather(numbers(50), index)


@pytest.mark.parametrize("shape", [(BIG,), (500, 600), (7, 3, 15000), (BIG // 2, 2)])
@pytest.mark.parametrize("dtype", ["bool", "float16", "int32", "float64"])
def test_nonzero_matches_numpy_for_any_number_of_threads(
    shape: tuple[int, ...], dtype: str
) -> None:
    x = np.where(numbers(*shape) > 1, numbers(*shape), -0.0).astype(dtype)
    for array in (x, np.zeros_like(x), np.ones_like(x)):
        assert_moves("nonzero", array)


def gradients(op: str, x: np.ndarray, index: np.ndarray, threads: int, **attrs: Any) -> np.ndarray:
    """Return the gradient of a weighted sum of the elements looked up in x."""
    ow.set_num_threads(threads)
    block = ow.Program().global_block()
    block.create_var("x", x.shape, x.dtype.name, stop_gradient=False)
    block.create_var("index", index.shape, index.dtype.name)
    block.create_var("weights", (), x.dtype.name)
    out, weighted = block.create_var("out"), block.create_var("weighted")
    slot = "weight" if op == "embedding" else "x"
    block.append_op(op, {slot: "x", "index": "index"}, {"out": out}, attrs)
    weights = np.random.default_rng(2).standard_normal(
        np.take(x, index, attrs.get("axis", 0)).shape
    )
    block.create_var("w", weights.shape, x.dtype.name)
    block.append_op("multiply", {"x": out, "y": "w"}, {"out": weighted})
    loss = block.create_var("loss")
    block.append_op("sum", {"x": weighted}, {"out": loss})
    (_, grad), *_ = ow.append_backward([block.var("loss")], parameters=["x"])
    step = ow.Network(block).compile(feed=["x", "index", "w"], fetch=[grad], scope=ow.Scope())
    found: np.ndarray = step(x=x, index=index, w=weights.astype(x.dtype))[0]
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "shape", "axis", "n"),
    [
        ("gather", (900, 1), 0, BIG),
        ("gather", (900, 5), 0, BIG // 4),
        ("gather", (90, 700), 0, 900),
        ("gather", (33, 400), 1, 9000),
        ("gather", (33, 40, 12), 1, 900),
        ("embedding", (900, 40), 0, 9000),
        ("embedding", (300, 1000), 0, 300),
    ],
)
def test_gradients_of_lookups_are_bitwise_identical_for_any_number_of_threads(
    op: str, shape: tuple[int, ...], axis: int, n: int, dtype: str
) -> None:
    index = np.random.default_rng(3).integers(0, shape[axis], n)
    attrs = {"axis": axis} if op == "gather" else {}
    context = ow.current_context()
    x = numbers(*shape, dtype=dtype)
    with ow.context_guard(context.with_pins({f"{op}_grad": NUMPY})):
        wanted = gradients(op, x, index, 1, **attrs)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(gradients(op, x, index, threads, **attrs), wanted)


@pytest.mark.parametrize("n", [1, 3, 4, 1023, 1024, 1025, BIG - 1, BIG])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["uniform", "normal"])
def test_random_numbers_are_bitwise_identical_to_the_numpy_kernels_for_any_thread_count(
    op: str, dtype: str, n: int
) -> None:
    attrs: dict[str, Any] = {"shape": [n], "dtype": dtype, "seed": -(2**40) - 7}
    attrs |= {"min": -0.3, "max": 0.9} if op == "uniform" else {"mean": 0.1, "std": 1.7}
    assert_moves(op, **attrs)


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_dropout_keeps_elements_whose_random_word_reaches_the_threshold(probability: float) -> None:
    x = numbers(BIG + 5)
    x[7] = np.inf
    keep = random_words(x.size, 9, 0, None).astype(np.uint64) >= int(probability * 2**32)
    scale = np.float32(1 / (1 - probability)) if probability < 1 else np.float32(0)
    with np.errstate(invalid="ignore"):
        wanted = np.where(keep, x * scale, np.float32(0))
    for threads in (1, 2, 3):
        out = call("dropout", NATIVE, threads, x, probability=probability, training=True, seed=9)
        np.testing.assert_array_equal(out, wanted)


MOMENTS = {"moment1": 0.0, "moment2": 1.0}
UPDATES: dict[str, tuple[dict[str, float | np.ndarray | None], dict[str, Any]]] = {
    "sgd": ({}, {"weight_decay": 0.1}),
    "momentum": ({"velocity": 0.0}, {"mu": 0.7, "nesterov": True}),
    "lion": ({"moment": 0.0}, {"weight_decay": 0.1}),
    "adam": ({**MOMENTS, "beta1_power": np.array([0.9], "f"), "beta2_power": np.array([0.99])}, {}),
    "adamax": ({"moment": 0.0, "infinity_norm": 1.0, "beta1_power": np.array([0.9], "f")}, {}),
    "nadam": ({**MOMENTS, "step": np.array([3], "f"), "mu_product": np.array([0.3])}, {}),
    "radam": ({**MOMENTS, "step": np.array([7], "f")}, {}),
    "adagrad": ({"squares": 1.0}, {}),
    "adadelta": ({"mean_square": 1.0, "mean_update": 1.0}, {}),
    "rmsprop": ({"mean_square": 1.0, "mean_grad": None, "velocity": None}, {}),
    "proximal_gd": ({}, {"l1": 0.5, "l2": 0.25}),
    "proximal_adagrad": ({"squares": 1.0}, {"l1": 0.5, "l2": 0.25}),
    "ftrl": ({"squares": 1.0, "linear": 0.0}, {"l1": 0.5, "l2": 0.25}),
}
"""States and attributes of each optimizer; 1 stands for positive states, 0 for arbitrary states."""
UPDATES["adamw"] = (UPDATES["adam"][0], {"weight_decay": 0.1})


def update(op: str, library: str, threads: int, n: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    draw = lambda: rng.standard_normal((n,)).astype(dtype)  # noqa: E731
    states, attrs = UPDATES[op]
    args: list[Any] = [draw(), draw(), np.array([0.01], "float32")]
    for state in states.values():
        args.append((draw(), draw() ** 2)[int(state)] if isinstance(state, float) else state)
    return listed(call(op, library, threads, *args, **attrs))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", UPDATES)
def test_updates_are_bitwise_identical_to_the_numpy_kernels_for_any_thread_count(
    op: str, dtype: str
) -> None:
    wanted = update(op, NUMPY, 1, BIG + 3, dtype)
    for threads in (1, 2, 3):
        for got, number in zip(update(op, NATIVE, threads, BIG + 3, dtype), wanted, strict=True):
            np.testing.assert_array_equal(got, number)


@pytest.mark.parametrize("op", ["clip_by_norm", "lamb"])
def test_scaling_by_a_norm_is_bitwise_identical_for_any_number_of_threads(op: str) -> None:
    def compute(threads: int) -> list[np.ndarray]:
        if op == "clip_by_norm":
            return listed(call(op, NATIVE, threads, numbers(BIG + 3), max_norm=0.5))
        x, powers = numbers(BIG + 3), [np.array([p], "f") for p in (0.01, 0.9, 0.999)]
        args = (x, x[::-1].copy(), powers[0], x * 0, x * x, *powers[1:])
        return listed(call(op, NATIVE, threads, *args))

    wanted = compute(1)
    for threads in (2, 3):
        for got, number in zip(compute(threads), wanted, strict=True):
            np.testing.assert_array_equal(got, number)
