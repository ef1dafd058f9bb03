"""Plans run on a device that a plugin implements in Python, with or without a host fallback."""

from __future__ import annotations

import numpy as np
import pytest
from toy_device import ToyDevice

import opwright as ow
from opwright import Context, _runtime
from opwright.errors import (
    DeviceNotFoundError,
    KernelError,
    KernelNotFoundError,
    LockError,
    PluginError,
    ProgramError,
)
from opwright.packages import Package

TOY = Package("toy", "opwright-toy", "1.0")


def _toy_add(x, y, out):
    np.add(x, y, out=out)


def _toy_multiply(x, y, out):
    np.multiply(x, y, out=out)


@pytest.fixture
def device():
    """The current Context with a toy device that can add and multiply."""
    context = Context.discover()
    toy = ToyDevice()
    context.devices.add("toy", toy, TOY)
    for op_type, kernel in (("add", _toy_add), ("multiply", _toy_multiply)):
        context.kernels.add(
            op_type, device="toy", dtypes=["float32"], kernel=kernel, library="toy", package=TOY
        )
    with ow.context_guard(context):
        yield toy


def _network(*types):
    ops, previous = [], "x"
    for i, op_type in enumerate(types):
        slots = {"x": previous, "out": f"v{i}"}
        if op_type in ("add", "multiply"):
            slots["y"] = "x"
        ops.append(ow.Operator(op_type, **slots))
        previous = f"v{i}"
    return ow.Network(ops), previous


X = np.array([1, 2, 3], np.float32)


def test_a_plan_runs_on_the_device_and_returns_its_results(device):
    network, last = _network("add", "multiply", "add")
    call = network.compile(["x"], [last, "v0"], device="toy", scope=ow.Scope())
    for x in (X, 2 * X):
        out, first = call(x=x)
        np.testing.assert_allclose(out, 2 * x * x + x)
        np.testing.assert_allclose(first, 2 * x)
    assert device.copied_bytes > 0
    assert network.placement().kernels == {"toy/toy": 3}


def test_without_a_kernel_the_error_lists_the_existing_kernels(device):
    network, last = _network("add", "relu")
    call = network.compile(["x"], [last], device="toy", scope=ow.Scope())
    text = r"(?s)relu\[toy, float32\]: no kernel registered.*available: relu\[cpu, .*numpy\)"
    with pytest.raises(KernelNotFoundError, match=text):
        call(x=X)


def test_without_a_kernel_the_error_suggests_the_fallback_if_it_would_help(device):
    network, last = _network("relu")
    advice = 'to run it on the host: give fallback="cpu"'
    with pytest.raises(KernelNotFoundError, match=advice):
        network.compile(["x"], [last], device="toy", scope=ow.Scope())(x=X)
    with pytest.raises(KernelNotFoundError) as raised:  # eager calls have no fallback
        ow.ops.relu(_on_toy(X))
    assert advice not in str(raised.value)


def _on_toy(x):
    network, last = _network("add")
    (tensor,) = network.compile(["x"], [last], device="toy", scope=ow.Scope(), fetch_device=True)(
        x=x
    )
    return tensor


def test_a_fallback_runs_other_operators_on_the_host_and_counts_the_copied_bytes(
    reference_kernels, device
):
    network, last = _network("add", "negative", "relu", "add")
    call = network.compile(["x"], [last], device="toy", scope=ow.Scope(), fallback="cpu")
    np.testing.assert_allclose(call(x=X)[0], X)
    placement = network.placement()
    assert placement.kernels == {"toy/toy": 2, "cpu/numpy": 2}
    assert placement.bytes_moved >= 6 * X.nbytes


def test_the_lock_of_a_device_plan_contains_the_kernels_of_its_fallback(reference_kernels, device):
    network, last = _network("add", "square")
    options = {"device": "toy", "scope": ow.Scope(), "fallback": "cpu"}
    network.compile(["x"], [last], **options)(x=X)
    lock = network.lock()
    assert lock.device == "toy"
    assert [(row.operator, row.device) for row in lock.kernels] == [
        ("add", "toy"),
        ("square", "cpu"),
    ]
    (out,) = network.compile(["x"], [last], **options, lock=lock)(x=X)
    np.testing.assert_allclose(out, 4 * X * X)
    alone = ow.Lock("toy", lock.kernels[:1], lock.passes)
    with pytest.raises(LockError, match=r"square\[toy, float32\]: locked none, found .*numpy of"):
        network.compile(["x"], [last], **options, lock=alone)(x=X)
    with pytest.raises(LockError, match=r"device: locked toy, found cpu"):
        network.compile(["x"], [last], lock=lock)


def test_a_fallback_to_a_device_other_than_the_host_is_refused(device):
    network, last = _network("add", "relu")
    text = r"Network.compile: fallback must be None or 'cpu', got 'cuda'; only the host can"
    with pytest.raises(ProgramError, match=text):
        network.compile(["x"], [last], device="toy", fallback="cuda")
    with pytest.raises(ProgramError, match=r"Network.run: fallback must be .*, got True"):
        network.run(ow.Scope(), device="toy", fallback=True)


def test_persistables_move_to_the_device_and_are_read_back(device):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="x", out="w")])
    call = network.compile(["x"], ["w"], device="toy", scope=scope)
    for turn in (1, 2, 3):
        np.testing.assert_allclose(call(x=X)[0], (turn + 1) * X)
    assert scope.find_var("w").device == "toy"
    np.testing.assert_allclose(scope.find_var("w").numpy(), 4 * X)
    scope.var("w").set(X)
    np.testing.assert_allclose(call(x=X)[0], 2 * X)


def test_run_leaves_its_results_on_the_device(device):
    network, last = _network("add", "multiply")
    scope = ow.Scope()
    scope.var("x").set(X)
    network.run(scope, device="toy")
    assert scope.find_var(last).device == "toy"
    np.testing.assert_allclose(scope.find_var(last).numpy(), 2 * X * X)


def test_fetches_can_stay_on_the_device(device):
    network, last = _network("add")
    call = network.compile(["x"], [last], device="toy", scope=ow.Scope(), fetch_device=True)
    tensor = call(x=X)[0]
    assert (tensor.device, tensor.shape, tensor.dtype) == ("toy", (3,), "float32")
    np.testing.assert_allclose(tensor.numpy(), 2 * X)


def test_a_fetched_tensor_is_fed_again_without_a_copy_through_the_host(device):
    network, last = _network("add")
    call = network.compile(["x"], [last], device="toy", scope=ow.Scope(), fetch_device=True)
    (once,) = call(x=X)
    before = device.copied_bytes
    (twice,) = call(x=once)
    assert device.copied_bytes == before + 2 * X.nbytes  # copied into the plan and into the result
    np.testing.assert_allclose(twice.numpy(), 4 * X)


def test_device_buffers_are_released_with_the_network(device):
    network, last = _network("add", "multiply")
    call = network.compile(["x"], [last], device="toy", scope=ow.Scope())
    call(x=X)
    assert device.buffers
    del call, network
    _runtime.free_retired()
    assert not device.buffers


class Pair:
    """A plugin object that opens two toy devices by number."""

    dlpack_code = ToyDevice.dlpack_code

    def open(self, number):
        if number > 1:
            raise DeviceNotFoundError(
                f"pair: the number must be 0 or 1, got {number}; write 'pair:1'"
            )
        return PairDevice()


class PairDevice(ToyDevice):
    name = "pair"


def _compile_on(name, devices):
    context = Context.discover()
    context.devices.add("pair", devices, Package("pair", "opwright-pair", "1.0"))
    context.kernels.add(
        "add", device="pair", dtypes=["float32"], kernel=_toy_add, library="toy", package=TOY
    )
    network, last = _network("add")
    with ow.context_guard(context):
        return network.compile(["x"], [last], device=name, scope=ow.Scope(), fetch_device=True)


def test_a_plugin_that_opens_devices_by_number_can_provide_several_devices():
    for name in ("pair", "pair:1"):
        (out,) = _compile_on(name, Pair())(x=X)
        assert out.device == name
        np.testing.assert_allclose(out.numpy(), 2 * X)


def test_the_plugin_error_for_an_invalid_device_number_is_raised():
    with pytest.raises(DeviceNotFoundError, match=r"^pair: the number must be 0 or 1, got 2; wr"):
        _compile_on("pair:2", Pair())


def test_the_error_for_a_device_that_fails_to_open_names_the_device_and_its_package():
    class Broken(Pair):
        def open(self, number):
            raise OSError("no driver")

    text = r"^pair:1: could not be opened by opwright-pair 1\.0, got OSError: no driver; "
    with pytest.raises(KernelError, match=text):
        _compile_on("pair:1", Broken())


def test_a_plugin_that_does_not_return_a_device_is_refused():
    class Empty(Pair):
        def open(self, number):
            return object()

    with pytest.raises(PluginError, match="pair: a device must have name.* without 'name'"):
        _compile_on("pair", Empty())


def test_a_profile_distinguishes_copies_and_steps_of_device_and_host(device):
    network, last = _network("add", "relu", "multiply")
    call = network.compile(["x"], [last], device="toy", scope=ow.Scope(), fallback="cpu")
    profile = network.profile({"x": X}, n=2)
    kernels = [(row.op_type, row.device) for row in profile.rows]
    assert [item for item in kernels if item[0] != "copy"] == [
        ("add", "toy"),
        ("relu", "cpu"),
        ("multiply", "toy"),
    ]
    assert sum(op_type == "copy" for op_type, _ in kernels) == network.placement().copies
    assert len(device.buffers) > 0
    np.testing.assert_array_equal(call(x=X)[0], (X + X) * X)


def _branching():
    """Return a network that computes `x + x` or `x * x`, selected by `p`."""
    block = ow.Program().global_block()
    block.create_var("p", [1], "bool")
    block.create_var("x", [3])
    bodies = []
    for op_type in ("add", "multiply"):
        body = block.program.create_block()
        body.append_op(op_type, {"x": "x", "y": "x"}, {"out": "y"})
        block.program.rollback()
        bodies.append(body)
    attrs = {"true_block": bodies[0], "false_block": bodies[1]}
    attrs |= {"true_outputs": ["y"], "false_outputs": ["y"]}
    block.append_op("cond", {"condition": "p"}, {"out": ["out"]}, attrs)
    return ow.Network(block)


@pytest.mark.parametrize("fetch_device", [False, True])
def test_a_branch_runs_on_the_device_wherever_its_result_is_stored(device, fetch_device):
    call = _branching().compile(["p", "x"], ["out"], device="toy", fetch_device=fetch_device)
    for p, expected in ((True, X + X), (False, X * X)):
        (out,) = call(p=np.array([p]), x=X)
        assert isinstance(out, _runtime.Tensor if fetch_device else np.ndarray)
        np.testing.assert_array_equal(np.asarray(out), expected)
