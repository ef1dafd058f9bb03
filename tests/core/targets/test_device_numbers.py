"""A plugin can provide several devices of one type, for example "tape" and "tape:1"."""

from __future__ import annotations

import numpy as np
import pytest
from tape_device import X, make_network

import opwright as ow
from opwright.errors import DeviceNotFoundError, KernelError


def test_a_plan_runs_on_the_device_with_the_given_number(tape):
    network, last = make_network("add", "multiply")
    for name in ("tape:1", "tape", "tape:1"):
        call = network.compile(["x"], [last], device=name, scope=ow.Scope())
        for x in (X, 2 * X, 3 * X):
            np.testing.assert_array_equal(call(x=x)[0], 2 * x * x)
        assert network.placement().device == name
        assert network.placement().kernels == {"tape/acme": 2}
    assert tape.count("foreign addresses") == 0
    assert tape.count("streams") == 2


def test_tape_0_and_tape_name_the_same_device(tape):
    network, last = make_network("add")
    call = network.compile(["x"], [last], device="tape:0", scope=ow.Scope(), fetch_device=True)
    (tensor,) = call(x=X)
    assert (tensor.device, tensor.__dlpack_device__()) == ("tape", (12, 0))
    assert network.placement().device == "tape"


def test_fetched_tensors_are_on_the_device_of_the_plan(tape):
    network, last = make_network("add")
    call = network.compile(["x"], [last], device="tape:1", scope=ow.Scope(), fetch_device=True)
    (tensor,) = call(x=X)
    assert (tensor.device, tensor.__dlpack_device__()) == ("tape:1", (12, 1))
    np.testing.assert_array_equal(tensor.numpy(), 2 * X)


def test_variables_move_to_the_device_that_uses_them(tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="w", out="w")])
    for turn, name in enumerate(("tape", "tape:1", "tape:1", "tape"), start=1):
        network.run(scope, device=name)
        assert scope.find_var("w").device == name
        np.testing.assert_array_equal(scope.find_var("w").numpy(), 2**turn * X)
    assert tape.count("foreign addresses") == 0


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("tape:x", DeviceNotFoundError, "tape:x: .* an int of at least 0, got 'x'; write 'tape'"),
        ("tape:-1", DeviceNotFoundError, "tape:-1: .* an int of at least 0, got '-1'"),
        ("tape:", DeviceNotFoundError, "tape:: .* an int of at least 0, got ''"),
        ("cpu:1", DeviceNotFoundError, "the only host has number 0, got number 1; write 'cpu'"),
        ("tape:2", KernelError, r"tape:2: .* must be in \[0, 2\), got 2; choose an"),
        ("tap:1", DeviceNotFoundError, "tap: no device of this name .* did you mean 'tape'"),
    ],
)
def test_the_error_for_an_invalid_number_suggests_a_fix(tape, name, error, text):
    network, last = make_network("add")
    with pytest.raises(error, match=text):
        network.compile(["x"], [last], device=name, scope=ow.Scope())
    with pytest.raises(error, match=text):
        network.run(ow.Scope(), device=name)


def test_a_device_can_be_written_in_python(tape):
    class Flat:
        name, dlpack_code, addressable = "flat", 13, True
        allocate = free = copy = synchronize = view = lambda *args: None

    from opwright import current_context
    from opwright.packages import Package

    current_context().devices.add("flat", Flat(), Package("flat", "opwright-flat", "1.0"))
    network, last = make_network("add")
    with pytest.raises(DeviceNotFoundError, match="flat:1: a Python device without open has"):
        network.compile(["x"], [last], device="flat:1", scope=ow.Scope())


def test_kernels_prepared_for_one_device_do_not_run_on_another_device(tape):
    class Prepared:
        made: list[str] = []  # noqa: RUF012

        @classmethod
        def prepare(cls, ctx):
            cls.made.append((ctx.device, ctx.device_number))
            ctx.refuse("only looks")

    from opwright import current_context
    from opwright.packages import Package

    current_context().kernels.add(
        "add", device="tape", dtypes=["float32"], kernel=Prepared, library="probe",
        package=Package("probe", "opwright-probe", "1.0"), priority=60,
    )  # fmt: skip
    network, last = make_network("add")
    for name in ("tape", "tape:1", "tape"):
        network.compile(["x"], [last], device=name, scope=ow.Scope())(x=X)
    assert Prepared.made == [("tape", 0), ("tape", 1)]


def test_explain_accepts_a_device_name_with_a_number(tape):
    assert str(ow.explain("add", "tape:1", "float32")) == str(ow.explain("add", "tape", "float32"))


def test_the_error_for_a_failed_run_names_the_device(tape):
    network, last = make_network("add")
    call = network.compile(["x"], [last], device="tape:1", scope=ow.Scope())
    tape.fail("launch")
    with pytest.raises(KernelError, match=r"add\[tape:1\]: operator 0 failed"):
        call(x=X)
