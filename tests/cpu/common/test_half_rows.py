"""Kernels that widen 16-bit floats in blocks return float32 results rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright as ow

ops = ow.ops
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = [np.dtype("float16"), BFLOAT16]
LENGTHS = [1, 15, 16, 17, 63, 64, 65, 100, 4095, 4096, 4097, 16384, 16385, 70000]
"""Sizes around a vector, four vectors, a block of rows, and the longest supported row."""

both_kinds = pytest.mark.parametrize("kind", KINDS, ids=str)


def draw(shape: tuple[int, ...], kind: np.dtype, low: float = -1.0) -> np.ndarray:
    return np.random.default_rng(3).uniform(low, 2, shape).astype(kind)


def check(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """Compare a function of 16-bit arrays with the same function in float32."""
    kind = arrays[0].dtype
    out = function(*arrays)
    assert out.dtype == kind
    wide = function(*(a.astype("float32") if a.dtype == kind else a for a in arrays))
    eps = float(ml_dtypes.finfo(kind).eps)
    size = float(np.abs(wide).max(initial=0.0))
    np.testing.assert_allclose(out.astype("float32"), wide, rtol=eps, atol=1e-5 * size)


@both_kinds
@pytest.mark.parametrize("length", LENGTHS)
def test_row_sums_in_16_bits_match_float32_sums_rounded_once(kind, length):
    x = draw((3, length), kind, low=0.5)
    limit = 60000 if kind == "float16" else np.inf
    if length * 2 < limit:
        check(lambda x: ops.sum(x, axis=[1]), x)
    check(lambda x: ops.mean(x, axis=[1]), x)
    check(ops.mean, x)


@both_kinds
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("with_scale", [False, True])
def test_normalization_in_16_bits_matches_float32_rounded_once(kind, length, with_scale):
    x, scale, bias = draw((5, length), kind), draw((length,), kind), draw((length,), kind)
    given = {"scale": scale, "bias": bias} if with_scale else {}

    def layer_norm(x: np.ndarray, *more: np.ndarray) -> Any:
        return ops.layer_norm(x, **dict(zip(given, more, strict=True)), begin_norm_axis=1)

    def rms_norm(x: np.ndarray, *more: np.ndarray) -> Any:
        return ops.rms_norm(x, **dict(zip(["scale"], more, strict=False)), begin_norm_axis=1)

    check(layer_norm, x, *given.values())
    check(rms_norm, x, *([scale] if with_scale else []))


@both_kinds
@pytest.mark.parametrize("queries", [1, 3, 4, 65])
@pytest.mark.parametrize("keys", [1, 383, 385])
@pytest.mark.parametrize("mask", ["none", "bool", "added", "causal"])
def test_attention_in_16_bits_matches_float32_attention_rounded_once(kind, queries, keys, mask):
    q, k = draw((4, queries, 24), kind), draw((2, keys, 24), kind)
    v = draw((2, keys, 17), kind)
    more: list[np.ndarray] = []
    if mask == "bool":
        more = [np.random.default_rng(4).random((queries, keys)) < 0.7]
    elif mask == "added":
        more = [draw((queries, keys), kind)]

    def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, *mask_of: np.ndarray) -> Any:
        given = {"mask": mask_of[0]} if mask_of else {}
        return ops.scaled_dot_product_attention(q, k, v, **given, causal=mask == "causal")

    check(attend, q, k, v, *more)
