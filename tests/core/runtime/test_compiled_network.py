"""The callable: feeds by name, plans by metas, fetches as arrays."""

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


class Resolver:
    """Makes a plan for each new meta, and counts."""

    def __init__(self):
        self.calls = 0

    def __call__(self, feeds):
        self.calls += 1
        if set(feeds) != {"x"}:
            raise FeedError(f"feeds are x, got {sorted(feeds)}")
        x = np.asarray(feeds["x"], order="C")
        x = np.require(x.astype(x.dtype.newbyteorder("=")), requirements="CA")
        return double_plan(x.shape, x.dtype.name), [x]


def test_one_plan_serves_all_feeds_of_its_metas():
    resolve = Resolver()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], resolve)
    for _ in range(3):
        call(x=f32(1, 2))
        call(x=np.array([1, 2], "int64"))
        call(x=f32(1, 2, 3))
    assert (resolve.calls, call.n_plans, call.feed_names) == (3, 3, ("x",))
    call.clear()
    assert call.n_plans == 0
    np.testing.assert_array_equal(call(x=f32(1, 2))[0], [2, 4])


def test_feeds_that_are_not_ready_are_resolved_each_time():
    resolve = Resolver()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], resolve)
    base = np.arange(8, dtype="float32")
    unaligned = np.frombuffer(b"\0" + base.tobytes(), "float32", 8, 1)
    strange = [
        (base[::2], [0, 4, 8, 12]),
        (base.astype(">f4"), 2 * base),
        (unaligned, 2 * base),
        ([1.0, 2.0], [2, 4]),
        (base.view(np.recarray), 2 * base),
    ]
    for n, (given, wanted) in enumerate(strange, 1):
        np.testing.assert_array_equal(call(x=given)[0], wanted)
        assert resolve.calls == n


def test_at_most_eight_plans_are_kept_most_recent_first():
    resolve = Resolver()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], resolve)
    for n in range(10):
        call(x=np.zeros(n, "float32"))
    assert call.n_plans == 8
    call(x=np.zeros(9, "float32"))
    assert resolve.calls == 10
    call(x=np.zeros(0, "float32"))
    assert resolve.calls == 11


def test_wrong_names_and_positional_feeds_are_errors():
    call = rt.CompiledNetwork(rt.Scope(), ["x"], Resolver())
    for feeds in ({}, {"y": f32(1)}, {"x": f32(1), "y": f32(1)}):
        with pytest.raises(FeedError, match="feeds are x, got"):
            call(**feeds)
    with pytest.raises(TypeError, match="takes its feeds by name"):
        call(f32(1))


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
    ("arrays", "message"),
    [
        ([f32(1, 2, 3)], r"x: plan 'plan' was made for float32\(4,\), got float32\(3,\)"),
        ([np.zeros(4, "int8")], r"got int8\(4,\)"),
        ([np.zeros(8, "float32")[::2]], "x: a feed is a C-contiguous"),
        ([], "one array a feed is needed, got 0 for 1"),
    ],
)
def test_what_resolve_answers_is_checked(arrays, message):
    plan = double_plan()
    call = rt.CompiledNetwork(rt.Scope(), ["x"], lambda feeds: (plan, arrays))
    with pytest.raises(FeedError, match=message):
        call(x=f32(1, 2, 3, 4))


def test_a_plan_that_captures_cannot_run_alone():
    make = PlanMaker("child")
    make.python(lambda out: None, [], [make.captured("c")])
    plan = make.build()
    with pytest.raises(ProgramError, match="plan 'child': a plan that captures values runs inside"):
        plan.run()
    with pytest.raises(ProgramError, match="captures"):
        compiled(plan)()


def test_run_takes_only_plans_without_feeds():
    with pytest.raises(FeedError, match="run takes plans without feeds"):
        double_plan().run()


def test_fetch_device_returns_tensors():
    call = compiled(double_plan(), "x")
    call.fetch_device = True
    (result,) = call(x=f32(1, 2, 3, 4))
    assert isinstance(result, rt.Tensor)
    assert result.device == "cpu"
    np.testing.assert_array_equal(result.numpy(), [2, 4, 6, 8])


def test_a_kernel_may_call_the_network_that_runs_it():
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
    for _ in range(20):  # long enough, by its estimate, to let go of the GIL
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
                call.clear()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_cycle_through_resolve_is_collected():
    class Owner:
        pass

    owner = Owner()
    owner.resolve = lambda feeds, owner=owner: (owner.plan, [])
    owner.call = rt.CompiledNetwork(rt.Scope(), [], owner.resolve)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
