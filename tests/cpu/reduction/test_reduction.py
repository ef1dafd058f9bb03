"""Tests reduction kernels with several threads, long lines and long sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError
from opwright.op import GradOp

NATIVE, NUMPY = "native", "numpy"


def pinned(op: str, library: str, threads: int) -> Any:
    """Pin the library of an operator and of its gradient, and set the number of threads."""
    ow.set_num_threads(threads)
    context = ow.current_context()
    types = [t for t in (op, f"{op}_grad") if library in context.kernels.libraries_of(t)]
    return ow.context_guard(context.with_pins(dict.fromkeys(types, library)))


def call(op: str, library: str, threads: int, *args: Any, **attrs: Any) -> Any:
    with pinned(op, library, threads):
        return getattr(ow.ops, op)(*args, **attrs)


def run_with_gradients(
    op: str, library: str, threads: int, inputs: Mapping[str, np.ndarray], attrs: Mapping[str, Any]
) -> list[np.ndarray]:
    """Return the outputs, and the gradients of a randomly weighted sum of the first output."""
    block = ow.Program().global_block()
    feeds = dict(inputs)
    for name, array in inputs.items():
        stop = array.dtype.kind != "f" or name in ("mean", "variance")
        block.create_var(name, array.shape, array.dtype, stop_gradient=stop)
    slots = {name: name for name in inputs}
    appended = block.append_op(op, slots, {}, attrs)
    definition = ow.current_context().ops.get(op)
    fetch = [block.var(appended.output(slot.name)[0]) for slot in definition.proto.outputs]
    if isinstance(definition.gradient, GradOp):
        out = fetch[0]
        rng = np.random.default_rng(1)
        feeds["weight"] = rng.standard_normal(out.shape).astype(out.dtype)
        block.create_var("weight", out.shape, out.dtype, stop_gradient=True)
        product = block.append_op("multiply", {"x": out, "y": "weight"}).output("out")[0]
        loss = block.append_op("sum", {"x": product}).output("out")[0]
        excluded = {"mean", "variance", "label"}
        wanted = [n for n, a in inputs.items() if a.dtype.kind == "f" and n not in excluded]
        pairs = ow.append_backward([block.var(loss)], parameters=[block.var(n) for n in wanted])
        fetch += [gradient for _, gradient in pairs]
    with pinned(op, library, threads), np.errstate(all="ignore"):
        network = ow.Network(block)
        step = network.compile(feed=list(feeds), fetch=[v.name for v in fetch], scope=ow.Scope())
        return list(step(**feeds))


def numbers(*shape: int, dtype: str = "float32", low: float = -2.0) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(low, 2.0, shape).astype(dtype)


def ids(n: int, classes: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, classes, (n, 1))


def norm_inputs(*shape: int) -> dict[str, np.ndarray]:
    channels = shape[1]
    return {
        "x": numbers(*shape),
        "scale": numbers(channels),
        "bias": numbers(channels),
        "mean": numbers(channels),
        "variance": numbers(channels, low=0.5),
    }


BIG: tuple[tuple[str, dict[str, np.ndarray], dict[str, Any]], ...] = (
    ("sum", {"x": numbers(300_001)}, {}),
    ("sum", {"x": numbers(3, 100_003)}, {"axis": [1]}),
    ("sum", {"x": numbers(100_003, 3)}, {"axis": [0]}),
    ("sum", {"x": numbers(513, 1031)}, {"axis": [0]}),
    ("sum", {"x": numbers(40, 33, 7, 11)}, {"axis": [0, 2]}),
    ("sum", {"x": numbers(70, 300, 5)}, {"axis": [1]}),
    ("sum", {"x": numbers(64, 6, 400)}, {"axis": [0, 2]}),
    ("mean", {"x": numbers(31, 70, 65)}, {"axis": [0, 2]}),
    ("max", {"x": numbers(300_001)}, {}),
    ("max", {"x": numbers(100, 50, 41)}, {"axis": [0, 2]}),
    ("min", {"x": numbers(513, 1031)}, {"axis": [0]}),
    ("softmax", {"x": numbers(200, 33)}, {}),
    ("softmax", {"x": numbers(2000, 10)}, {}),
    ("softmax", {"x": numbers(100, 1000)}, {}),
    ("softmax", {"x": numbers(3, 70_001)}, {}),
    ("softmax", {"x": numbers(100, 33, 70)}, {"axis": 1}),
    ("softmax", {"x": numbers(40, 5003)}, {"axis": 0}),
    ("log_softmax", {"x": numbers(2000, 31)}, {}),
    ("log_softmax", {"x": numbers(2, 70_001)}, {}),
    ("log_softmax", {"x": numbers(70, 5003)}, {"axis": 0}),
    ("cross_entropy", {"x": numbers(9000, 17, low=0.1), "label": ids(9000, 17)}, {}),
    ("softmax_with_cross_entropy", {"logits": numbers(3000, 70), "label": ids(3000, 70)}, {}),
    ("softmax_with_cross_entropy", {"logits": numbers(5000, 10), "label": ids(5000, 10)}, {}),
    ("mse", {"x": numbers(200_001), "label": numbers(200_001)}, {}),
    (
        "sigmoid_cross_entropy_with_logits",
        {"x": numbers(99_001), "label": numbers(99_001, low=0)},
        {},
    ),
    ("layer_norm", {"x": numbers(300, 700), "scale": numbers(700), "bias": numbers(700)}, {}),
    ("layer_norm", {"x": numbers(9000, 20), "scale": numbers(20), "bias": numbers(20)}, {}),
    ("batch_norm", norm_inputs(20, 70, 13, 13), {"training": True}),
    ("batch_norm", norm_inputs(3000, 70), {"training": True}),
    ("batch_norm", norm_inputs(20, 70, 13, 13), {}),
    ("cos_sim", {"x": numbers(700, 300), "y": numbers(700, 300)}, {}),
    ("top_k", {"x": numbers(90, 1000)}, {"k": 7}),
    ("argmax", {"x": numbers(90, 5000)}, {"axis": 1}),
    ("argmin", {"x": numbers(700, 300)}, {"axis": 0}),
)


def name_of(case: Any) -> str:
    op, inputs, _ = case
    return f"{op}-{'x'.join(map(str, next(iter(inputs.values())).shape))}"


@pytest.mark.parametrize("case", BIG, ids=name_of)
def test_reductions_are_bitwise_identical_for_any_number_of_threads_and_match_numpy(
    case: Any,
) -> None:
    op, inputs, attrs = case
    alone = run_with_gradients(op, NATIVE, 1, inputs, attrs)
    wide = {n: a.astype("float64") if a.dtype.kind == "f" else a for n, a in inputs.items()}
    exact = run_with_gradients(op, NUMPY, 1, wide, attrs)
    for got, number in zip(alone, exact, strict=True):
        size = max(1.0, float(np.max(np.abs(number))))
        np.testing.assert_allclose(got, number, rtol=2e-5, atol=4e-6 * size)
    for threads in (2, 3):
        shared = run_with_gradients(op, NATIVE, threads, inputs, attrs)
        for got, number in zip(shared, alone, strict=True):
            np.testing.assert_array_equal(got, number)


@pytest.mark.parametrize("shape", [(10_000_000,), (3_000_000, 3), (1000, 10_000)])
@pytest.mark.parametrize("kind", ["constant", "uniform"])
def test_long_float32_sums_are_accurate_to_six_digits(shape: tuple[int, ...], kind: str) -> None:
    x = np.full(shape, 0.1, "float32") if kind == "constant" else numbers(*shape, low=0.0)
    found = call("sum", NATIVE, 2, x, axis=[0])
    np.testing.assert_allclose(found, x.sum(0, dtype="float64"), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("axis", [[], [0], [1]])
def test_integer_reductions_match_the_numpy_kernels(dtype: str, axis: list[int]) -> None:
    x = np.random.default_rng(0).integers(0, 120, (700, 301)).astype(dtype)
    x *= 1 if x.itemsize < 8 else 2**58  # sums of 64 bits wrap around
    for op in ("sum", "max", "min") if x.itemsize == 8 else ("max", "min"):
        expected = call(op, NUMPY, 1, x, axis=axis)
        np.testing.assert_array_equal(call(op, NATIVE, 2, x, axis=axis), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [33, 1000, 1024, 7001])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_writes_outputs_too_large_for_the_caches(op: str, length: int, dtype: str) -> None:
    rows = (16 << 20) // (length * np.dtype(dtype).itemsize) + 3
    x = numbers(rows, length).astype(dtype)
    x[1, 2], x[2, 3] = np.nan, -np.inf
    wanted = call(op, NUMPY, 1, x)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for threads in (1, 2):
        got = call(op, NATIVE, threads, x)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 100)


@pytest.mark.parametrize(
    ("length", "dtype"), [(130, "float32"), (1024, "float32"), (7001, "float32"), (1000, "float64")]
)
def test_layer_norm_writes_outputs_too_large_for_the_caches(length: int, dtype: str) -> None:
    rows = (16 << 20) // (length * np.dtype(dtype).itemsize) + 3
    shapes = (rows, length), (length,), (length,)
    x, scale, bias = (numbers(*shape).astype(dtype) for shape in shapes)
    x[1, 2] = np.nan
    wanted = call("layer_norm", NUMPY, 1, x, scale, bias)
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    got = [call("layer_norm", NATIVE, threads, x, scale, bias) for threads in (1, 2)]
    np.testing.assert_array_equal(got[0][0], got[1][0])
    for one, other in zip(got[0], wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance / 10)


def test_losses_of_logits_too_large_for_the_caches_match_numpy() -> None:
    logits, label = numbers(4200, 1001), ids(4200, 1001)
    wanted = call("softmax_with_cross_entropy", NUMPY, 1, logits, label)
    for threads in (1, 2):
        got = call("softmax_with_cross_entropy", NATIVE, threads, logits, label)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_infinities_and_nan_keep_their_positions_in_a_long_row(op: str) -> None:
    x = numbers(4, 100_000)
    x[0, :50_000] = -np.inf  # complete chunks without a finite number
    x[1] = -np.inf
    x[2, 70_000] = np.nan
    x[3, 70_000] = np.inf
    found = call(op, NATIVE, 2, x)
    expected = call(op, NUMPY, 1, x)
    assert np.isnan(found[1:]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("place", [0, 1, 65_535, 65_536, 299_999])
def test_a_single_nan_is_both_the_maximum_and_the_minimum(place: int) -> None:
    x = numbers(300_000)
    x[place] = np.nan
    for op in ("max", "min"):
        assert np.isnan(call(op, NATIVE, 2, x))
    for op in ("argmax", "argmin"):
        assert call(op, NATIVE, 2, x) == place


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((), (300_001,)),
        ((3,), (100_003, 3)),
        ((100_003, 1), (100_003, 3)),
        ((70, 1, 65), (70, 33, 65)),
        ((1, 33, 1, 7), (65, 33, 31, 7)),
        ((500, 700), (3, 500, 700)),
    ],
)
def test_expanding_long_arrays_matches_numpy(
    shape: tuple[int, ...], target: tuple[int, ...], dtype: str
) -> None:
    x = (numbers(*shape) * 10).astype(dtype)
    for threads in (1, 2, 3):
        found = call("expand", NATIVE, threads, x, shape=list(target))
        np.testing.assert_array_equal(found, np.broadcast_to(x, target))


@pytest.mark.parametrize("wrong", [-1, 10, -(2**31)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", ["cross_entropy", "softmax_with_cross_entropy", "accuracy"])
def test_the_error_for_a_class_id_out_of_range_names_it(op: str, dtype: str, wrong: int) -> None:
    scores = np.full((2, 10), 0.1, "float32")
    labels = np.array([1, wrong], dtype)
    with pytest.raises(KernelError, match=rf"{op}.*label must be in \[0, 10\), got {wrong}"):
        call(op, NATIVE, 1, scores, labels)


@pytest.mark.parametrize("wrong", [-1, 7, 2**40])
def test_a_gradient_for_positions_that_top_k_cannot_return_raises(wrong: int) -> None:
    feeds = {"x": np.zeros((3, 7)), "out_grad": np.ones((3, 2))}
    feeds["indices"] = np.array([[0, 6], [1, wrong], [2, 3]])
    block = ow.Program().global_block()
    for name, array in feeds.items():
        block.create_var(name, array.shape, array.dtype)
    block.append_op("top_k_grad", {name: name for name in feeds}, {"x_grad": "x_grad"}, {"k": 2})
    with (
        pinned("top_k_grad", NATIVE, 2),
        pytest.raises(KernelError, match=rf"indices must be in \[0, 7\), got {wrong}\b"),
    ):
        ow.Network(block).compile(feed=list(feeds), fetch=["x_grad"])(**feeds)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float16", "float64"])
@pytest.mark.parametrize("length", [31, 32, 100, 511, 512])
@pytest.mark.parametrize("greatest", [1, 9, 100, 30_000, 2**40])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_with_equal_elements_are_sorted_as_in_the_numpy_kernels(
    dtype: str, length: int, greatest: int, descending: bool
) -> None:
    kind = np.dtype(dtype)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    end = min(greatest, int(limits.max))
    begin = 0 if kind.kind == "u" else -end
    x = np.random.default_rng(length).integers(begin, end, (4, length), endpoint=True).astype(kind)
    results = [call("sort", name, 2, x, descending=descending) for name in (NATIVE, NUMPY)]
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_array_equal(got, wanted)
