"""A profile waits for the device before and after each step, and does not replay graphs."""

from __future__ import annotations

import numpy as np
from tape_device import X, make_network

import opwright as ow


def test_a_profile_launches_device_steps_one_by_one_and_waits_for_each(tape):
    network, last = make_network("add", "multiply", "add")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    expected = call(x=X)[0]
    profile = network.profile({"x": X}, n=4)
    shown = [(row.op_type, row.kernel, row.operators) for row in profile.rows]
    assert shown == [
        ("copy", "", ()),
        ("add", "tape/acme", (0,)),
        ("multiply", "tape/acme", (1,)),
        ("add", "tape/acme", (2,)),
        ("copy", "", ()),
    ]
    assert profile.device == "tape"
    np.testing.assert_array_equal(call(x=X)[0], expected)


def test_only_runs_without_step_times_replay_a_graph(tape):
    network, last = make_network("add", "multiply")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    call(x=X)
    launched = tape.count("launches")
    profile = network.profile({"x": X}, n=2)
    # There are five timed runs of two kernels, including warm-up. A run without step times is
    # replayed, or launched if the instance was bound to another scope.
    assert tape.count("launches") - launched == 5 * 2
    assert tape.count("replays") == 5
    assert any("a complete run replays a graph of the steps" in note for note in profile.notes)
    assert "tape was idle before and after each step" in str(profile)


def test_a_host_step_between_device_steps_has_its_own_row(tape):
    network, last = make_network("add", "relu", "add")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope(), fallback="cpu")
    profile = call.profile({"x": X}, n=1)
    devices = [row.device for row in profile.rows if row.op_type != "copy"]
    assert devices == ["tape", "cpu", "tape"]
    assert not any("graph" in note for note in profile.notes)
