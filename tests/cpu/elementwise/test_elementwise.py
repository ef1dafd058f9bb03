"""Tests element-wise kernels with many threads, blocks and streaming stores, and all casts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright.op import DTYPES, NARROW_DTYPES

NATIVE, NUMPY = "native", "numpy"
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def call(op: str, library: str, threads: int, *args: Any, **attrs: Any) -> Any:
    ow.set_num_threads(threads)
    context = ow.current_context()
    with ow.context_guard(context.with_pins({op: library})), np.errstate(all="ignore"):
        return getattr(ow.ops, op)(*args, **attrs)


def assert_agrees(op: str, *args: Any, **attrs: Any) -> None:
    wanted = call(op, NUMPY, 1, *args, **attrs)
    for threads in (1, 2, 3):
        got = call(op, NATIVE, threads, *args, **attrs)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return np.asarray(rng.uniform(-9, 9, shape)).astype(dtype)


SHAPES = [
    ((200_001,), (200_001,)),
    ((200_001,), ()),
    ((1,), (200_001,)),
    ((30_000, 7), (7,)),  # several rows fit into a block
    ((300, 511), (511,)),
    ((300, 513), (513,)),
    ((50, 2500), (2500,)),
    ((30_000, 7), (30_000, 1)),
    ((50, 2500), (50, 1)),
    ((400, 1), (1, 400)),
    ((40, 1, 50), (60, 1)),
    ((7, 1, 9, 1, 33), (11, 1, 5, 1)),
    ((2, 3, 4, 1, 1, 999), (3, 1, 5, 7, 1)),
]


@pytest.mark.parametrize(("x", "y"), SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
def test_every_kind_of_broadcasting_matches_numpy_for_any_size_and_thread_count(
    x: tuple[int, ...], y: tuple[int, ...], dtype: str
) -> None:
    a, b = numbers(*x, dtype=dtype), numbers(*y, dtype=dtype)
    assert_agrees("subtract", a, b)
    assert_agrees("less", a, b)


@pytest.mark.parametrize(("x", "y"), SHAPES[3:])
def test_where_broadcasts_three_inputs(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    condition = numbers(*np.broadcast_shapes(x, y)[-2:]) > 0
    assert_agrees("where", condition, numbers(*x), numbers(*y))
    assert_agrees("where", condition, numbers(*x, dtype="float16"), numbers(*y, dtype="float16"))


@pytest.mark.parametrize("n", [(16 << 20) // 4 - 1, (16 << 20) // 4 + 17])
def test_an_output_too_large_for_the_caches_is_written_completely(n: int) -> None:
    x, y = numbers(n), numbers(n)
    assert_agrees("add", x, y)
    assert_agrees("relu", x)
    assert_agrees("add", x.reshape(1, n), y[:1])
    assert_agrees("assign", x)
    assert_agrees("fill_like", x, value=2.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [("sigmoid", {}), ("log", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"})],
)
def test_expensive_functions_write_outputs_too_large_for_the_caches(
    op: str, attrs: dict[str, Any], dtype: str
) -> None:
    n = (16 << 20) // np.dtype(dtype).itemsize + 17
    x = numbers(n, dtype=dtype)
    wanted = call(op, NUMPY, 1, x, **attrs)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for threads in (1, 2):
        got = call(op, NATIVE, threads, x, **attrs)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 100)


def test_rows_and_columns_broadcast_to_an_output_too_large_for_the_caches() -> None:
    x = numbers(8300, 513)
    assert_agrees("multiply", x, numbers(513))
    assert_agrees("multiply", x, numbers(8300, 1))
    assert_agrees("less", x, numbers(513))


@pytest.mark.parametrize("n_terms", [1, 2, 5])
def test_add_n_adds_terms_in_order(n_terms: int) -> None:
    assert_agrees("add_n", [numbers(100_003) * 10.0**i for i in range(n_terms)])
    assert_agrees("add_n", [numbers(100_003, dtype="int16") for _ in range(n_terms)])


def samples(dtype: str) -> np.ndarray:
    """Return values at the limits of a dtype, and random values beyond the limits of other dtypes.

    Floats include float16 numbers, the midpoints between them, and the neighbors of both.
    """
    if dtype == "bool":
        return np.arange(33) % 3 == 0
    if dtype == "bfloat16":
        return np.arange(0, 1 << 16, 7).astype(np.uint16).view(BFLOAT16)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2], kind)
        bits = np.random.default_rng(0).integers(info.min, info.max, 4000, kind, endpoint=True)
        return np.concatenate([ends, bits])
    if dtype == "float16":
        return np.arange(1 << 16).astype(np.uint16).view(np.float16)
    bits = np.random.default_rng(0).integers(0, 256, 40_000 * kind.itemsize, np.uint8).view(kind)
    halves = np.arange(1 << 16).astype(np.uint16).view(np.float16).astype(kind)
    near = [np.nextafter(halves, kind.type(np.inf)), np.nextafter(halves, kind.type(-np.inf))]
    middle = (halves[:-1] + halves[1:]) / 2  # ties of float16
    around = [np.nextafter(middle, kind.type(np.inf)), np.nextafter(middle, kind.type(-np.inf))]
    return np.concatenate([bits, halves, *near, middle, *around])


def representable(x: np.ndarray, target: str) -> np.ndarray:
    """Return the values whose conversion to `target` is defined."""
    kind = BFLOAT16 if target == "bfloat16" else np.dtype(target)
    if kind.kind not in "iu" or x.dtype.kind in "iub":
        return x
    info, wide = np.iinfo(kind), x.astype(np.float64)
    return x[(wide > float(info.min) - 1) & (wide < float(info.max) + 1) & (wide < 2.0**63)]


WHOLE_BYTES = [dtype for dtype in DTYPES if dtype not in NARROW_DTYPES]


@pytest.mark.parametrize("target", WHOLE_BYTES)
@pytest.mark.parametrize("source", WHOLE_BYTES)
def test_every_cast_matches_numpy(source: str, target: str) -> None:
    with np.errstate(all="ignore"):
        x = representable(samples(source), target)
    got = call("cast", NATIVE, 1, x, dtype=target)
    with np.errstate(all="ignore"):
        wanted = x.astype(BFLOAT16 if target == "bfloat16" else target)
    assert got.dtype == wanted.dtype
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, wanted)
    else:
        with np.errstate(invalid="ignore"):  # signalling NaN
            wide, wide_wanted = got.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_array_equal(wide, wide_wanted)
        signs = np.signbit(wide) == np.signbit(wide_wanted)
        assert np.all(signs | np.isnan(wide_wanted))


@pytest.mark.parametrize(
    "base", [-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_special_numbers_match_numpy(base: float, dtype: str) -> None:
    half = [0.0, 0.5, 1.0, 2.0, 3.0, 1e-3, 2.0**24, 2.0**24 + 2, 2.0**25 + 4, 1e30, np.inf]
    exponents = np.array([*half, *(-x for x in half), np.nan], dtype)
    with np.errstate(all="ignore"):
        wanted = np.power(np.full_like(exponents, base), exponents)
    got = call("power", NATIVE, 1, np.full_like(exponents, base), exponents)
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_gradients_of_powers_are_summed_over_broadcast_axes() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.5, 2, (3, 1, 5)), rng.uniform(-2, 2, (4, 1))
    block = ow.Program().global_block()
    vx = block.create_var("x", x.shape, "float64", stop_gradient=False)
    vy = block.create_var("y", y.shape, "float64", stop_gradient=False)
    with ow.program_guard(block.program, ow.Program()):
        loss = ow.ops.sum(ow.ops.power(vx, vy))
        gradients = [g for _, g in ow.append_backward([loss], parameters=[vx, vy])]
    run = ow.Network(block).compile(feed=["x", "y"], fetch=gradients)
    got_x, got_y = run(x=x, y=y)
    np.testing.assert_allclose(got_x, (y * x ** (y - 1)).sum(1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(got_y, (np.log(x) * x**y).sum((0, 2))[:, None], rtol=1e-12)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_relu_of_every_16_bit_float_matches_float32(kind: type) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(kind)
    out = ow.ops.relu(np.tile(x, 300))  # too large for the caches
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float32)
        expected = np.where(wide < 0, np.float32(0), wide).astype(kind).view(np.uint16)
    is_nan = np.isnan(wide)
    for part in out.reshape(300, -1):
        assert np.isnan(part[is_nan].astype(np.float32)).all()
        np.testing.assert_array_equal(part.view(np.uint16)[~is_nan], expected[~is_nan])
