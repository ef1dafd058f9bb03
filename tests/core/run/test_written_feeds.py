"""A network can write feeds in place, like a persistable of the same name."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError, KernelError, ProgramError

X = np.array([1, 2, 3], np.float32)
FIXED = np.zeros(3, np.float32)
FIXED.flags.writeable = False


def running():
    """Return operators that add `x` to `mean` twice, and read `mean` after each addition."""
    return [
        ow.Operator("add", x="mean", y="x", out="mean"),
        ow.Operator("multiply", x="mean", y="x", out="between"),
        ow.Operator("add", x="mean", y="x", out="mean"),
        ow.Operator("negative", x="mean", out="behind"),
    ]


def composite():
    """Return operators that overwrite `mean` with tanh(mean * x) and then read `mean`."""
    return [
        ow.Operator("multiply", x="mean", y="x", out="h"),
        ow.Operator("tanh", x="h", out="mean"),
        ow.Operator("add", x="mean", y="h", out="between"),
        ow.Operator("relu", x="mean", out="behind"),
    ]


def updated():
    """Return operators that include sgd, which declares that it writes its inputs in place."""
    return [
        ow.Operator("fill", shape=[1], value=0.5, dtype="float32", out="rate"),
        ow.Operator("multiply", x="mean", y="x", out="between"),
        ow.Operator("sgd", param="mean", grad="x", learning_rate="rate", param_out="mean"),
        ow.Operator("negative", x="mean", out="behind"),
    ]


NETWORKS = [running, composite, updated]
FETCH = ["between", "behind", "mean"]


@pytest.mark.parametrize("passes", [None, []])
@pytest.mark.parametrize("make", NETWORKS)
def test_a_written_feed_receives_the_value_that_a_persistable_would_receive(make, passes):
    scope = ow.Scope()
    scope.var("mean").set(np.full(3, 2, np.float32))
    kept = ow.Network(make()).compile(["x"], FETCH, scope=scope, passes=passes)
    fed = ow.Network(make()).compile(
        ["mean", "x"], FETCH, scope=ow.Scope(), passes=passes, writes=["mean"]
    )
    mean = np.full(3, 2, np.float32)
    for factor in (1, 2, 3):
        for result, wanted in zip(fed(mean, factor * X), kept(factor * X), strict=True):
            np.testing.assert_array_equal(result, wanted)
        np.testing.assert_array_equal(mean, scope.var("mean").numpy())


@pytest.mark.parametrize("make", NETWORKS)
def test_a_feed_that_is_not_declared_is_never_written(make):
    call = ow.Network(make()).compile(["mean", "x"], FETCH, scope=ow.Scope())
    mean = np.full(3, 2, np.float32)
    call(mean, X)
    np.testing.assert_array_equal(mean, 2)


def test_a_plan_writes_into_the_array_of_each_call():
    call = ow.Network(running()).compile(["mean", "x"], [], writes=["mean"])
    means = [np.zeros(3, np.float32) for _ in range(3)]
    for turn in (1, 2):
        for mean in means:
            call(mean, X)
            np.testing.assert_array_equal(mean, turn * 2 * X)
    assert len(call.plans) == 1


def test_a_network_without_fetches_can_write_a_feed():
    network = ow.Network([ow.Operator("add", x="mean", y="x", out="mean")])
    call = network.compile(["mean", "x"], [], scope=ow.Scope(), writes=["mean"])
    mean = np.zeros(3, np.float32)
    assert call(mean, X) == []
    np.testing.assert_array_equal(mean, X)


def test_feeds_after_a_dynamic_shape_are_also_written():
    ops = [
        ow.Operator("unique", x="x", out="s"),
        ow.Operator("sum", x="s", out="total"),
        ow.Operator("add", x="mean", y="total", out="mean"),
    ]
    call = ow.Network(ops).compile(["mean", "x"], ["total"], scope=ow.Scope(), writes=["mean"])
    mean = np.zeros(3, np.float32)
    for turn, x in enumerate((X, X, np.float32([2, 2, 4])), start=1):
        assert float(call(mean, x)[0]) == 6
        np.testing.assert_array_equal(mean, 6 * turn)
    with pytest.raises(FeedError, match="feed 'mean': it is written, got a read-only array"):
        call(FIXED, X)


@pytest.mark.parametrize(
    ("mean", "reason"),
    [
        (FIXED, "feed 'mean': it is written, got a read-only array; pass a copy of it"),
        (X, "feed 'mean': a written array must have .* overlaps the array of feed 'x'; pass"),
        (np.zeros(6, np.float32)[::2], "feed 'mean': it is written, so it must be contiguous, .*"),
        (np.zeros(3, ">f4"), "feed 'mean': it is written, so it must be .* native byte order"),
        ([0, 0, 0], "feed 'mean': must be an array whose memory can be used in place, got list"),
        (np.zeros(4, np.float32), "."),
    ],
)
def test_an_array_that_cannot_be_written_in_place_is_refused_and_unchanged(mean, reason):
    call = ow.Network(running()).compile(["mean", "x"], FETCH, writes=["mean"])
    call(np.zeros(3, np.float32), X)
    before = np.array(mean), X.copy()
    for _ in range(2):
        with pytest.raises(ow.errors.OpwrightError, match=reason):
            call(mean, X)
    np.testing.assert_array_equal(mean, before[0])
    np.testing.assert_array_equal(X, before[1])


def test_a_written_feed_that_overlaps_a_variable_is_refused():
    scope, mean = ow.Scope(), np.zeros(3, np.float32)
    scope.var("x").borrow(mean)
    call = ow.Network(running()).compile(["mean"], [], scope=scope, writes=["mean"])
    with pytest.raises(FeedError, match="feed 'mean': .* overlaps the array of variable 'x'; pass"):
        call(mean)


@pytest.mark.parametrize(
    ("writes", "reason"),
    [
        (["men"], "^writes: must be feeds, got 'men'; did you mean 'mean'"),
        (["x"], "^writes: no operator writes 'x'; .*omit it"),
        ("mean", r"writes must be a list, got 'mean'; write writes=\['mean'\]"),
    ],
)
def test_compile_refuses_writes_that_are_not_written_feeds(writes, reason):
    with pytest.raises(FeedError, match=reason):
        ow.Network(running()).compile(["mean", "x"], writes=writes)


def test_a_written_feed_keeps_its_shape():
    ops = [ow.Operator("sum", x="mean", out="mean")]
    call = ow.Network(ops).compile(["mean"], [], writes=["mean"])
    with pytest.raises(ProgramError, match="'mean': a written feed keeps one shape and dtype"):
        call(X.copy())


def test_a_written_feed_cannot_have_a_shape_that_depends_on_values():
    ops = [ow.Operator("unique", x="mean", out="mean")]
    call = ow.Network(ops).compile(["mean"], [], writes=["mean"])
    with pytest.raises(ProgramError, match="'mean': a written feed keeps one shape and dtype"):
        call(X.copy())


def test_the_error_for_a_failed_step_names_the_feeds_written_before_it():
    def fail(x, out):
        raise RuntimeError("no")

    context = ow.Context.discover()
    package = ow.plugin.Package("torn", "torn", "1.0")
    context.kernels.add("negative", device="cpu", dtypes="*", kernel=fail, library="torn",
                        package=package, priority=99)  # fmt: skip
    with ow.context_guard(context):
        call = ow.Network(running()).compile(["mean", "x"], ["behind"], writes=["mean"])
        with pytest.raises(KernelError, match="had already updated: mean"):
            call(np.zeros(3, np.float32), X)


def test_a_profile_does_not_write_the_arrays_of_the_caller():
    call = ow.Network(running()).compile(["mean", "x"], ["behind"], writes=["mean"])
    mean = np.zeros(3, np.float32)
    call.profile({"mean": mean, "x": X}, 2)
    np.testing.assert_array_equal(mean, 0)
