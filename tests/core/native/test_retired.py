"""Destructors never call plugins; objects that a plugin must free are freed in the next call."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
from plan_maker import PlanMaker, compiled, f32

from opwright import _runtime as rt
from opwright.op import dtype_to_code

F32 = dtype_to_code("float32")


class Locking:
    """A device whose functions hold a lock, record calls, and call `inside` on allocation."""

    name = "locking"
    dlpack_code = 12
    addressable = False

    def __init__(self):
        self.lock = threading.Lock()
        self.blocks, self.log = {}, []
        self.inside = lambda: None

    def allocate(self, size):
        with self.lock:
            self.log.append("allocate")
            self.inside()
            handle = 1 + len([each for each in self.log if each == "allocate"])
            self.blocks[handle] = np.zeros(size, "uint8")
            return handle

    def free(self, handle):
        with self.lock:
            self.log.append("free")
            del self.blocks[handle]

    def copy(self, dst, dst_is_host, src, src_is_host, size):
        with self.lock:
            self.log.append("copy")
            target = dst if dst_is_host else self.blocks[dst].ctypes.data
            source = src if src_is_host else self.blocks[src].ctypes.data
            ctypes.memmove(target, source, size)

    def synchronize(self):
        with self.lock:
            self.log.append("synchronize")

    def view(self, handle, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.blocks[handle][:size].view(dtype).reshape(shape)


def put(device):
    """Return a tensor of four elements on a device."""
    return rt.Tensor.from_numpy(f32(1, 2, 3, 4), device)


def drop_circle(held):
    """Move an item of `held` into a reference cycle, and run the garbage collector."""
    circle = [held.pop()]
    circle.append(circle)
    del circle
    gc.collect()


def collect_inside_of_allocate():
    """Collect garbage while a device is locked; a destructor that calls the device would hang."""
    memory = Locking()
    device = rt.make_python_device(memory)
    held = [put(device)]
    memory.inside = lambda: drop_circle(held) if held else None
    kept = put(device)
    np.testing.assert_array_equal(kept.numpy(), f32(1, 2, 3, 4))
    print("returned", memory.log.count("free"))


def run_alone(code):
    """Run Python code in a separate process in the folder of this file; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout


def test_the_garbage_collector_can_run_while_a_device_holds_its_lock():
    code = "import test_retired; test_retired.collect_inside_of_allocate()"
    assert run_alone(code) == "returned 1\n"


def test_a_dropped_tensor_is_freed_before_the_next_allocation():
    memory = Locking()
    device = rt.make_python_device(memory)
    tensor = put(device)
    del tensor
    assert memory.log == ["allocate", "copy"]
    put(device)
    assert memory.log[2:4] == ["free", "allocate"]


def test_copies_and_waits_also_free_retired_objects():
    memory = Locking()
    device = rt.make_python_device(memory)
    kept = put(device)
    for call in (kept.numpy, device.synchronize):
        put(device)
        assert len(memory.blocks) == 2
        call()
        assert len(memory.blocks) == 1


def test_retired_objects_do_not_accumulate():
    memory = Locking()
    device = rt.make_python_device(memory)
    for _ in range(100):
        put(device)
        assert len(memory.blocks) == 1


class Kernel:
    """A kernel in Python with a finalizer."""

    def __init__(self, ended):
        self.ended = ended

    def __call__(self, x, out):
        out[...] = x

    def __del__(self):
        self.ended.append(True)


def host_call(kernel):
    make = PlanMaker()
    make.python(kernel, [make.feed("x")], [make.out("y")])
    return compiled(make.build(), "x")


def test_a_dropped_python_kernel_is_freed_at_the_next_call_of_any_network():
    ended = []
    call, other = host_call(Kernel(ended)), host_call(lambda x, out: None)
    call(x=f32(1, 2, 3, 4))
    del call
    assert ended == []
    other(x=f32(1, 2, 3, 4))
    assert ended == [True]


def test_a_dropped_python_kernel_that_never_ran_is_freed_at_the_next_call():
    function = Kernel([])
    gone = weakref.ref(function)
    prepared = rt.prepare_python(function, [0, 1])
    del prepared, function
    rt.free_retired()
    assert gone() is None


def test_nothing_is_freed_during_a_call_of_a_plugin():
    memory = Locking()
    device = rt.make_python_device(memory)
    tensors = [put(device)]
    found = []

    def kernel(x, out):
        tensors.clear()
        rt.free_retired()
        found.append(len(memory.blocks))

    call = host_call(kernel)
    call(x=f32(1, 2, 3, 4))
    assert found == [1]
    call(x=f32(1, 2, 3, 4))
    assert memory.blocks == {}


END = """
import atexit
import test_retired as t
memory = t.Locking()
device = t.rt.make_python_device(memory)
tensor = t.put(device)
del tensor
atexit._run_exitfuncs()
print(memory.log[-1])
"""


def test_retired_objects_are_freed_when_the_process_exits():
    assert run_alone(END) == "free\n"
