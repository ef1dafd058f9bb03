"""Ids, offsets, masks and indices passed by callers are checked before any memory access."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import OpwrightError, ShapeError

TABLE = np.arange(12.0, dtype=np.float32).reshape(4, 3)
IDS = np.array([0, 3, 1])
LIBRARIES = ("native", "numpy")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 2], "offsets must begin with 0, got 1"),
        ([0, 4], "offsets must rise from 0 to at most 3, got 4 at 1"),
        ([0, 2, 1], "offsets must rise from 0 to at most 3, got 1 at 2"),
        ([0, -1], "offsets must rise from 0 to at most 3, got -1 at 1"),
    ],
)
def test_offsets_that_do_not_increase_within_the_index_are_refused(
    offsets: list[int], message: str, library: str
) -> None:
    with (
        ow.current_context().pin("embedding_bag", library),
        pytest.raises(OpwrightError, match=message),
    ):
        ow.ops.embedding_bag(TABLE, IDS, np.array(offsets))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_id_beyond_the_table_is_refused(wrong: int, library: str) -> None:
    match = re.escape(f"index must be in [0, 4), got {wrong}")
    with (
        ow.current_context().pin("embedding_bag", library),
        pytest.raises(OpwrightError, match=match),
    ):
        ow.ops.embedding_bag(TABLE, np.array([[0, wrong]]))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_positions_of_any_value_do_not_read_outside_the_image(
    mode: str, padding: str, library: str
) -> None:
    far = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 2.0**31, -(2.0**31)]
    pairs = np.array([(a, b) for a in far for b in far], np.float32).reshape(1, 8, 8, 2)
    image = np.full((1, 2, 3, 4), 5, np.float32)
    with np.errstate(all="ignore"), ow.current_context().pin("grid_sample", library):
        out = ow.ops.grid_sample(image, pairs, mode=mode, padding_mode=padding)
    if mode != "bicubic":
        assert np.all((out >= 0) & (out <= 5.001))
    if padding != "zeros":
        np.testing.assert_allclose(out, 5, rtol=1e-5)


def test_a_source_with_too_few_elements_is_refused() -> None:
    with pytest.raises(OpwrightError, match=r"index must be in \[-2, 2\), got 2"):
        ow.ops.masked_scatter(np.zeros(3), np.array([True, True, False]), np.ones(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ow.ops.unfold(np.zeros((1, 1, 2, 2)), kernel=[3, 1]),
            "unfold: the kernel must fit into the padded height",
        ),
        (
            lambda: ow.ops.fold(np.zeros((1, 4, 3)), output_size=[2, 2], kernel=[2, 2]),
            r"fold: x must have 1 windows for output_size=\[2, 2\], got",
        ),
        (
            lambda: ow.ops.fftn(np.zeros((2, 2)), axis=[-1]),
            "fftn: axis must not contain the last axis",
        ),
        (
            lambda: ow.ops.grid_sample(
                np.zeros((1, 1, 2, 2, 2)), np.zeros((1, 1, 1, 1, 3)), mode="bicubic"
            ),
            "grid_sample: mode must be 'bilinear' or 'nearest' for volumes",
        ),
        (
            lambda: ow.ops.stft(np.zeros(3), n_fft=8),
            "stft: x must have more than n_fft // 2 = 4 elements to reflect, got 3",
        ),
    ],
)
def test_the_error_names_mismatched_shapes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call()
