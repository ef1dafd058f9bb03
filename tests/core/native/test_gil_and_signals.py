"""Plans release the GIL during long native spans, and Ctrl-C interrupts them."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from plan_maker import PlanMaker, StepError, compiled, f32

from opwright import _runtime as rt
from opwright.errors import KernelError
from opwright.op import dtype_to_code

F32 = dtype_to_code("float32")


def add_chain(kernels, shape, n_steps, estimate_ns):
    meta = (shape, F32)
    add = rt.prepare_native(kernels["add"], [], [[meta], [meta]], [[meta]])
    make = PlanMaker()
    x, t = make.feed("x", shape), make.temp(shape)
    for _ in range(n_steps):
        make.kernel(add, [x, x], [t], estimate_ns=estimate_ns)
    return make


@pytest.mark.parametrize(
    ("n_steps", "estimate_ns", "extra"),
    [(4, 10_000, 0), (5, 10_000, 2), (4, 600_000, 2 + 2)],
    ids=["short", "long", "polled"],
)
def test_the_gil_is_released_only_around_long_native_spans(kernels, n_steps, estimate_ns, extra):
    plan = add_chain(kernels, (4,), n_steps, estimate_ns).build()
    assert plan.n_steps == n_steps + extra
    assert compiled(plan, "x")(x=f32(1, 2, 3, 4)) == []


@contextmanager
def beside_the_wait(kernel_library, function):
    """Call a function in another thread once the kernel "wait" is running."""

    def watch():
        while not kernel_library.is_waiting() and not over.is_set():
            time.sleep(0.001)
        function()

    over = threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_other_threads_run_during_a_long_native_span(kernels, kernel_library):
    meta = ((4,), F32)
    wait = rt.prepare_native(kernels["wait"], [], [[meta]], [[meta]])
    make = PlanMaker()
    make.kernel(wait, [make.feed("x")], [make.temp()], estimate_ns=500_000)
    call = compiled(make.build(), "x")
    with beside_the_wait(kernel_library, kernel_library.let_go):
        call(x=f32(1, 2, 3, 4))  # the kernel fails if no other thread runs


@contextmanager
def interrupt_after(seconds):
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield


@pytest.fixture
def alarm():
    """SIGALRM raises KeyboardInterrupt, as Ctrl-C does."""

    def stop(number, frame):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def test_ctrl_c_ends_a_long_native_plan_before_its_last_step(kernels, kernel_library, alarm):
    meta = ((4,), F32)
    wait = rt.prepare_native(kernels["wait"], [], [[meta]], [[meta]])
    add = rt.prepare_native(kernels["add"], [], [[meta], [meta]], [[meta]])
    make = PlanMaker()
    x, t, w = make.feed("x"), make.temp(), make.persistable("w")
    make.kernel(wait, [x], [t], estimate_ns=600_000)
    for _ in range(4):
        make.kernel(add, [x, x], [t], estimate_ns=600_000)
    make.kernel(add, [x, x], [w], estimate_ns=600_000)
    make.builder.writes(["w"])
    scope = rt.Scope()
    scope.var("w").set(f32(0, 0, 0, 0))
    call = compiled(make.build(), "x", scope=scope)

    def interrupt():
        signal.raise_signal(signal.SIGALRM)
        kernel_library.let_go()

    with beside_the_wait(kernel_library, interrupt), pytest.raises(KeyboardInterrupt):
        call(x=f32(1, 2, 3, 4))
    np.testing.assert_array_equal(scope.var("w").numpy(), 0)


def endless_loop(kernels):
    """A callable that loops while x < y."""
    body = PlanMaker("body")
    meta = ((1,), F32)
    go = body.temp((1,), "bool")
    x, y = body.captured("x", (1,)), body.captured("y", (1,))
    less = rt.prepare_native(
        kernels["less"], [], [[meta], [meta]], [[((1,), dtype_to_code("bool"))]]
    )
    body.kernel(less, [x, y], [go])
    make = PlanMaker()
    make.builder.loop(body.build(), go, (), ((make.feed("x", (1,)), 0), (make.feed("y", (1,)), 1)))
    return compiled(make.build(), "x", "y")


def test_ctrl_c_ends_an_endless_loop_of_short_steps(kernels, alarm):
    call = endless_loop(kernels)
    with pytest.raises(KeyboardInterrupt), interrupt_after(0.2):
        call(x=f32(0), y=f32(1))


def test_other_threads_run_during_an_endless_loop_of_short_steps(kernels, alarm):
    call = endless_loop(kernels)
    over, seen = threading.Event(), []

    def count():
        while not over.is_set() and len(seen) < 3:
            time.sleep(0.01)
            seen.append(over.is_set())
        if not over.is_set():
            signal.raise_signal(signal.SIGALRM)

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(KeyboardInterrupt), interrupt_after(10):  # only if the thread does not
        call(x=f32(0), y=f32(1))
    over.set()
    thread.join()
    assert seen == [False, False, False]


def test_ctrl_c_is_handled_between_python_kernels_without_bytecode(alarm):
    make = PlanMaker()
    x, t = make.feed("x", (1 << 16,)), make.temp((1 << 16,))
    for _ in range(200_000):
        make.python(np.negative, [x], [t])
    call = compiled(make.build(), "x")
    given = np.ones(1 << 16, "float32")
    with pytest.raises(KeyboardInterrupt), interrupt_after(0.3):
        call(x=given)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_keyboard_interrupt_and_system_exit_are_raised_unchanged(error):
    def kernel(x, out):
        raise error("stop")

    make = PlanMaker()
    make.python(kernel, [make.feed("x")], [make.out("out")])
    call = compiled(make.build(), "x")
    with pytest.raises(error, match="stop"):
        call(x=f32(1, 2, 3, 4))


def failing(describe):
    def kernel(x, out):
        raise ValueError("bad value")

    make = PlanMaker()
    make.python(kernel, [make.feed("x")], [make.out("out")])
    plan = make.builder.build(describe)
    return compiled(plan, "x")


def test_a_plan_without_a_describer_raises_a_kernel_error():
    with pytest.raises(KernelError, match="bad value") as raised:
        failing(None)(x=f32(1, 2, 3, 4))
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_describer_can_return_the_cause_or_raise():
    class Same:
        def fail(self, op_index, message, cause):
            return cause

    class Broken:
        def fail(self, op_index, message, cause):
            raise LookupError("no such operator")

    class Wrong:
        def fail(self, op_index, message, cause):
            return "text"

    for describe, error, message in (
        (Same(), ValueError, "bad value"),
        (Broken(), LookupError, "no such operator"),
        (Wrong(), TypeError, "must return an exception, got 'text'"),
    ):
        with pytest.raises(error, match=message):
            failing(describe)(x=f32(1, 2, 3, 4))


def test_variables_keep_values_written_before_a_failure():
    def kernel(out):
        raise ValueError("later")

    make = PlanMaker()
    w = make.persistable("w")
    make.python(lambda out: out.fill(7), [], [w])
    make.python(kernel, [], [make.temp()])
    make.builder.writes(["w"])
    plan = make.build()
    scope = rt.Scope()
    scope.var("w").set(f32(0, 0, 0, 0))
    version = scope.var("w").version
    with pytest.raises(StepError, match="operator 1: later"):
        plan.run(scope)
    np.testing.assert_array_equal(scope.var("w").numpy(), 7)
    assert scope.var("w").version > version
