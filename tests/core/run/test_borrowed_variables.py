"""Scope variables can borrow memory from another owner."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError, ProgramError

X = np.array([1, 2, 3], np.float32)


class Lent:
    """An array of a library that exports arrays through DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def compiled(scope, *ops, fetch=()):
    return ow.Network(list(ops)).compile(["x"], list(fetch), scope=scope)


@pytest.mark.parametrize("kind", [np.asarray, Lent])
def test_plans_and_the_caller_share_the_memory_of_a_borrowed_array(kind):
    scope, memory = ow.Scope(), np.zeros(3, np.float32)
    scope.var("w").borrow(kind(memory))
    call = compiled(scope, ow.Operator("add", x="w", y="x", out="w"))
    call(X)
    np.testing.assert_array_equal(memory, X)
    memory[:] = 10
    call(X)
    np.testing.assert_array_equal(memory, 10 + X)


def test_touch_increments_only_the_version():
    scope = ow.Scope()
    variable = scope.var("w")
    variable.borrow(X.copy())
    before = variable.version, scope.structure_version
    variable.touch()
    assert (variable.version, scope.structure_version) == (before[0] + 1, before[1])


def test_touch_causes_values_computed_only_from_parameters_to_be_recomputed():
    scope, w = ow.Scope(), np.ones((3, 3), np.float32)
    scope.var("w").borrow(w)
    call = compiled(
        scope,
        ow.Operator("exp", x="w", out="e"),
        ow.Operator("matmul", x="x", y="e", out="y"),
        fetch=["y"],
    )
    x = np.eye(3, dtype=np.float32)
    np.testing.assert_allclose(call(x)[0], np.exp(w), rtol=1e-6)
    w[:] = 2
    scope.var("w").touch()
    np.testing.assert_allclose(call(x)[0], np.exp(w), rtol=1e-6)


def read_only(array):
    array.flags.writeable = False
    return array


def test_a_read_only_array_can_be_read_but_a_plan_that_writes_it_raises_before_its_first_step():
    scope, w = ow.Scope(), read_only(X.copy())
    scope.var("w").borrow(w)
    scope.var("v").set(X)
    np.testing.assert_array_equal(
        compiled(scope, ow.Operator("add", x="w", y="x", out="y"), fetch=["y"])(X)[0], 2 * X
    )
    call = compiled(
        scope,
        ow.Operator("add", x="v", y="x", out="v"),
        ow.Operator("add", x="w", y="v", out="w"),
    )
    for _ in range(2):
        with pytest.raises(ProgramError, match="^w: plan 'cpu' writes .* got a read-only array"):
            call(X)
    np.testing.assert_array_equal(w, X)
    np.testing.assert_array_equal(scope.var("v").numpy(), X)


def test_a_read_only_array_is_replaced_when_the_variable_is_set():
    scope, w = ow.Scope(), read_only(X.copy())
    scope.var("w").borrow(w)
    call = compiled(scope, ow.Operator("add", x="w", y="x", out="w"), fetch=["w"])
    scope.var("w").set(5 * X)
    np.testing.assert_array_equal(call(X)[0], 6 * X)
    scope.var("w").borrow(w)
    scope.set_all({"w": 7 * X})
    np.testing.assert_array_equal(call(X)[0], 8 * X)
    np.testing.assert_array_equal(w, X)


def test_a_read_only_array_is_exported_as_read_only():
    scope = ow.Scope()
    scope.var("w").borrow(read_only(X.copy()))
    assert not np.from_dlpack(scope.var("w")).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        scope.var("w").__dlpack__()


def test_an_array_is_kept_until_the_variable_releases_it():
    scope = ow.Scope()
    array = Lent(X.copy())
    gone = weakref.ref(array.array)
    scope.var("w").borrow(array)
    del array
    gc.collect()
    np.testing.assert_array_equal(scope.var("w").numpy(), X)
    assert gone() is not None
    scope.erase("w")
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.ones((3, 2), np.float32).T, "w: borrow requires .* got another numpy.ndarray; pass it"),
        (X.astype(">f4"), "w: borrow requires a .* array of native byte order"),
        ([1.0], "w: must be an array whose memory can be used in place, got list"),
        (Lent(np.ones(6, np.float32)[::2]), "w: borrow requires a contiguous"),
    ],
)
def test_a_value_that_cannot_be_borrowed_in_place_is_refused(array, reason):
    scope = ow.Scope()
    with pytest.raises(FeedError, match=reason):
        scope.var("w").borrow(array)
    assert not scope.var("w").is_set
