"""Tests with simulated, broken drivers instead of the drivers of the machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from opwright.errors import DeviceNotFoundError
from opwright_opencl import platforms

LOG = """clBuildProgram failed: BUILD_PROGRAM_FAILURE

Build on <pyopencl.Device 'old'>:

error: unknown target CPU 'generic'
Device old failed to build the program"""


@pytest.fixture(scope="session", autouse=True)
def device():
    """Allow these tests to run even without a working device."""


class Error(Exception):
    """An error of the library."""


@pytest.fixture
def machine(monkeypatch):
    """Return a function that simulates devices, each with the responses of its driver."""

    def give(**logs):
        class Program:
            def __init__(self, context, source):
                self._log = context.device.log

            def build(self, *, cache_dir):
                if self._log:
                    raise Error(self._log)

        def make_context(devices):
            return SimpleNamespace(device=devices[0])

        opencl = SimpleNamespace(Error=Error, Program=Program, Context=make_context)
        devices = [SimpleNamespace(name=f" {name} ", log=log) for name, log in logs.items()]
        monkeypatch.setattr(platforms, "load_pyopencl", lambda: opencl)
        monkeypatch.setattr(platforms, "list_devices", lambda: devices)

    return give


def test_a_driver_that_builds_no_kernel_is_skipped(machine):
    machine(old=LOG, good="", other="")
    assert [platforms.get_device(number).name.strip() for number in (0, 1)] == ["good", "other"]


def test_a_skipped_driver_is_listed_with_its_reason(machine):
    machine(good="", old=LOG)
    text = (
        r"^opencl:1: the number of a device must be in \[0, 1\), got 1; devices are opencl:0 "
        r"\(good\); skipped: old cannot build an empty kernel: "
        r"error: unknown target CPU 'generic'$"
    )
    with pytest.raises(DeviceNotFoundError, match=text):
        platforms.get_device(1)


def test_without_a_working_driver_each_reason_is_reported(machine):
    machine(old=LOG, older="out of date")
    text = (
        "^opencl: a driver must build an empty kernel, got only failing drivers: old cannot build "
        "an empty kernel: error: unknown target CPU 'generic'; older cannot build an empty kernel: "
        "out of date; install a newer driver"
    )
    with pytest.raises(DeviceNotFoundError, match=text):
        platforms.get_device(0)


def refuse():
    raise Error("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")


def test_the_error_without_platforms_names_the_package_to_install(monkeypatch):
    """Some loaders report an error, and others return an empty list."""
    for get_platforms, reason in ((refuse, "PLATFORM_NOT_FOUND_KHR"), (list, "an empty list")):
        opencl = SimpleNamespace(Error=Error, get_platforms=get_platforms)
        monkeypatch.setattr(platforms, "load_pyopencl", lambda opencl=opencl: opencl)
        text = rf'must be installed, got none \(.*{reason}\); .* pip install "pyopencl\[pocl\]"$'
        with pytest.raises(DeviceNotFoundError, match=text):
            platforms.list_devices()


def test_the_error_names_a_platform_without_devices(monkeypatch):
    """Platforms can return an empty list or raise an error."""
    for get_devices in (list, refuse):
        platform = SimpleNamespace(name="Portable", get_devices=get_devices)
        opencl = SimpleNamespace(Error=Error, get_platforms=lambda platform=platform: [platform])
        monkeypatch.setattr(platforms, "load_pyopencl", lambda opencl=opencl: opencl)
        with pytest.raises(
            DeviceNotFoundError, match="must have a device, got none from 'Portable'"
        ):
            platforms.list_devices()
