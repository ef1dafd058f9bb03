"""All Contexts in a process share the devices of a library."""

from __future__ import annotations

import gc
import shutil

import numpy as np
import pytest
import tape_arrays
from tape_device import Tape, X, make_network, table_with_python

import opwright as ow
from opwright import Context, _runtime, context_guard
from opwright.device import get_device
from opwright.errors import FeedError
from opwright.packages import Package


def run_add(context, x, scope=None, device="tape"):
    """Compute the tensor 2 * x with a Context."""
    network, last = make_network("add")
    with context_guard(context):
        call = network.compile(
            ["x"], [last], device=device, scope=scope or ow.Scope(), fetch_device=True
        )
        return call(x=x)[0]


def test_two_contexts_share_one_device_and_its_stream(tape):
    contexts = [Context.discover(), Context.discover()]
    first, second = (get_device("tape", context) for context in contexts)
    assert first is second
    assert tape.count("streams") == 1
    assert get_device("tape:1", contexts[0]) is get_device("tape:1", contexts[1]) is not first


def test_a_context_can_read_the_results_of_another_context(tape):
    once = run_add(Context.discover(), X)
    twice = run_add(Context.discover(), once)
    with context_guard(Context.discover()):
        product = ow.ops.multiply(once, twice)
    np.testing.assert_array_equal(product.numpy(), 8 * X * X)
    assert tape.count("foreign addresses") == 0


def test_every_context_updates_a_variable_in_place(tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="w", out="w")])
    places = set()
    for _ in range(3):
        with context_guard(Context.discover()):
            network.run(scope, device="tape")
        places.add(scope.find_var("w").tensor().data_ptr)
    np.testing.assert_array_equal(scope.find_var("w").numpy(), 8 * X)
    assert len(places) == 1


def test_a_device_is_closed_with_its_last_user_and_can_be_reopened(tape):
    contexts = [Context.discover(), Context.discover()]
    kept = [run_add(context, X) for context in contexts]
    del contexts[0], kept[0]
    gc.collect()
    _runtime.free_retired()
    assert tape.count("streams") == 1
    contexts.clear()
    gc.collect()
    np.testing.assert_array_equal(kept[0].numpy(), 2 * X)
    assert tape.count("streams") == 1
    kept.clear()
    gc.collect()
    _runtime.free_retired()
    assert tape.count("streams") == 0
    np.testing.assert_array_equal(run_add(Context.discover(), X).numpy(), 2 * X)


def test_rediscovery_keeps_the_device_in_use(tape):
    context = Context.discover()
    once = run_add(context, X)
    context.refresh()
    np.testing.assert_array_equal(run_add(context, once).numpy(), 4 * X)
    assert tape.count("streams") == 1


def test_two_paths_to_one_library_file_share_a_device_and_two_copies_do_not(compiler, tmp_path):
    path = shutil.copy(compiler.build("tape.cc"), tmp_path / "own.so")
    (tmp_path / "link.so").symlink_to(path)
    shutil.copy(path, tmp_path / "copy.so")
    device, linked, copied = (
        _runtime.Library(str(tmp_path / name)).open_device(0)
        for name in ("own.so", "link.so", "copy.so")
    )
    assert linked is device
    assert copied is not device


@pytest.fixture
def other(acme, tape):
    """A Context in which another distribution provides the device "tape"."""
    folder = acme.site / "opwright_other"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    shutil.copy(acme.site / "opwright_acme" / "libacme.so", folder / "libother.so")
    context = Context()
    package, target = Package("acme", "opwright-other", "2.0"), "opwright_other/libother.so"
    standard = Context.discover()
    for op_type in ("add", "multiply"):
        context.ops.add(op_type, standard.ops.get(op_type), Package("std", "opwright-std", "1.0"))
        context.kernels.add(
            op_type, device="tape", dtypes=["float32"], kernel=target, library="acme",
            package=package,
        )  # fmt: skip
    context.devices.add("tape", target, package)
    return context


def test_a_tensor_on_another_device_with_the_same_name_is_refused_and_both_owners_are_named(
    tape, other
):
    tensor = run_add(Context.discover(), X)
    text = (
        r"feed 'x': .* or on tape of opwright-other 2\.0 \(.*libother\.so\), where the network "
        r"runs, got Tensor on tape of opwright-acme 1\.0 \(.*libacme\.so\); copy it"
    )
    with pytest.raises(FeedError, match=text):
        run_add(other, tensor)
    np.testing.assert_array_equal(run_add(other, tensor.numpy()).numpy(), 4 * X)


def test_a_variable_can_move_between_devices_with_the_same_name(tape, other):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="w", out="w")])
    for context in (Context.discover(), other, Context.discover()):
        with context_guard(context):
            network.run(scope, device="tape")
        assert scope.find_var("w").opened_device is get_device("tape", context)
    np.testing.assert_array_equal(scope.find_var("w").numpy(), 8 * X)


def test_the_error_for_a_plan_with_a_variable_on_another_device_names_both_devices(tape, other):
    context = Context.discover()
    device, theirs = get_device("tape", context), get_device("tape", other)
    builder = _runtime.PlanBuilder(device, "plan")
    w = builder.external(_runtime.PERSISTABLE, "w")
    builder.value(ow.op.dtype_to_code("float32"), (3,), _runtime.EXTERNAL, w)
    scope = ow.Scope()
    scope.var("w").set(X, device=theirs)
    text = r"on tape of opwright-acme 1\.0 \(.*\), got float32.* on tape of opwright-other 2\.0"
    with pytest.raises(ow.errors.ShapeError, match=text):
        builder.build(None).run(scope)


def test_python_kernels_receive_the_same_kind_of_arrays_in_all_contexts(acme, compiler):
    acme.use(compiler.build("tape.cc"), table_with_python())
    Tape(acme.site / "opwright_acme" / "libacme.so")
    network, last = make_network("relu")

    def run(context):
        with context_guard(context):
            return network.compile(["x"], [last], device="tape", scope=ow.Scope())(x=-X)[0]

    first = Context.discover()
    for context in (first, Context.discover()):
        np.testing.assert_array_equal(run(context), 0 * X)
    strange = Context.discover()
    strange.devices.find("tape").arrays = type(tape_arrays.ARRAYS)()
    with pytest.raises(ow.errors.KernelNotFoundError, match="one kind of arrays, got"):
        run(strange)
