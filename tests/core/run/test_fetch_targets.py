"""Fetches are written into given arrays, or returned as arrays of another library."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeTypeError, FeedError, OpwrightError

X = np.arange(4, dtype=np.float32) - 1


@pytest.fixture
def call():
    """A compiled network that returns relu(x) and x + x for any length."""
    program = ow.Program()
    block = program.global_block()
    x = block.create_var("x", [-1], "float32")
    return ow.Network(block).compile(["x"], [ow.ops.relu(x), ow.ops.add(x, x)], scope=ow.Scope())


class Lent:
    """An array of a library that exchanges arrays through DLPack."""

    def __init__(self, array):
        self.array = array

    @classmethod
    def from_dlpack(cls, source):
        return cls(np.from_dlpack(source))

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Mapped(np.ndarray):
    """A subclass of ndarray, such as numpy.memmap."""


@pytest.mark.parametrize("kind", [np.asarray, Lent, lambda a: a.view(Mapped)])
def test_a_fetch_is_written_into_the_given_array(call, kind):
    memory = np.full(4, 7, np.float32)
    out = kind(memory)
    for factor in (1, 2):
        first, second = call(factor * X, out=[out, None])
        assert first is out
        np.testing.assert_array_equal(memory, np.maximum(factor * X, 0))
        np.testing.assert_array_equal(second, 2 * factor * X)


def test_the_kernel_writes_directly_into_a_contiguous_array(call):
    out = np.zeros(4, np.float32)
    seen = []

    def relu(x, out):
        seen.append(out.ctypes.data)
        np.maximum(x, 0, out=out)

    context = ow.Context.discover()
    package = ow.plugin.Package("seer", "seer", "1.0")
    context.kernels.add("relu", device="cpu", dtypes="*", kernel=relu, library="seer",
                        package=package, priority=99)  # fmt: skip
    network = ow.Network([ow.Operator("relu", x="x", out="y")])
    with ow.context_guard(context):
        network.compile(["x"], ["y"], scope=ow.Scope())(X, out=[out])
    assert seen == [out.ctypes.data]


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_a_fetch_is_copied_into_an_array_of_any_strides_and_byte_order(call, dtype):
    memory = np.zeros((4, 2), dtype)
    call(X, out=(None, memory[:, 1]))
    np.testing.assert_array_equal(memory, np.stack([0 * X, 2 * X], 1))


def test_results_without_a_given_array_are_in_new_memory_owned_by_the_caller(call):
    first, second = call(X)
    again, _ = call(2 * X)
    np.testing.assert_array_equal(first, np.maximum(X, 0))
    np.testing.assert_array_equal(again, np.maximum(2 * X, 0))
    second[:] = 0
    np.testing.assert_array_equal(call(X)[1], 2 * X)


def test_arrays_given_as_out_are_not_written_by_later_calls(call):
    out = [np.zeros(4, np.float32), np.zeros(4, np.float32)]
    call(X, out=out)
    (first, _) = call(-X)
    np.testing.assert_array_equal(out[0], np.maximum(X, 0))
    np.testing.assert_array_equal(first, np.maximum(-X, 0))


Y, Z = np.zeros(4, np.float32), np.zeros(8, np.float32)
FIXED = np.zeros(4, np.float32)
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        (Y, r"^out: must be a list .* got numpy.ndarray; write out=\[array\]"),
        ([Y], "^out: must have an array, or None, for each of the fetches, which are 2, got 1"),
        ([Y, np.zeros(4)], r"^out\[1\]: .* float32\(4,\), got float64\(4,\); pass such"),
        ([np.zeros(5, np.float32), None], r"^out\[0\]: .*, float32\(4,\), got float32\(5,\)"),
        ([None, FIXED], r"^out\[1\]: it is written, got a read-only array; pass a copy"),
        ([Z[:4], Z[3:7]], r"^out\[0\]: a written array .* overlaps the array of out\[1\]"),
        ([X, None], r"^out\[0\]: a written array .* overlaps the array of feed 'x'; pass another"),
        (
            [np.lib.stride_tricks.as_strided(np.zeros(1, "f"), (4,), (0,)), None],
            r"^out\[0\]: each element must have its own memory, .* whose strides overlap; pass",
        ),
        ([[0, 0, 0, 0], None], r"^out\[0\]: must be an array whose memory .* got list; pass"),
    ],
)
def test_an_unwritable_variable_is_refused_before_the_first_step(call, out, reason):
    call(X)
    before = Y.copy(), X.copy()
    with pytest.raises(FeedError, match=reason):
        call(X, out=out)
    np.testing.assert_array_equal((Y, X), before)


def test_a_fetch_target_must_not_be_the_array_of_a_variable():
    scope, w = ow.Scope(), X.copy()
    scope.var("w").borrow(w)
    network = ow.Network([ow.Operator("add", x="x", y="w", out="y")])
    call = network.compile(["x"], ["y"], scope=scope)
    with pytest.raises(FeedError, match=r"^out\[0\]: .* overlaps the array of variable 'w'; pass"):
        call(X, out=[w])


def test_a_value_that_is_fetched_twice_is_written_twice():
    call = ow.Network([ow.Operator("relu", x="x", out="y")]).compile(["x"], ["y", "y", "x"])
    out = [np.zeros(4, np.float32) for _ in range(3)]
    call(X, out=out)
    np.testing.assert_array_equal(out, [np.maximum(X, 0), np.maximum(X, 0), X])


def test_fetch_targets_after_a_dynamic_shape_are_written_and_checked():
    ops = [ow.Operator("unique", x="x", out="s"), ow.Operator("negative", x="s", out="y")]
    call = ow.Network(ops).compile(["x"], ["y"], scope=ow.Scope())
    out = np.zeros(4, np.float32)
    assert call(X, out=[out])[0] is out
    np.testing.assert_array_equal(out, -X)
    with pytest.raises(OpwrightError, match=r"out\[0\]: must match .* float32\(1,\), got float32"):
        call(0 * X, out=[out])
    with pytest.raises(FeedError, match=r"out\[0\]: .* overlaps the array of feed 'x'"):
        call(X, out=[X])


@pytest.mark.parametrize("compiled", [True, False])
def test_an_importer_converts_the_results(call, compiled):
    if compiled:
        call.fetch_as = Lent.from_dlpack
        results = call(X)
    else:
        results = call(X, fetch_as=Lent.from_dlpack)
    assert [type(result) for result in results] == [Lent, Lent]
    np.testing.assert_array_equal(results[1].array, 2 * X)


def test_the_importer_passed_to_a_call_replaces_the_importer_passed_to_compile():
    network = ow.Network([ow.Operator("relu", x="x", out="y")])
    call = network.compile(["x"], ["y"], fetch_as=Lent.from_dlpack)
    assert type(call(X)[0]) is Lent
    assert type(call(X, fetch_as=np.asarray)[0]) is np.ndarray
    assert type(call(X, fetch_as=None)[0]) is Lent


def test_fetch_targets_are_returned_unchanged_with_an_importer(call):
    out = np.zeros(4, np.float32)
    first, second = call(X, out=[out, None], fetch_as=Lent.from_dlpack)
    assert (first is out, type(second)) == (True, Lent)


def test_an_importer_can_convert_bfloat16():
    network = ow.Network([ow.Operator("cast", x="x", out="y", dtype="bfloat16")])
    (tensor,) = network.compile(["x"], ["y"], fetch_as=lambda tensor: tensor)(X)
    assert tensor.dtype == "bfloat16"
    np.testing.assert_array_equal(np.asarray(tensor), X.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"fetch_as": "torch"}, "fetch_as must be callable, as torch.from_dlpack is, got 'torch'"),
        ({"detach": "yes"}, "detach must be True or False, got 'yes'"),
    ],
)
def test_a_value_that_is_not_an_importer_or_a_flag_is_refused(call, options, reason):
    network = ow.Network([ow.Operator("relu", x="x", out="y")])
    with pytest.raises((FeedError, AttributeTypeError), match=f"^Network.compile: {reason}"):
        network.compile(["x"], ["y"], **options)
    with pytest.raises(FeedError, match="^fetch_as: must be callable, .* got 'torch'"):
        call(X, fetch_as="torch")


def test_exceptions_raised_by_an_importer_propagate_unchanged(call):
    def refuse(array):
        raise ZeroDivisionError("no import today")

    with pytest.raises(ZeroDivisionError, match="no import today"):
        call(X, fetch_as=refuse)


def test_feeds_can_be_given_in_one_dict(call):
    np.testing.assert_array_equal(call({"x": X})[1], 2 * X)
    with pytest.raises(FeedError, match="unknown feed, got 'y'; names are 'x'"):
        call({"y": X})
    with pytest.raises(FeedError, match="'x' must be given once, got it in the dict and by name"):
        call({"x": X}, x=X)
    with pytest.raises(FeedError, match="feeds must be named by strings, got 3"):
        call({3: X})


def test_a_feed_can_have_the_name_of_an_option():
    network = ow.Network([ow.Operator("add", x="out", y="fetch_as", out="y")])
    call = network.compile(["out", "fetch_as"], ["y"], scope=ow.Scope())
    np.testing.assert_array_equal(call(out=X, fetch_as=X)[0], 2 * X)
    feeds, out = {"out": X, "fetch_as": 2 * X}, np.zeros(4, np.float32)
    (result,) = call(feeds, out=[out])
    assert result is out
    np.testing.assert_array_equal(out, 3 * X)
    assert type(call(feeds, fetch_as=Lent.from_dlpack)[0]) is Lent
