"""Devices written as C++ classes: their results, and how their failures are reported."""

from __future__ import annotations

import ctypes
import gc
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime, context_guard
from opwright.errors import KernelError, OutOfMemoryError

HOOKS = """
from opwright import plugin

LIBRARY = "opwright_test/devices.so"

@plugin.hookimpl
def opwright_devices(registry):
    for name in ("plain", "queued", "recorded", "shared"):
        registry.add(name, LIBRARY)

@plugin.hookimpl
def opwright_kernels(registry):
    for name in ("plain", "queued", "recorded"):
        registry.add("add", device=name, dtypes=["float32"], kernel=LIBRARY)
    for name in ("plain", "recorded"):
        registry.add("negative", device=name, dtypes=["float32"], kernel=LIBRARY)
"""

X = np.array([1, 2, 3], np.float32)
DOUBLE = ow.Operator("add", x="x", y="x", out="sum")
UPDATE = ow.Operator("add", x="w", y="x", out="w")


class Devices:
    """The devices of `plugins/devices.cc`, installed and discovered."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def let(self, function: str, how: str) -> None:
        """Make a function fail from now on, as `how` describes; "" makes all functions succeed."""
        self._library.set_fault(function.encode(), how.encode())

    def compile(self, device: str, *ops: ow.Operator, scope: ow.Scope | None = None) -> Any:
        network = ow.Network(list(ops or [DOUBLE]))
        last = (ops or [DOUBLE])[-1].outputs["out"][0]
        return network, network.compile(["x"], [last], device=device, scope=scope or ow.Scope())

    def run(self, device: str, *ops: ow.Operator) -> Any:
        return self.compile(device, *ops)[1](x=X)[0]


@pytest.fixture(scope="module")
def library(compiler: Any) -> Path:
    return compiler.build("devices.cc")


@pytest.fixture
def devices(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Devices]:
    package, info = tmp_path / "opwright_test", tmp_path / "opwright_test-1.0.dist-info"
    for folder in (package, info):
        folder.mkdir()
    (package / "plugin.py").write_text(HOOKS)
    shutil.copy(library, package / "devices.so")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: opwright-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opwright.plugins]\ntest = opwright_test.plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Devices(package / "devices.so")
    with context_guard(ow.Context.discover()):
        yield made
        made.let("", "")
    for name in [name for name in sys.modules if name.partition(".")[0] == "opwright_test"]:
        del sys.modules[name]


# -- behavior --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["plain", "queued", "recorded"])
def test_a_plan_runs_on_the_device_without_python(devices, device):
    network, call = devices.compile(device, DOUBLE, ow.Operator("add", x="sum", y="x", out="out"))
    for x in (X, -X, 7 * X, X - 1):
        np.testing.assert_array_equal(call(x=x)[0], 3 * x)
    placement = network.placement()
    assert placement.kernels == {f"{device}/test": 2}
    assert placement.python_steps == 0


@pytest.mark.parametrize(
    ("device", "refusal"),
    [
        ("plain", "device plain records no graphs"),
        ("queued", "device queued records no graphs"),
        ("recorded", ""),
    ],
)
def test_only_a_device_with_graph_support_records_a_graph(devices, device, refusal):
    network, call = devices.compile(device)
    for _ in range(3):
        np.testing.assert_array_equal(call(x=X)[0], 2 * X)
    assert network.placement().graph_refusal == refusal


def test_the_reason_names_a_kernel_that_is_not_capturable(devices):
    network, call = devices.compile("recorded", ow.Operator("negative", x="x", out="out"))
    for _ in range(3):
        np.testing.assert_array_equal(call(x=X)[0], -X)
    reason = "negative[recorded]: its kernel is not capturable"
    assert network.placement().graph_refusal == reason


def test_constructors_receive_the_device_number_and_kernels_receive_the_device(devices):
    negative = ow.Operator("negative", x="x", out="out")
    np.testing.assert_array_equal(devices.run("plain", negative), -X)
    np.testing.assert_array_equal(devices.run("plain:1", negative), -X - 100)
    with pytest.raises(KernelError, match=r"plain:2: .* must be in \[0, 2\), got 2"):
        devices.run("plain:2", negative)


def test_a_fetch_stays_on_the_device_and_can_be_copied(devices):
    network = ow.Network([UPDATE])
    scope = ow.Scope()
    scope.var("w").set(X)
    call = network.compile(["x"], ["w"], device="queued", scope=scope, fetch_device=True)
    kept = [call(x=X)[0] for _ in range(3)]
    assert {tensor.device for tensor in kept} == {"queued"}
    for factor, tensor in enumerate(kept, start=2):
        np.testing.assert_array_equal(tensor.numpy(), factor * X)


@pytest.mark.parametrize("device", ["plain", "queued", "recorded"])
def test_two_threads_run_two_scopes(devices, device):
    scopes = [ow.Scope(), ow.Scope()]

    def train(call: Any) -> None:
        for _ in range(200):
            call(x=X)

    threads = []
    for scope in scopes:
        scope.var("w").set(0 * X)
        call = devices.compile(device, UPDATE, scope=scope)[1]
        threads.append(threading.Thread(target=train, args=(call,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for scope in scopes:
        np.testing.assert_array_equal(scope.find_var("w").numpy(), 200 * X)


# -- failures --------------------------------------------------------------------------------------

TORN = "the rope is torn"
SILENT = "throws what says nothing"


@pytest.mark.parametrize(
    ("device", "function", "how", "error", "text"),
    [
        ("plain", "Count", "fails", KernelError,
         "plain: counting the devices failed with status 1: the rope is torn in Count"),
        ("plain", "open", "fails", KernelError,
         "plain: opening the device failed with status 1: the rope is torn in open"),
        ("plain", "open", "throws bad_alloc", OutOfMemoryError,
         "plain: opening the device failed with status 3: out of memory"),
        ("plain", "open", "throws 42", KernelError, "status 1: threw no std::exception"),
        ("plain", "Allocate", "is full", OutOfMemoryError,
         r"not allocate memory, got a request for \d+ bytes \(the hold has 7 bytes left\); make"),
        ("plain", "Allocate", "throws bad_alloc", OutOfMemoryError,
         r"got a request for \d+ bytes \(out of memory\); make the batch smaller"),
        ("plain", "Allocate", "throws", KernelError, r"request for \d+ bytes \(the rope is torn"),
        ("plain", "Allocate", "throws 42", KernelError, r"\(threw no std::exception\)"),
        ("plain", "Allocate", SILENT, KernelError, r"got a request for \d+ bytes$"),
        ("plain", "Allocate", "forgets", OutOfMemoryError, r"request for \d+ bytes; make the"),
        ("plain", "CopyFromHost", "throws", KernelError, TORN),
        ("plain", "CopyFromHost", "throws 42", KernelError, "threw no std::exception"),
        ("plain", "CopyToHost", "throws bad_alloc", OutOfMemoryError, "out of memory"),
        ("plain", "Synchronize", "throws", KernelError, TORN),
        ("plain", "Run", "throws 42", KernelError, r"add\[plain\]: .* threw no std::exception"),
        ("queued", "CreateStream", "throws", KernelError,
         "queued: making the device's stream failed with status 1: the rope is torn"),
        ("queued", "CreateStream", "forgets", KernelError,
         "status 1: CreateStream must set its result, got NULL"),
        ("queued", "CopyFromHost", "throws", KernelError, TORN),
        ("queued", "CopyToHost", "fails", KernelError, "the rope is torn in CopyToHost"),
        ("queued", "SynchronizeStream", "throws", KernelError, TORN),
        ("queued", "Run", "throws bad_alloc", OutOfMemoryError, r"add\[queued\]: .* out of memory"),
    ],
)  # fmt: skip
def test_a_failure_is_reported_and_the_call_can_be_repeated(
    devices, device, function, how, error, text
):
    devices.let(function, how)
    for _ in range(2):
        with pytest.raises(error, match=text):
            devices.run(device)
    devices.let("", "")
    np.testing.assert_array_equal(devices.run(device), 2 * X)


@pytest.mark.parametrize(
    ("function", "how", "reason"),
    [
        ("BeginCapture", "throws", TORN),
        ("EndCapture", "throws 42", "threw no std::exception"),
        ("EndCapture", "forgets", "EndCapture must set its result, got NULL"),
        ("CreateStream", "throws bad_alloc", "out of memory"),
    ],
)
def test_a_failed_recording_is_reported_and_does_not_change_results(devices, function, how, reason):
    scope = ow.Scope()
    scope.var("w").set(0 * X)
    network, call = devices.compile("recorded", UPDATE, scope=scope)
    call(x=X)
    devices.let(function, how)
    for turn in (2, 3, 4):
        np.testing.assert_array_equal(call(x=X)[0], turn * X)
    assert network.placement().graph_refusal == reason


def test_a_replay_that_throws_raises_an_error_for_the_plan(devices):
    call = devices.compile("recorded")[1]
    for _ in range(2):
        call(x=X)
    devices.let("Replay", "throws")
    with pytest.raises(KernelError, match="^plan: .*the rope is torn"):
        call(x=X)
    devices.let("", "")
    np.testing.assert_array_equal(call(x=2 * X)[0], 4 * X)


def test_a_free_that_throws_is_logged(devices, capfd):
    call = devices.compile("plain")[1]
    call(x=X)
    devices.let("Free", "fails")
    del call
    gc.collect()
    _runtime.free_retired()
    logged = "opwright: error: test: Free of a device must not fail, got: stuck"
    assert logged in capfd.readouterr().err.splitlines()
