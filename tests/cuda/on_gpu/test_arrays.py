"""CuPy and PyTorch arrays are passed in and out without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plans import compiled

import opwright as ow
from opwright.errors import FeedError, SlotError
from opwright.plugin import Package

pytestmark = pytest.mark.cuda

X = np.arange(-3, 5, dtype=np.float32)
DOUBLE = (ow.Operator("add", x="x", y="x", out="out"),)


@pytest.fixture
def cupy() -> Any:
    """Import CuPy, or skip the test; ml_dtypes must be installed for bfloat16."""
    pytest.importorskip("ml_dtypes")
    return pytest.importorskip("cupy")


@pytest.fixture
def torch() -> Any:
    """Return PyTorch if it can use a GPU; skip the test otherwise."""
    pytest.importorskip("torch")
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return found


def test_cupy_arrays_are_accepted_as_feeds_and_share_one_graph(cupy: Any) -> None:
    network, call = compiled(DOUBLE, ["x"], ["out"])
    for turn in range(6):
        x = cupy.asarray(turn * X)
        np.testing.assert_array_equal(call(x=x)[0], 2 * turn * X)
    assert len(call.plans) == 1
    assert network.placement().graph_refusal == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool"])
def test_cupy_arrays_keep_their_dtype(cupy: Any, dtype: str) -> None:
    import ml_dtypes

    numpy_dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = (X > 0).astype(numpy_dtype)
    op = ow.Operator("where", condition="c", x="x", y="x", out="out")
    _, call = compiled([op], ["c", "x"], ["out"], fetch_device=True)
    (out,) = call(c=cupy.asarray(X > 1), x=cupy.asarray(x))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.numpy().view(np.uint8), x.view(np.uint8))


def test_results_stay_on_the_gpu_and_are_viewed_without_a_copy(cupy: Any, torch: Any) -> None:
    _, call = compiled(DOUBLE, ["x"], ["out"], fetch_device=True)
    (out,) = call(x=X)
    assert out.__dlpack_device__() == (2, 0)
    by_cupy = cupy.from_dlpack(out)
    by_torch = torch.from_dlpack(out)
    assert by_cupy.data.ptr == by_torch.data_ptr() == out.data_ptr
    np.testing.assert_array_equal(by_cupy.get(), 2 * X)
    np.testing.assert_array_equal(by_torch.cpu().numpy(), 2 * X)
    (again,) = call(x=by_cupy)
    (third,) = call(x=again)
    np.testing.assert_array_equal(third.numpy(), 8 * X)


def test_torch_tensors_can_be_fed(torch: Any) -> None:
    _, call = compiled(DOUBLE, ["x"], ["out"])
    x = torch.from_numpy(X).cuda()
    for turn in range(4):
        np.testing.assert_array_equal(call(x=turn * x)[0], 2 * turn * X)


def test_the_opwright_stream_waits_for_the_stream_that_computes_a_feed(cupy: Any) -> None:
    _, call = compiled(DOUBLE, ["x"], ["out"])
    n = 2**22
    call(x=cupy.ones(n, np.float32))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for turn in range(1, 6):
            big = cupy.ones((3000, 3000), np.float32)
            for _ in range(5):
                big = big @ big / 3000
            x = cupy.full(n, turn, np.float32) * big[0, 0]
            (out,) = call(x=x)
            # Once the call has returned, the owner may overwrite the array.
            x[:] = -1
            np.testing.assert_allclose(out[[0, -1]], 2 * turn, rtol=1e-4)


class Placed:
    """A CuPy array that exposes only ``__cuda_array_interface__``."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__cuda_array_interface__  # type: ignore[no-any-return]


def test_arrays_with_only_the_cuda_array_interface_are_exchanged(cupy: Any, torch: Any) -> None:
    network, call = compiled(DOUBLE, ["x"], ["out"], fetch_device=True)
    for turn in range(1, 5):
        (out,) = call(x=Placed(cupy.asarray(turn * X)))
        by_cupy, by_torch = cupy.asarray(out), torch.as_tensor(out, device="cuda")
        assert by_cupy.data.ptr == by_torch.data_ptr() == out.data_ptr
        np.testing.assert_array_equal(by_cupy.get(), 2 * turn * X)
        np.testing.assert_array_equal(by_torch.cpu().numpy(), 2 * turn * X)
    assert len(call.plans) == 1
    assert network.placement().graph_refusal == ""
    np.testing.assert_array_equal(ow.ops.negative(Placed(cupy.asarray(X))).numpy(), -X)
    with pytest.raises(FeedError, match="must be contiguous"):
        call(x=Placed(cupy.asarray(X)[::2]))


def test_the_opwright_stream_waits_for_the_stream_in_the_interface(cupy: Any) -> None:
    _, call = compiled(DOUBLE, ["x"], ["out"])
    call(x=Placed(cupy.ones(2**22, np.float32)))
    streams = [cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null, cupy.cuda.Stream.ptds]
    for stream in streams:
        with stream:
            big = cupy.ones((3000, 3000), np.float32)
            for _ in range(5):
                big = big @ big / 3000
            x = cupy.full(2**22, 3, np.float32) * big[0, 0]
            np.testing.assert_allclose(call(x=Placed(x))[0][[0, -1]], 6, rtol=1e-4)


def test_the_error_for_a_non_contiguous_array_suggests_a_remedy(cupy: Any) -> None:
    _, call = compiled(DOUBLE, ["x"], ["out"])
    with pytest.raises(FeedError, match="contiguous"):
        call(x=cupy.asarray(X)[::2])


def test_operators_called_on_cupy_arrays_return_cupy_arrays(cupy: Any) -> None:
    x = cupy.asarray(X)
    out = ow.ops.add(ow.ops.exp(x), 1.0)
    assert type(out) is cupy.ndarray
    np.testing.assert_allclose(out.get(), np.exp(X) + 1, rtol=1e-6)
    with pytest.raises(SlotError, match="ndarray on the host"):
        ow.ops.add(x, X)


def test_operators_called_on_torch_tensors_return_torch_tensors(torch: Any) -> None:
    x = torch.from_numpy(X).cuda()
    out = ow.ops.multiply(x, x)
    assert type(out) is torch.Tensor
    assert out.is_cuda
    np.testing.assert_array_equal(out.cpu().numpy(), X * X)


def test_a_variable_is_set_from_an_array_on_the_gpu(cupy: Any) -> None:
    scope = ow.Scope()
    scope.var("w").set(X)
    network, call = compiled([ow.Operator("add", x="w", y="x", out="w")], ["x"], ["w"], scope)
    call(x=X)
    scope.var("w").set(cupy.asarray(10 * X))
    np.testing.assert_array_equal(call(x=X)[0], 11 * X)
    assert cupy.from_dlpack(scope.find_var("w")).data.ptr == scope.find_var("w").tensor().data_ptr
    assert network.placement().graph_refusal == ""


def test_a_kernel_written_with_cupy_runs_on_the_opwright_stream(cupy: Any) -> None:
    streams = []

    def relu(x: Any, out: Any) -> None:
        streams.append(cupy.cuda.get_current_stream().ptr)
        cupy.maximum(x, 0, out=out)

    context = ow.Context.discover()
    context.kernels.add("relu", device="cuda", dtypes=["float32"], kernel=relu, library="mine",
                        package=Package("mine", "mine", "1.0"), priority=99)  # fmt: skip
    ops = [
        ow.Operator("add", x="x", y="x", out="h"),
        ow.Operator("relu", x="h", out="r"),
        ow.Operator("add", x="r", y="x", out="out"),
    ]
    with ow.context_guard(context.with_pins({"relu": "mine"})):
        network, call = compiled(ops, ["x"], ["out"])
        for turn in range(1, 5):
            wanted = np.maximum(2 * turn * X, 0) + turn * X
            np.testing.assert_array_equal(call(x=turn * X)[0], wanted)
    assert network.placement().python_steps == 1
    assert 0 not in streams
    assert len(set(streams)) == 1
