"""Tests the graph records, refusals and results of convolutions with cuDNN.

Without a GPU, the emulator replaces the library. It checks descriptors as strictly as cuDNN and
computes their operations; test_cudnn_engines.py tests the library itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import call
from one_operator import skip_without_cudnn
from test_convolution import CONVOLUTIONS, FORMATS, RNG, whole

import opwright as ow
from opwright import _runtime
from opwright.errors import KernelError, KernelNotFoundError
from opwright.kernel import PrepareContext
from opwright.op import dtype_to_numpy
from opwright_cuda import cudnn, native
from opwright_cuda.compile.toolchain import Toolchain, replace_toolchain
from opwright_cuda.cudnn import OperationGraph, Tensor, What, Windows
from opwright_cuda.cudnn.graph import MOST_TRIED
from opwright_cuda.cudnn.library import INSTALL
from opwright_cuda.kernels import cudnn_convolution
from opwright_cuda.launch import LaunchPlan, Pointer, bytes_of
from opwright_cuda.options import EngineChoice
from opwright_cuda_emulator import HostCompiler

DTYPES = ("float16", "bfloat16", "float32")
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-16}
"""Tolerance relative to the largest value, since engines may use Winograd transforms."""

TENSOR_CORES = 5
"""The index of the emulated engine that uses tensor cores."""


@pytest.fixture(autouse=True)
def installed(request: pytest.FixtureRequest) -> None:
    """Skip the test if there is a GPU without cuDNN."""
    if request.node.get_closest_marker("cuda_kernels") and request.getfixturevalue("gpu") is None:
        skip_without_cudnn()


@contextlib.contextmanager
def pinned(library: str, options: Mapping[str, bool] | None = None) -> Iterator[None]:
    pins = {"conv2d": library, "conv2d_grad": library}
    with ow.context_guard(ow.Context.discover().with_pins(pins).with_options(options or {})):
        yield


def on_numpy(op_type: str, inputs: dict[str, Any], outputs: str, **attrs: Any) -> list[Any]:
    wide = {slot: array.astype(np.float64) for slot, array in inputs.items()}
    with ow.context_guard(ow.current_context().with_pins({op_type: "numpy"})):
        return call(op_type, wide, outputs, device="cpu", **attrs)


def check(
    op_type: str,
    inputs: dict[str, Any],
    outputs: str,
    dtype: str,
    options: Mapping[str, bool] | None = None,
    **attrs: Any,
) -> list[Any]:
    """Compare cuDNN results with NumPy results; return the NumPy results."""
    narrow = {slot: array.astype(dtype_to_numpy(dtype)) for slot, array in inputs.items()}
    with pinned("cudnn", options):
        made = call(op_type, narrow, outputs, **attrs)
    wanted = on_numpy(op_type, inputs, outputs, **attrs)
    for got, right in zip(made, wanted, strict=True):
        assert got.dtype == dtype_to_numpy(dtype)
        largest = float(np.max(np.abs(right), initial=1.0))
        np.testing.assert_allclose(
            got.astype(np.float64), right, rtol=EPS[dtype], atol=EPS[dtype] * largest
        )
    return wanted


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("x", "weight", "attrs"), CONVOLUTIONS, ids=str)
def test_convolutions_and_their_gradients_match_numpy(
    x: Any, weight: Any, attrs: dict[str, Any], data_format: str, dtype: str
) -> None:
    attrs = {**attrs, "data_format": data_format}
    given = {"x": whole(x, data_format), "weight": whole(weight)}
    check("conv2d", given, "out", dtype, **attrs)
    given["bias"] = whole(weight[:1])
    (out,) = check("conv2d", given, "out", dtype, **attrs)
    given["out_grad"] = RNG.integers(-1, 2, out.shape).astype(np.float64)
    check("conv2d_grad", given, "x_grad weight_grad bias_grad", dtype, **attrs)


@pytest.mark.cuda_kernels
def test_depthwise_convolution_computes_only_requested_gradients() -> None:
    attrs = {"groups": 6, "paddings": [1, 1, 1, 1], "data_format": "NHWC"}
    given = {"x": whole((2, 6, 9, 5), "NHWC"), "weight": whole((12, 1, 3, 3))}
    (out,) = check("conv2d", given, "out", "float16", **attrs)
    given |= {"bias": whole((12,)), "out_grad": np.ones_like(out)}
    for slot in ("x_grad", "weight_grad", "bias_grad"):
        check("conv2d_grad", given, slot, "float16", **attrs)


@pytest.mark.cuda_kernels
def test_the_scratch_buffers_of_cudnn_and_of_a_kernel_are_disjoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill_in = cudnn_convolution.CONV2D._fill_in

    def keep_meanwhile(ctx: PrepareContext, plan: LaunchPlan) -> None:
        scratch, n_bytes = plan.workspace(4000), bytes_of(ctx.outputs["out"][0])
        plan.fill(scratch, 4000, 1)
        fill_in(ctx, plan)
        plan.copy(plan.output("out"), scratch, n_bytes)

    monkeypatch.setattr(cudnn_convolution.CONV2D, "_fill_in", keep_meanwhile)
    with pinned("cudnn"):
        (out,) = call("conv2d", feeds())
    assert set(out.tobytes()) == {1}


def convolving(
    pins: dict[str, str] | None = None,
    filters: int = 4,
    options: Mapping[str, bool] | None = None,
) -> tuple[Any, Any]:
    """Return a compiled convolution and its network."""
    block = ow.Program().global_block()
    block.create_var("x", (2, 3, 8, 8), "float32")
    block.create_var("weight", (filters, 3, 3, 3), "float32")
    block.append_op("conv2d", {"x": ["x"], "weight": ["weight"]}, {"out": ["out"]}, {})
    with ow.context_guard(ow.Context.discover().with_pins(pins or {})):
        network = ow.Network(block)
        compiled = network.compile(
            ["x", "weight"], ["out"], device="cuda", scope=ow.Scope(), options=options
        )
        compiled(**feeds(filters=filters))
    return compiled, network


def feeds(scale: float = 1.0, filters: int = 4) -> dict[str, Any]:
    x = np.full((2, 3, 8, 8), scale, np.float32)
    return {"x": x, "weight": np.ones((filters, 3, 3, 3), np.float32)}


@pytest.mark.cuda_kernels
def test_a_convolution_is_part_of_the_graph_of_its_plan(gpu: Any) -> None:
    compiled, network = convolving()
    for scale in (1.0, 2.0, -3.0):
        (out,) = compiled(**feeds(scale))
        np.testing.assert_array_equal(out, np.full((2, 4, 6, 6), 27 * scale))
    placement = network.placement()
    assert (placement.graph_refusal, dict(placement.kernels)) == ("", {"cuda/cudnn": 1})
    if gpu is not None:
        before = gpu.count("operation_graphs")
        compiled(**feeds())
        assert gpu.count("operation_graphs") == before  # replayed without a call of the library


@pytest.mark.cuda_kernels
def test_arrays_on_the_gpu_are_read_without_a_copy_in_each_call() -> None:
    scales = (1.0, 2.0, -3.0)
    network = ow.Network([ow.Operator("assign", x="x", out="out")])
    with pinned("cudnn"):
        move = network.compile(
            feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope(), fetch_device=True
        )
        images = [move(x=feeds(scale)["x"])[0] for scale in scales]
        weight = move(x=feeds()["weight"])[0]
        for x, scale in zip(images, scales, strict=True):
            out = ow.ops.conv2d(x, weight).numpy()
            np.testing.assert_array_equal(out, np.full((2, 4, 6, 6), 27 * scale))


@pytest.mark.cuda_kernels
def test_descriptors_of_a_convolution_are_freed_with_its_plan(gpu: Any) -> None:
    if gpu is None:
        pytest.skip("the emulator counts descriptors")
    before = gpu.count("cudnn_descriptors")
    kept = convolving(filters=7)  # an equal existing graph would be reused
    assert gpu.count("cudnn_descriptors") > before
    del kept
    _runtime.free_retired()
    assert gpu.count("cudnn_descriptors") == before


@contextlib.contextmanager
def offered(gpu: Any, *engines: int) -> Iterator[None]:
    """Make the emulated cuDNN offer only the given engines."""
    if gpu is None:
        pytest.skip("the emulator offers engines by number")
    gpu.set("cudnn_engines", sum(1 << engine for engine in engines))
    try:
        yield
    finally:
        gpu.set("cudnn_engines", 0xFF)


@pytest.mark.cuda_kernels
def test_a_gradient_is_planned_once_even_if_a_compilation_is_deferred(
    gpu: Any, emulator_folder: Path
) -> None:
    if gpu is None:
        pytest.skip("the emulator counts plans")
    # No other test uses this size; a graph held by a plan of another test would be reused.
    given = {"x": whole((1, 2, 5, 13)), "weight": whole((3, 2, 2, 2)), "bias": whole((3,))}
    given["out_grad"] = whole((1, 3, 4, 12))
    before = gpu.count("cudnn_plans")
    tools = replace_toolchain(None)
    try:
        # The cache of the toolchain is empty, so compiling the sum kernels is deferred.
        replace_toolchain(Toolchain(HostCompiler(emulator_folder)))
        with offered(gpu, TENSOR_CORES):
            check("conv2d_grad", given, "x_grad weight_grad bias_grad", "float16")
    finally:
        replace_toolchain(tools)
    assert gpu.count("cudnn_plans") == before + 2


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (0, "engine 0 is less exact than asked for, or not deterministic"),
        (1, "engine 1 is less exact"),
        (2, "engine 2 is less exact"),
        (3, "making a plan failed with .*this engine has no plan"),
        (4, "engine 4 wants 1099511627776 bytes of workspace, more than 1073741824"),
        (5, "engine 5 is less exact"),
    ],
)
def test_the_opwright_kernel_is_used_if_cudnn_has_no_suitable_engine(
    gpu: Any, engine: int, reason: str
) -> None:
    n = 10 + engine  # number of filters, which no earlier graph has
    with offered(gpu, engine):
        compiled, network = convolving(filters=n)
        assert dict(network.placement().kernels) == {"cuda/native": 1}
        (out,) = compiled(**feeds(filters=n))
        np.testing.assert_array_equal(out, np.full((2, n, 6, 6), 27))
        with pytest.raises(KernelNotFoundError, match=f"cudnn .*refused: .*no engine.*{reason}"):
            convolving({"conv2d": "cudnn"}, filters=n)


@pytest.mark.cuda_kernels
def test_fallback_engines_are_tried_last(gpu: Any) -> None:
    with offered(gpu, 0, 7):
        _, network = convolving(filters=20)
    assert dict(network.placement().kernels) == {"cuda/cudnn": 1}


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    ("x", "weight"), [((0, 3, 8, 8), (4, 3, 3, 3)), ((2, 0, 8, 8), (4, 0, 3, 3))], ids=str
)
def test_convolutions_with_empty_sums_return_0(x: Any, weight: Any) -> None:
    given = {"x": whole(x), "weight": whole(weight)}
    (out,) = check("conv2d", given, "out", "float32")
    assert not np.any(out)
    given |= {"bias": whole(weight[:1]), "out_grad": whole(out.shape)}
    check("conv2d_grad", given, "x_grad weight_grad bias_grad", "float32")


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("data_format", FORMATS)
def test_a_convolution_without_channels_returns_the_bias(data_format: str) -> None:
    given = {"x": whole((2, 0, 5, 4), data_format), "weight": whole((3, 0, 2, 2))}
    given["bias"] = np.array([1.0, -2.0, 3.0])
    (out,) = check("conv2d", given, "out", "bfloat16", data_format=data_format)
    assert set(out.reshape(-1)) == {1.0, -2.0, 3.0}


@pytest.mark.cuda_kernels
def test_without_cudnn_the_opwright_kernel_is_used_and_the_placement_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = f"cuDNN cannot be loaded; {INSTALL}"
    monkeypatch.setattr(cudnn, "find_refusal", lambda: reason)
    _, network = convolving()
    placement = network.placement()
    assert dict(placement.kernels) == {"cuda/native": 1}
    assert placement.refusals == {
        "conv2d by cuda/cudnn_tf32": "refused: float32 is not rounded to TF32; "
        "the option cuda.allow_tf32 allows it",
        "conv2d by cuda/cudnn": f"refused: {reason}",
    }
    with pytest.raises(KernelNotFoundError, match=r'pip install "opwright-cuda\[cudnn\]"'):
        convolving({"conv2d": "cudnn"})


def graph_of(dtype: str, x: tuple[int, ...], weight: tuple[int, ...]) -> OperationGraph:
    """Return the graph of a convolution without padding on channels-last images."""
    n, channels, height, width = x
    filters, _, high, wide = weight
    down, across = height - high + 1, width - wide + 1
    graph, here = OperationGraph(dtype), Pointer(0, 0)

    def images(n: int, c: int, h: int, w: int) -> Tensor:
        return Tensor((n, c, h, w), (c * h * w, 1, c * w, c), here)

    strides = (channels * high * wide, high * wide, wide, 1)
    windows = Windows((1, 1), (0, 0), (0, 0), (1, 1))
    graph.add_convolution(
        What.FORWARD,
        images(n, channels, height, width),
        Tensor((filters, channels, high, wide), strides, here),
        images(n, filters, down, across),
        windows,
    )
    return graph


def test_a_record_lists_types_tensors_and_operations_in_order() -> None:
    graph = graph_of("bfloat16", (1, 2, 4, 5), (3, 2, 2, 3))
    head, tensors, operations = [9, 1, 2**30, 1], [], []
    tensors += [3, 0, 0, 1, 2, 4, 5, 40, 1, 10, 2]
    tensors += [0, 8, 3, 2, 2, 3, 12, 6, 3, 1]
    tensors += [0, 16, 1, 3, 3, 3, 27, 1, 9, 3]
    operations += [1, 0, 0, 1, 2, 1, 1, 0, 0, 0, 0, 1, 1]
    assert graph.record([0, 8, 16], EngineChoice()) == head + tensors + operations
    single = graph_of("float32", (1, 2, 4, 5), (3, 2, 2, 3))
    assert single.record([0, 8, 16], EngineChoice())[:2] == [0, 0]
    assert single.record([0, 8, 16], EngineChoice(allows_tf32=True))[:2] == [0, 1]
    assert single.record([0, 8, 16], EngineChoice(allows_varying=True))[:2] == [0, 2]
    assert single.record([0, 8, 16], EngineChoice(tunes=True))[3] == MOST_TRIED


@pytest.mark.cuda_kernels
@pytest.mark.parametrize(
    ("at", "number", "reason"),
    [
        (None, 0, "the record ends in the middle"),
        (5, 2, r"must be in \[0, 2\), got 2"),
        (6, 4, "the offset of a pointer must be a multiple of 8, got 4"),
        (36, 4, r"must be in \[0, 4\), got 4"),
        (37, 3, r"must be in \[0, 3\), got 3"),
        (37, -1, r"must be in \[0, 3\), got -1"),
    ],
)
def test_a_damaged_record_is_refused(at: int | None, number: int, reason: str) -> None:
    graph = graph_of("float32", (1, 2, 4, 5), (3, 2, 2, 3))
    record = graph.record([0, 8, 16], EngineChoice())
    if at is None:
        record.pop()
    else:
        record[at] = number
    with pytest.raises(KernelError, match=reason):
        native.choose_engine(record, "{}")


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("data_format", FORMATS)
def test_the_record_describes_axes_by_strides_and_contains_the_bias_addition(
    data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    operations = LaunchPlan.operations
    monkeypatch.setattr(
        LaunchPlan, "operations", lambda plan, graph: (told.append(graph), operations(plan, graph))
    )
    given = {"x": whole((2, 3, 5, 7), data_format), "weight": whole((4, 3, 2, 3))}
    given["bias"] = whole((4,))
    check("conv2d", given, "out", "float32", data_format=data_format, strides=[2, 3])
    x, weight, sums, bias, out = told[0]._tensors
    last = data_format == "NHWC"
    assert x[:2] == ((2, 3, 5, 7), (105, 1, 21, 3) if last else (105, 35, 7, 1))
    assert weight[:2] == ((4, 3, 2, 3), (18, 6, 3, 1))
    assert bias[:2] == ((1, 4, 1, 1), (4, 1, 4, 4) if last else (4, 1, 1, 1))
    assert out[:2] == ((2, 4, 2, 2), (16, 1, 8, 4) if last else (16, 4, 2, 1))
    assert sums == (*out[:2], None)
