"""The values of a device plan are in one arena, or in separate allocations for memory checkers."""

from __future__ import annotations

import numpy as np
import pytest
from tape_device import TABLE, Tape, X, make_network

import opwright as ow

UNSHARED = "-DFAULT=device.flags |= OW_DEVICE_UNSHARED_MEMORY"


@pytest.fixture
def unshared_tape(acme, compiler):
    """The tape with the options for a memory checker."""
    acme.use(compiler.build("tape.cc", UNSHARED), TABLE)
    return Tape(acme.site / "opwright_acme" / "libacme.so")


def test_every_value_in_an_arena_has_the_alignment_of_the_device(tape):
    network, last = make_network("add", "multiply", "add", "multiply")
    call = network.compile(["x"], [last, "v1"], device="tape", scope=ow.Scope())
    call(x=X)
    assert tape.count("odd addresses") == 0
    assert tape.count("allocations") == 1
    assert tape.count("largest") >= 2 * 256


def test_without_sharing_every_value_has_a_separate_allocation_of_its_exact_size(unshared_tape):
    types = ("add", "negative", "add", "negative", "add")  # three buffers suffice in one arena
    network, last = make_network(*types)
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    np.testing.assert_array_equal(call(x=X)[0], 2 * X)
    assert unshared_tape.count("allocations") == 1 + len(types)
    assert unshared_tape.count("largest") == X.nbytes


def test_without_sharing_a_kernel_does_not_write_a_variable_in_place(unshared_tape):
    scope = ow.Scope()
    scope.var("w").set(X)
    network = ow.Network([ow.Operator("add", x="w", y="x", out="w")])
    call = network.compile(["x"], [], device="tape", scope=scope)
    for turn in (2, 3):
        call(x=X)
        np.testing.assert_array_equal(scope.find_var("w").numpy(), turn * X)
    assert network.placement().copies == 2  # the feed, and the result into the variable


def test_without_sharing_graphs_are_not_recorded_and_the_placement_states_the_reason(unshared_tape):
    network, last = make_network("add", "multiply")
    call = network.compile(["x"], [last], device="tape", scope=ow.Scope())
    for _ in range(3):
        call(x=X)
    assert unshared_tape.count("captured") == 0
    reason = "device tape gives every value separate memory, for a memory checker"
    assert network.placement().graph_refusal == reason
