"""Arrays of another library on the device of a plan are fed without a copy through the host."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import tape_arrays
from tape_arrays import ExchangedArray, OldArray, TapeArray
from tape_device import TABLE, Tape, X, make_network

import opwright as ow
from opwright import _runtime
from opwright.errors import FeedError, KernelError, OpwrightError


def _compiled(*types, device="tape", **options):
    network, last = make_network(*types)
    call = network.compile(["x"], [last], device=device, scope=ow.Scope(), **options)
    return network, call


@pytest.mark.parametrize("kind", [TapeArray, OldArray])
def test_a_device_array_is_read_in_place_after_the_work_of_its_library(tape, kind):
    _, call = _compiled("add", "multiply")
    for factor in (1, 2, 3):
        x = kind(factor * X)
        np.testing.assert_array_equal(call(x=x)[0], 2 * factor**2 * X * X)
        assert x.exports[-1]["stream"] not in (None, 0)
        assert ("max_version" in x.exports[-1]) == (kind is TapeArray)
    assert tape.count("foreign addresses") == 0


def test_a_device_feed_is_not_copied_through_the_host(tape):
    network, call = _compiled("add", fetch_device=True)
    (out,) = call(x=TapeArray(X))
    assert network.placement().copies == 1
    tape.fail("copy of the host")
    (again,) = call(x=TapeArray(2 * X))
    tape.fail("")
    np.testing.assert_array_equal(out.numpy(), 2 * X)
    np.testing.assert_array_equal(again.numpy(), 4 * X)


def test_the_plan_is_recorded_once_for_all_feed_addresses(tape):
    network, call = _compiled("add", "multiply", "add")
    arrays = [TapeArray(turn * X) for turn in range(1, 6)]
    for turn, x in enumerate(arrays, start=1):
        np.testing.assert_array_equal(call(x=x)[0], 2 * turn**2 * X * X + turn * X)
    assert len({x.pointer for x in arrays}) == len(arrays)
    assert (tape.count("graphs"), tape.count("captured"), tape.count("replays")) == (1, 3, 4)
    assert network.placement().graph_refusal == ""


def test_an_array_can_be_freed_as_soon_as_the_call_has_returned(tape):
    _, call = _compiled("add", "multiply", fetch_device=True)
    kept = [call(x=TapeArray(turn * X))[0] for turn in range(1, 5)]
    assert tape_arrays.n_lent() == 0
    for turn, out in enumerate(kept, start=1):
        np.testing.assert_array_equal(out.numpy(), 2 * turn**2 * X * X)
    assert tape.count("event waits") == 4


def test_the_host_waits_only_for_the_copies_of_the_feeds(tape):
    scope = ow.Scope()
    scope.var("w").set(0 * X)
    network = ow.Network([ow.Operator("add", x="w", y="x", out="w")])
    call = network.compile(["x"], [], device="tape", scope=scope)
    x = TapeArray(X)
    for _ in range(3):
        call(x=x)
    assert tape.count("pending") > 0
    np.testing.assert_array_equal(scope.find_var("w").numpy(), 3 * X)


def test_feeds_on_the_device_and_on_the_host_can_be_mixed(tape):
    network = ow.Network([ow.Operator("add", x="x", y="y", out="out")])
    call = network.compile(["x", "y"], ["out"], device="tape", scope=ow.Scope())
    for turn in (1, 2, 3):
        for x in (X, TapeArray(X)):
            for y in (turn * X, TapeArray(turn * X)):
                np.testing.assert_array_equal(call(x=x, y=y)[0], (turn + 1) * X)
    assert len(call.plans) == 4
    assert tape.count("graphs") == 4


def test_a_fetched_tensor_can_be_fed_again(tape):
    _, call = _compiled("add", fetch_device=True)
    out = X
    for _ in range(4):
        (out,) = call(x=out)
    np.testing.assert_array_equal(out.numpy(), 16 * X)
    assert tape.count("event waits") == 0


def test_the_error_for_an_array_on_another_device_names_both_devices(tape):
    _, call = _compiled("add", device="tape:1")
    call(x=TapeArray(X, 1))
    for _ in range(2):
        text = "feed 'x': .* must be on the host or on tape:1, .* got TapeArray on tape; copy"
        with pytest.raises(FeedError, match=text):
            call(x=TapeArray(X))
    _, call = _compiled("add", device="cpu")
    text = "must be on the host or on cpu, .* got TapeArray on tape:1; copy it, or compile for"
    with pytest.raises(FeedError, match=text):
        call(x=TapeArray(X, 1))
    assert tape_arrays.n_lent() == 0


def test_shape_and_dtype_are_checked_as_for_any_feed(tape):
    program = ow.Program()
    block = program.global_block()
    x = block.create_var("x", shape=(-1, 2), dtype="float32")
    out = ow.ops.add(x, x)
    call = ow.Network(block).compile([x], [out], device="tape", scope=ow.Scope())
    np.testing.assert_array_equal(call(x=TapeArray(np.ones((3, 2), np.float32)))[0], 2)
    with pytest.raises(FeedError, match=r"feed 'x': shape must be \(\?, 2\), got \(3,\)"):
        call(x=TapeArray(X))
    with pytest.raises(FeedError, match="feed 'x': dtype must be float32, got float64"):
        call(x=TapeArray(np.ones((3, 2))))


def test_the_error_for_a_strided_array_suggests_a_fix(tape):
    _, call = _compiled("add")
    x = TapeArray(np.ones((2, 3), np.float32))
    x.strides = (1, 2)
    text = r"feed 'x': an array on a device must be contiguous, .* make it contiguous"
    with pytest.raises(FeedError, match=text):
        call(x=x)
    assert tape_arrays.n_lent() == 0
    x.strides = (3, 1)
    np.testing.assert_array_equal(call(x=x)[0], 2)


def test_exceptions_raised_by_the_other_library_are_reported(tape):
    class Torn(TapeArray):
        def __dlpack__(self, **options):
            raise BufferError("no export today")

    _, call = _compiled("add")
    with pytest.raises(FeedError, match=r"feed 'x': .* got Torn \(no export today\)"):
        call(x=Torn(X))


def test_a_failed_run_also_finishes_reading_its_feeds(tape):
    _, call = _compiled("add", "negative")
    call(x=TapeArray(X))
    for fault in ("launch", "copy", "event_record", "event_synchronize"):
        tape.fail(fault)
        with pytest.raises(OpwrightError, match="the tape is"):
            call(x=TapeArray(2 * X))
        tape.fail("")
        gc.collect()
        assert tape_arrays.n_lent() == 0
        np.testing.assert_array_equal(call(x=TapeArray(X))[0], -2 * X)


def test_a_failure_to_create_an_event_fails_the_call(tape):
    _, call = _compiled("add")
    tape.fail("event_create")
    with pytest.raises(KernelError, match="tape: making an event failed .*torn in event_create"):
        call(x=TapeArray(X))


def test_events_are_released_with_the_network(tape):
    network, call = _compiled("add")
    call(x=TapeArray(X))
    assert tape.count("events") == 1
    del network, call
    gc.collect()
    _runtime.free_retired()
    assert tape.count("events") == 0


def test_two_threads_can_feed_arrays_on_the_device(tape):
    _, call = _compiled("add", "multiply")
    wrong = []

    def work(first):
        for turn in range(first, first + 60):
            if not np.array_equal(call(x=TapeArray(turn * X))[0], 2 * turn**2 * X * X):
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(first,)) for first in (1, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_streams_and_events_the_host_waits_for_everything(acme, compiler):
    fault = (
        "-DFAULT=device.stream_create = nullptr; device.stream_destroy = nullptr;"
        "device.stream_synchronize = nullptr; device.event_create = nullptr;"
        "device.event_destroy = nullptr; device.event_record = nullptr;"
        "device.event_wait = nullptr; device.event_synchronize = nullptr;"
        "device.begin_capture = nullptr; device.end_capture = nullptr;"
        "device.replay = nullptr; device.graph_destroy = nullptr"
    )
    acme.use(compiler.build("tape.cc", fault), TABLE)
    Tape(acme.site / "opwright_acme" / "libacme.so")
    _, call = _compiled("add", "multiply")
    for turn in (1, 2):
        x = TapeArray(turn * X)
        np.testing.assert_array_equal(call(x=x)[0], 2 * turn**2 * X * X)
        assert x.exports[-1] == {"stream": None, "max_version": (1, 3)}


def test_exporting_a_tensor_waits_for_the_work_on_it(tape):
    _, call = _compiled("add", fetch_device=True)
    (out,) = call(x=X)
    there = tape_arrays.from_dlpack(out)
    np.testing.assert_array_equal(there.numpy(), 2 * X)


def test_a_variable_is_set_from_an_array_on_its_device(tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="w", out="out")])
    call = network.compile([], ["out"], device="tape", scope=scope)
    call()
    version = scope.structure_version
    tape.fail("copy of the host")
    scope.var("w").set(TapeArray(5 * X))
    tape.fail("")
    assert scope.structure_version == version
    np.testing.assert_array_equal(call()[0], 10 * X)
    scope.var("w").set(TapeArray(np.ones(5, np.float32)))
    assert (scope.var("w").device, scope.var("w").shape) == ("tape", (5,))
    np.testing.assert_array_equal(call()[0], 2)


def test_a_variable_refuses_arrays_on_other_devices_and_copies_tensors_through_the_host(tape):
    _, call = _compiled("add", device="tape:1", fetch_device=True)
    (tensor,) = call(x=X)
    scope = ow.Scope()
    scope.var("w").set(tensor)
    np.testing.assert_array_equal(scope.var("w").numpy(), 2 * X)
    text = "w: an array must be on the host or on cpu, .* got TapeArray on tape:1; copy it"
    with pytest.raises(FeedError, match=text):
        scope.var("w").set(TapeArray(X, 1))


def test_a_feed_is_read_after_the_enqueued_work_of_its_library(tape):
    _, call = _compiled("add")
    for factor in (1, 2, 3):
        x = ExchangedArray(np.full(3, np.nan, np.float32))
        x.follow(TapeArray(factor * X))
        assert np.isnan(x.numpy()).all()
        np.testing.assert_array_equal(call(x=x)[0], 2 * factor * X)
        assert x.exports == []


def test_a_fetch_is_passed_in_stream_order_without_waiting_on_the_host(tape):
    _, call = _compiled("add", fetch_device=True)
    call(x=X)
    (out,) = call(x=2 * X)
    waits = tape.count("pending")
    there = tape_arrays.take_in_order(out)  # a tape that waits for another completes its own work
    assert tape.count("pending") < waits
    np.testing.assert_array_equal(there.numpy(), 4 * X)
    (unordered,) = call(x=3 * X)
    pending = tape.count("pending")
    tape_arrays.from_dlpack(unordered, stream=-1)
    assert tape.count("pending") == pending > 0


def test_an_importer_receives_fetches_on_the_device(tape):
    _, call = _compiled("add", fetch_device=True, fetch_as=tape_arrays.take_in_order)
    (out,) = call(x=X)
    assert type(out) is TapeArray
    np.testing.assert_array_equal(out.numpy(), 2 * X)


@pytest.mark.parametrize("kind", [TapeArray, ExchangedArray])
def test_fetches_are_written_into_arrays_on_the_device(tape, kind):
    _, call = _compiled("add", fetch_device=True)
    out = kind(0 * X)
    for factor in (1, 2, 3):
        assert call(x=TapeArray(factor * X), out=[out])[0] is out
        np.testing.assert_array_equal(out.numpy(), 2 * factor * X)
    host = 0 * X
    call(x=X, out=[host])
    np.testing.assert_array_equal(host, 2 * X)
    with pytest.raises(FeedError, match=r"out\[0\]: .* float32\(3,\), got float32\(2,\)"):
        call(x=X, out=[kind(X[:2])])
    with pytest.raises(FeedError, match=r"out\[0\]: .* overlaps the array of feed 'x'"):
        call(x=out, out=[out])


def test_a_host_fetch_refuses_an_array_on_the_device(tape):
    _, call = _compiled("add")
    with pytest.raises(FeedError, match=r"out\[0\]: .* got TapeArray on tape; .*fetch_device=True"):
        call(x=X, out=[TapeArray(X)])


@pytest.mark.parametrize("kind", [np.array, TapeArray, ExchangedArray])
def test_a_feed_on_the_host_or_the_device_is_written_in_place(tape, kind):
    ops = [
        ow.Operator("add", x="mean", y="x", out="mean"),
        ow.Operator("multiply", x="mean", y="x", out="y"),
    ]
    network = ow.Network(ops)
    call = network.compile(["mean", "x"], ["y"], "tape", ow.Scope(), writes=["mean"])
    means = [kind(0 * X) for _ in range(2)]
    for turn in (1, 2, 3):
        for mean in means:
            np.testing.assert_array_equal(call(mean, X)[0], turn * X * X)
            there = mean if kind is np.array else mean.numpy()
            np.testing.assert_array_equal(there, turn * X)
    assert network.placement().graph_refusal == ""


def test_a_read_only_array_on_the_device_is_not_written(tape):
    network = ow.Network([ow.Operator("add", x="mean", y="x", out="mean")])
    call = network.compile(["mean", "x"], [], "tape", ow.Scope(), writes=["mean"])
    mean = ExchangedArray(0 * X)
    mean.is_read_only = True
    with pytest.raises(FeedError, match="feed 'mean': it is written, got a read-only array"):
        call(mean, X)
