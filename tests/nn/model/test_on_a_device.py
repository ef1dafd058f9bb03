"""A model on a device without kernels runs its operators on the host if the user allows it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import opwright as ow
from opwright import Context
from opwright.errors import AttributeValueError, KernelNotFoundError
from opwright.plugin import Package


class Shelf:
    """A device that has memory, addressed by numbers, but no kernels."""

    name, dlpack_code, addressable = "shelf", 15, False

    def __init__(self):
        self.memory = {}
        self.count = 0

    def allocate(self, size):
        self.count += 1
        self.memory[self.count] = ctypes.create_string_buffer(size)
        return self.count

    def free(self, handle):
        del self.memory[handle]

    def copy(self, dst, dst_is_host, src, src_is_host, size):
        places = ((dst, dst_is_host), (src, src_is_host))
        target, source = (at if host else ctypes.addressof(self.memory[at]) for at, host in places)
        ctypes.memmove(target, source, size)

    def synchronize(self):
        pass

    def view(self, handle, shape, dtype):
        raise AssertionError("no kernel is here")


@pytest.fixture(autouse=True)
def shelf():
    """Make a context with this device current."""
    context = Context.discover()
    context.devices.add("shelf", Shelf(), Package("shelf", "opwright-shelf", "1.0"))
    with ow.context_guard(context):
        yield


def _losses(tiny, **options):
    model, prob = tiny.make(**options)
    model.initialize_parameters(seed=1, img=tiny.images)
    tiny.fill(model)
    losses = [float(model.run(keep=keep)[0]) for keep in (False, False, True)]
    return losses, model.predict(prob, img=tiny.images)


def test_a_model_trains_and_predicts_with_a_fallback_to_the_host(tiny):
    expected, probabilities = _losses(tiny)
    losses, got = _losses(tiny, device="shelf", fallback="cpu")
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    np.testing.assert_allclose(got, probabilities, rtol=1e-5)


def test_without_a_fallback_the_error_names_the_missing_kernel(tiny):
    with pytest.raises(KernelNotFoundError, match=r"\[shelf, float32\]: no kernel registered"):
        _losses(tiny, device="shelf")


def test_a_model_refuses_a_fallback_other_than_the_host(tiny):
    with pytest.raises(AttributeValueError, match=r"Model: fallback must be .*cpu.*got .cuda."):
        tiny.make(device="shelf", fallback="cuda")
