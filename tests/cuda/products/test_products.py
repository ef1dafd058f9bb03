"""Tests matrix products on a GPU with cuBLASLt and with the opwright kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from calls import call

import opwright as ow
from opwright.errors import MissingRequirementError, OpwrightError
from opwright.op import dtype_to_numpy
from opwright_cuda import native
from opwright_cuda.kernels import matmul
from opwright_cuda.launch import LaunchPlan
from opwright_cuda.options import TUNE
from opwright_cuda.products import blas, count_parts, describe_product, find_refusal, tell_blas_path
from opwright_cuda.products.blas import Epilogue, product_numbers, workspace_limit

pytestmark = pytest.mark.grid(3)

RNG = np.random.default_rng(5)
FLOATS = ("float16", "bfloat16", "float32", "float64")
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
STACKS = [
    ((), (), 1),
    ((2,), (2,), 1),
    ((2,), (), 1),
    ((), (3,), 1),
    ((2, 3), (2, 3), 1),
    ((2, 1), (3,), 2),
    ((1, 3), (2, 1), 2),
    ((4, 1, 2), (1, 3, 1), 6),
    ((0,), (0,), 0),
    ((2, 0), (), 0),
    ((2, 1), (1, 0), 0),
]


def whole(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return small integers, whose products are exact in every dtype."""
    low = 0 if dtype.startswith("u") else -2
    return RNG.integers(low, 3, shape).astype(dtype_to_numpy(dtype))


def operands(
    stacks: tuple[tuple[int, ...], ...], sizes: tuple[int, int, int], turned: Any, dtype: str
) -> tuple[Any, Any, Any]:
    """Return x and y as stored, and their expected product."""
    m, n, k = sizes
    x = whole((*stacks[0], *((k, m) if turned[0] else (m, k))), dtype)
    y = whole((*stacks[1], *((n, k) if turned[1] else (k, n))), dtype)
    left, right = (
        (array.swapaxes(-1, -2) if turn else array).astype(np.float64)
        for array, turn in zip((x, y), turned, strict=True)
    )
    return x, y, (left @ right).astype(x.dtype)


def multiply(x: Any, y: Any, turned: Any) -> Any:
    attrs = {"transpose_x": turned[0], "transpose_y": turned[1]}
    (out,) = call("matmul", {"x": x, "y": y}, **attrs)
    return out


@contextlib.contextmanager
def recorded(library: str | None = None) -> Iterator[list[Any]]:
    """Yield a list that records, in a separate context, product descriptions and kernel names."""
    told: list[Any] = []
    product, launch = LaunchPlan.product, LaunchPlan.launch

    def record_product(plan: LaunchPlan, numbers: Any, pointers: Any) -> None:
        told.append(numbers)
        product(plan, numbers, pointers)

    def record_launch(plan: LaunchPlan, source: Any, expression: str, *rest: Any) -> None:
        told.append(expression)
        launch(plan, source, expression, *rest)

    context = ow.Context.discover()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LaunchPlan, "product", record_product)
        patch.setattr(LaunchPlan, "launch", record_launch)
        pins = dict.fromkeys(("matmul", "fc"), library) if library else {}
        with ow.context_guard(context.with_pins(pins)):
            yield told


def numbers_of(x: Any, y: Any, turned: Any, dtype: str = "float32", **kwargs: Any) -> Any:
    product = describe_product(x, y, *turned, dtype)
    epilogue, allows_tf32 = kwargs.get("epilogue", Epilogue.DEFAULT), kwargs.get("tf32", False)
    return product_numbers(product, epilogue, 0, allows_tf32)


@pytest.mark.parametrize(
    ("turned", "leading"),
    [
        (TRANSPOSES[0], (5, 4)),
        (TRANSPOSES[1], (4, 4)),
        (TRANSPOSES[2], (5, 3)),
        (TRANSPOSES[3], (4, 3)),
    ],
)
def test_the_transpose_of_the_product_is_described_column_by_column(
    turned: tuple[bool, bool], leading: tuple[int, int]
) -> None:
    x, y = (4, 3) if turned[0] else (3, 4), (5, 4) if turned[1] else (4, 5)
    numbers = numbers_of(x, y, turned)
    assert (numbers.m, numbers.n, numbers.k) == (5, 3, 4)
    assert (numbers.transpose_a, numbers.transpose_b) == (turned[1], turned[0])
    assert (numbers.leading_a, numbers.leading_b, numbers.leading_d) == (*leading, 5)
    assert (numbers.batch, numbers.accumulates, numbers.alignment) == (1, 0, 256)


def test_batch_strides_are_taken_from_the_longest_batch_axis() -> None:
    numbers = numbers_of((6, 3, 4), (6, 4, 5), TRANSPOSES[0])
    assert numbers[8:12] == (6, 20, 12, 15)
    assert numbers_of((3, 4), (6, 4, 5), TRANSPOSES[0])[8:12] == (6, 20, 0, 15)
    assert numbers_of((2, 1, 3, 4), (6, 4, 5), TRANSPOSES[0])[8:12] == (6, 20, 0, 15)


def test_a_batch_times_one_matrix_is_described_as_one_tall_matrix() -> None:
    numbers = numbers_of((2, 3, 7, 4), (4, 5), TRANSPOSES[0])
    assert (numbers.n, numbers.batch) == (42, 1)
    assert numbers_of((6, 4, 7), (4, 5), TRANSPOSES[2]).batch == 6  # its rows are not adjacent


def test_products_are_accumulated_in_single_or_double_precision() -> None:
    found = {dtype: numbers_of((3, 4), (4, 5), TRANSPOSES[0], dtype)[12:16] for dtype in FLOATS}
    assert found["float16"] == (2, 2, 68, 0)
    assert found["bfloat16"] == (14, 14, 68, 0)
    assert found["float32"] == (0, 0, 68, 0)
    assert found["float64"] == (1, 1, 70, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_16_bit_floats_can_have_float32_results(dtype: str) -> None:
    product = describe_product((3, 4), (4, 5), False, False, dtype, "float32")
    numbers = product_numbers(product, Epilogue.DEFAULT, 0, False)
    assert (numbers.data_type, numbers.out_type) == (
        numbers_of((3, 4), (4, 5), (False, False), dtype).data_type,
        0,
    )


def test_single_precision_is_rounded_to_tf32_only_on_request() -> None:
    found = {
        dtype: numbers_of((3, 4), (4, 5), TRANSPOSES[0], dtype, tf32=True).compute_type
        for dtype in FLOATS
    }
    assert found == {"float16": 68, "bfloat16": 68, "float32": 77, "float64": 70}


@pytest.mark.parametrize(("k", "alignment"), [(128, 256), (8, 16), (4, 8), (3, 2)])
def test_the_described_alignment_is_valid_for_every_matrix_of_a_batch(
    k: int, alignment: int
) -> None:
    shapes = (6, 1, k), (6, k, 128)
    assert numbers_of(*shapes, TRANSPOSES[0], "float16").alignment == alignment


def test_the_workspace_has_the_recommended_size_and_is_smaller_for_small_products() -> None:
    small = describe_product((3, 4), (4, 5), False, False, "float32")
    large = describe_product((4096, 4), (4, 4096), False, False, "float32")
    assert workspace_limit(small, (9, 0)) == 2**16
    assert workspace_limit(large, (9, 0)) == workspace_limit(large, (10, 0)) == 2**25
    assert workspace_limit(large, (8, 9)) == 2**22


def test_cublaslt_is_not_used_for_huge_matrices_or_batches_that_need_many_calls() -> None:
    many = describe_product((5, 1, 5, 1, 2, 3), (1, 5, 1, 5, 3, 2), False, False, "float32")
    assert find_refusal(many) == (
        "the batch dimensions broadcast in a way that needs 125 products of cuBLASLt"
    )
    huge = describe_product((2**31, 1), (1, 1), False, False, "float32")
    assert "cuBLASLt multiplies up to 2147483647 rows" in str(find_refusal(huge))


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("turned", TRANSPOSES)
def test_cublaslt_products_are_correct_for_every_transpose_and_batch(
    turned: tuple[bool, bool], dtype: str
) -> None:
    for *stacks, n_calls in STACKS:
        x, y, expected = operands((stacks[0], stacks[1]), (3, 5, 4), turned, dtype)
        with recorded("cublaslt") as told:
            np.testing.assert_array_equal(multiply(x, y, turned), expected)
        assert len(told) == n_calls


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint16", "int32", "uint64"])
@pytest.mark.parametrize("turned", TRANSPOSES)
def test_opwright_products_are_correct_for_every_transpose_and_batch(
    turned: tuple[bool, bool], dtype: str
) -> None:
    for *stacks, _ in STACKS[2:8:2]:
        x, y, expected = operands((stacks[0], stacks[1]), (3, 5, 4), turned, dtype)
        with recorded("native"):
            np.testing.assert_array_equal(multiply(x, y, turned), expected)
    x, y, expected = operands(((), ()), (70, 130, 37), turned, dtype)
    with recorded("native"):
        np.testing.assert_array_equal(multiply(x, y, turned), expected)


@pytest.mark.cuda_kernels
def test_integers_wrap_around() -> None:
    for dtype in ("int8", "uint8", "int32", "int64"):
        largest = np.full((2, 3), np.iinfo(dtype).max, dtype)
        with np.errstate(over="ignore"):
            expected = largest @ largest.T
        np.testing.assert_array_equal(multiply(largest, largest, TRANSPOSES[1]), expected)


@pytest.mark.cuda_kernels
def test_the_opwright_kernel_is_used_if_cublaslt_refuses() -> None:
    x, y, expected = operands(((5, 1, 5, 1), (5, 1, 5)), (2, 2, 3), TRANSPOSES[0], "float16")
    with recorded() as told:
        np.testing.assert_array_equal(multiply(x, y, TRANSPOSES[0]), expected)
    # The name appears twice if the kernel had to be compiled first.
    assert set(told) == {"multiply<Half, Half>"}
    x, y, expected = operands(((), ()), (2, 2, 3), TRANSPOSES[0], "float16")
    with recorded() as told, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            blas, "_COMPUTE_32F", 70
        )  # double-precision sums, which cuBLASLt does not support
        np.testing.assert_array_equal(multiply(x, y, TRANSPOSES[0]), expected)
    assert told[-1] == "multiply<Half, Half>"
    assert len(set(told)) == 2  # cuBLASLt was queried


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_layer_adds_its_bias_before_rounding(dtype: str) -> None:
    x, weight, sums = operands(((), ()), (4, 6, 3), TRANSPOSES[0], dtype)
    bias = whole((6,), dtype)
    expected = {
        ("", True): sums + bias,
        ("", False): sums,
        ("relu", True): np.maximum(sums + bias, 0),
        ("relu", False): np.maximum(sums, 0),
    }
    epilogues = []
    for (activation, has_bias), wanted in expected.items():
        given = {"x": x, "weight": weight} | ({"bias": bias} if has_bias else {})
        with recorded("cublaslt") as told:
            (out,) = call("fc", given, activation=activation)
        np.testing.assert_array_equal(out, wanted)
        epilogues.append(told[0].epilogue)
        assert ("Relu" in str(told[-1])) == (activation == "relu")
    assert epilogues == [Epilogue.BIAS, Epilogue.DEFAULT] * 2


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_layer_with_relu_propagates_nan(dtype: str) -> None:
    x, weight, _ = operands(((), ()), (4, 6, 3), TRANSPOSES[0], dtype)
    x[1, 2] = np.nan
    given = {"x": x, "weight": weight, "bias": whole((6,), dtype)}
    with recorded("cublaslt"):
        (out,) = call("fc", given, activation="relu")
    assert np.isnan(out).any(axis=1).tolist() == [False, True, False, False]


def test_the_error_for_a_missing_cublaslt_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> None:
        raise RuntimeError(f"Failure finding {name}\nand where it was looked for")

    monkeypatch.setattr(native, "has_blas_path", lambda: False)
    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", fail)
    with pytest.raises(
        MissingRequirementError, match=r"need cuBLASLt.*cublasLt; pip install \"nvidia-cublas"
    ):
        tell_blas_path()


def test_cublaslt_is_located_once_and_only_if_no_path_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(native, "has_blas_path", lambda: bool(told))
    monkeypatch.setattr(native, "set_blas_path", told.append)
    found = SimpleNamespace(abs_path="/opt/libcublasLt.so.13")
    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", lambda name: found)
    tell_blas_path()
    tell_blas_path()
    assert told == ["/opt/libcublasLt.so.13"]


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(("tunes", "chosen"), [(False, 0), (True, 1)])
def test_algorithms_are_benchmarked_on_request(gpu: Any, tunes: bool, chosen: int) -> None:
    if gpu is None:
        pytest.skip("the emulator offers algorithms by number")
    x, y, expected = operands(((), ()), (31, 17, 29), TRANSPOSES[0], "float16")
    settings = {"blas_algorithms": 3, "blas_milliseconds_0": 9, "blas_milliseconds_2": 5}
    for name, number in settings.items():
        gpu.set(name, number)
    try:
        before = [gpu.count(f"products_by_{i}") for i in range(3)]
        with ow.context_guard(ow.current_context().with_options({TUNE: tunes})):
            np.testing.assert_array_equal(multiply(x, y, TRANSPOSES[0]), expected)
        counts = [gpu.count(f"products_by_{i}") - n for i, n in enumerate(before)]
    finally:
        for name in settings:
            gpu.set(name, 1)
    tried = 4 if tunes else 0  # runs per algorithm
    assert counts == [tried + (i == chosen) for i in range(3)]


@pytest.mark.cuda_kernels
def test_the_error_for_too_little_memory_to_benchmark_algorithms_suggests_a_remedy(
    gpu: Any,
) -> None:
    if gpu is None:
        pytest.skip("only the emulator's memory can be set")
    x, y, _ = operands(((), ()), (33, 17, 29), TRANSPOSES[0], "float16")
    gpu.set("blas_algorithms", 3)
    gpu.set("memory_bytes", 1)
    try:
        with (
            ow.context_guard(ow.current_context().with_options({TUNE: True})),
            pytest.raises(
                OpwrightError, match="trying a library's .* leave out the option cuda.tu"
            ),
        ):
            multiply(x, y, TRANSPOSES[0])
    finally:
        gpu.set("blas_algorithms", 1)
        gpu.set("memory_bytes", 1 << 34)


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    ("m", "n", "k", "parts"), [(5, 7, 1024, 8), (64, 3, 1536, 8), (1, 1, 2048, 16)]
)
def test_the_sum_of_the_parts_equals_the_complete_product(
    monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, parts: int
) -> None:
    # The emulated GPU is too small to have idle multiprocessors, so a larger GPU is assumed.
    monkeypatch.setattr(matmul, "count_parts", lambda p, _, tf32: count_parts(p, 132, tf32))
    x, y, expected = operands(((), ()), (m, n, k), (True, False), "float32")
    with recorded("cublaslt") as told:
        np.testing.assert_array_equal(multiply(x, y, (True, False)), expected)
        y[k // 3, 0] = np.inf
        x[k // 3] = 1
        np.testing.assert_array_equal(multiply(x, y, (True, False))[:, 0], np.full(m, np.inf))
    assert {numbers.batch for numbers in told if not isinstance(numbers, str)} == {parts}
    assert any(str(kernel).startswith("reduce_") for kernel in told)
