"""Arrays can state their location through an attribute that their device declares."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tape_arrays
from tape_arrays import PlacedArray, TapeArray
from tape_device import Tape, X, make_network, table_with_python

import opwright as ow
from opwright.device import get_device
from opwright.errors import DtypeError, FeedError, KernelError, PluginError, SlotError

NAME = "__tape_place__"


@pytest.fixture
def tape(acme, compiler):
    """The tape with array helpers that declare the attribute `NAME`."""
    acme.use(compiler.build("tape.cc"), table_with_python(arrays="tape_arrays:PLACING"))
    return Tape(acme.site / "opwright_acme" / "libacme.so")


def _compiled(*types, device="tape", **options):
    network, last = make_network(*types)
    return network.compile(["x"], [last], device=device, scope=ow.Scope(), **options)


def test_an_array_with_the_attribute_is_read_without_a_copy(tape):
    call = _compiled("add", "multiply", fetch_device=True)
    call(x=PlacedArray(X))
    tape.fail("copy of the host")
    results = [call(x=PlacedArray(factor * X))[0] for factor in (1, 2, 3)]
    tape.fail("")
    for factor, result in enumerate(results, start=1):
        np.testing.assert_array_equal(result.numpy(), 2 * factor**2 * X * X)
    assert (len(call.plans), tape.count("graphs")) == (1, 1)
    assert tape.count("foreign addresses") == 0


def test_the_opwright_stream_waits_for_the_stream_of_the_array(tape):
    call = _compiled("add")
    for factor in (1, 2, 3):
        array = factor * np.array([-1, 2, 3], np.float32)
        np.testing.assert_array_equal(call(x=PlacedArray.later(array))[0], 2 * np.maximum(array, 0))
    scope = ow.Scope()
    scope.var("w").set(PlacedArray.later(X), device=get_device("tape", ow.current_context()))
    np.testing.assert_array_equal(scope.var("w").numpy(), X)
    tape.fail("event_wait")
    with pytest.raises(KernelError, match="tape: waiting for stream .* torn in event_wait"):
        call(x=PlacedArray.later(X))
    tape.fail("")
    assert tape.count("events") == 1  # the plan's event


def test_the_array_is_kept_alive_until_it_has_been_read(tape):
    call = _compiled("add", "multiply", fetch_device=True)
    kept = [call(x=PlacedArray(turn * X))[0] for turn in range(1, 5)]
    for turn, out in enumerate(kept, start=1):
        np.testing.assert_array_equal(out.numpy(), 2 * turn**2 * X * X)
    array = PlacedArray(X)
    alive = weakref.ref(array)
    tensor = ow._runtime.Tensor.from_array(array, get_device("tape", ow.current_context()))
    del array
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(tensor.numpy(), X)
    del tensor
    gc.collect()
    assert alive() is None


def test_a_variable_can_be_set_from_a_device_array_only_on_its_device(tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="w", out="out")])
    call = network.compile([], ["out"], device="tape", scope=scope)
    call()
    tape.fail("copy of the host")
    scope.var("w").set(PlacedArray(5 * X))
    tape.fail("")
    np.testing.assert_array_equal(call()[0], 10 * X)
    text = "v: an array must be on the host or on cpu, .* got PlacedArray on tape:1; copy it"
    with pytest.raises(FeedError, match=text):
        scope.var("v").set(PlacedArray(X, 1))
    with pytest.raises(FeedError, match="w: must be on tape, got PlacedArray on number 1; copy"):
        scope.var("w").set(PlacedArray(X, 1))


@pytest.mark.parametrize("number", [0, 1])
def test_an_operator_runs_on_the_device_of_its_arrays_and_returns_tensors(tape, number):
    a, b = PlacedArray(X, number), PlacedArray(2 * X, number)
    out = ow.ops.multiply(ow.ops.add(a, b), a)
    assert (type(out), getattr(out, NAME).number) == (ow._runtime.Tensor, number)
    np.testing.assert_array_equal(out.numpy(), 3 * X * X)
    np.testing.assert_array_equal(ow.ops.add(b, TapeArray(X, number)).numpy(), 3 * X)
    assert tape.count("foreign addresses") == 0
    for other, where in (
        (X, "ndarray on the host"),
        (PlacedArray(X, 1 - number), "PlacedArray on"),
    ):
        with pytest.raises(
            SlotError, match=f"add: y: .* got {where}.* next to x PlacedArray on tape"
        ):
            ow.ops.add(a, other)


def test_the_error_for_an_array_on_another_device_names_its_device(tape):
    text = "feed 'x': .* on the host or on cpu, .* got PlacedArray on tape:1; copy it, or compile"
    call = _compiled("add", device="cpu")
    for _ in range(2):
        with pytest.raises(FeedError, match=text):
            call(x=PlacedArray(X, 1))
    call = _compiled("add", device="tape:1")
    np.testing.assert_array_equal(call(x=PlacedArray(X, 1))[0], 2 * X)
    with pytest.raises(FeedError, match="feed 'x': must be on tape:1, got PlacedArray on number"):
        call(x=PlacedArray(X))


def test_an_empty_array_can_have_any_address(tape):
    empty = PlacedArray(np.zeros((0, 2), np.float32))
    empty.place = empty.place._replace(number=None, pointer=0)
    for device in ("tape", "tape:1"):
        assert _compiled("add", device=device)(x=empty)[0].shape == (0, 2)
    assert ow.ops.add(empty, empty).shape == (0, 2)


def test_the_error_for_an_unreadable_array_contains_the_message_of_locate(tape):
    array = PlacedArray(X)
    array.place = array.place._replace(pointer=array.place.pointer + 4)
    text = r"the address must be a multiple of 256, got \d+; copy it"
    with pytest.raises(FeedError, match=f"^feed 'x': {text}"):
        _compiled("add")(x=array)
    with pytest.raises(FeedError, match=f"^negative: x: {text}"):
        ow.ops.negative(array)


def test_a_locate_function_that_does_not_return_a_place_is_reported(tape, monkeypatch):
    monkeypatch.setattr(tape_arrays.PLACING, "locate", lambda place: None, raising=False)
    with pytest.raises(PluginError, match="arrays: locate must return an .*ArrayPlace, got None"):
        _compiled("add")(x=PlacedArray(X))


def test_reading_the_attribute_of_a_tensor_waits_for_the_work_on_it(tape):
    (out,) = _compiled("add", "multiply", fetch_device=True)(x=X)
    assert tape.count("pending") > 0
    place = getattr(out, NAME)
    assert tape.count("pending") == 0
    assert place == (out.data_ptr, (3,), "float32", 0, 0)
    there = TapeArray.over(place.pointer, place.shape, place.dtype, place.number)
    np.testing.assert_array_equal(there.numpy(), 2 * X * X)


def test_tensors_on_other_devices_or_of_unsupported_dtypes_do_not_have_the_attribute(tape):
    device = get_device("tape", ow.current_context())
    on_host = ow._runtime.Tensor.from_numpy(X)
    with_int64 = ow._runtime.Tensor.from_numpy(np.arange(3), device)
    ours = ow._runtime.Tensor.from_numpy(X, device)
    assert [hasattr(item, NAME) for item in (on_host, with_int64, ours)] == [False, False, True]
    for tensor in (on_host, ours):
        with pytest.raises(AttributeError, match="Tensor' object has no attribute 'shaep'"):
            tensor.shaep  # noqa: B018


def test_device_arrays_that_name_an_attribute_need_locate_and_describe(acme, compiler, monkeypatch):
    monkeypatch.delattr(tape_arrays._PlacingArrays, "describe")
    acme.use(compiler.build("tape.cc"), table_with_python(arrays="tape_arrays:PLACING"))
    Tape(acme.site / "opwright_acme" / "libacme.so")
    with pytest.raises(PluginError, match="tape: arrays must have locate and describe, .*'descr"):
        _compiled("relu")(x=X)
    np.testing.assert_array_equal(
        _compiled("add")(x=X)[0], 2 * X
    )  # plans without Python kernels do not need them


def test_the_error_for_an_object_without_the_attribute_asks_for_an_array(tape):
    with pytest.raises(DtypeError, match="add: x: must be an array of numbers"):
        ow.ops.add(object(), X)
