"""Python kernels that keep or alter their arrays do not corrupt memory or later runs."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from plan_maker import PlanMaker, StepError, compiled, f32

from opwright import _runtime as rt

KEEPERS = {
    "the array": lambda kept, x: kept.append(x),
    "a slice": lambda kept, x: kept.append(x[1:]),
    "a reshape": lambda kept, x: kept.append(x.reshape(2, -1).T),
    "a memoryview": lambda kept, x: kept.append(memoryview(x)),
    "a weak reference": lambda kept, x: kept.append(weakref.ref(x)),
    "the flat iterator": lambda kept, x: kept.append(x.flat),
}


def read(kept):
    kept = kept() if isinstance(kept, weakref.ref) else kept
    return None if kept is None else np.asarray(kept).sum()


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
@pytest.mark.parametrize("many", [False, True], ids=["plain", "list"])
def test_an_array_that_a_kernel_kept_stays_valid_and_does_not_show_later_feeds(keep, many):
    kept = []

    def kernel(x, w, out):
        for array in x if many else (x,):
            keep(kept, array)
        keep(kept, w)
        keep(kept, out)
        np.add(x[0] if many else x, w, out=out)

    make = PlanMaker()
    x, w, t = make.feed("x"), make.persistable("w"), make.temp()
    prepared = rt.prepare_python(kernel, (0, 1, 2), duplicable={0} if many else ())
    make.builder.kernel(prepared, (x, w, t), (0, 1, 2, 3), 2, 0)
    make.python(lambda a, out: out.__setitem__(..., a), [t], [make.out("out")])
    scope = rt.Scope()
    scope.var("w").set(f32(1, 1, 1, 1))
    call = compiled(make.build(), "x", scope=scope)
    for i in range(4):
        given = np.full(4, i, "float32")
        np.testing.assert_array_equal(call(x=given)[0], i + 1)
        del given
    scope.var("w").set(np.zeros((9, 9), "float32"))  # replaces the old tensor
    del call, make, scope, prepared
    gc.collect()
    churn = [np.full(4, 1e9, "float32") for _ in range(1000)]
    sums = [read(k) for k in kept]
    assert len(churn) == 1000
    assert all(s is None or s < 1e6 for s in sums)


def test_a_list_of_arrays_that_a_kernel_kept_is_replaced():
    kept = []

    def kernel(x, out):
        kept.append(x)
        np.add(x[0], x[1], out=out)

    make = PlanMaker()
    x, y, out = make.feed("x"), make.feed("y"), make.out("out")
    prepared = rt.prepare_python(kernel, (0, 1), duplicable={0})
    make.builder.kernel(prepared, (x, y, out), (0, 2, 3), 1, 0)
    call = compiled(make.build(), "x", "y")
    for i in range(3):
        call(x=np.full(4, i, "f"), y=np.full(4, 10.0 * i, "f"))
    assert [[a[0] for a in pair] for pair in kept] == [[0, 0], [1, 10], [2, 20]]


def test_a_feed_is_released_after_the_call_unless_a_kernel_holds_a_reference():
    make = PlanMaker()
    make.python(lambda x, out: None, [make.feed("x")], [make.out("out")])
    call = compiled(make.build(), "x")
    given = np.zeros(4, "float32")
    gone = weakref.ref(given)
    call(x=given)
    del given
    assert gone() is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: setattr(a, "shape", (2, 2)),
        lambda a: setattr(a, "dtype", "int32"),
        lambda a: a.setflags(write=False),
        lambda a: a.__setstate__((1, (2,), np.dtype("f"), False, b"\0" * 8)),
    ],
    ids=["shape", "dtype", "flags", "setstate"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_array_object_that_a_kernel_altered_is_recreated(spoil):
    def kernel(x, out):
        assert x.shape == out.shape == (4,)
        assert x.dtype == out.dtype == np.float32
        np.add(x, 1, out=out)
        spoil(out)
        spoil(x)

    make = PlanMaker()
    make.python(kernel, [make.feed("x")], [make.out("out")])
    call = compiled(make.build(), "x")
    for i in range(3):
        np.testing.assert_array_equal(call(x=np.full(4, i, "f"))[0], i + 1)


def test_an_array_cannot_be_resized_and_inputs_cannot_be_written():
    def grow(x, out):
        out.resize((100,))

    def write(x, out):
        x[0] = 1

    for kernel, message in ((grow, "does not own its data"), (write, "read-only")):
        make = PlanMaker()
        make.python(kernel, [make.feed("x")], [make.out("out")])
        call = compiled(make.build(), "x")
        with pytest.raises(StepError, match=message) as raised:
            call(x=f32(1, 2, 3, 4))
        assert isinstance(raised.value.__cause__, ValueError)


def test_arrays_in_a_traceback_stay_readable():
    def kernel(x, out):
        raise ValueError("no")

    make = PlanMaker()
    make.python(kernel, [make.feed("x")], [make.out("out")])
    call = compiled(make.build(), "x")
    errors = []
    for i in range(3):
        with pytest.raises(StepError) as raised:
            call(x=np.full(4, i, "f"))
        errors.append(raised.value.__cause__)
    del call, make
    gc.collect()
    frames = [e.__traceback__.tb_frame.f_locals for e in errors]
    assert [f["x"][0] for f in frames] == [0, 1, 2]


def test_a_kernel_that_returns_a_new_array_raises():
    make = PlanMaker()
    make.python(lambda x, out: x + 1, [make.feed("x")], [make.out("out")])
    with pytest.raises(StepError, match=r"write out\[...\] = result"):
        compiled(make.build(), "x")(x=f32(1, 2, 3, 4))
    make = PlanMaker()
    make.python(np.negative, [make.feed("x")], [make.out("out")])  # returns its own output
    assert compiled(make.build(), "x")(x=f32(1, 2, 3, 4))[0][3] == -4


class Bindable:
    """A kernel that binds to its arrays and records each binding."""

    def __init__(self):
        self.bound = []

    def bind(self, x, w, out, *, scale):
        self.bound.append((x, w, out))

        def run():
            np.add(x, w, out=out)
            np.multiply(out, scale, out=out)

        return run


def test_a_bound_kernel_is_rebound_only_if_its_memory_has_moved():
    kernel = Bindable()
    make = PlanMaker()
    x, w, t, out = make.feed("x"), make.persistable("w"), make.temp(), make.temp()
    make.python(lambda a, out: out.__setitem__(..., a), [x], [t])
    prepared = rt.prepare_python(kernel, (0, 1, 2), constants={"scale": 2.0}, bind=True)
    make.kernel(prepared, [t, w], [out])
    make.builder.fetch(out)
    scope = rt.Scope()
    scope.var("w").set(f32(1, 1, 1, 1))
    call = compiled(make.build(), "x", scope=scope)
    for i in range(3):
        np.testing.assert_array_equal(call(x=np.full(4, i, "f"))[0], 2 * (i + 1))
    assert len(kernel.bound) == 1
    scope.erase("w")
    scope.var("w").set(f32(5, 5, 5, 5))
    np.testing.assert_array_equal(call(x=np.zeros(4, "f"))[0], 10)
    assert len(kernel.bound) == 2
    np.testing.assert_array_equal(kernel.bound[0][1], 1)  # the memory of the old variable
    assert not kernel.bound[0][0].flags.writeable


def test_a_bound_kernel_uses_the_current_feeds_and_fetches():
    kernel = Bindable()
    make = PlanMaker()
    x, y, out = make.feed("x"), make.feed("y"), make.out("out")
    prepared = rt.prepare_python(kernel, (0, 1, 2), constants={"scale": 1.0}, bind=True)
    make.kernel(prepared, [x, y], [out])
    call = compiled(make.build(), "x", "y")
    for i in range(5):
        (result,) = call(x=np.full(4, i, "f"), y=np.ones(4, "f"))
        np.testing.assert_array_equal(result, i + 1)


def test_python_kernels_pack_values_that_the_plan_does_not_write():
    calls = []

    def pack(w):
        calls.append(w.copy())
        return ("packed", float(w.sum()))

    def kernel(x, w, out):
        assert w[0] == "packed"
        np.multiply(x, w[1], out=out)

    make = PlanMaker()
    x, w, out = make.feed("x"), make.persistable("w"), make.out("out")
    make.kernel(rt.prepare_python(kernel, (0, 1, 2), packs={1: pack}), [x, w], [out])
    scope = rt.Scope()
    variable = scope.var("w")
    variable.set(f32(1, 1, 1, 1))
    call = compiled(make.build(), "x", scope=scope)
    for _ in range(3):
        np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], 4)
    assert len(calls) == 1
    variable.set(f32(2, 2, 2, 2))
    np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], 8)
    assert len(calls) == 2


def test_native_kernels_pack_into_aligned_memory_and_repack_after_each_write(kernels):
    meta = ((4,), 2 | 32 << 8 | 1 << 16)
    with pytest.raises(rt.RefusedError, match="must be packable"):
        rt.prepare_native(kernels["packed_add"], [], [[meta], [meta]], [[meta]])
    prepared = rt.prepare_native(
        kernels["packed_add"], [], [[meta], [meta]], [[meta]], arg_flags=(0, rt.ARG_PACKABLE, 0)
    )
    assert prepared.packs == (1,)
    make = PlanMaker()
    x, w, out = make.feed("x"), make.persistable("w"), make.out("out")
    make.kernel(prepared, [x, w], [out])
    scope = rt.Scope()
    scope.var("w").set(f32(1, 2, 3, 4))
    call = compiled(make.build(), "x", scope=scope)
    np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], [2, 3, 4, 5])
    scope.var("w").set(f32(0, 0, 0, 0))
    np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], 1)
    scope.erase("w")
    scope.var("w").set(f32(9, 9, 9, 9))
    np.testing.assert_array_equal(call(x=f32(1, 1, 1, 1))[0], 10)
