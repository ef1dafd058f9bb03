"""Tests the selection, tiles, sums and epilogues of the kernel for small products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from calls import call

import opwright as ow
from opwright_cuda.compile.nvrtc import Nvrtc
from opwright_cuda.launch import Pointer
from opwright_cuda.products import Operands, describe_product, find_small_refusal, small
from opwright_cuda.products.small import LONG_TILES, TILES, WORK, Tile, choose_tile, sides_of
from opwright_cuda.source import own_source

pytestmark = pytest.mark.grid(4)

RNG = np.random.default_rng(7)
WIDE = ("float32", "float64")
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
H200 = 132
# The cases cover sizes of 1, of one tile or slightly more, odd sizes without vector loads, and sums
# with fewer or more steps than threads.
SIZES = [(1, 1, 1), (4, 8, 0), (1, 33, 5), (17, 1, 64), (16, 32, 8), (18, 34, 150), (7, 13, 1031)]
WHOLE = (16, 16, 64)


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """Start without cached plans, which may have different tiles."""
    with ow.context_guard(ow.Context.discover()):
        yield


@pytest.fixture
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tile:
    chosen: Tile = request.param
    monkeypatch.setattr(small, "choose_tile", lambda product, multiprocessors: chosen)
    return chosen


def matrices(m: int, n: int, k: int, turned: Any, dtype: str, stack: Any = ()) -> tuple[Any, ...]:
    """Return x and y as stored, then both without transposition in float64."""
    x, y = RNG.standard_normal((*stack, m, k)), RNG.standard_normal((*stack, k, n))
    x, y = x.astype(dtype), y.astype(dtype)
    stored = [
        np.ascontiguousarray(array.swapaxes(-1, -2)) if turn else array
        for array, turn in zip((x, y), turned, strict=True)
    ]
    return (*stored, x.astype("f8"), y.astype("f8"))


def multiply(x: Any, y: Any, turned: Any) -> Any:
    with ow.context_guard(ow.current_context().with_pins({"matmul": "small"})):
        (out,) = call("matmul", {"x": x, "y": y}, transpose_x=turned[0], transpose_y=turned[1])
    return out


def assert_close(out: Any, left: Any, right: Any) -> None:
    bound = np.abs(left) @ np.abs(right) * 4 * np.finfo(out.dtype).eps
    assert (np.abs(out - left @ right) <= bound).all()


def product_of(m: int, n: int, k: int, dtype: str = "float32", stack: Any = ()) -> Any:
    return describe_product((*stack, m, k), (*stack, k, n), False, False, dtype)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("turned", TRANSPOSES)
@pytest.mark.parametrize("tile", TILES, indirect=True)
def test_products_of_any_size_are_correct_for_every_tile_and_transpose(
    tile: Tile, turned: tuple[bool, bool]
) -> None:
    for m, n, k in SIZES:
        x, y, left, right = matrices(m, n, k, turned, "float32")
        assert_close(multiply(x, y, turned), left, right)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("tile", TILES, indirect=True)
def test_double_precision_is_preserved(tile: Tile) -> None:
    for turned in TRANSPOSES[1:3]:
        x, y, left, right = matrices(18, 34, 130, turned, "float64")
        assert_close(multiply(x, y, turned), left, right)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("tile", LONG_TILES, indirect=True)
def test_products_with_long_sums_match_numpy(tile: Tile) -> None:
    x, y, left, right = matrices(9, 17, 1500, TRANSPOSES[0], "float32")
    assert_close(multiply(x, y, TRANSPOSES[0]), left, right)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("stack", [(3,), (2, 3)])
def test_batches_are_multiplied_matrix_by_matrix(stack: tuple[int, ...]) -> None:
    for turned in TRANSPOSES:
        x, y, left, right = matrices(5, 6, 7, turned, "float32", stack)
        assert_close(multiply(x, y, turned), left, right)
        first = (0,) * len(stack)
        assert_close(multiply(x, y[first], turned), left, right[first])


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("turned", TRANSPOSES)
def test_nan_affects_only_its_rows_and_columns(turned: tuple[bool, bool]) -> None:
    x, y, left, right = matrices(*WHOLE, turned, "float32")
    for value in (np.nan, np.inf):
        spoiled = x.copy()
        spoiled[(3, 5) if turned[0] else (5, 3)] = value
        left[5, 3] = value
        out = multiply(spoiled, y, turned)
        assert np.isfinite(out).all(axis=1).tolist() == [row != 5 for row in range(16)]
        np.testing.assert_array_equal(out[5], (left @ right)[5])


@pytest.mark.cuda_kernels
def test_elements_outside_the_matrices_are_not_multiplied() -> None:
    x, y = np.full((5, 3), np.inf, "float32"), np.ones((3, 6), "float32")
    np.testing.assert_array_equal(multiply(x, y, TRANSPOSES[0]), np.full((5, 6), np.inf))


@pytest.mark.cuda_kernels
def test_two_runs_are_bitwise_identical() -> None:
    x, y, *_ = matrices(33, 40, 500, TRANSPOSES[0], "float32")
    first, second = (multiply(x, y, TRANSPOSES[0]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("activation", ["", "relu", "sigmoid", "tanh", "softmax"])
def test_a_small_layer_with_bias_and_activation_needs_one_launch(
    activation: str, dtype: str, launched: list[str]
) -> None:
    formula = {
        "": lambda s: s,
        "relu": lambda s: np.maximum(s, 0),
        "sigmoid": lambda s: 1 / (1 + np.exp(-s)),
        "tanh": np.tanh,
        "softmax": lambda s: np.exp(s) / np.exp(s).sum(axis=1, keepdims=True),
    }[activation]
    for k in (6, 0):
        x, weight, left, right = matrices(5, 11, k, TRANSPOSES[0], dtype)
        bias = RNG.standard_normal(11).astype(dtype)
        for given in ({"bias": bias}, {}):
            launched.clear()
            (out,) = call("fc", {"x": x, "weight": weight, **given}, activation=activation)
            wanted = formula(left @ right + given.get("bias", 0))
            np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)
            names = list(dict.fromkeys(launched))  # kernels that had to be compiled appear twice
            assert len(names) == (2 if activation == "softmax" else 1)
            assert names[0].startswith("multiply_small<")


@pytest.mark.cuda_kernels
def test_a_small_layer_propagates_nan() -> None:
    x, weight, *_ = matrices(4, 6, 3, TRANSPOSES[0], "float32")
    x[1, 2] = np.nan
    (out,) = call("fc", {"x": x, "weight": weight}, activation="relu")
    assert np.isnan(out).any(axis=1).tolist() == [False, True, False, False]


def test_whether_a_product_is_small_depends_on_its_work_and_on_the_gpu() -> None:
    edge = product_of(64, 64, WORK // 64 * 2)  # for 128 multiprocessors
    assert find_small_refusal(edge, 128) is None
    assert "got 33554432" in str(find_small_refusal(edge, 127))
    assert find_small_refusal(product_of(64, 200, 784), H200) is None
    assert find_small_refusal(product_of(1024, 200, 784), H200) is not None
    assert find_small_refusal(product_of(64, 64, 64, stack=(128,)), 128) is None
    assert find_small_refusal(product_of(64, 64, 64, stack=(129,)), 128) is not None
    assert find_small_refusal(product_of(0, 2**31, 1), H200) is not None
    assert find_small_refusal(product_of(2**19, 1, 1), H200) is None
    assert "rows, columns and steps" in str(find_small_refusal(product_of(2**19 + 1, 1, 1), H200))


def test_products_for_tensor_cores_do_not_use_the_small_product_kernel() -> None:
    for dtype in ("float16", "bfloat16"):
        assert find_small_refusal(product_of(4, 5, 6, dtype), H200) is not None
    assert find_small_refusal(product_of(4, 5, 6), H200, allows_tf32=True) is not None
    assert find_small_refusal(product_of(4, 5, 6, "float64"), H200, allows_tf32=True) is None


def test_the_small_product_kernel_refuses_batches_that_broadcast_in_two_dimensions() -> None:
    product = describe_product((3, 1, 2, 4), (1, 5, 4, 2), False, False, "float32")
    assert "more than one dimension" in str(find_small_refusal(product, H200))
    many = describe_product((70_000, 1, 1), (70_000, 1, 1), False, False, "float32")
    assert "65535 matrices" in str(find_small_refusal(many, H200))


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((784, 200, 64), Tile(4, 8)),
        ((200, 200, 64), Tile(4, 4)),
        ((64, 200, 200), Tile(2, 4)),
        ((64, 200, 784), Tile(2, 4, 16)),
        ((64, 10, 200), Tile(1, 2)),
        ((64, 10, 2000), Tile(1, 2, 16)),
        ((201, 10, 1024), Tile(1, 2)),
        ((512, 512, 128), Tile(4, 8)),
    ],
)
def test_the_tile_with_the_shortest_estimated_time_is_chosen(
    sizes: tuple[int, int, int], tile: Tile
) -> None:
    assert choose_tile(product_of(*sizes), H200) == tile
    assert choose_tile(product_of(*sizes, "float64"), H200).warps == 8
    assert choose_tile(product_of(*sizes), H200, n_others=0).warps == 8


def test_the_choice_of_a_tile_accounts_for_other_blocks_in_the_same_launch() -> None:
    product = product_of(201, 200, 64)
    assert choose_tile(product, H200) == choose_tile(product, H200, n_others=0) == Tile(4, 4)
    assert choose_tile(product, H200, n_others=104) == Tile(4, 8)
    many = product_of(201, 200, 64, stack=(20,))
    assert choose_tile(many, H200) == Tile(4, 8)


def test_the_tile_constants_match_the_header() -> None:
    tile = Tile(2, 4, 16)
    assert (tile.rows, tile.columns, tile.threads, tile.steps) == (8, 16, 512, 256)
    assert tile.tiles_of(9, 16) == 2
    assert tile.ctype == "SmallTile<2, 4, 16>"


@pytest.mark.parametrize(
    ("m", "n", "k", "offset", "widths"),
    [
        (3, 5, 8, 0, (4, 1)),
        (3, 6, 10, 0, (2, 2)),
        (3, 8, 7, 0, (1, 4)),
        (3, 8, 8, 8, (2, 4)),
        (3, 8, 8, 4, (1, 4)),
    ],
)
def test_vector_widths_are_limited_by_row_lengths_and_alignments(
    m: int, n: int, k: int, offset: int, widths: tuple[int, int]
) -> None:
    operands = Operands(Pointer(0, offset), Pointer(1, 0), Pointer(2, 0))
    left, right = sides_of(product_of(m, n, k), operands)
    assert (left.width, right.width) == widths
    assert (left.goes_along_steps, right.goes_along_steps) == (True, False)
    operands = operands._replace(x=Pointer(0, 0), y=Pointer(1, 8))
    of_doubles = sides_of(product_of(m, 6, 10, "float64"), operands)
    assert [side.width for side in of_doubles] == [2, 1]


def test_vector_widths_are_valid_for_every_matrix_of_a_batch() -> None:
    product = describe_product((2, 3, 3), (2, 3, 4), False, True, "float32")
    operands = Operands(Pointer(0, 0), Pointer(1, 0), Pointer(2, 0))
    assert [side.width for side in sides_of(product, operands)] == [1, 1]


@pytest.mark.parametrize("ctype", ["float", "double"])
def test_nvrtc_compiles_every_tile(ctype: str) -> None:
    width = 16 // (4 if ctype == "float" else 8)
    longer = LONG_TILES if ctype == "float" else ()
    expressions = [
        f"multiply_small<{ctype}, {tile.ctype}, true, {width}, false, 1, Sigmoid>"
        for tile in (*TILES, *longer)
    ]
    image = Nvrtc().compile(own_source("small_products.cu"), expressions, "sm_90")
    assert len(set(image.names)) == len(expressions)
