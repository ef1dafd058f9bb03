"""A CompiledNetwork takes feeds by name, caches plans by metas, and returns arrays."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from plan_maker import PlanMaker, compiled, f32

from opwright import _runtime as rt
from opwright.errors import FeedError, ProgramError


def double_plan(shape=(4,), dtype="float32"):
    make = PlanMaker()
    out = make.out("out", shape, dtype)
    make.python(lambda x, out: np.add(x, x, out=out), [make.feed("x", shape, dtype)], [out])
    return make.build()


class Source:
    """Builds plans, converts feeds, and counts both; rejects calls with wrong feed names."""

    def __init__(self):
        self.calls = 0
        self.n_read = 0

    def __call__(self, arrays):
        self.calls += 1
        (x,) = arrays
        return double_plan(x.shape, x.dtype.name)

    def read_feed(self, i, value):
        self.n_read += 1
        x = np.asarray(value, order="C")
        return np.require(x.astype(x.dtype.newbyteorder("=")), requirements="CA")

    def refuse_names(self, n_positional, names):
        raise FeedError(f"feeds are x, got {n_positional} and {sorted(names)}")


def test_all_feeds_with_the_same_metas_use_one_plan():
    source = Source()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], source)
    for _ in range(3):
        call(x=f32(1, 2))
        call(np.array([1, 2], "int64"))
        call(x=f32(1, 2, 3))
    assert (source.calls, len(call.plans), call.feed_names) == (3, 3, ("x",))
    call.plans.clear()
    assert len(call.plans) == 0
    np.testing.assert_array_equal(call(x=f32(1, 2))[0], [2, 4])


def test_a_plan_of_an_earlier_epoch_is_rebuilt():
    source, epoch = Source(), rt.Epoch()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], source, None, epoch)
    for _ in range(2):
        call(f32(1))
    epoch.advance()
    for _ in range(2):
        call(f32(1))
    rt.advance_epochs()
    call(f32(1))
    assert (source.calls, len(call.plans)) == (3, 1)


def test_feeds_that_need_conversion_are_converted_once_and_share_the_plan():
    source = Source()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], source)
    base = np.arange(8, dtype="float32")
    unaligned = np.frombuffer(b"\0" + base.tobytes(), "float32", 8, 1)
    for given, wanted, n_read in (
        (base[::2], [0, 4, 8, 12], 0),
        (unaligned, 2 * base, 0),
        (base.astype(">f4"), 2 * base, 1),
        ([1.0, 2.0], [2, 4], 1),
        (base.view(np.recarray), 2 * base, 1),
    ):
        before = source.n_read
        np.testing.assert_array_equal(call(x=given)[0], wanted)
        assert source.n_read == before + n_read
    assert source.calls == len(call.plans) == 3  # for 4 floats, 8 floats, and 2 doubles


def test_calls_with_wrong_feed_names_are_passed_to_the_source():
    call = rt.CompiledNetwork(rt.Scope(), ["x"], Source())
    for feeds in ({}, {"y": f32(1)}, {"x": f32(1), "y": f32(1)}):
        with pytest.raises(FeedError, match="feeds are x, got 0 and"):
            call(**feeds)
    with pytest.raises(FeedError, match=r"feeds are x, got 1 and \['x'\]"):
        call(f32(1), x=f32(1))
    with pytest.raises(FeedError, match=r"feeds are \('x',\), got 2 by position"):
        rt.CompiledNetwork(rt.Scope(), ["x"], lambda arrays: None)(f32(1), f32(2))


def test_names_that_are_equal_but_not_identical_match_in_any_order():
    make = PlanMaker()
    x, y = make.feed("x"), make.feed("y")
    make.python(lambda x, y, out: np.subtract(x, y, out=out), [x, y], [make.out("out")])
    call = compiled(make.build(), "y", "x")
    feeds = {
        "".join(["", name]): value
        for name, value in (("x", f32(5, 5, 5, 5)), ("y", f32(1, 2, 3, 4)))
    }
    for _ in range(2):
        np.testing.assert_array_equal(call(**feeds)[0], [4, 3, 2, 1])
        np.testing.assert_array_equal(call(y=feeds["y"], x=feeds["x"])[0], [4, 3, 2, 1])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (f32(1, 2, 3), r"x: plan 'plan' was made for float32\(4,\), got float32\(3,\)"),
        (np.zeros(4, "int8"), r"got int8\(4,\)"),
        ([1.0], "x: a feed must be a C-contiguous"),
    ],
)
def test_a_plan_lowered_for_different_feeds_does_not_run(array, message):
    plan = double_plan()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], lambda arrays: plan)
    with pytest.raises(FeedError, match=message):
        call(x=array)


def test_a_plan_that_captures_values_cannot_run_alone():
    make = PlanMaker("child")
    make.python(lambda out: None, [], [make.captured("c")])
    plan = make.build()
    with pytest.raises(ProgramError, match="plan 'child': a plan that captures values must run"):
        plan.run()
    with pytest.raises(ProgramError, match="captures"):
        compiled(plan)()


def test_run_refuses_plans_with_feeds():
    with pytest.raises(FeedError, match="run takes plans without feeds"):
        double_plan().run()


def test_fetch_device_returns_tensors():
    call = compiled(double_plan(), "x")
    call.fetch_device = True
    (result,) = call(x=f32(1, 2, 3, 4))
    assert isinstance(result, rt.Tensor)
    assert result.device == "cpu"
    np.testing.assert_array_equal(result.numpy(), [2, 4, 6, 8])


def test_a_kernel_can_call_the_network_that_runs_it():
    depth = []

    def kernel(x, out):
        depth.append(1)
        out[...] = x if len(depth) > 3 else call(x=x.copy())[0] + 1

    make = PlanMaker()
    make.python(kernel, [make.feed("x")], [make.out("out")])
    plan = make.build()
    call = compiled(plan, "x")
    np.testing.assert_array_equal(call(x=f32(0, 0, 0, 0))[0], 3)
    assert plan.instances == 4


def test_threads_share_one_callable(kernels):
    meta = ((4,), 2 | 32 << 8 | 1 << 16)
    scale = rt.prepare_native(kernels["scale"], [("factor", 2, 2.0)], [[meta]], [[meta]])
    make = PlanMaker()
    x, t = make.feed("x"), make.temp()
    make.builder.arena_bytes = space = make.space + 128
    for _ in range(20):  # estimated to take long enough to release the GIL
        make.kernel(
            scale, [x], [t], workspace_offset=space - 128, workspace_bytes=128, estimate_ns=10_000
        )
    make.python(lambda a, out: np.copyto(out, a), [t], [make.out("out")])
    call = compiled(make.build(), "x")
    wrong = []

    def work(i):
        given = np.full(4, i, "float32")
        for _ in range(500):
            if (call(x=given)[0] != 2 * i).any():
                wrong.append(i)
            if i == 0:
                call.plans.clear()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_cycle_through_the_source_is_collected():
    class Owner:
        pass

    owner = Owner()
    owner.source = lambda arrays, owner=owner: owner.plan
    owner.call = rt.CompiledNetwork(rt.Scope(), [], owner.source)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_a_cycle_through_a_kept_plan_is_collected():
    class Lowered:
        pass

    lowered = Lowered()
    lowered.plan = double_plan((1,))
    lowered.call = rt.CompiledNetwork(rt.Scope(), ["x"], lambda arrays, lowered=lowered: lowered)
    lowered.call(f32(1))
    assert lowered.call.plans.last is lowered
    gone = weakref.ref(lowered)
    del lowered
    gc.collect()
    assert gone() is None
