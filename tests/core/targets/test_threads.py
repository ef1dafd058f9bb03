"""All kernels of a plan use one thread count, and forked children use one thread."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

import opwright as ow

LONG = np.ones(20_000)
SHORT = np.ones(100)


@pytest.fixture(autouse=True)
def two_threads():
    ow.set_num_threads(2)


@pytest.fixture
def library(compiler):
    """Kernels that declare a duration of 20 ns per element, divided by the thread count."""
    return compiler.build("threads.cc", "-fopenmp", "-DESTIMATE=20")


def counts(*shapes):
    """Return a network that counts threads in one operator per feed, and a function to run it."""
    ops = [
        ow.Operator("acme.scale", x=f"x{i}", out=f"y{i}", fault="count") for i in range(len(shapes))
    ]
    network = ow.Network(ops)
    names = [f"x{i}" for i in range(len(shapes))]
    run = network.compile(feed=names, fetch=[f"y{i}" for i in range(len(shapes))])

    def call():
        feeds = {name: np.ones(shape) for name, shape in zip(names, shapes, strict=True)}
        return [set(result) for result in run(**feeds)]

    return network, call


def test_a_long_plan_runs_on_all_threads_and_a_short_plan_on_one_thread(acme, library):
    acme.use(library)
    assert set(ow.ops.acme.scale(LONG, fault="count")) == {2}
    assert set(ow.ops.acme.scale(SHORT, fault="count")) == {1}
    np.testing.assert_array_equal(ow.ops.acme.scale(LONG), 2 * LONG)
    np.testing.assert_array_equal(ow.ops.acme.scale(SHORT), 2 * SHORT)


def test_all_steps_of_a_plan_use_the_same_number_of_threads(acme, library):
    acme.use(library)
    network, call = counts(100, 20_000)
    assert call() == [{2}, {2}]
    assert network.placement().n_threads == 2
    network, call = counts(100, 100)
    assert call() == [{1}, {1}]
    assert network.placement().n_threads == 1


def test_many_short_steps_form_a_long_plan(acme, library):
    acme.use(library)
    _, call = counts(*[500] * 3)
    assert call() == [{1}] * 3
    _, call = counts(*[500] * 5)
    assert call() == [{2}] * 5


def test_without_an_estimate_the_duration_of_a_kernel_is_estimated_from_its_bytes(acme, compiler):
    acme.use(compiler.build("threads.cc", "-fopenmp"))
    assert set(ow.ops.acme.scale(np.ones(10_000), fault="count")) == {1}
    assert set(ow.ops.acme.scale(np.ones(100_000), fault="count")) == {2}


def test_a_long_step_without_an_estimate_lets_other_threads_run(acme, compiler):
    acme.use(compiler.build("threads.cc", "-fopenmp"))
    library = ctypes.CDLL(str(acme.site / "opwright_acme" / "libacme.so"))
    x = np.ones(100_000)
    ow.ops.acme.scale(x, fault="wait")
    library.hold()
    over = threading.Event()

    def end_the_wait():
        while not library.is_waiting() and not over.is_set():
            time.sleep(0.001)
        library.let_go()

    thread = threading.Thread(target=end_the_wait)
    thread.start()
    try:
        ow.ops.acme.scale(x, fault="wait")  # fails if the thread does not run concurrently
    finally:
        over.set()
        thread.join()


def test_a_kernel_that_refuses_one_thread_runs_on_all_threads(acme, library):
    acme.use(library)
    assert set(ow.ops.acme.scale(SHORT, fault="alone")) == {2}


def test_a_kernel_that_refuses_several_threads_can_be_used_in_a_short_plan(
    acme, library, table, slower_kernel
):
    acme.use(library, table + slower_kernel)
    acme.add_module("slow", "def scale(x, out, *, factor, fault):\n    out[...] = 10 * x\n")
    ops = [ow.Operator("acme.scale", x=f"x{i}", out=f"y{i}", fault="crowd") for i in range(2)]
    run = ow.Network(ops).compile(feed=["x0", "x1"], fetch=["y0", "y1"])
    for size, factor in ((10, 2), (200_000, 10)):
        first, second = run(x0=np.ones(size), x1=np.ones(size + 1))
        assert (set(first), set(second)) == ({factor}, {factor})


def test_a_new_thread_count_applies_to_existing_callables(acme, library):
    acme.use(library)
    _, call = counts(20_000)
    for n in (2, 1, 3, 2):
        ow.set_num_threads(n)
        assert call() == [{n}]
        assert set(ow.ops.acme.scale(LONG, fault="count")) == {n}


def test_a_new_pin_applies_to_existing_callables(acme, library, table, slower_kernel):
    context = acme.use(library, table + slower_kernel)
    acme.add_module("slow", "def scale(x, out, *, factor, fault):\n    out[...] = 10 * x\n")
    _, call = counts(100)
    assert call() == [{1}]
    with context.pin("acme.scale", "slow"):
        assert call() == [{10}]
    assert call() == [{1}]


FORK = """
import os, signal, sys
import numpy as np
import opwright as ow

x = np.arange(20000.0)
network = ow.Network([ow.Operator("acme.scale", x="x", out="y", factor=3.0)])
count = ow.Network([ow.Operator("acme.scale", x="x", out="y", fault="count")])
run, run_count = (n.compile(feed=["x"], fetch=["y"]) for n in (network, count))
scope = ow.Scope()
scope.var("x").set(x)

def numbers():
    network.run(scope)
    return [run(x=x)[0], ow.ops.acme.scale(x, factor=3.0), scope.var("y").numpy()]

expected = numbers()
assert set(run_count(x=x)[0]) == {ow.get_num_threads()}

def child():
    signal.alarm(300)  # terminates the child if it hangs
    assert ow.get_num_threads() == 1
    for found in numbers():
        np.testing.assert_array_equal(found, expected[0])
    assert set(run_count(x=x)[0]) == {1}
    assert set(ow.ops.acme.scale(x, fault="count")) == {1}
    try:
        ow.set_num_threads(2)
    except ow.errors.SettingError as error:
        assert "a process created by a fork" in str(error)
    else:
        raise AssertionError("a forked process took two threads")

pid = os.fork()
if pid == 0:
    status = 1
    try:
        child()
        {end}
    finally:
        os._exit(status)
print(os.waitpid(pid, 0)[1], *{int(n) for n in run_count(x=x)[0]})
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_computes_the_same_results_on_one_thread(
    acme, library, monkeypatch, threads
):
    acme.install(library)
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", str(threads))
    printed = acme.python(FORK.replace("{end}", "status = 0"))
    assert printed.split() == ["0", str(threads)]


def test_a_forked_child_terminates(acme, library, monkeypatch):
    acme.install(library)
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", "2")
    code = FORK.replace("{end}", "del network, count, run, run_count; sys.exit(0)")
    code = code.replace("os._exit(status)", "pass")
    assert acme.python(code).split() == ["0", "2"]
