"""An EagerOperator keeps a table of plans with one operator."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from plan_maker import PlanMaker, f32

from opwright import _runtime as rt
from opwright.errors import FeedError


class Eager:
    """Multiplies the sum of the inputs by the attributes; counts plans and calls of `slow`."""

    def __init__(self, n_inputs=2, duplicable=0, n_outputs=1):
        self.misses = self.slow_calls = 0
        self.duplicable = duplicable
        self.n_outputs = n_outputs
        self.n_inputs = n_inputs
        self.epoch = rt.Epoch()
        self.op = rt.EagerOperator(
            n_inputs, duplicable, self.slow, self.lower, n_outputs, epoch=self.epoch
        )

    def slow(self, *args):
        self.slow_calls += 1
        ready = [
            given if given is None else np.asarray(given, "float32", order="C")
            for given in args[: self.n_inputs]
        ]
        return self.op.call_ready(*ready, *args[self.n_inputs :])

    def lower(self, values, counts, attributes):
        self.misses += 1
        assert sum(counts) == len(values)
        return self.plan(values, attributes)

    def plan(self, arrays, attributes):
        make = PlanMaker()
        shape = arrays[0].shape if arrays else (1,)
        feeds = [make.feed(f"x{i}", a.shape, a.dtype.name) for i, a in enumerate(arrays)]
        outs = [make.out(f"out{i}", shape) for i in range(self.n_outputs)]

        def kernel(*args):
            for out in args[len(feeds) :]:
                out[...] = sum(args[: len(feeds)])
                for attribute in attributes:
                    if isinstance(attribute, (int, float)):
                        np.multiply(out, attribute, out=out)

        make.python(kernel, feeds, outs)
        return make.build()


def test_a_known_combination_is_dispatched_without_python():
    eager = Eager()
    x = f32(1, 2)
    for factor in (2.0, 2.0, float("2"), 3.0, 2.0):
        np.testing.assert_array_equal(eager.op(x, x, factor), 2 * factor * x)
    assert (eager.misses, len(eager.op.plans), eager.slow_calls) == (2, 2, 0)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1, True, False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ("same", "".join(["sa", "me"]), True),
        ((1, 2), (1, 2), True),
        ((1, 2), [1, 2], True),
        ((1, 2), (1, True), False),
        (((1,), 2.0), ((1,), 2.0), True),
        (10**30, 10**30 + 1, False),
        (10**30, 2 * 5 * 10**29, True),
        (None, 0, False),
        (None, None, True),
    ],
)
def test_attributes_match_by_value_and_by_all_nested_types(first, second, same):
    eager = Eager()
    x = f32(1)
    eager.op(x, x, first)
    eager.op(x, x, second)
    assert eager.misses == (1 if same else 2)


def test_changing_a_list_attribute_later_does_not_affect_cached_plans():
    eager = Eager()
    x, axes = f32(1), [1, 2]
    eager.op(x, x, axes)
    axes.append(3)
    eager.op(x, x, axes)
    eager.op(x, x, [1, 2])
    assert eager.misses == 2


def test_a_call_with_an_unsupported_attribute_type_is_lowered_each_time():
    eager = Eager()
    for _ in range(2):
        eager.op(f32(1), f32(1), np.float32(1))
    assert (eager.misses, len(eager.op.plans)) == (2, 0)


def test_a_plan_of_an_earlier_epoch_is_rebuilt():
    eager = Eager()
    eager.op(f32(1), f32(1))
    eager.epoch.advance()
    for _ in range(2):
        eager.op(f32(1), f32(1))
    assert (eager.misses, len(eager.op.plans)) == (2, 1)


def test_plans_are_distinguished_by_dtypes_shapes_and_number_of_arguments():
    eager = Eager()
    for args in (
        (f32(1), f32(1)),
        (f32(1, 2), f32(1, 2)),
        (np.ones((1, 2), "f"), np.ones((1, 2), "f")),
        (np.ones(1), f32(1)),
        (f32(1), f32(1), 1.0),
    ):
        for _ in range(2):
            eager.op(*args)
    assert eager.misses == 5


def test_arguments_that_need_conversion_are_passed_to_python():
    eager = Eager()
    base = np.arange(8, dtype="float32")
    for n, given in enumerate(([1.0, 2.0], base.astype(">f4")[:2], 1.5), 1):
        np.testing.assert_array_equal(eager.op(given, given), 2 * np.asarray(given, "float32"))
        assert eager.slow_calls == n
    assert eager.misses == 2  # for vectors of two floats, and for scalars


def test_strided_arrays_are_copied_without_python():
    eager = Eager()
    given = np.arange(8, dtype="float32")[::2]
    np.testing.assert_array_equal(eager.op(given, given), 2 * given)
    assert eager.slow_calls == 0


def test_lists_of_arrays_and_absent_inputs_are_accepted():
    eager = Eager(n_inputs=2, duplicable=0b01)
    x = f32(1, 2)
    for _ in range(2):
        assert eager.op([x, x], None).tolist() == [2, 4]
        assert eager.op((x,), x).tolist() == [2, 4]
        assert eager.op([x, x], x).tolist() == [3, 6]
    assert eager.misses == 3


def test_several_outputs_are_returned_as_a_tuple():
    eager = Eager(n_outputs=2)
    result = eager.op(f32(1), f32(2))
    assert isinstance(result, tuple)
    assert [r.tolist() for r in result] == [[3], [3]]


def test_calls_with_keywords_or_missing_inputs_are_passed_to_python():
    calls = []
    op = rt.EagerOperator(2, 0, lambda *args, **kwargs: calls.append((args, kwargs)), None)
    op(1, y=2)
    op()
    assert calls == [((1,), {"y": 2}), ((), {})]


def test_a_plan_lowered_for_different_arrays_does_not_run():
    eager = Eager()
    plan = eager.plan([f32(1), f32(1)], ())
    op = rt.EagerOperator(2, 0, lambda *args: None, lambda values, counts, attributes: plan)
    with pytest.raises(FeedError, match=r"x1: plan 'plan' was made for float32\(1,\), got"):
        op(f32(1), f32(1, 2))
    with pytest.raises(FeedError, match="takes 2 arrays, got 1"):
        op(f32(1), None)
    with pytest.raises(FeedError, match="inputs must be arrays that are ready"):
        op.call_ready([1.0], f32(1))


def test_arguments_are_unchanged_and_results_are_new_arrays():
    eager = Eager()
    x = f32(1, 2)
    x.flags.writeable = False
    first, second = eager.op(x, x), eager.op(x, x)
    assert not np.shares_memory(first, second)
    assert first.flags.writeable
    np.testing.assert_array_equal(x, [1, 2])


def test_a_cycle_through_slow_is_collected():
    class Owner:
        def slow(self, *args):
            return None

    owner = Owner()
    owner.op = rt.EagerOperator(1, 0, owner.slow, owner.slow)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
