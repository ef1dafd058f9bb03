"""A device written in Python is opened once per process for each device object and number."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings

import numpy as np
import pytest
from toy_device import ToyDevice

import opwright as ow
from opwright import Context, context_guard
from opwright.device import get_device
from opwright.errors import FeedError
from opwright.packages import Package

X = np.array([1, 2, 3], np.float32)


class Pool:
    """Opens toy devices by number, and records each request."""

    dlpack_code = ToyDevice.dlpack_code

    def __init__(self):
        self.opened = []

    def open(self, number):
        self.opened.append(number)
        return ToyDevice()


def _toy_add(x, y, out):
    np.add(x, y, out=out)


def _context(devices, distribution="opwright-toy"):
    """A Context in which a distribution provides the device "toy" and an add kernel for it."""
    context = Context.discover()
    package = Package("toy", distribution, "1.0")
    context.devices.add("toy", devices, package)
    context.kernels.add(
        "add", device="toy", dtypes=["float32"], kernel=_toy_add, library="toy", package=package
    )
    return context


def _double(context, x):
    """Return the tensor x + x, computed on the device."""
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    with context_guard(context):
        call = network.compile(["x"], ["out"], device="toy", scope=ow.Scope(), fetch_device=True)
    return call(x=x)[0]


def test_a_device_is_opened_once_for_all_contexts():
    pool = Pool()
    contexts = [_context(pool), _context(pool)]
    for name in ("toy", "toy:1"):
        assert len({get_device(name, context) for context in contexts}) == 1
    assert pool.opened == [0, 1]
    once = _double(contexts[0], X)
    np.testing.assert_array_equal(_double(contexts[1], once).numpy(), 4 * X)


def test_a_device_is_reopened_only_after_nothing_refers_to_it():
    pool = Pool()
    tensor = _double(_context(pool), X)
    gc.collect()
    assert get_device("toy", _context(pool)) is tensor.opened_device
    assert pool.opened == [0]
    del tensor
    gc.collect()
    get_device("toy", _context(pool))
    assert pool.opened == [0, 0]


def test_concurrent_threads_open_a_device_once():
    class Slow(Pool):
        def open(self, number):
            device = super().open(number)
            is_first = len(self.opened) == 1
            second.set() if not is_first else second.wait(0.2)
            return device

    pool, second = Slow(), threading.Event()
    contexts, found = [_context(pool) for _ in range(4)], []
    threads = [
        threading.Thread(target=lambda c=context: found.append(get_device("toy", c)))
        for context in contexts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.opened == [0]
    assert len(set(found)) == 1
    assert len(found) == 4


def test_a_child_of_a_fork_opens_devices_that_its_parent_was_opening():
    class Stuck(Pool):
        def open(self, number):
            if number == 1:
                is_opening.set()
                goes_on.wait(600)
            return super().open(number)

    is_opening, goes_on = threading.Event(), threading.Event()
    context = _context(Stuck())
    thread = threading.Thread(target=get_device, args=("toy:1", context))
    thread.start()
    is_opening.wait(600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about a fork while other threads run
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(300)  # terminates a child that waits for a thread of the parent
        os._exit(0 if get_device("toy", context).name == "toy" else 1)
    _, status = os.waitpid(child, 0)
    goes_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_opening_a_device_is_retried_after_a_failure():
    class Late(Pool):
        def open(self, number):
            device = super().open(number)
            if len(self.opened) == 1:
                raise OSError("not yet")
            return device

    context = _context(Late())
    with pytest.raises(ow.errors.KernelError, match="toy: could not be opened .* OSError: not yet"):
        get_device("toy", context)
    assert get_device("toy", context).name == "toy"


def test_different_objects_with_the_same_name_are_different_devices():
    first, second = _context(ToyDevice()), _context(ToyDevice(), "opwright-blocks")
    assert get_device("toy", first) is not get_device("toy", second)
    tensor = _double(first, X)
    text = (
        r"or on toy of opwright-blocks 1\.0 \(<toy_device\.ToyDevice .*>\), where the network "
        r"runs, got Tensor on toy of opwright-toy 1\.0 \(<toy_device\.ToyDevice .*; copy it"
    )
    with pytest.raises(FeedError, match=text):
        _double(second, tensor)
    np.testing.assert_array_equal(_double(second, tensor.numpy()).numpy(), 4 * X)


@pytest.mark.parametrize("kind", ["tensor", "variable"])
def test_an_operator_refuses_a_tensor_or_variable_on_another_device(kind):
    first, second = _context(ToyDevice()), _context(ToyDevice(), "opwright-blocks")
    array = _double(first, X)
    if kind == "variable":
        array = ow.Scope().var("w")
        array.set(X, device=get_device("toy", first))
    text = (
        r"add: x: must be on toy of opwright-blocks 1\.0 \(.*\), got a tensor on toy of "
        r"opwright-toy 1\.0 \(.*\); copy it to the host"
    )
    with context_guard(second), pytest.raises(FeedError, match=text):
        ow.ops.add(array, array)
    with context_guard(first):
        np.testing.assert_array_equal(ow.ops.add(array, array).numpy(), 2 * array.numpy())
