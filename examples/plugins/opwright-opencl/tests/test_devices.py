"""Tests device numbers, and the errors if a device, OpenCL or enough memory is missing."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import DeviceNotFoundError, OutOfMemoryError

ADD = """
import sys
import numpy as np, opwright as ow

network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])

def add(device):
    call = network.compile(["x"], ["out"], device=device, scope=ow.Scope(), fetch_device=True)
    (out,) = call(x=np.ones(3, np.float32))
    return f"{out.device} {out.numpy()}"
"""

ATTEMPT = f"""{ADD}
try:
    add("opencl")
except ow.errors.DeviceNotFoundError as error:
    print(error)
"""


def test_the_error_for_an_unknown_device_number_lists_the_devices():
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    text = r"opencl:99: the number of a device must be in \[0, \d+\), got 99; devices are opencl:0 "
    with pytest.raises(DeviceNotFoundError, match=text):
        network.compile(["x"], ["out"], device="opencl:99", scope=ow.Scope())


def test_each_device_of_a_machine_has_a_number(in_process):
    environment = {"POCL_DEVICES": "basic basic"}  # many PoCL releases then report two devices
    listing = "from opwright_opencl import platforms; print(len(platforms.list_devices()))"
    if int(in_process(listing, **environment)) < 2:
        pytest.skip("a second device is required, or a PoCL that reports two")
    got = in_process(f"{ADD}\nprint(add('opencl'), add('opencl:1'))", **environment)
    assert got == "opencl [2. 2. 2.] opencl:1 [2. 2. 2.]\n"


def test_without_pyopencl_the_package_is_listed_with_the_command_that_installs_it(in_process):
    code = f"import sys; sys.modules['pyopencl'] = None\n{ATTEMPT}\nprint(ow.explain('add'))"
    got = in_process(code)
    assert got.startswith("opencl: pyopencl must be importable, got ModuleNotFoundError")
    assert 'pip install "pyopencl[pocl]"' in got
    assert "opwright-opencl" in got


def test_a_forked_child_gets_an_error_instead_of_waiting_forever(in_process):
    code = f"""{ADD}
add("opencl")
if os.fork() == 0:
    try:
        add("opencl")
    except ow.errors.OpwrightError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    text = "opencl: a device must be used in the process that opened it, got a child of fork"
    assert text in in_process(f"import os, warnings; warnings.simplefilter('ignore')\n{code}")


def test_an_allocation_above_the_limit_of_the_device_raises_a_one_line_error():
    network = ow.Network([ow.Operator("fill", out="out", shape=[1 << 44])])
    call = network.compile([], ["out"], device="opencl", scope=ow.Scope())
    text = r"device opencl could not allocate .* \(.* gives at most \d+ bytes at once.*\); make"
    with pytest.raises(OutOfMemoryError, match=text) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_an_allocation_beyond_the_memory_of_a_device_fails(device, monkeypatch):
    monkeypatch.setattr(device, "_memory_bytes", 1 << 20)
    handle = device.allocate(1 << 19)
    with pytest.raises(
        MemoryError, match=r"has 1048576 bytes, \d+ of them in use, got a request for"
    ):
        device.allocate(1 << 20)
    device.free(handle)


def test_buffers_are_released(device):
    before = len(device._buffers)
    network = ow.Network([ow.Operator("add", x="x", y="x", out="out")])
    call = network.compile(["x"], ["out"], device="opencl", scope=ow.Scope(), passes=[])
    np.testing.assert_array_equal(call(x=np.ones(5, np.float32))[0], 2)
    assert len(device._buffers) > before
    del call, network
    ow.ops.add(1.0, 1.0)  # any call frees objects that are no longer used
    assert len(device._buffers) == before
