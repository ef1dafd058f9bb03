"""Tests data movement operators on a GPU with tiles, wide units, offsets and all dtype sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

from opwright.errors import KernelNotFoundError
from opwright.op import dtype_to_numpy
from opwright_cuda.kernels import elementwise, movement

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

DTYPES = ("bool", "bfloat16", "float32", "int64")
"""One dtype of each element size."""
RNG = np.random.default_rng(4)


def random(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return a random permutation of integers modulo 251, cast to the dtype."""
    numbers = RNG.permutation(int(np.prod(shape))).reshape(shape)
    return (numbers % 251).astype(dtype_to_numpy(dtype))


TRANSPOSED = [
    ((70, 45), [1, 0]),
    ((64, 128), [1, 0]),
    ((3, 33, 65), [0, 2, 1]),
    ((5, 40, 3, 17), [3, 1, 2, 0]),
    ((9, 4, 11, 8), [2, 0, 3, 1]),
    ((2, 3, 40, 5), [0, 2, 1, 3]),  # keeps the innermost axis
    ((2, 3, 40, 4), [0, 2, 3, 1]),  # few channels
    ((40, 1, 30), [1, 2, 0]),
    ((2, 3, 2, 3, 2, 3, 2, 3), [7, 5, 3, 1, 6, 4, 2, 0]),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axes"), TRANSPOSED, ids=str)
def test_transpose_matches_numpy(shape: Any, axes: Any, dtype: str) -> None:
    x = random(shape, dtype)
    np.testing.assert_array_equal(call("transpose", {"x": x}, axes=axes)[0], x.transpose(axes))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("inner", [1, 3, 8, 16])
def test_concat_and_split_support_any_width(inner: int, axis: int, dtype: str) -> None:
    shapes = [[4, 8, inner] for _ in range(3)]
    for shape, length in zip(shapes, (1, 16, 8), strict=True):
        shape[axis] = length
    parts = [random(tuple(shape), dtype) for shape in shapes]
    whole = np.concatenate(parts, axis)
    np.testing.assert_array_equal(call("concat", {"x": parts}, axis=axis)[0], whole)
    lengths = [shape[axis] for shape in shapes]
    for op, slot, inputs, attrs in (
        ("split", "out", {"x": whole}, {"sections": lengths}),
        ("concat_grad", "x_grad", {"x": parts, "out_grad": whole}, {}),
    ):
        if op == "split" or dtype in ("bfloat16", "float32"):
            cut = call(op, inputs, {slot: 3}, axis=axis, **attrs)
            for one, part in zip(cut, parts, strict=True):
                np.testing.assert_array_equal(one, part)


def test_concat_and_split_support_more_tensors_than_fit_in_one_launch() -> None:
    parts = [random((3, i % 5)) for i in range(75)]
    whole = np.concatenate(parts, 1)
    np.testing.assert_array_equal(call("concat", {"x": parts}, axis=1)[0], whole)
    sections = [part.shape[1] for part in parts]
    cut = call("split", {"x": whole}, {"out": 75}, axis=1, sections=sections)
    for one, part in zip(cut, parts, strict=True):
        np.testing.assert_array_equal(one, part)


SLICED = [
    ((slice(3, 60), slice(None)), (64, 16)),
    ((slice(None), slice(4, 12)), (64, 16)),
    ((slice(None), slice(1, 16)), (64, 16)),  # starts between two vectors
    ((slice(50, 3, -7), slice(2, 14, 4)), (64, 16)),
    ((slice(None, None, -1), slice(None, None, -1)), (9, 40)),
    ((slice(1, 2), slice(1, 2), slice(1, 3)), (2, 2, 3)),
    ((slice(1, 4), slice(0, 2), slice(None)), (5, 3, 32)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("box", "shape"), SLICED, ids=str)
def test_slices_and_their_gradients_match_numpy(box: Any, shape: Any, dtype: str) -> None:
    x = random(shape, dtype)
    far = np.iinfo(np.int64).max
    listed = [(s.step or 1, s.start, s.stop) for s in box]
    attrs = {
        "axes": list(range(len(box))),
        "steps": [step for step, _, _ in listed],
        "starts": [s if s is not None else (0 if n > 0 else far) for n, s, _ in listed],
        "ends": [s if s is not None else (far if n > 0 else -far) for n, _, s in listed],
    }
    np.testing.assert_array_equal(call("slice", {"x": x}, **attrs)[0], x[box])
    if dtype in ("bfloat16", "float32"):
        expected = np.zeros_like(x)
        expected[box] = x[box]
        given = {"x": x, "out_grad": np.ascontiguousarray(x[box])}
        grad = call("slice_grad", given, "x_grad", **attrs)[0]
        np.testing.assert_array_equal(grad, expected)


PADDED = [
    ((2, 3, 8, 16), [0, 0, 0, 0, 1, 2, 3, 1]),
    ((2, 8, 4, 16), [0, 0, 1, 1, 2, 2, 0, 0]),  # channels last: pads full vectors
    ((5, 7), [4, 3, 0, 0]),
    ((30, 3), [0, 0, 2, 2]),
    ((16,), [8, 8]),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize(("shape", "paddings"), PADDED, ids=str)
def test_padding_matches_numpy(shape: Any, paddings: Any, mode: str, dtype: str) -> None:
    x = random(shape, dtype)
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    options: dict[str, Any] = {"constant_values": x.dtype.type(1)} if mode == "constant" else {}
    value = {"value": 1.0} if options else {}
    (out,) = call("pad", {"x": x}, paddings=paddings, mode=mode, **value)
    np.testing.assert_array_equal(out, np.pad(x, pairs, mode=mode, **options))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize(("shape", "paddings"), PADDED, ids=str)
def test_gradients_of_padding_are_summed(shape: Any, paddings: Any, mode: str) -> None:
    dims = [n + sum(paddings[2 * i : 2 * i + 2]) for i, n in enumerate(shape)]
    x, given = random(shape, "bfloat16"), random(tuple(dims), "bfloat16")
    attrs = {"paddings": paddings, "mode": mode}
    (grad,) = call("pad_grad", {"x": x, "out_grad": given}, "x_grad", **attrs)
    widened = {"x": x.astype("float64"), "out_grad": given.astype("float64")}
    (exact,) = call("pad_grad", widened, "x_grad", device="cpu", **attrs)
    np.testing.assert_array_equal(grad, exact.astype(np.float32).astype(grad.dtype))


CROPPED = [
    ((2, 3, 8, 16), [0, 0, -1, 1, 2, -3, -4, -4]),
    ((5, 7), [-2, 3, 0, 0]),
    ((30, 3), [-30, 2, 1, -1]),
    ((16, 8), [-4, -4, 0, -8]),
    ((9,), [3, -9]),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "paddings"), CROPPED, ids=str)
def test_negative_paddings_crop_and_their_gradients_pad(
    shape: Any, paddings: Any, dtype: str
) -> None:
    x = random(shape, dtype)
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    kept = tuple(slice(max(-b, 0), n - max(-e, 0)) for (b, e), n in zip(pairs, shape, strict=True))
    grown = [(max(b, 0), max(e, 0)) for b, e in pairs]
    expected = np.pad(x[kept], grown, constant_values=x.dtype.type(1))
    (out,) = call("pad", {"x": x}, paddings=paddings, value=1.0)
    np.testing.assert_array_equal(out, expected)
    if "float" not in dtype:
        return
    given = random(expected.shape, dtype)
    (grad,) = call("pad_grad", {"x": x, "out_grad": given}, "x_grad", paddings=paddings)
    wanted = np.zeros(shape, x.dtype)
    borders = zip(grown, given.shape, strict=True)
    wanted[kept] = given[tuple(slice(begin, n - end) for (begin, end), n in borders)]
    np.testing.assert_array_equal(grad, wanted)


def test_large_tensors_are_indexed_in_64_bits() -> None:
    x, y, index = random((3, 40, 36)), random((40, 1)), np.array([1, -3, 2])
    border = {"paddings": [1, 2, 0, 0, 1, 0]}
    with pytest.MonkeyPatch.context() as patch:
        for module in (elementwise, movement):
            patch.setattr(module, "NARROW", 1)
        outs = [
            call("subtract", {"x": x, "y": y})[0],
            call("transpose", {"x": x}, axes=[2, 0, 1])[0],
            call("slice", {"x": x}, axes=[2], starts=[35], ends=[-99], steps=[-2])[0],
            call("concat", {"x": [x, x[:, :1]]}, axis=1)[0],
            call("pad", {"x": x}, **border)[0],
            call("gather", {"x": x, "index": index})[0],
            call("one_hot", {"x": index + 3}, depth=6)[0],
        ]
    expected = [
        x - y,
        x.transpose(2, 0, 1),
        x[:, :, ::-2],
        np.concatenate([x, x[:, :1]], 1),
        np.pad(x, [(1, 2), (0, 0), (1, 0)]),
        x[index],
        np.eye(6)[index + 3],
    ]
    for out, wanted in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out, wanted)


def test_more_dimensions_than_kernels_support_are_refused() -> None:
    with pytest.raises(KernelNotFoundError, match="9 dimensions remain after merging"):
        call("transpose", {"x": random((2,) * 9)})
