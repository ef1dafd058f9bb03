"""Both halves of a cut program run on a device, and the values passed between them stay there."""

from __future__ import annotations

import numpy as np
import pytest
from test_toy_device import X, device

import opwright as ow
from opwright._runtime import Tensor
from opwright.device.opening import open_device
from opwright.registry import DeviceName

__all__ = ["device"]


def _halves(fallback=None):
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        x = block.create_var("x", [-1], is_data=True)
        c = block.create_var("c", [-1], is_data=True)
        h = ow.ops.add(x, x)
        y = ow.ops.multiply(h, h)
        if fallback:
            h = ow.ops.tanh(h)
        z = ow.ops.multiply(h, c)
    return ow.cut(program, [x], [y], {c: y}, [z], device="toy", fallback=fallback)


@pytest.mark.parametrize("fallback", [None, "cpu"])
def test_both_halves_run_on_the_device(device, fallback):
    (y,), backward = _halves(fallback)(x=X)
    assert isinstance(y, Tensor)
    np.testing.assert_array_equal(y.numpy(), 4 * X * X)
    (z,) = backward(c=X)
    h = np.tanh(2 * X) if fallback else 2 * X
    np.testing.assert_allclose(z.numpy(), h * X, rtol=1e-6)


def test_late_feeds_are_passed_on_the_device_of_the_feeds(device):
    forward = _halves()
    on_device = Tensor.from_numpy(X, open_device(DeviceName("toy"), ow.current_context()))
    _, backward = forward(x=on_device)
    (z,) = backward(c=on_device)
    np.testing.assert_array_equal(z.numpy(), 2 * X * X)
