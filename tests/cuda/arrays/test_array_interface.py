"""Arrays with only ``__cuda_array_interface__`` are accepted, and tensors provide it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright._runtime import Tensor
from opwright.device import get_device
from opwright.errors import FeedError
from opwright.op import FLOAT_DTYPES, dtype_to_numpy

pytestmark = pytest.mark.cuda_kernels

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


class Placed:
    """A minimal third-party array; keyword arguments replace entries of its interface."""

    def __init__(
        self, array: Any, device: str = "cuda", *, read_only: bool = False, **changed: Any
    ) -> None:
        array = np.asarray(array)
        self.memory = Tensor.from_numpy(array, get_device(device, ow.current_context()))
        self.shape = array.shape
        self.description = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.memory.data_ptr, read_only),
            "version": 3,
            **changed,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.description


def double(device: str = "cuda", **options: Any) -> tuple[ow.Network, Any]:
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    scope = ow.Scope()
    return network, network.compile(["x"], ["out"], device=device, scope=scope, **options)


def test_feeds_with_the_interface_share_one_graph() -> None:
    network, call = double()
    for turn in range(4):
        np.testing.assert_array_equal(call(x=Placed(turn * X))[0], 2 * turn * X)
    assert len(call.plans) == 1
    assert network.placement().graph_refusal == ""


def test_operators_and_variables_accept_arrays_with_the_interface() -> None:
    x = Placed(X)
    out = ow.ops.add(ow.ops.multiply(x, x), 1.0)
    assert type(out) is Tensor
    np.testing.assert_array_equal(out.numpy(), X * X + 1)
    scope = ow.Scope()
    scope.var("w").set(X, device=out.opened_device)
    scope.var("w").set(Placed(3 * X))
    np.testing.assert_array_equal(scope.var("w").numpy(), 3 * X)


class Slice(Placed):
    """A slice of an array along its first axis; the slice can begin at any address."""

    def __init__(self, array: Any, begin: int) -> None:
        super().__init__(array)
        self.shape = (len(array) - begin, *array.shape[1:])
        place = self.memory.data_ptr + begin * array.nbytes // len(array)
        self.description |= {"shape": self.shape, "data": (place, False)}


@pytest.mark.parametrize("begin", [1, 2, 3, 4, 8])
def test_a_slice_of_an_array_can_begin_at_an_unaligned_address(begin: int) -> None:
    x = np.arange(9001, dtype=np.float32)
    doubled = ow.ops.add(Slice(x, begin), Slice(x, begin))
    np.testing.assert_array_equal(doubled.numpy(), 2 * x[begin:])
    np.testing.assert_array_equal(ow.ops.reshape(Slice(x, begin), shape=[1, -1]), x[None, begin:])
    network, call = double()
    for _ in range(3):
        np.testing.assert_array_equal(call(x=Slice(x, begin))[0], 2 * x[begin:])
    assert network.placement().graph_refusal == ""


def test_unaligned_images_are_pooled_correctly() -> None:
    x = np.arange(6 * 4 * 6 * 4, dtype=np.float32).reshape(-1, 4)
    images = np.concatenate([np.zeros((1, 1), np.float32), x.reshape(-1, 1)])
    given = Slice(images, 1)
    given.description["shape"] = given.shape = (6, 4, 6, 4)
    pooled = ow.ops.max_pool2d(given, kernel=[2, 2], data_format="NHWC")
    right = x.reshape(6, 2, 2, 3, 2, 4).max((2, 4))
    np.testing.assert_array_equal(pooled.numpy(), right)


def test_a_model_accepts_arrays_with_the_interface() -> None:
    model = nn.Model(device="cuda")
    out = model.fc_layer(input="x", size=4)
    model.initialize_parameters(seed=1, x=X)
    np.testing.assert_array_equal(model.predict(out, x=Placed(X)), model.predict(out, x=X))


def test_a_computed_tensor_reports_its_device() -> None:
    _, call = double(fetch_device=True)
    (out,) = call(x=X)
    assert out.__cuda_array_interface__ == {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (out.data_ptr, False),
        "strides": None,
        "version": 3,
        "stream": None,
    }
    np.testing.assert_array_equal(
        call(x=Placed(X, **out.__cuda_array_interface__))[0].numpy(), 4 * X
    )


def test_reading_the_array_interface_waits_for_all_pending_work(gpu: Any) -> None:
    if gpu is None:
        pytest.skip("this test reads memory of the emulator")
    _, call = double(fetch_device=True)
    for turn in range(1, 4):
        (out,) = call(x=turn * X)
        address, _ = out.__cuda_array_interface__["data"]
        there = (ctypes.c_float * X.size).from_address(address)
        np.testing.assert_array_equal(np.reshape(there, X.shape), 2 * turn * X)


@pytest.mark.parametrize("dtype", [*FLOAT_DTYPES, "int8", "uint16", "int64", "bool"])
def test_every_dtype_with_a_type_string_can_be_exchanged(dtype: str) -> None:
    x = (X > 0).astype(dtype_to_numpy(dtype))
    tensor = Tensor.from_numpy(x, get_device("cuda", ow.current_context()))
    assert hasattr(tensor, "__cuda_array_interface__") == (dtype != "bfloat16")
    if dtype == "bfloat16":
        with pytest.raises(AttributeError, match="cannot represent bfloat16; use __dlpack__"):
            _ = tensor.__cuda_array_interface__
        return
    copied = ow.ops.assign(Placed(x, **tensor.__cuda_array_interface__))
    assert copied.dtype == dtype
    np.testing.assert_array_equal(copied.numpy(), x)


@pytest.mark.parametrize(
    "changed",
    [
        {"strides": (12, 4)},
        {"read_only": True},
        {"version": 2},
        {"stream": 1},
        {"stream": 2},
        {"shape": (2, 1, 3), "strides": (12, 0, 4)},
        {"mask": None, "strides": None, "descr": [("", "<f4")]},
    ],
    ids=str,
)
def test_every_valid_description_of_a_contiguous_array_is_accepted(changed: dict[str, Any]) -> None:
    out = double()[1](x=Placed(X, **changed))[0]
    np.testing.assert_array_equal(out.ravel(), 2 * X.ravel())


def test_an_empty_array_has_a_null_pointer() -> None:
    x = Placed(np.zeros((0, 3), np.float32), stream=1)
    assert x.description["data"] == (0, False)
    assert double()[1](x=x)[0].shape == (0, 3)
    empty = double(fetch_device=True)[1](x=x)[0]
    assert empty.__cuda_array_interface__["data"] == (0, False)
    assert ow.ops.negative(x).shape == (0, 3)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"strides": (4, 8)}, r"must be contiguous, got .* with strides \(4, 8\); make it"),
        ({"strides": (24, 4)}, "must be contiguous"),
        ({"strides": (4,)}, "must be contiguous"),
        ({"shape": 6}, r"must conform to version 3, got .*'shape': 6"),
        ({"data": ()}, "must conform to version 3"),
        ({"version": "3"}, "must conform to version 3"),
        ({"mask": Ellipsis}, "must not have a mask, got ellipsis; pass an array with"),
        ({"typestr": "|V2"}, r"must name an opwright dtype .*, got '\|V2'"),
        ({"typestr": ">f4"}, "in native byte order, got '>f4'"),
        ({"typestr": "<c8"}, "must name an opwright dtype .*, got '<c8'"),
        ({"typestr": "what"}, "must name an opwright dtype .*, got 'what'"),
        ({"version": 4}, "is supported up to version 3, got version 4"),
        ({"stream": 0}, "must name a stream by its handle, 1 or 2, got stream 0"),
        ({"data": (0, False)}, "must point to memory of a GPU, got address 0x0"),
    ],
    ids=str,
)
def test_an_unreadable_input_is_refused_with_the_reason(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(FeedError, match=f"^feed 'x': .*{text}"):
        double()[1](x=Placed(X, **changed))


def test_host_memory_is_refused() -> None:
    x = Placed(X, data=(X.ctypes.data, False))
    with pytest.raises(FeedError, match="must point to memory of a GPU, got address 0x[0-9a-f]+"):
        double()[1](x=x)


def test_an_invalid_description_is_reported() -> None:
    x = Placed(X)
    del x.description["data"]
    with pytest.raises(
        FeedError, match="__cuda_array_interface__ must have .*, got none of .'data'"
    ):
        double()[1](x=x)
    x.description = (1, 2)  # type: ignore[assignment]
    with pytest.raises(FeedError, match="negative: x: .* must be a dict, got tuple"):
        ow.ops.negative(x)


def test_feeding_a_network_on_the_host_raises_an_error_that_names_the_device() -> None:
    with pytest.raises(FeedError, match="on the host or on cpu, .* got Placed on cuda; copy it"):
        double("cpu")[1](x=Placed(X))
    with pytest.raises(FeedError, match="w: an array must be on the host .* got Placed on cuda"):
        ow.Scope().var("w").set(Placed(X))


def test_the_address_identifies_the_second_gpu(gpu: Any) -> None:
    if gpu is None:
        pytest.skip("the number of GPUs can be set only in the emulator")
    gpu.set("devices", 2)
    try:
        x = Placed(X, "cuda:1")
        assert ow.ops.negative(x).device == "cuda:1"
        np.testing.assert_array_equal(double("cuda:1")[1](x=x)[0], 2 * X)
        with pytest.raises(FeedError, match="'x': must be on cuda, got Placed on number 1; copy"):
            double()[1](x=x)
    finally:
        gpu.set("devices", 1)


@pytest.fixture
def foreign_stream(gpu: Any) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    """Provide the emulated driver and a stream of a third-party library."""
    if gpu is None:
        pytest.skip("tests/cuda/on_gpu tests streams of CuPy on a GPU")
    driver, stream = ctypes.CDLL(os.environ["OPWRIGHT_CUDA_DRIVER"]), ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    yield driver, stream
    driver.cuStreamDestroy_v2(stream)


def test_the_opwright_stream_waits_for_the_stream_that_computes_an_array(
    foreign_stream: Any,
) -> None:
    driver, stream = foreign_stream
    call = double()[1]
    for turn in range(1, 4):
        x = Placed(np.full_like(X, np.nan), stream=stream.value)
        new = np.ascontiguousarray(turn * X)
        target, size = ctypes.c_uint64(x.memory.data_ptr), ctypes.c_size_t(new.nbytes)
        assert (
            driver.cuMemcpyHtoDAsync_v2(target, ctypes.c_void_p(new.ctypes.data), size, stream) == 0
        )
        np.testing.assert_array_equal(call(x=x)[0], 2 * turn * X)
