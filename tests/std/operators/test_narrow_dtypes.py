"""The storage-only dtypes: float8_e4m3fn, float8_e5m2, int4, uint4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import opwright as ow
from opwright import _runtime
from opwright.errors import DtypeError, KernelNotFoundError, ShapeError
from opwright.op import NARROW_DTYPES, dtype_to_numpy
from opwright.program.files.safetensors_file import encode

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
WHOLE = {"int4": (-8, 7), "uint4": (0, 15)}
LIBRARIES = ("native", "numpy")


def every(dtype: str) -> NDArray[Any]:
    """Return every value of a narrow dtype."""
    if dtype in WHOLE:
        least, most = WHOLE[dtype]
        return np.arange(least, most + 1).astype(dtype)
    return np.arange(256, dtype="uint8").view(dtype_to_numpy(dtype))


def assert_same_bytes(got: NDArray[Any], expected: NDArray[Any]) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.view("uint8"), np.ascontiguousarray(expected).view("uint8"))


def pinned(op_type: str, library: str) -> Any:
    """Return a guard that pins an operator to the kernels of one library."""
    return ow.context_guard(ow.current_context().with_pins({op_type: library}))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize("wide", ["float16", "float32", "float64", "int32", "uint8", "bool"])
def test_casts_from_narrow_dtypes_match_ml_dtypes(dtype, wide, library):
    values = every(dtype)
    if wide in ("int32", "uint8", "bool"):  # none of which holds a NaN, an infinity, or 57344
        plain = values.astype("float32")
        values = values[np.isfinite(plain) & (plain < 256) & (plain >= 0)]
    with pinned("cast", library):
        np.testing.assert_array_equal(ow.ops.cast(values, dtype=wide), values.astype(wide))


def around(dtype: str) -> NDArray[np.float64]:
    """Return the finite values of an 8-bit float, their midpoints, and the neighbors of both."""
    values = every(dtype).astype("float64")
    values = np.unique(values[np.isfinite(values)])
    halves = (values[1:] + values[:-1]) / 2
    beyond = [values[-1] * 1.03, values[-1] * 1.2, 1e30, 1e-30]
    edges = np.concatenate([values, halves, beyond])
    edges = np.concatenate([edges, -edges])
    beside = [np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]
    return np.concatenate([edges, *beside, [np.inf, np.nan]])


def nearest(values: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Return the nearest values of an 8-bit float, with ties to the even code."""
    held = every(dtype).astype("float64")[:128]
    held = held[np.isfinite(held)]
    halves = (held[1:] + held[:-1]) / 2
    size = np.abs(values)
    code = np.searchsorted(halves, size)  # the lower code at a midpoint
    code += (size == halves[np.minimum(code, len(halves) - 1)]) & (code % 2 == 1)
    beyond = 3 * held[-1] / 2 - held[-2] / 2
    last, infinite = (held[-1], np.nan) if dtype == "float8_e4m3fn" else (np.inf, np.inf)
    rounded = np.where(size < beyond, held[code], np.where(size == beyond, last, infinite))
    return np.copysign(np.where(np.isnan(values), np.nan, rounded), values)


# float64 is tested with "native" only, since ml_dtypes first rounds it to float32.
NARROWING = [(lib, wide) for lib in LIBRARIES for wide in ("float16", "bfloat16", "float32")]


@pytest.mark.parametrize(("library", "wide"), [*NARROWING, ("native", "float64")])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_casts_to_8_bit_floats_round_once_to_the_nearest(dtype, wide, library):
    with np.errstate(over="ignore"):
        values = around(dtype).astype(wide)
    with pinned("cast", library):
        out = ow.ops.cast(values, dtype=dtype)
    assert out.dtype == dtype
    expected = nearest(values.astype("float64"), dtype)
    np.testing.assert_array_equal(out.astype("float64"), expected)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", list(WHOLE))
@pytest.mark.parametrize("wide", ["float32", "float64", "int8", "int64", "uint8", "bool"])
def test_casts_to_4_bits_keep_representable_values(dtype, wide, library):
    least, most = (0, 1) if wide == "bool" else WHOLE[dtype]
    values = np.arange(max(least, 0 if wide[0] == "u" else least), most + 1).astype(wide)
    with pinned("cast", library):
        out = ow.ops.cast(values, dtype=dtype)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype("int64"), values.astype("int64"))


def test_casts_of_integers_drop_their_high_bits():
    values = np.array([2**40 + 3, -(2**40) - 1, 24, 15], "int64")
    np.testing.assert_array_equal(ow.ops.cast(values, dtype="int4").astype(int), [3, -1, -8, -1])
    np.testing.assert_array_equal(ow.ops.cast(values, dtype="uint4").astype(int), [3, 15, 8, 15])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("dtype", "other"), [("int4", "uint4"), ("uint4", "int4")])
def test_casts_between_the_two_4_bit_dtypes_keep_the_bits(dtype, other, library):
    with pinned("cast", library):
        out = ow.ops.cast(every(dtype), dtype=other)
        scalar = ow.ops.cast(every(dtype)[-1].reshape(()), dtype=other)
    np.testing.assert_array_equal(out.astype(int) % 16, every(dtype).astype(int) % 16)
    assert (out.dtype, scalar.dtype, scalar.shape) == (other, other, ())


MOVES = {
    "reshape": ({"shape": [4, -1]}, lambda x: x.reshape(4, -1)),
    "transpose": ({"axes": [1, 0]}, lambda x: x.T),
    "slice": ({"axes": [1], "starts": [1], "ends": [3]}, lambda x: x[:, 1:3]),
    "tile": ({"repeats": [2, 3]}, lambda x: np.tile(x, (2, 3))),
    "flip": ({"axis": [0]}, lambda x: x[::-1]),
    "expand": ({"shape": [2, 8, 2]}, lambda x: np.broadcast_to(x, (2, 8, 2))),
    "assign": ({}, lambda x: x),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize("op_type", list(MOVES))
def test_operators_that_only_move_elements_accept_narrow_dtypes(op_type, dtype, library):
    attrs, expected = MOVES[op_type]
    x = every(dtype)[:16].reshape(8, 2)
    with pinned(op_type, library):
        assert_same_bytes(getattr(ow.ops, op_type)(x, **attrs), expected(x))


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_rows_of_narrow_tables_are_gathered_and_joined(dtype):
    x = every(dtype)[:16].reshape(8, 2)
    rows = ow.ops.gather(x, np.array([3, 0], "int64"))
    assert_same_bytes(rows, x[[3, 0]])
    assert_same_bytes(ow.ops.concat([x, rows], axis=0), np.concatenate([x, rows]))


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_arithmetic_on_narrow_dtypes_is_refused(dtype):
    x = every(dtype)[:4]
    with pytest.raises(DtypeError, match=f"add: x must be .*bool, got {dtype}"):
        ow.ops.add(x, x)


def test_a_kernel_for_any_dtype_excludes_narrow_dtypes():
    with pytest.raises(KernelNotFoundError, match=r"triu\[cpu, int4\]"):
        ow.ops.triu(every("int4").reshape(4, 4))


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_narrow_tensors_are_fed_fetched_saved_and_loaded(dtype, mmap, tmp_path: Path):
    weight = every(dtype)[:12].reshape(4, 3)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        x = block.create_var("x", shape=[-1, 3], dtype=dtype)
        w = block.create_parameter("w", shape=[4, 3], dtype=dtype)
        s = block.create_parameter("s", shape=[], dtype="float32")
        out = ow.ops.concat([x, w], axis=0)
        wide = ow.ops.dequantize(out, s)
    scope = ow.Scope()
    scope.var("w").set(weight)
    scope.var("s").set(np.float32(0.5))
    ow.save(tmp_path / "m", main, scope, fetch=[out, wide])
    joined, values = ow.load(tmp_path / "m", mmap=mmap)(weight[:1])
    expected = np.concatenate([weight[:1], weight])
    assert joined.dtype == dtype
    np.testing.assert_array_equal(joined.astype("float32"), expected.astype("float32"))
    np.testing.assert_array_equal(values, expected.astype("float32") * np.float32(0.5))


@pytest.mark.parametrize(("dtype", "stored"), [("int4", "int8"), ("uint4", "uint8")])
def test_other_safetensors_readers_read_4_bit_values_as_8_bit_integers(dtype, stored):
    first, data = encode({"w": every(dtype)}, {})
    assert f'"dtype":"{stored[0].upper()}8"'.encode() in bytes(first)
    np.testing.assert_array_equal(np.frombuffer(data, stored), every(dtype).astype(stored))


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_narrow_tensors_are_exchanged_through_dlpack(dtype):
    tensor = _runtime.Tensor.from_numpy(every(dtype)[:16])

    class Lent:
        def __dlpack__(self, **options: Any) -> Any:
            return tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return tensor.__dlpack_device__()

    out = _runtime.read_host_array(Lent(), "x")
    assert_same_bytes(out, every(dtype)[:16])


@pytest.mark.parametrize("dtype", list(WHOLE))
def test_exporting_4_bit_tensors_requires_a_consumer_that_supports_padding(dtype):
    with pytest.raises(
        BufferError, match=f"{dtype} has a byte for each element, which DLPack before"
    ):
        _runtime.Tensor.from_numpy(every(dtype)).__dlpack__()


LIMITS = {**WHOLE, "float8_e4m3fn": (-448, 448), "float8_e5m2": (-57344, 57344)}
LIMITS |= {"uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


@pytest.mark.parametrize("dtype", list(LIMITS))
@pytest.mark.parametrize("wide", ["bfloat16", "float32", "float64"])
def test_quantized_values_are_limited_and_dequantized(dtype, wide):
    least, most = LIMITS[dtype]
    x = np.array([-1e6, 1.0, 2.0, 1e6]).astype(wide)
    codes = ow.ops.quantize(x, np.array(1).astype(wide), dtype=dtype)
    assert codes.dtype == dtype
    back = ow.ops.dequantize(codes, np.array(1).astype(wide))
    assert back.dtype == wide
    np.testing.assert_array_equal(back, np.array([least, 1, 2, most]).astype(wide))


def test_the_quantize_error_states_the_required_scale_shape():
    x = np.zeros((2, 6), "float32")
    with pytest.raises(ShapeError, match=r"quantize: scale must have the shape \(6,\), got"):
        ow.ops.quantize(x, np.ones(5, "float32"), dtype="int8")
    with pytest.raises(ShapeError, match=r"scale must have the shape \(2, 2\), got"):
        ow.ops.quantize(x, np.ones((2, 3), "float32"), dtype="int8", block_size=3)
