"""A device of a compiled library allocates, copies, has one stream, and reports failures."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from tape_device import TABLE, X, make_network

import opwright as ow
from opwright import _runtime
from opwright.errors import KernelError, OutOfMemoryError, PluginError

NO_STREAMS = (
    "device.stream_create = nullptr; device.stream_destroy = nullptr;"
    "device.stream_synchronize = nullptr; device.event_create = nullptr;"
    "device.event_destroy = nullptr; device.event_record = nullptr;"
    "device.event_wait = nullptr; device.event_synchronize = nullptr"
)


def test_a_plan_runs_on_the_device_without_python(tape):
    network, last = make_network("add", "multiply", "add")
    call = network.compile(["x"], [last, "v0"], device="tape", scope=ow.Scope())
    for x in (X, 2 * X, X - 5):
        out, first = call(x=x)
        np.testing.assert_array_equal(out, 2 * x * x + x)
        np.testing.assert_array_equal(first, 2 * x)
    placement = network.placement()
    assert placement.kernels == {"tape/acme": 3}
    assert placement.python_steps == 0


def test_reading_a_variable_waits_for_the_work_on_it(tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="x", out="w")])
    call = network.compile(["x"], [], device="tape", scope=scope)
    for turn in range(1, 6):
        assert call(x=X) == []
        np.testing.assert_array_equal(scope.find_var("w").numpy(), (turn + 1) * X)
    scope.var("w").set(-X)
    call(x=X)
    np.testing.assert_array_equal(scope.find_var("w").numpy(), 0 * X)


def test_fetches_can_stay_on_the_device(tape):
    network, last = make_network("add")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope(), fetch_device=True)
    kept = [call(x=x)[0] for x in (X, 2 * X, 3 * X)]
    assert {(tensor.device, tensor.dtype) for tensor in kept} == {("tape", "float32")}
    for factor, tensor in enumerate(kept, start=1):
        np.testing.assert_array_equal(tensor.numpy(), 2 * factor * X)


def test_all_objects_except_the_stream_of_the_device_are_released(tape):
    network, last = make_network("add", "multiply")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for _ in range(3):
        call(x=X)
    assert (tape.count("allocations") > 0, tape.count("graphs")) == (True, 1)
    del call, network
    gc.collect()
    _runtime.free_retired()
    assert (tape.count("allocations"), tape.count("graphs")) == (0, 0)
    assert tape.count("streams") == 1


def test_two_threads_run_two_scopes(tape):
    network = ow.Network([ow.Operator("add", x="w", y="x", out="w")])
    scopes = [ow.Scope(), ow.Scope()]

    def train(call):
        for _ in range(200):
            call(x=X)

    threads = []
    for scope in scopes:
        scope.var("w").set(0 * X)
        call = network.compile(["x"], ["w"], device="tape", scope=scope)
        threads.append(threading.Thread(target=train, args=(call,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for scope in scopes:
        np.testing.assert_array_equal(scope.find_var("w").numpy(), 200 * X)


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        ("count", KernelError, "tape: counting the devices failed .*: the tape is torn in count"),
        ("none", KernelError, r"must be in \[0, 0\), got 0; there is none on this machine"),
        ("debt", PluginError, r"tape of opwright-acme 1.0 .*devices must be in 0 to 4096, got -3"),
        ("endless", KernelError, "device tape could not allocate memory, .* bytes .\ufffd"),
        ("askew", PluginError, "tape of opwright-acme 1.0 .*: memory must be aligned to 256 bytes"),
        ("open", KernelError, "tape: opening the device failed .*: the tape is torn in open"),
        ("open throws", KernelError, "exception, which plugins must not do: the tape is torn"),
        ("stream_create", KernelError, "tape: making the device's stream failed with status 1"),
        ("allocate", OutOfMemoryError, "device tape could not allocate memory, got a request"),
        ("copy", KernelError, "the tape is torn in copy"),
        ("copy throws", KernelError, "exception, which plugins must not do: the tape is torn"),
        ("synchronize", KernelError, "the tape is torn in synchronize"),
        ("launch", KernelError, r"add\[tape\]: operator 0 failed .* got the tape is full"),
    ],
)
def test_failures_of_the_device_are_reported_and_can_be_retried(tape, fault, error, text):
    network, last = make_network("add")

    def run():
        return network.compile(["x"], [last], device="tape", scope=ow.Scope())(x=X)

    tape.fail(fault)
    for _ in range(2):
        with pytest.raises(error, match=text):
            run()
    tape.fail("")
    np.testing.assert_array_equal(run()[0], 2 * X)


def test_the_error_for_an_unknown_device_of_a_library_lists_its_devices(acme, compiler):
    acme.use(compiler.build("tape.cc"), TABLE.replace('"tape", LIBRARY', '"tapes", LIBRARY'))
    network, last = make_network("add")
    text = "tapes: no device of this name is in library .*libacme.so.*did you mean 'tape'"
    with pytest.raises(PluginError, match=text):
        network.compile(["x"], [last], device="tapes", scope=ow.Scope())(x=X)


def test_doctor_checks_that_the_library_has_the_device(acme, compiler):
    acme.install(compiler.build("tape.cc"), TABLE)
    done = acme.doctor()
    assert done.returncode == 0, done.stdout
    hooks = acme.site / "opwright_acme" / "plugin.py"
    hooks.write_text(TABLE.replace('"tape", LIBRARY', '"tapes", LIBRARY'))
    done = acme.doctor()
    assert done.returncode == 1
    assert "tapes: no device of this name is in library" in done.stdout


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("device.name = nullptr", r"devices\[0\]: name must be a string"),
        ("device.size = 8", r"devices\[0\].size must be in"),
        ("device.copy = nullptr", "tape: a device needs count, .* got NULL"),
        ("device.alignment = 48", "tape: alignment must be a power of two of 64 to 10"),
        ("device.event_wait = nullptr", "streams and events come together .* got 7 of 8"),
        ("device.replay = nullptr", "graph_destroy come together or not at all, got 3 of 4"),
        ("device.free_host = StreamDestroy", "allocate_host and free_host come together"),
        ("device.flags |= OW_DEVICE_NEEDS_GIL", "is the runtime's own flag, got it from a library"),
        ("static ow_device two[2] = {device, device}; plugin.devices = two; plugin.n_devices = 2",
         "tape: a device must be in the table once, got it twice"),
        (NO_STREAMS, "tape: capture needs streams, got a device without"),
    ],
)  # fmt: skip
def test_a_malformed_table_is_refused_completely(compiler, fault, text):
    library = compiler.build("tape.cc", f"-DFAULT={fault}")
    with pytest.raises(PluginError, match=text):
        _runtime.Library(str(library))
