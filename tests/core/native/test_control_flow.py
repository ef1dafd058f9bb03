"""Tests calls, branches, loops, and plans that another plan continues once shapes are known."""

from __future__ import annotations

import numpy as np
import pytest
from plan_maker import PlanMaker, StepError, compiled, f32

from opwright import _runtime as rt
from opwright.errors import ProgramError
from opwright.op import dtype_to_code

F32 = dtype_to_code("float32")
I64 = dtype_to_code("int64")


def child_plan(function, name="child", shape=(4,), n_inputs=1):
    """Return a child plan; captured externals 0..n-1 are its inputs, external n its output."""
    make = PlanMaker(name)
    inputs = [make.captured(f"in{i}", shape) for i in range(n_inputs)]
    make.python(function, inputs, [make.captured("out", shape)])
    return make.build()


def test_a_child_writes_directly_to_the_memory_of_its_parent():
    child = child_plan(lambda x, out: np.multiply(x, 10, out=out))
    make = PlanMaker()
    x, t, out = make.feed("x"), make.temp(), make.out("out")
    make.builder.call(child, ((x, 0), (t, 1)), 0)
    make.builder.call(child, ((t, 0), (out, 1)), 1)
    plan = make.build()
    assert plan.python_steps == 2
    np.testing.assert_array_equal(compiled(plan, "x")(x=f32(1, 2, 3, 4))[0], [100, 200, 300, 400])


def branch_plan(condition_maker):
    make = PlanMaker()
    x, out, condition = make.feed("x"), make.out("out"), make.temp((1,), "bool")
    condition_maker(make, x, condition)
    up = child_plan(lambda x, out: np.add(x, 1, out=out), "up")
    down = child_plan(lambda x, out: np.subtract(x, 1, out=out), "down")
    make.builder.branch(condition, ((up, ((x, 0), (out, 1))), (down, ((x, 0), (out, 1)))), 7)
    return make.build()


def test_a_branch_runs_the_child_selected_by_its_condition():
    def positive(make, x, condition):
        make.python(lambda x, out: np.greater(x[:1], 0, out=out), [x], [condition])

    call = compiled(branch_plan(positive), "x")
    assert call(x=f32(1, 0, 0, 0))[0][0] == 2
    assert call(x=f32(-1, 0, 0, 0))[0][0] == -2


def loop_plan(limit=-1, start=True):
    """Return a plan of ``while total < 100: total, step = total + step, 2 * step``."""
    body = PlanMaker("body")
    total, step = body.captured("total", (1,)), body.captured("step", (1,))
    new_total, new_step = body.temp((1,)), body.temp((1,))
    go = body.temp((1,), "bool")
    body.python(lambda t, s, out: np.add(t, s, out=out), [total, step], [new_total])
    body.python(lambda s, out: np.multiply(s, 2, out=out), [step], [new_step])
    body.python(lambda t, out: np.less(t, 100, out=out), [new_total], [go])
    plan = body.build()
    make = PlanMaker()
    x, s = make.feed("x", (1,)), make.feed("s", (1,))
    total, step, initial = make.temp((1,)), make.temp((1,)), make.temp((1,), "bool")
    make.builder.copy(x, total)
    make.builder.copy(s, step)
    make.python(lambda out: out.fill(start), [], [initial])
    carried = ((total, 0, new_total), (step, 1, new_step))
    make.builder.loop(plan, go, carried, (), limit, 3, initial)
    make.builder.fetch(total)
    make.builder.fetch(step)
    return make.build()


def test_a_loop_carries_values_until_its_condition_fails():
    total, step = compiled(loop_plan(), "x", "s")(x=f32(0), s=f32(1))
    assert (total[0], step[0]) == (127, 128)


def test_a_loop_without_iterations_returns_the_initial_values():
    total, step = compiled(loop_plan(start=False), "x", "s")(x=f32(5), s=f32(6))
    assert (total[0], step[0]) == (5, 6)


def test_a_loop_that_reaches_its_limit_fails_and_the_plan_stays_usable():
    call = compiled(loop_plan(limit=4), "x", "s")
    with pytest.raises(StepError, match="operator 3: the loop must end within 4 iterations"):
        call(x=f32(0), s=f32(1))
    assert call(x=f32(0), s=f32(99))[0][0] == 297


def test_carried_values_can_be_swapped():
    body = PlanMaker("swap")
    a, b = body.captured("a", (1,)), body.captured("b", (1,))
    plan = body.build()
    make = PlanMaker()
    x, y, left, right = make.feed("x", (1,)), make.feed("y", (1,)), make.temp((1,)), make.temp((1,))
    make.builder.copy(x, left)
    make.builder.copy(y, right)
    make.builder.loop(plan, -1, ((left, 0, b), (right, 1, a)), (), 3)
    make.builder.fetch(left)
    make.builder.fetch(right)
    left, right = compiled(make.build(), "x", "y")(x=f32(1), y=f32(2))
    assert (left[0], right[0]) == (2, 1)


def test_children_use_the_scope_and_increment_versions():
    body = PlanMaker("body")
    w = body.persistable("w", (1,))
    body.python(lambda out: np.add(out, 1, out=out), [], [w])
    body.builder.writes(["w"])
    make = PlanMaker()
    make.builder.loop(body.build(), -1, (), (), 5)
    plan = make.build()
    scope = rt.Scope()
    scope.var("w").set(f32(0))
    version = scope.var("w").version
    plan.run(scope)
    assert scope.var("w").numpy() == [5]
    assert scope.var("w").version == version + 5


def test_the_error_of_a_child_is_created_by_its_own_describer():
    class Child:
        def fail(self, op_index, message, cause):
            return StepError(f"child operator {op_index}: {message}")

    def raises(out):
        raise ValueError("inside")

    make = PlanMaker("child")
    make.n_ops = 5
    make.python(raises, [], [make.captured("out")])
    child = make.build(Child())
    make = PlanMaker()
    out = make.out("out")
    make.builder.call(child, ((out, 0),), 1)
    with pytest.raises(StepError, match="child operator 5: inside") as raised:
        compiled(make.build())()
    assert isinstance(raised.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m, c: m.builder.call(c, ()), "'in0' of 'child' must be bound"),
        (lambda m, c: m.builder.call(c, ((m.temp((5,)), 0),)), "needs 16 bytes.*got 20"),
        (lambda m, c: m.builder.call(c, ((m.temp(), 9),)), "needs a captured external.*got 9"),
        (
            lambda m, c: m.builder.branch(m.temp((1,)), ((c, ()), (c, ()))),
            "must be a one-element bool",
        ),
        (lambda m, c: m.builder.loop(PlanMaker().build(), -1, (), ()), "got neither"),
        (
            lambda m, c: m.builder.loop(c, -1, ((m.temp(), 0, 99), (m.temp(), 1, 1)), (), 1),
            "must keep its size",
        ),
    ],
)
def test_a_child_with_mismatched_bindings_is_refused(spoil, message):
    with pytest.raises(ProgramError, match=message):
        spoil(PlanMaker(), child_plan(lambda x, out: None))


def test_a_child_with_feeds_is_refused():
    make = PlanMaker("fed")
    make.feed("x")
    with pytest.raises(ProgramError, match="the child 'fed' must have no feeds"):
        PlanMaker().builder.call(make.build(), ())


def nonzero_python(x, out):
    found = np.flatnonzero(x)
    out.resize((1,))[:] = 99  # only the last resize takes effect
    out.resize(found.shape)[:] = found


def segments(first_kernel, resolved):
    """Return a plan that finds nonzero elements; a second plan gathers them and adds 1."""

    def resolve(shapes):
        resolved.append(shapes)
        ((n,),) = shapes
        make = PlanMaker("second")
        x, positions = make.captured("x"), make.captured("positions", (n,), "int64")
        picked, out = make.temp((n,)), make.out("out", (n,))
        make.python(lambda x, i, out: np.take(x, i, out=out), [x, positions], [picked])
        make.python(lambda p, out: np.add(p, 1, out=out), [picked], [out])
        make.builder.fetch(positions)
        return make.build()

    make = PlanMaker("first")
    x, found = make.feed("x"), make.dynamic((-1,), "int64")
    first_kernel(make, x, found)
    make.builder.continuation((found,), resolve, ((x, "x"), (found, "positions")))
    return make.build()


def python_first(make, x, found):
    make.python(nonzero_python, [x], [found])


@pytest.mark.parametrize("language", ["python", "native"])
def test_the_continuation_is_built_for_the_computed_shape_and_cached(language, kernels):
    def native_first(make, x, found):
        prepared = rt.prepare_native(
            kernels["nonzero"], [], [[((4,), F32)]], [[((-1,), I64)]],
            arg_flags=(0, rt.ARG_DYNAMIC),
        )  # fmt: skip
        make.kernel(prepared, [x], [found])

    resolved = []
    plan = segments(python_first if language == "python" else native_first, resolved)
    call = compiled(plan, "x")
    for _ in range(3):
        for given in (f32(0, 5, 0, 7), f32(0, 0, 0, 0), f32(1, 2, 3, 4), f32(9, 0, 8, 0)):
            out, positions = call(x=given)
            np.testing.assert_array_equal(positions, np.flatnonzero(given))
            np.testing.assert_array_equal(out, given[given != 0] + 1)
    assert resolved == [((2,),), ((0,),), ((4,),)]


def test_a_dynamic_value_can_be_fetched_without_a_continuation():
    make = PlanMaker()
    found = make.dynamic((-1,), "int64")
    make.python(nonzero_python, [make.feed("x")], [found])
    make.builder.fetch(found)
    call = compiled(make.build(), "x")
    results = [call(x=given)[0] for given in (f32(1, 0, 1, 0), f32(1, 1, 1, 1), f32(0, 0, 0, 0))]
    assert [r.tolist() for r in results] == [[0, 2], [0, 1, 2, 3], []]


def test_an_array_from_resize_stays_valid_after_the_call():
    kept = []

    def kernel(x, out):
        array = out.resize((2,))
        array[:] = x[:2]
        kept.append(array)

    make = PlanMaker()
    found = make.dynamic()
    make.python(kernel, [make.feed("x")], [found])
    make.builder.fetch(found)
    call = compiled(make.build(), "x")
    for i in range(3):
        call(x=np.full(4, i, "f"))
    assert [a.tolist() for a in kept] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x, out: None, "must resize its dynamic outputs"),
        (lambda x, out: out.resize((2, 2)), r"the shape must fit \(-1,\), got \(2, 2\)"),
        (lambda x, out: out.resize((2**62,)), "must fit in 64 bits"),
        (lambda x, out: out.resize((-5,)), r"dims must be at least 0, got shape \(-5,\)"),
        (lambda x, out: out.resize((2**44,)), "could not allocate memory"),
        (lambda x, out: out.resize("ab"), "cannot be interpreted as an integer"),
    ],
)
def test_an_invalid_resize_of_a_dynamic_output_raises(kernel, message):
    make = PlanMaker()
    found = make.dynamic()
    make.python(kernel, [make.feed("x")], [found])
    make.builder.fetch(found)
    with pytest.raises(StepError, match=message):
        compiled(make.build(), "x")(x=f32(1, 2, 3, 4))


def test_a_native_kernel_that_never_resizes_its_output_raises(kernels):
    make = PlanMaker()
    prepared = rt.prepare_native(kernels["lazy"], [], [[((4,), F32)]], [[((-1,), F32)]])
    found = make.dynamic()
    make.kernel(prepared, [make.feed("x")], [found])
    make.builder.fetch(found)
    with pytest.raises(StepError, match="operator 0: a kernel must resize"):
        compiled(make.build(), "x")(x=f32(1, 2, 3, 4))


def test_a_resizer_is_invalid_after_its_call():
    kept = []

    def kernel(x, out):
        kept.append(out)
        out.resize((1,))

    make = PlanMaker()
    found = make.dynamic()
    make.python(kernel, [make.feed("x")], [found])
    make.builder.fetch(found)
    compiled(make.build(), "x")(x=f32(1, 2, 3, 4))
    with pytest.raises(RuntimeError, match="resized during its kernel's call"):
        kept[0].resize((1,))


def test_an_exception_in_resolve_is_the_cause_of_a_step_error():
    def refuse(shapes):
        raise LookupError("no kernel for that shape")

    make = PlanMaker()
    found = make.dynamic()
    make.python(lambda x, out: out.resize((3,)), [make.feed("x")], [found])
    make.builder.continuation((found,), refuse, ())
    call = compiled(make.build(), "x")
    for _ in range(2):
        with pytest.raises(StepError, match="no kernel for that shape") as raised:
            call(x=f32(1, 2, 3, 4))
        assert isinstance(raised.value.__cause__, LookupError)


def test_the_next_plan_must_bind_every_captured_value_in_its_full_size():
    def build(bindings, shape):
        def resolve(shapes):
            second = PlanMaker("second")
            second.captured("c", shape)
            return second.build()

        make = PlanMaker()
        found = make.dynamic()
        make.python(lambda x, out: out.resize((3,)), [make.feed("x")], [found])
        make.builder.continuation((found,), resolve, [(found, n) for n in bindings])
        return compiled(make.build(), "x")

    with pytest.raises(StepError, match="every captured value must be bound"):
        build([], (3,))(x=f32(1, 2, 3, 4))
    with pytest.raises(StepError, match="second: c must have 16 bytes, got 12"):
        build(["c"], (4,))(x=f32(1, 2, 3, 4))


def growing_plan(shape=(-1, 2), kind="dynamic"):
    """Return a loop that stacks [number, number**2] and doubles number while below a limit."""
    body = PlanMaker("body")
    number, row = body.captured("number", (1,)), body.captured("row", (2,))
    limit = body.captured("limit", (1,))
    doubled, go = body.temp((1,)), body.temp((1,), "bool")
    body.python(lambda x, out: np.concatenate([x, x * x], out=out), [number], [row])
    body.python(lambda x, out: np.multiply(x, 2, out=out), [number], [doubled])
    body.python(lambda x, most, out: np.less(x, most, out=out), [doubled, limit], [go])
    plan = body.build()
    make = PlanMaker()
    x, most = make.feed("x", (1,)), make.feed("limit", (1,))
    number, initial = make.temp((1,)), make.temp((1,), "bool")
    rows = getattr(make, kind)(shape)
    make.builder.copy(x, number)
    make.python(lambda x, most, out: np.less(x, most, out=out), [number, most], [initial])
    carried, bindings = ((number, 0, doubled),), ((most, 2),)
    stacks = [(rows, 1, 0)]
    make.builder.loop(plan, go, carried, bindings, -1, 3, initial, stacks=stacks)
    make.builder.fetch(rows)
    return make.build()


def test_an_array_grows_with_the_iterations_of_a_loop_without_a_limit():
    call = compiled(growing_plan(), "x", "limit")
    for turns in (0, 1, 3, 16, 17, 33, 40, 5, 0):
        (rows,) = call(x=f32(1), limit=f32(2.0**turns))
        powers = 2.0 ** np.arange(turns)
        np.testing.assert_array_equal(rows, np.stack([powers, powers**2], axis=1))


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((4, 2), "temp"), ((-1, 3), "dynamic"), ((-1,), "dynamic"), ((-1, -1), "dynamic")],
)
def test_a_loop_appends_only_to_arrays_of_unknown_length(shape, kind):
    with pytest.raises(
        ProgramError, match="adds to arrays of elements of 8 bytes, whose first dim"
    ):
        growing_plan(shape, kind)
