"""Static plans run native and Python kernels, and the builder refuses malformed plans."""

from __future__ import annotations

import numpy as np
import pytest
from plan_maker import PlanMaker, StepError, compiled, f32

from opwright import _runtime as rt
from opwright.errors import KernelError, OutOfMemoryError, ProgramError, ShapeError
from opwright.op import DTYPES, dtype_to_code

F32 = dtype_to_code("float32")


def add(x, y, out):
    np.add(x, y, out=out)


def test_steps_run_in_order_and_pass_values_through_the_arena():
    make = PlanMaker()
    x, y, t, out = make.feed("x"), make.feed("y"), make.temp(), make.out("out")
    make.python(add, [x, y], [t])
    make.python(add, [t, y], [out])
    (result,) = compiled(make.build(), "x", "y")(x=f32(1, 2, 3, 4), y=f32(10, 20, 30, 40))
    np.testing.assert_array_equal(result, [21, 42, 63, 84])


def test_native_and_python_kernels_share_one_plan(kernels):
    make = PlanMaker()
    x, t, out = make.feed("x"), make.temp(), make.out("out")
    meta = ((4,), F32)
    scale = rt.prepare_native(kernels["scale"], [("factor", 2, 3.0)], [[meta]], [[meta]])
    assert (scale.workspace_bytes, scale.estimate_ns, scale.needs_gil) == (128, 1000, False)
    space = make.space
    make.builder.arena_bytes = make.space = space + 128
    make.kernel(scale, [x], [t], workspace_offset=space, workspace_bytes=128)
    make.python(add, [t, x], [out])
    plan = make.build()
    assert plan.python_steps == 1
    (result,) = compiled(plan, "x")(x=f32(1, 2, 3, 4))
    np.testing.assert_array_equal(result, [4, 8, 12, 16])


def test_a_refusal_is_reported_with_its_reason(kernels):
    with pytest.raises(rt.RefusedError, match="7 threads are too many"):
        rt.prepare_native(kernels["refuse"], [], [], [], 7)


def test_a_failing_prepare_names_the_operator(kernels):
    with pytest.raises(KernelError, match="scale: prepare failed with status 1: factor is missing"):
        rt.prepare_native(kernels["scale"], [], [[((4,), F32)]], [[((4,), F32)]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_passes_through_a_kernel_and_a_fetch(dtype):
    make = PlanMaker()
    make.python(lambda out: out.fill(1), [], [make.out("out", (3,), dtype)])
    (result,) = compiled(make.build())()
    assert result.dtype.name == dtype
    np.testing.assert_array_equal(result.astype("float64"), 1)


def test_feeds_and_values_that_are_fetched_twice_are_copied():
    make = PlanMaker()
    x, t = make.feed("x"), make.temp()
    make.python(add, [x, x], [t])
    for value in (t, x, t):
        make.builder.fetch(value)
    call = compiled(make.build(), "x")
    given = f32(1, 2, 3, 4)
    first, feed, again = call(x=given)
    assert not np.shares_memory(first, again)
    assert not np.shares_memory(feed, given)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(feed, given)


def test_results_of_each_call_are_new_and_large_results_are_aligned():
    make = PlanMaker()
    x, out = make.feed("x", (8192,)), make.out("out", (8192,))
    make.python(add, [x, x], [out])
    call = compiled(make.build(), "x")
    x = np.ones(8192, "float32")
    results = [call(x=x)[0] for _ in range(3)]
    assert all(r.ctypes.data % 64 == 0 and r.flags.writeable for r in results)
    assert not np.shares_memory(results[0], results[1])


def test_empty_and_scalar_tensors_run():
    make = PlanMaker()
    x, s = make.feed("x", (0, 3)), make.feed("s", ())
    make.python(lambda a, out: out.__setitem__(..., a), [x], [make.out("empty", (0, 3))])
    make.python(lambda a, out: out.__setitem__(..., a + 1), [s], [make.out("scalar", ())])
    empty, scalar = compiled(make.build(), "x", "s")(x=np.zeros((0, 3), "f"), s=np.array(2, "f"))
    assert empty.shape == (0, 3)
    assert scalar.shape == ()
    assert scalar == 3


def test_python_kernels_receive_none_for_absent_slots_and_tuples_for_lists():
    make = PlanMaker()
    x, y, out = make.feed("x"), make.feed("y"), make.out("out")
    seen = []

    def kernel(many, none, *, out, no_list, scale):
        seen.append((type(many), len(many), none, no_list))
        np.add(many[0], many[1], out=out)
        out *= scale

    prepared = rt.prepare_python(
        kernel, (0, 1), [("out", 3), ("no_list", 2)], {"scale": 2.0}, duplicable={0, 2}
    )
    make.builder.kernel(prepared, (x, y, out), (0, 2, 2, 2, 3), 3, 0)
    (result,) = compiled(make.build(), "x", "y")(x=f32(1, 2, 3, 4), y=f32(1, 1, 1, 1))
    assert seen == [(tuple, 2, None, ())]
    np.testing.assert_array_equal(result, [4, 6, 8, 10])


def test_shape_only_values_have_a_shape_and_cannot_be_written():
    make = PlanMaker()
    out = make.out("out", ())
    shadow = make.builder.value(F32, (1000, 1000, 1000, 1000), rt.NONE)
    seen = []

    def kernel(like, out):
        seen.append((like.shape, like.flags.writeable))
        out[...] = 1

    make.python(kernel, [shadow], [out])
    compiled(make.build())()
    assert seen == [((1000, 1000, 1000, 1000), False)]


def test_sizes_that_overflow_64_bits_raise():
    builder = rt.PlanBuilder(rt.host_device(), "p")
    with pytest.raises(ShapeError, match=r"must fit in 64 bits, got shape \(4294967296, 42949"):
        builder.value(F32, (2**32, 2**32), rt.ARENA, 0)


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_plan_memory_that_overflows_64_bits_raises(size):
    builder = rt.PlanBuilder(rt.host_device(), "p")
    with pytest.raises(OutOfMemoryError, match=rf"plan 'p': its memory .* got {size}; make"):
        builder.arena(size)


def test_strides_that_reach_beyond_64_bits_raise():
    builder = rt.PlanBuilder(rt.host_device(), "p")
    with pytest.raises(ProgramError, match="strides must reach less than 2.63 bytes"):
        builder.value(F32, (2,), rt.ARENA, 0, strides=(2**62,))


def test_out_of_memory_in_the_arena_reports_the_size_and_the_process_survives():
    make = PlanMaker("huge")
    size = 2**46
    value = make.builder.value(F32, (size // 4,), rt.ARENA, 0)
    make.builder.arena_bytes = size
    make.python(lambda out: None, [], [value])
    plan = make.build()
    with pytest.raises(OutOfMemoryError, match=f"plan 'huge': device cpu.*{size} bytes"):
        plan.run()
    assert plan.instances == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: m.builder.value(F32, (4,), rt.ARENA, 64), "must be in the memory of cpu"),
        (lambda m: m.builder.value(F32, (4,), rt.ARENA, -4), "must be in the memory of cpu"),
        (lambda m: m.builder.value(F32, (4,), rt.EXTERNAL, 99), "needs an external, got 99"),
        (lambda m: m.builder.value(F32, (-1,), rt.ARENA, 0), "exactly the dynamic"),
        (lambda m: m.builder.external(rt.FEED, "lonely"), "an external needs a value.*lonely"),
        (lambda m: m.external(rt.FETCH, "unfetched", (4,)), "a fetch buffer must be fetched"),
        (lambda m: m.builder.writes(["w"]), "'w', which is neither a persis"),
        (lambda m: m.builder.fetch(99), "a fetch must be a value of the plan"),
        (lambda m: m.builder.copy(m.feed("x"), m.temp((5,))), "16 and 20 bytes"),
        (lambda m: m.python(add, [m.feed("a"), 77], [m.temp()]), "an argument must be a value"),
        (
            lambda m: m.builder.kernel(rt.prepare_python(add, ()), (), (0, 1), 0, 0),
            "needs slot_begin",
        ),
        (lambda m: m.builder.value(F32, (4,), 9), r"a kind must be in \[0, 4\)"),
        (lambda m: m.python(add, [m.dynamic()], [m.temp()]), "reads a dynamic value"),
    ],
)
def test_a_malformed_plan_is_refused(spoil, message):
    make = PlanMaker()
    make.temp()

    def spoil_and_build():
        spoil(make)
        make.build()

    with pytest.raises(ProgramError, match=message):
        spoil_and_build()


def test_a_builder_can_build_only_one_plan():
    make = PlanMaker()
    make.build()
    with pytest.raises(ProgramError, match="was already built"):
        make.temp()


def test_a_native_failure_names_the_operator_and_the_plan_stays_usable(kernels):
    make = PlanMaker()
    x, out = make.feed("x"), make.out("out")
    meta = ((4,), F32)
    make.kernel(rt.prepare_native(kernels["fail"], [], [[meta]], [[meta]]), [x], [out])
    call = compiled(make.build(), "x")
    for _ in range(3):
        with pytest.raises(StepError, match="operator 0: told to fail"):
            call(x=f32(1, 0, 0, 0))
        assert call(x=f32(0, 0, 0, 0))[0][0] == 0


def test_strided_values_are_read_and_written_at_their_strides():
    make = PlanMaker()
    x, t = make.feed("x", (2, 3)), make.temp((2, 3))
    turned = make.builder.value(F32, (3, 2), rt.ARENA, 0, strides=(1, 3))
    make.python(lambda a, out: out.__setitem__(..., a), [x], [t])
    make.python(lambda a, out: out.__setitem__(..., a), [turned], [make.out("out", (3, 2))])
    given = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(compiled(make.build(), "x")(x=given)[0], given.T)


def test_the_state_of_a_bound_kernel_persists_between_runs(kernels):
    make = PlanMaker()
    x, out = make.feed("x"), make.out("out")
    meta = ((4,), F32)
    make.kernel(rt.prepare_native(kernels["bound_copy"], [], [[meta]], [[meta]]), [x], [out])
    call = compiled(make.build(), "x")
    assert [call(x=f32(0, 0, 0, 0))[0][0] for _ in range(3)] == [0, 1, 2]


def test_constants_depend_only_on_persistables_and_on_each_other():
    def copy(x, out):
        np.copyto(out, x)

    make = PlanMaker()
    x, h = make.feed("x"), make.temp()
    make.python(copy, [x], [h])
    with pytest.raises(ProgramError, match="operator 0 must compute a constant from cons"):
        make.builder.end_constants()
    make = PlanMaker()
    w, h, out = make.persistable("w"), make.temp(), make.out("out")
    make.python(copy, [w], [h])
    make.builder.end_constants()
    with pytest.raises(ProgramError, match="end of the constants must be marked once"):
        make.builder.end_constants()
    make.python(copy, [h], [out])
    scope = rt.Scope()
    scope.var("w").set(f32(1, 2, 3, 4))
    call = compiled(make.build(), scope=scope)
    np.testing.assert_array_equal(call()[0], [1, 2, 3, 4])


def test_only_kernel_steps_can_be_constant():
    make = PlanMaker()
    w, h = make.persistable("w"), make.temp()
    make.builder.copy(w, h)
    with pytest.raises(ProgramError, match="only kernels compute constants"):
        make.builder.end_constants()


def test_a_kernel_repacks_constants_when_they_are_recomputed():
    packed = []

    def pack(h):
        packed.append(float(h[0]))
        return float(h[0])

    def double(w, out):
        np.multiply(w, 2, out=out)

    def kernel(x, h, out):
        np.multiply(x, h, out=out)

    make = PlanMaker()
    w, h, x, out = make.persistable("w"), make.temp(), make.feed("x"), make.out("out")
    make.python(double, [w], [h])
    with pytest.raises(ProgramError, match="can pack persistables and constants only"):
        make.kernel(rt.prepare_python(kernel, (0, 1, 2), packs={1: pack}), [x, h], [out])
    make.builder.end_constants()
    make.kernel(rt.prepare_python(kernel, (0, 1, 2), packs={1: pack}), [x, h], [out])
    scope = rt.Scope()
    scope.var("w").set(f32(1, 1, 1, 1))
    call = compiled(make.build(), "x", scope=scope)
    for _ in range(3):
        np.testing.assert_array_equal(call(x=f32(1, 2, 3, 4))[0], [2, 4, 6, 8])
    scope.var("w").set(f32(3, 3, 3, 3))
    np.testing.assert_array_equal(call(x=f32(1, 2, 3, 4))[0], [6, 12, 18, 24])
    assert packed == [2, 6]
