"""If a device can record the steps of a plan, they are recorded once and then replayed."""

from __future__ import annotations

import numpy as np
import pytest
from tape_device import X, make_network

import opwright as ow
from opwright.errors import KernelError


def test_the_second_run_records_a_graph_that_later_runs_replay(tape):
    network, last = make_network("add", "multiply", "add")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    seen = []
    for turn in range(1, 5):
        np.testing.assert_array_equal(call(x=turn * X)[0], 2 * turn**2 * X * X + turn * X)
        seen.append(tuple(map(tape.count, ("launches", "captured", "replays"))))
    assert seen == [(3, 0, 0), (3, 3, 1), (3, 3, 2), (3, 3, 3)]
    placement = network.placement()
    assert placement.graph_refusal == ""
    assert "graph         one, recorded and replayed" in str(placement)


def test_each_feed_shape_has_its_own_graph(tape):
    network, last = make_network("add", "multiply")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for _ in range(3):
        for n in (1, 4):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(call(x=x)[0], 2 * x * x)
    assert (tape.count("graphs"), tape.count("replays")) == (2, 4)


def test_a_variable_set_between_replays_is_read_without_another_recording(tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("multiply", x="w", y="x", out="out")])
    call = network.compile(["x"], ["out"], device="tape", scope=scope)
    for factor in (1, 2, 3, 4):
        scope.var("w").set(factor * X)
        np.testing.assert_array_equal(call(x=X)[0], factor * X * X)
    assert tape.count("captured") == 1


def test_a_replaced_variable_causes_a_new_recording(tape):
    network = ow.Network([ow.Operator("add", x="w", y="w", out="out")])
    scopes = [ow.Scope(), ow.Scope()]
    for factor, scope in enumerate(scopes, start=1):
        scope.var("w").set(factor * X)
    for turn in range(1, 9):
        factor = 1 + turn // 3 % 2
        network.run(scopes[factor - 1], device="tape")
        out = scopes[factor - 1].find_var("out").numpy()
        np.testing.assert_array_equal(out, 2 * factor * X)
    assert tape.count("captured") > 1


@pytest.mark.parametrize(
    ("types", "fallback", "reason"),
    [
        (("add", "negative"), None, r"negative[tape]: its kernel is not capturable"),
        (("add", "relu", "add"), "cpu", "a copy from or to the host stands between operators"),
    ],
)
def test_a_plan_that_cannot_be_recorded_is_launched_and_the_reason_reported(
    tape, types, fallback, reason
):
    network, last = make_network(*types)
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope(), fallback=fallback)
    first = call(x=X)[0]
    for _ in range(3):
        np.testing.assert_array_equal(call(x=X)[0], first)
    assert network.placement().graph_refusal == reason
    assert tape.count("captured") == 0


def test_the_placement_reports_a_device_without_graphs():
    network, last = make_network("add")
    network.compile(["x"], [last], scope=ow.Scope())(x=X)
    assert network.placement().graph_refusal == "device cpu records no graphs"
    assert "graph" not in str(network.placement())


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("begin_capture", "the tape is torn in begin_capture"),
        ("begin_capture throws", "which plugins must not do: the tape is torn"),
        ("end_capture", "the tape is torn in end_capture"),
        ("end_capture throws", "which plugins must not do: the tape is torn"),
        ("stream_create", "the tape is torn in stream_create"),
        ("captured launch", "the tape is full"),
    ],
)
def test_a_failed_recording_does_not_change_results_and_is_not_retried(tape, fault, reason):
    scope = ow.Scope()
    scope.var("w").set(X)
    ops = [ow.Operator("add", x="w", y="x", out="w"), ow.Operator("add", x="w", y="x", out="out")]
    network = ow.Network(ops)
    call = network.compile(["x"], ["out"], device="tape", scope=scope)
    call(x=X)
    tape.fail(fault)
    for turn in (3, 4, 5):
        np.testing.assert_array_equal(call(x=X)[0], (turn + 1) * X)
    tape.fail("")
    np.testing.assert_array_equal(call(x=X)[0], 7 * X)
    assert reason in network.placement().graph_refusal
    assert (tape.count("replays"), tape.count("graphs"), tape.count("streams")) == (0, 0, 1)


@pytest.mark.parametrize("fault", ["replay", "replay throws"])
def test_the_error_for_a_failed_replay_names_the_plan_and_the_next_replay_works(tape, fault):
    network, last = make_network("add", "multiply")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for _ in range(2):
        call(x=X)
    tape.fail(fault)
    with pytest.raises(KernelError, match=r"^plan: .*the tape is torn"):
        call(x=X)
    tape.fail("")
    np.testing.assert_array_equal(call(x=X)[0], 2 * X * X)
