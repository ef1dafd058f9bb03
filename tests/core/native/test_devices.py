"""Devices written in Python, with addresses or with opaque handles."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest
from plan_maker import PlanMaker, StepError, compiled, f32

from opwright import _runtime as rt
from opwright.errors import KernelError, OutOfMemoryError, ProgramError, ShapeError
from opwright.op import dtype_to_code


class Handles:
    """A device whose opaque handles are dictionary keys."""

    name = "fake"
    dlpack_code = 12
    addressable = False

    def __init__(self, limit=1 << 20):
        self.blocks, self.next, self.limit, self.log = {}, 1, limit, []

    def allocate(self, size):
        if size > self.limit:
            raise MemoryError(f"at most {self.limit} bytes")
        self.next += 1
        self.blocks[self.next] = np.zeros(size, "uint8")
        return self.next

    def free(self, handle):
        del self.blocks[handle]

    def _bytes(self, place, is_host, size):
        if is_host:
            return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place))
        return self.blocks[place][:size]

    def copy(self, dst, dst_is_host, src, src_is_host, size):
        self.log.append(("copy", dst_is_host, src_is_host, size))
        self._bytes(dst, dst_is_host, size)[:] = self._bytes(src, src_is_host, size)

    def synchronize(self):
        self.log.append(("synchronize",))

    def view(self, handle, shape, dtype):
        block = self.blocks[handle]
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return block[:size].view(dtype).reshape(shape)


class Addresses(Handles):
    """A device with real addresses, to which a plan can add offsets."""

    name = "flat"
    addressable = True

    def allocate(self, size):
        block = np.zeros(size + 64, "uint8")
        address = -(-block.ctypes.data // 64) * 64
        self.blocks[address] = block
        return address

    def _bytes(self, place, is_host, size):
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place))

    def view(self, handle, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self._bytes(handle, True, size).view(dtype).reshape(shape)


F32 = dtype_to_code("float32")


def place(make, shape, number):
    """Create value `number` of a device plan; each value has at most 16 bytes."""
    index = number * 64 if make.device.addressable else number
    return make.builder.value(F32, shape, rt.ARENA, index)


def device_plan(device, kernel=None):
    make = PlanMaker("on device", device)
    host = rt.host_device()
    feed = make.builder.value(
        F32, (4,), rt.EXTERNAL, make.builder.external(rt.FEED, "x"), device=host
    )
    out = make.builder.value(
        F32, (4,), rt.EXTERNAL, make.builder.external(rt.FETCH, "out"), device=host
    )
    w = make.persistable("w")
    if device.addressable:
        make.builder.arena_bytes = 128
    else:
        make.builder.buffers((16, 16))
    a, b = place(make, (4,), 0), place(make, (4,), 1)
    make.builder.copy(feed, a)
    make.python(kernel or (lambda x, w, out: np.multiply(x, w, out=out)), [a, w], [b])
    make.builder.copy(b, out)
    make.builder.fetch(out)
    make.builder.fetch(b)
    return make.build()


@pytest.fixture(params=[Handles, Addresses])
def memory(request):
    return request.param()


def test_a_plan_runs_on_a_device_and_its_memory_is_released(memory):
    device = rt.make_python_device(memory)
    assert (device.name, device.dlpack_code, device.is_host) == (memory.name, 12, False)
    assert device.addressable is memory.addressable
    scope = rt.Scope()
    scope.var("w").set(f32(2, 2, 2, 2), device)
    assert scope.var("w").device == memory.name
    np.testing.assert_array_equal(scope.var("w").numpy(), 2)
    call = compiled(device_plan(device), "x", scope=scope)
    for i in range(3):
        out, copied = call(x=np.full(4, i, "f"))
        np.testing.assert_array_equal(out, 2 * i)
        np.testing.assert_array_equal(copied, 2 * i)
    call.fetch_device = True
    tensor = call(x=f32(1, 2, 3, 4))[1]
    assert tensor.device == memory.name
    assert tensor.data_ptr in memory.blocks
    np.testing.assert_array_equal(np.asarray(tensor), [2, 4, 6, 8])
    del call, scope, tensor
    gc.collect()
    rt.free_retired()
    assert memory.blocks == {}


def test_a_copy_to_the_host_waits_for_the_device(memory):
    device = rt.make_python_device(memory)
    scope = rt.Scope()
    scope.var("w").set(f32(1, 1, 1, 1), device)
    call = compiled(device_plan(device), "x", scope=scope)
    memory.log.clear()
    call(x=f32(1, 2, 3, 4))
    assert memory.log[:3] == [
        ("copy", False, True, 16),
        ("copy", True, False, 16),
        ("synchronize",),
    ]


def test_a_plan_reads_a_replaced_variable_on_a_device(memory):
    device = rt.make_python_device(memory)
    scope = rt.Scope()
    scope.var("w").set(f32(1, 1, 1, 1), device)
    call = compiled(device_plan(device), "x", scope=scope)
    call(x=f32(1, 1, 1, 1))
    scope.erase("w")
    scope.var("w").set(f32(7, 7, 7, 7), device)
    np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], 7)
    scope.var("w").set(f32(7, 7, 7, 7), rt.host_device())
    with pytest.raises(ShapeError, match=f"w: .* on {memory.name}, got float32.* on cpu"):
        call(x=f32(1, 1, 1, 1))


def test_a_kernel_that_fails_on_a_device_is_reported(memory):
    device = rt.make_python_device(memory)
    scope = rt.Scope()
    scope.var("w").set(f32(1, 1, 1, 1), device)

    def kernel(x, w, out):
        raise ArithmeticError("broken")

    call = compiled(device_plan(device, kernel), "x", scope=scope)
    with pytest.raises(StepError, match="operator 0: broken"):
        call(x=f32(1, 2, 3, 4))


def test_a_device_out_of_memory_reports_the_requested_size():
    device = rt.make_python_device(Handles(limit=8))
    text = r"device fake .* got a request for 16 bytes \(at most 8 bytes\); make the batch smaller"
    with pytest.raises(OutOfMemoryError, match=text):
        rt.Tensor.from_numpy(f32(1, 2, 3, 4), device)


def test_an_allocation_that_fails_for_another_reason_is_not_reported_as_out_of_memory():
    memory = Handles()
    memory.allocate = lambda size: 1 / 0
    with pytest.raises(KernelError, match=r"16 bytes \(ZeroDivisionError: division by zero\)$"):
        rt.Tensor.from_numpy(f32(1, 2, 3, 4), rt.make_python_device(memory))


def test_device_errors_are_raised_with_the_device_name():
    memory = Handles()
    device = rt.make_python_device(memory)
    tensor = rt.Tensor.from_numpy(f32(1), device)
    memory.copy = lambda *args: 1 / 0
    with pytest.raises(
        KernelError,
        match=r"fake: a copy to the host failed .*: ZeroDivisionError: division by zero$",
    ):
        tensor.numpy()


def test_a_condition_can_be_on_a_device(memory):
    device = rt.make_python_device(memory)
    children = []
    for sign in (1, -1):
        child = PlanMaker("child", device)
        child.python(lambda out, sign=sign: out.fill(sign), [], [child.captured("out", (4,))])
        children.append(child.build())
    make = PlanMaker("branch", device)
    if device.addressable:
        make.builder.arena_bytes = 128
    else:
        make.builder.buffers((16, 16))
    out = place(make, (4,), 0)
    flag = make.builder.value(
        dtype_to_code("bool"), (1,), rt.ARENA, 64 if device.addressable else 1
    )
    answers = [True, False]
    make.python(lambda out: out.fill(answers.pop(0)), [], [flag])
    make.builder.branch(flag, ((children[0], ((out, 0),)), (children[1], ((out, 0),))))
    make.builder.fetch(out)
    call = compiled(make.build())
    assert [call()[0][0] for _ in range(2)] == [1, -1]


def test_dynamic_outputs_stay_on_the_device(memory):
    device = rt.make_python_device(memory)
    make = PlanMaker("dynamic", device)
    out = make.dynamic((-1,))

    def kernel(out):
        out.resize((3,))[:] = 5

    make.python(kernel, [], [out])
    make.builder.fetch(out)
    call = compiled(make.build())
    for _ in range(2):
        np.testing.assert_array_equal(call()[0], [5, 5, 5])


@pytest.mark.parametrize("missing", ["allocate", "free", "copy", "synchronize", "view"])
def test_a_device_that_lacks_a_method_is_refused(missing):
    class Half:
        name, dlpack_code, addressable = "half", 12, True

        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            return lambda *args: None

    with pytest.raises(ProgramError, match=f"needs the method {missing}, got"):
        rt.make_python_device(Half())


def test_arenas_and_buffers_are_refused_for_the_wrong_kind_of_device():
    builder = rt.PlanBuilder(rt.make_python_device(Handles()), "p")
    with pytest.raises(ProgramError, match="fake has no arena; give it buffers"):
        builder.arena(64)
    with pytest.raises(ProgramError, match="has one arena; give it no buffers"):
        builder.buffers([64], rt.host_device())
    builder.buffers([16])
    builder.value(F32, (4,), rt.ARENA, 1)
    with pytest.raises(ProgramError, match="must be in the memory of fake, got 16 bytes at 1"):
        builder.build(None)
    make = PlanMaker("p", rt.make_python_device(Handles()))
    make.feed("x")
    with pytest.raises(ProgramError, match="a step must mark that feeds on a device are read"):
        make.build()
    make = PlanMaker("p", rt.make_python_device(Handles()))
    external = make.builder.external(rt.FETCH, "out")
    make.builder.fetch(make.builder.value(F32, (4,), rt.EXTERNAL, external))
    with pytest.raises(ProgramError, match="fetch buffers must be on the host, got 'out'"):
        make.build()


def test_a_direct_copy_between_two_devices_is_refused():
    make = PlanMaker("p", rt.make_python_device(Addresses()))
    other = rt.make_python_device(Addresses())
    a = make.builder.value(F32, (4,), rt.ARENA, 0)
    b = make.builder.value(F32, (4,), rt.ARENA, 0, device=other)
    with pytest.raises(ProgramError, match="must go through the host, got flat and flat"):
        make.builder.copy(a, b)
