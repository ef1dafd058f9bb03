"""Operators called on device arrays run on that device and return the same type of array."""

from __future__ import annotations

import numpy as np
import pytest
import tape_arrays
from tape_arrays import TapeArray
from tape_device import X

import opwright as ow
from opwright.errors import DeviceNotFoundError, FeedError, KernelNotFoundError, SlotError


@pytest.mark.parametrize("number", [0, 1])
def test_an_operator_runs_on_the_device_of_its_arrays(tape, number):
    a, b = TapeArray(X, number), TapeArray(2 * X, number)
    out = ow.ops.multiply(ow.ops.add(a, b), a)
    assert type(out) is TapeArray
    assert out.__dlpack_device__() == (tape_arrays.EXT_DEVICE, number)
    np.testing.assert_array_equal(out.numpy(), 3 * X * X)
    np.testing.assert_array_equal(a.numpy(), X)
    assert tape.count("foreign addresses") == 0


def test_equal_calls_share_a_plan(tape):
    from opwright.ops import add

    for turn in range(1, 5):
        for n in (2, 3):
            x = TapeArray(np.full(n, turn, np.float32))
            np.testing.assert_array_equal(add(x, x).numpy(), 2 * turn)
    assert tape.count("launches") == 8
    assert tape_arrays.n_lent() == 0


def test_arrays_are_read_without_a_copy(tape):
    a = TapeArray(X)
    tape.fail("copy of the host")
    out = ow.ops.negative(a)
    tape.fail("")
    np.testing.assert_array_equal(out.numpy(), -X)
    assert tape.count("copies") == 1  # the result into separate memory


def test_numbers_can_be_mixed_with_an_array_on_a_device(tape):
    a = TapeArray(X)
    for number in (2, 2.0, np.float32(2)):
        np.testing.assert_array_equal(ow.ops.add(a, number).numpy(), X + 2)


def test_the_error_for_mixing_host_and_device_arrays_names_both(tape):
    a = TapeArray(X, 1)
    text = r"add: y: all arrays of a call must be on one device, got ndarray on the host next to x"
    with pytest.raises(SlotError, match=text + r" TapeArray on tape:1; copy one of them"):
        ow.ops.add(a, X)
    with pytest.raises(SlotError, match="add: x: .* got ndarray on the host next to y TapeArray"):
        ow.ops.add(X, a)
    with pytest.raises(SlotError, match="got list on the host"):
        ow.ops.add(a, [1.0, 2.0, 3.0])


def test_the_error_for_arrays_on_two_devices_names_both(tape):
    text = "add: y: .* got TapeArray on tape:1 next to x TapeArray on tape; copy one of them"
    with pytest.raises(SlotError, match=text):
        ow.ops.add(TapeArray(X), TapeArray(X, 1))


def test_an_unprovided_device_is_reported(tape):
    class Elsewhere(TapeArray):
        def __dlpack_device__(self):
            return 7, 0

    with pytest.raises(DeviceNotFoundError, match="add: x: must be on a device .* device type 7"):
        ow.ops.add(Elsewhere(X), Elsewhere(X))


def test_an_operator_without_a_kernel_on_the_device_is_reported(tape):
    with pytest.raises(KernelNotFoundError, match=r"tanh\[tape, float32\]: no kernel"):
        ow.ops.tanh(TapeArray(X))


def test_a_strided_array_is_refused(tape):
    a = TapeArray(np.ones((2, 3), np.float32))
    a.strides = (1, 2)
    with pytest.raises(FeedError, match="negative: x: an array on a device must be contiguous"):
        ow.ops.negative(a)


def test_operators_called_on_tensors_return_tensors(tape):
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    options = {"device": "tape:1", "scope": ow.Scope(), "fetch_device": True}
    (tensor,) = network.compile(["x"], ["out"], **options)(x=X)
    out = ow.ops.add(tensor, tensor)
    assert (type(out), out.device) == (type(tensor), "tape:1")
    np.testing.assert_array_equal(out.numpy(), 4 * X)
