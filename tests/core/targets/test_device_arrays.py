"""Python kernels on a library's device use the device's arrays and stream, and are captured."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tape_arrays
from tape_device import TABLE, Tape, X, make_network, table_with_python

import opwright as ow
from opwright.errors import KernelError, KernelNotFoundError, PluginError


@pytest.fixture
def make_tape(acme, compiler):
    """A function that installs the tape with the given hooks."""

    def make(table):
        tape_arrays.ARRAYS.__init__()
        acme.use(compiler.build("tape.cc"), table)
        return Tape(acme.site / "opwright_acme" / "libacme.so")

    return make


Y = np.array([-1, 2, -3], np.float32)


@pytest.mark.parametrize("device", ["tape", "tape:1"])
def test_a_python_kernel_receives_the_arrays_and_the_stream_of_the_device(make_tape, device):
    tape = make_tape(table_with_python(capturable=False))
    network, last = make_network("add", "relu", "add")
    call = network.compile(["x"], [last], device=device, scope=ow.Scope())
    for x in (Y, X, 2 * Y):
        np.testing.assert_array_equal(call(x=x)[0], np.maximum(2 * x, 0) + x)
    assert network.placement().python_steps == 1
    assert tape.count("foreign addresses") == 0


def test_arrays_over_plan_memory_are_created_once(make_tape):
    make_tape(table_with_python())
    network, last = make_network("add", "relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for _ in range(4):
        call(x=Y)
    assert len(tape_arrays.ARRAYS.views) == 2


def test_arrays_follow_a_variable_that_was_replaced(make_tape):
    make_tape(table_with_python())
    scope = ow.Scope()
    scope.var("w").set(Y)
    network = ow.Network([ow.Operator("relu", x="w", out="out")])
    call = network.compile([], ["out"], device="tape", scope=scope)
    call()
    held = scope.find_var("w").tensor()
    scope.erase("w")
    scope.var("w").set(X, device=None)
    for _ in range(3):
        np.testing.assert_array_equal(call()[0], X)
    np.testing.assert_array_equal(held.numpy(), Y)


def test_a_capturable_python_kernel_is_recorded_with_other_kernels(make_tape):
    tape = make_tape(table_with_python(capturable=True))
    network, last = make_network("add", "relu", "multiply")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    seen = []
    for x in (Y, X, 2 * Y, 3 * X):
        np.testing.assert_array_equal(call(x=x)[0], np.maximum(2 * x, 0) * x)
        seen.append(tuple(map(tape.count, ("launches", "captured", "replays"))))
    assert seen == [(3, 0, 0), (3, 3, 1), (3, 3, 2), (3, 3, 3)]
    assert network.placement().graph_refusal == ""


def test_long_plans_with_python_kernels_are_recorded_and_hold_the_gil(make_tape):
    tape = make_tape(table_with_python(capturable=True))
    types = (*["add"] * 20, "relu", *["add"] * 20, "relu")
    network, last = make_network(*types)
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    first = call(x=X)[0]
    for _ in range(3):
        np.testing.assert_array_equal(call(x=X)[0], first)
    assert tape.count("replays") == 3


# Plans of about 400 or more steps release the GIL.
@pytest.mark.parametrize("n_before", [1, 400])
def test_the_placement_names_a_python_kernel_that_is_not_capturable(make_tape, n_before):
    tape = make_tape(table_with_python(capturable=False))
    network, last = make_network(*["add"] * n_before, "relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for _ in range(3):
        call(x=X)
    assert network.placement().graph_refusal == "relu[tape]: its kernel is not capturable"
    assert tape.count("captured") == 0


def test_without_arrays_a_python_kernel_is_refused_with_the_reason(make_tape):
    make_tape(table_with_python(arrays=""))
    network, last = make_network("add", "relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    text = (
        "(?s)relu.*refused: device tape of opwright-acme 1.0 gives no arrays to kernels in Python"
    )
    with pytest.raises(KernelNotFoundError, match=text):
        call(x=X)


def test_a_failing_python_kernel_is_reported_to_the_stream_and_to_the_user(make_tape, monkeypatch):
    make_tape(table_with_python())
    network, last = make_network("add", "relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    call(x=X)
    monkeypatch.setattr(tape_arrays, "np", None)
    for _ in range(2):
        with pytest.raises(KernelError, match=r"relu\[tape\]: operator 1 failed .*AttributeError"):
            call(x=X)
    monkeypatch.undo()
    assert {type(error) for error in tape_arrays.ARRAYS.left_with} == {AttributeError}
    assert tape_arrays.ARRAYS.stream_now is None
    np.testing.assert_array_equal(call(x=X)[0], 2 * X)
    assert "AttributeError: " in network.placement().graph_refusal


def test_an_error_on_entering_or_leaving_a_stream_fails_the_kernel(make_tape, monkeypatch):
    make_tape(table_with_python())
    network, last = make_network("add", "relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())

    class Torn:
        def __init__(self, where):
            self.where = where

        def __enter__(self):
            if self.where == "enter":
                raise ValueError("torn in enter")
            tape_arrays.ARRAYS.stream_now = self.place

        def __exit__(self, *error):
            tape_arrays.ARRAYS.stream_now = None
            raise ValueError("torn in exit")

    for where in ("enter", "exit"):
        torn = Torn(where)

        def stream(pointer, number, torn=torn):
            torn.place = (pointer, number)
            return torn

        monkeypatch.setattr(tape_arrays.ARRAYS, "stream", stream, raising=False)
        with pytest.raises(KernelError, match=f"ValueError: torn in {where}"):
            call(x=X)
    monkeypatch.undo()
    np.testing.assert_array_equal(call(x=X)[0], 2 * X)


def test_array_helpers_that_lack_a_method_are_reported(make_tape):
    make_tape(table_with_python(arrays="tape_arrays:relu"))
    network, last = make_network("relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    with pytest.raises(PluginError, match="tape: arrays must have view and stream, .*'view'"):
        call(x=X)


def test_array_helpers_can_be_given_only_for_a_device_in_a_library(acme, compiler):
    table = TABLE.replace('"tape", LIBRARY', '"tape", "tape_arrays:ARRAYS", arrays="a:b"')
    context = acme.use(compiler.build("tape.cc"), table)
    assert "arrays belong to a device in a compiled library" in context.failures[0].reason


def test_doctor_checks_that_the_arrays_can_be_imported(acme, compiler):
    acme.install(compiler.build("tape.cc"), table_with_python(arrays="opwright_acme.gone:ARRAYS"))
    done = acme.doctor()
    assert done.returncode == 1
    assert "opwright_acme.gone:ARRAYS" in done.stdout


def test_a_kernel_that_binds_receives_the_arrays_of_the_device(make_tape):
    make_tape(table_with_python())

    class Bound:
        @staticmethod
        def prepare(ctx):
            class Ready:
                def bind(self, x, out):
                    return lambda: tape_arrays.relu(x, out)

            return Ready()

    from opwright import current_context
    from opwright.packages import Package

    current_context().kernels.add(
        "relu", device="tape", dtypes=["float32"], kernel=Bound, library="bound",
        package=Package("bound", "opwright-bound", "1.0"), priority=60, capturable=True,
    )  # fmt: skip
    network, last = make_network("add", "relu")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for x in (Y, X, 2 * Y):
        np.testing.assert_array_equal(call(x=x)[0], np.maximum(2 * x, 0))
    assert network.placement().kernels == {"tape/acme": 1, "tape/bound": 1}
    del call, network
    gc.collect()
