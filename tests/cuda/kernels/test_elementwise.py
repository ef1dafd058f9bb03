"""Tests elementwise functions on a GPU with vectors, broadcasting, and additional dtypes.

Each test computes all results before it compares them, so the emulator compiles all kernels
together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

import opwright as ow
from opwright.errors import AttributeValueError, KernelError
from opwright.op import DTYPES, NARROW_DTYPES, dtype_to_numpy
from opwright_cuda.kernels import elementwise

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE_BYTES = [dtype for dtype in DTYPES if dtype not in NARROW_DTYPES]
DEVICES = ("cuda", "cpu")
RNG = np.random.default_rng(3)


def random(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return values that every dtype can represent: small multiples of 1/4, or integers."""
    kind = dtype_to_numpy(dtype)
    numbers = np.asarray(RNG.integers(0, 16, shape))
    return (numbers / 4 - 2).astype(kind) if dtype in FLOATS else numbers.astype(kind)


def wide(array: Any) -> Any:
    """Convert 16-bit floats to float32."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [8192, 8195, 8199])
def test_long_arrays_with_and_without_a_tail_after_the_last_vector_match_numpy(
    n: int, dtype: str
) -> None:
    x, y = random((n,), dtype), random((n,), dtype)
    (total,) = call("add", {"x": x, "y": y})
    (product,) = call("multiply", {"x": x, "y": y[:1]})
    np.testing.assert_array_equal(wide(total), wide(x) + wide(y))
    np.testing.assert_array_equal(wide(product), wide(x) * wide(y[:1]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [8191, 8193, 16387, 16389 + 4 * 256])
def test_results_match_numpy_if_threads_read_pairs_of_vectors(
    n: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elementwise, "MANY_VECTORS", 1)
    x = random((n,), dtype)
    made = [call("relu", {"x": x}), call("multiply", {"x": x, "y": x[3:4]})]
    (whole,) = call("cast", {"x": x}, dtype="int32")
    wanted = [np.maximum(wide(x), 0), wide(x) * wide(x[3:4])]
    for (got,), right in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(wide(got), right)
    np.testing.assert_array_equal(whole, np.trunc(wide(x)).astype(np.int32))


@pytest.mark.parametrize(("n_inputs", "each"), [(0, 1), (1, 2), (2, 1)])
def test_threads_read_two_vectors_only_of_a_single_large_input(n_inputs: int, each: int) -> None:
    assert elementwise._vectors_each(2**19, n_inputs) == each
    assert elementwise._vectors_each(2**19 - 1, n_inputs) == 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("shape", [(300, 64), (1100, 16), (2100, 8)], ids=str)
def test_results_with_a_row_broadcast_to_all_rows_match_numpy(
    shape: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elementwise, "MANY_VECTORS", 1)
    x, row, one = random(shape, dtype), random(shape[1:], dtype), random((1, 1), dtype)
    condition = np.arange(shape[1]) % 3 == 0
    made = [
        call("subtract", {"x": x, "y": row}),
        call("subtract", {"x": row, "y": x}),
        call("less", {"x": x, "y": row}),
        call("where", {"condition": condition, "x": x, "y": one}),
    ]
    wanted = [x - row, row - x, x < row, np.where(condition, x, one)]
    for (got,), right in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(got, right)


SHAPES = [
    ((40, 128), (128,)),  # a bias
    ((40, 128), (40, 1)),  # a factor of each row
    ((1, 128), (40, 1)),
    ((40, 130), (130,)),  # rows whose length is not a multiple of a vector
    ((4, 8, 128), (4, 1, 128)),
    ((4, 8, 128), (8, 1)),
    ((2, 3, 4, 5, 64), (3, 1, 5, 64)),
]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize(("x", "y"), SHAPES, ids=str)
def test_inputs_broadcast_along_any_axes_match_numpy(x: Any, y: Any, dtype: str) -> None:
    a, b = random(x, dtype), random(y, dtype)
    (out,), (mirrored,) = (call("subtract", {"x": p, "y": q}) for p, q in ((a, b), (b, a)))
    np.testing.assert_array_equal(out, a - b)
    np.testing.assert_array_equal(mirrored, b - a)


def test_where_selects_elements_of_any_size() -> None:
    condition = RNG.random((60, 1)) < 0.5
    dtypes = ("bool", "bfloat16", "float32", "int64")
    pairs = [(random((60, 128), dtype), random((128,), dtype)) for dtype in dtypes]
    outs = [call("where", {"condition": condition, "x": x, "y": y})[0] for x, y in pairs]
    for out, (x, y) in zip(outs, pairs, strict=True):
        np.testing.assert_array_equal(out, np.where(condition, x, y))


@pytest.mark.parametrize("source", ["bfloat16", "float32", "uint16", "int64"])
def test_casts_to_all_dtypes_match_numpy(source: str) -> None:
    x = random((4100,), source)
    for dtype, (out,) in {to: call("cast", {"x": x}, dtype=to) for to in WHOLE_BYTES}.items():
        assert out.dtype == dtype_to_numpy(dtype)
        np.testing.assert_array_equal(out, cast(x, dtype))


def cast(x: Any, dtype: str) -> Any:
    """Cast like NumPy, but cast floats to unsigned integers via int64, as on x86."""
    kind = dtype_to_numpy(dtype)
    if x.dtype.kind not in "iub" and kind.kind == "u":
        x = x.astype(np.int64)
    return x.astype(kind)


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_casts_out_of_range_match_the_cpu(source: str) -> None:
    edges = [2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 300.7, -129.5]
    x = np.array([*edges, np.nan, np.inf, -np.inf, 2.0**62, 4294967295.0, -1.0], source)
    whole = [dtype for dtype in WHOLE_BYTES if dtype not in FLOATS]
    on_gpu, on_cpu = ([call("cast", {"x": x}, device=d, dtype=to) for to in whole] for d in DEVICES)
    for dtype, (one,), (other,) in zip(whole, on_gpu, on_cpu, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=dtype)


@pytest.mark.parametrize(("dtype", "half"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_doubles_are_rounded_only_once_to_16_bits(dtype: str, half: float) -> None:
    # These values differ from ties between 16-bit values by a bit that float32 cannot represent.
    x = np.array([1 + half + 2.0**-40, 1 + half - 2.0**-40, -1 - half - 2.0**-40, 1 + half])
    (out,) = call("cast", {"x": x}, dtype=dtype)
    expected = [1 + 2 * half, 1, -1 - 2 * half, 1]
    np.testing.assert_array_equal(out.astype(np.float64), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 33, 70])
def test_any_number_of_terms_is_summed(n: int, dtype: str) -> None:
    lists = [[random((length,), dtype) for _ in range(n)] for length in (5, 8195)]
    for terms, (out,) in zip(lists, [call("add_n", {"x": terms}) for terms in lists], strict=True):
        np.testing.assert_array_equal(wide(out), sum(wide(term) for term in terms))


def test_sums_of_16_bit_terms_are_rounded_once() -> None:
    terms = [np.full(7, value, np.float16) for value in (2048.0, 1.0, 1.0)]
    np.testing.assert_array_equal(call("add_n", {"x": terms})[0], np.full(7, 2050, np.float16))


@pytest.mark.parametrize("dtype", WHOLE_BYTES)
def test_fill_supports_all_dtypes(dtype: str) -> None:
    wanted = ((0.0, 9), (1.0, 9000), (1.0 if dtype == "bool" else 3.0, 5))
    outs = [call("fill", {}, shape=[n], value=value, dtype=dtype)[0] for value, n in wanted]
    for out, (value, n) in zip(outs, wanted, strict=True):
        np.testing.assert_array_equal(out, np.full(n, value).astype(dtype_to_numpy(dtype)))


@pytest.mark.parametrize(("dtype", "value"), [("int8", 200.0), ("uint8", -1.0), ("int32", np.nan)])
def test_a_value_that_the_dtype_cannot_represent_is_refused(dtype: str, value: float) -> None:
    with pytest.raises(AttributeValueError, match=f"become {dtype}, got value={value}"):
        call("fill", {}, shape=[3], value=value, dtype=dtype)


@pytest.mark.parametrize("n", [1, 7, 5003])
@pytest.mark.parametrize("dtype", WHOLE_BYTES)
def test_copies_preserve_every_byte(dtype: str, n: int) -> None:
    # The input is copied because it is read later; otherwise the operation would be in place.
    x = random((n, 3), dtype)
    block = ow.Program().global_block()
    block.create_var("x", x.shape, dtype)
    block.append_op("reshape", {"x": "x"}, {"out": "flat"}, {"shape": [-1]})
    block.append_op("not_equal", {"x": "x", "y": "x"}, {"out": "differs"})
    run = ow.Network(block).compile(feed=["x"], fetch=["flat", "differs"], device="cuda")
    flat, _ = run(x=x)
    np.testing.assert_array_equal(flat, x.reshape(-1))


@pytest.mark.parametrize("dtype", WHOLE_BYTES)
def test_expansions_preserve_every_byte(dtype: str) -> None:
    given = [random((64,), dtype), random((80, 1), dtype)]
    for x, (out,) in zip(given, [call("expand", {"x": x}, shape=[80, 64]) for x in given]):
        np.testing.assert_array_equal(out, np.broadcast_to(x, (80, 64)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_powers_and_their_gradients_match_the_formula(dtype: str) -> None:
    x = RNG.uniform(0.5, 2, (6, 1, 50)).astype(dtype_to_numpy(dtype))
    y = RNG.uniform(-2, 2, (4, 1)).astype(dtype_to_numpy(dtype))
    out_grad = random((6, 4, 50), dtype)
    (out,) = call("power", {"x": x, "y": y})
    given = {"x": x, "y": y, "out": out, "out_grad": out_grad}
    x_grad, y_grad = call("power_grad", given, "x_grad y_grad")
    a, b, g = (array.astype(np.float64) for array in (x, y, out_grad))
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}.get(dtype, 2.0**-52)
    near = {"rtol": 16 * eps, "atol": 300 * eps}
    np.testing.assert_allclose(out.astype(np.float64), a**b, rtol=8 * eps)
    exact = np.sum(g * b * a ** (b - 1), axis=1, keepdims=True)
    np.testing.assert_allclose(x_grad.astype(np.float64), exact, **near)
    exact = np.sum(g * np.log(a) * out.astype(np.float64), axis=(0, 2))[:, None]
    np.testing.assert_allclose(y_grad.astype(np.float64), exact, **near)


def test_integer_powers_wrap_around_and_refuse_negative_exponents() -> None:
    x, y = np.array([3, -7, 2, 0], np.int32), np.array([20, 13, 31, 0], np.int32)
    np.testing.assert_array_equal(call("power", {"x": x, "y": y})[0], x**y)
    with pytest.raises(KernelError, match="negative integer powers are not allowed.*got.* -3"):
        call("power", {"x": x, "y": np.array([1, 2, -3, 4], np.int32)})
