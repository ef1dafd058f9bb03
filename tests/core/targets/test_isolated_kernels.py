"""Kernels of a plugin that is named in OPWRIGHT_ISOLATE run in a separate process."""

from __future__ import annotations

import os

import numpy as np
import pytest

import opwright as ow
from opwright import Context, context_guard
from opwright.errors import (
    KernelError,
    KernelNotFoundError,
    MissingRequirementError,
    SettingError,
)

X = np.array([1.0, 2.5, -3.0])
WHO = r"acme.scale\[cpu, float64, acme\] of opwright-acme 1.0"
PYTHON = """
    registry.add("acme.scale", device="cpu", dtypes=["float64"], priority=60, library="python",
                 kernel="opwright_acme.kernels:scale")
    registry.add("nonzero", device="cpu", dtypes=["float64"], priority=60,
                 kernel="opwright_acme.kernels:nonzero")
    registry.add("sgd", device="cpu", dtypes=["float64"], priority=99,
                 kernel="opwright_acme.kernels:sgd")
"""
KERNELS = """
import os, time
import numpy as np

class scale:
    @staticmethod
    def prepare(ctx):
        fault = ctx.attrs["fault"]
        if fault == "lack":
            ctx.lack("a vector unit")
        if fault == "pack":
            ctx.pack("x", lambda x: x + 100)
        def run(x, out):
            if fault == "threads":
                out[...] = ctx.n_threads
                return
            if fault == "hang":
                time.sleep(10_000)
            if fault == "exit":
                os._exit(7)
            if fault == "raise":
                raise ValueError("not today")
            out[...] = os.getpid() if fault == "process" else x
        return run

def nonzero(x, out):
    found = np.nonzero(x)
    out.resize((x.ndim, len(found[0])))[...] = found

def sgd(param, grad, learning_rate, param_out, **attributes):
    param_out -= learning_rate * grad
"""


@pytest.fixture
def isolated(monkeypatch):
    """Makes the kernels of acme run in a separate process."""
    monkeypatch.setenv("OPWRIGHT_ISOLATE", "other, acme")


@pytest.fixture
def python_kernels(acme, plain_library, table, isolated):
    acme.use(plain_library, table + PYTHON)
    acme.add_module("kernels", KERNELS)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_an_isolated_kernel_gives_the_same_results_as_in_this_process(
    acme, plain_library, isolated, shape
):
    acme.use(plain_library)
    x = np.full(shape, 1.5)
    np.testing.assert_array_equal(ow.ops.acme.scale(x, factor=3.0), 3 * x)
    single = ow.ops.acme.scale(x.astype("float32"))
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, 2 * x)


def test_an_isolated_kernel_uses_the_thread_count_of_this_process(python_kernels):
    x = np.zeros(2_000_000)  # a short step runs on one thread
    for count in (3, 1, 2):
        ow.set_num_threads(count)
        got = ow.ops.acme.scale(x, fault="threads")
        np.testing.assert_array_equal(got, np.full_like(x, count))


def test_the_shared_memory_grows_with_the_arrays(acme, plain_library, isolated):
    acme.use(plain_library)
    for size in (10, 100_000, 1_000_000, 10):
        x = np.arange(float(size))
        np.testing.assert_array_equal(ow.ops.acme.scale(x), 2 * x)


def test_a_kernel_that_crashes_raises_and_the_next_call_works(acme, compiler, isolated):
    acme.use(compiler.build("hostile.c"))
    text = f"{WHO}: an isolated kernel must return, got one that crashed with SIGSEGV"
    for _ in range(2):
        with pytest.raises(KernelError, match=text):
            ow.ops.acme.scale(X, fault="crash")
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


def test_a_prepare_that_crashes_raises(acme, compiler, isolated):
    acme.use(compiler.build("hostile.c"))
    with pytest.raises(KernelError, match=f"{WHO}: .* got one that crashed with SIGSEGV"):
        ow.ops.acme.scale(X, fault="prepare_crash")
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


def test_a_kernel_that_hangs_is_killed(python_kernels, monkeypatch):
    who = r"acme.scale\[cpu, float64, python\] of opwright-acme 1.0"
    monkeypatch.setenv("OPWRIGHT_ISOLATE_TIME_LIMIT", "0.5")
    with pytest.raises(
        KernelError, match=f"{who}: an isolated kernel must return, got one that took"
    ):
        ow.ops.acme.scale(X, fault="hang")
    monkeypatch.delenv("OPWRIGHT_ISOLATE_TIME_LIMIT")
    np.testing.assert_array_equal(ow.ops.acme.scale(X), X)


def test_the_time_limit_must_be_a_number_of_seconds(python_kernels, monkeypatch):
    monkeypatch.setenv("OPWRIGHT_ISOLATE_TIME_LIMIT", "soon")
    with pytest.raises(SettingError, match="OPWRIGHT_ISOLATE_TIME_LIMIT: must be a number of sec"):
        ow.ops.acme.scale(X)


def test_python_kernels_run_in_another_process(python_kernels):
    first, *others = ow.ops.acme.scale(X, fault="process")
    assert first not in (0, os.getpid())
    assert set(others) == {first}
    assert set(ow.ops.acme.scale(X, fault="process")) == {first}  # the same process


def test_an_exit_or_exception_of_a_python_kernel_raises(python_kernels):
    with pytest.raises(
        KernelError, match="must return, got one that ended the process with exit code 7"
    ):
        ow.ops.acme.scale(X, fault="exit")
    failed = "the kernel failed in its process, got .*ValueError: not today"
    with pytest.raises(KernelError, match=failed):
        ow.ops.acme.scale(X, fault="raise")


def test_refusals_are_returned_with_their_reasons(acme, plain_library, table, isolated):
    acme.use(plain_library, table + PYTHON)
    acme.add_module("kernels", KERNELS)
    np.testing.assert_array_equal(ow.ops.acme.scale(X, fault="lack"), 2 * X)
    network = ow.Network([ow.Operator("acme.scale", x="x", out="y", fault="lack")])
    network.compile(feed=["x"], fetch=["y"])(x=X)
    assert "this machine lacks what the kernel needs: a vector unit" in str(network.placement())
    text = r"1.0 refused: not in the mood"
    with pytest.raises(KernelNotFoundError, match=text):
        ow.ops.acme.scale(X.astype("float32"), fault="refuse")


def test_an_isolated_kernel_can_resize_its_output(python_kernels):
    np.testing.assert_array_equal(ow.ops.nonzero(np.array([0.0, 3.0, 0.0, 4.0])), [[1, 3]])


def test_an_isolated_kernel_packs_a_parameter_and_repacks_it_when_set(python_kernels):
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        block = program.global_block()
        x = block.create_var("x", shape=[3], dtype="float64", persistable=True)
        y = ow.ops.acme.scale(x, fault="pack")
    scope = ow.Scope()
    run = ow.Network(block).compile(fetch=[y.name], scope=scope)
    for value in (X, 2 * X):
        scope.var("x").set(value)
        np.testing.assert_array_equal(run()[0], value + 100)


def test_an_isolated_kernel_updates_a_parameter_of_this_process_in_place(python_kernels):
    operator = ow.Operator("sgd", param="w", grad="g", learning_rate="r", param_out="w")
    scope = ow.Scope()
    scope.var("w").set(X)
    run = ow.Network([operator]).compile(feed=["g", "r"], fetch=[], scope=scope)
    run(g=np.ones(3), r=np.array([0.5]))
    np.testing.assert_array_equal(scope.find_var("w").numpy(), X - 0.5)


def test_an_operator_created_only_by_passes_is_also_isolated(monkeypatch):
    monkeypatch.setenv("OPWRIGHT_ISOLATE", "cpu")
    network = ow.Network([ow.Operator("relu", x="x", out="y"), ow.Operator("exp", x="y", out="z")])
    with context_guard(Context.discover()):
        out = network.compile(feed=["x"], fetch=["z"])(x=X)[0]
    np.testing.assert_allclose(out, np.exp(np.maximum(X, 0)))
    placement = network.placement()
    assert set(placement.types) == {"std.elementwise_chain"}
    assert placement.python_steps == 1


def test_without_the_kit_the_error_names_the_package(monkeypatch):
    monkeypatch.setenv("OPWRIGHT_ISOLATE", "cpu")
    monkeypatch.setenv("OPWRIGHT_PLUGINS", "std,cpu")
    text = r"kit\[prepare_isolated\]: no plugin provides this annex\n  .* OPWRIGHT_PLUGINS: .*'kit'"
    with context_guard(Context.discover()), pytest.raises(MissingRequirementError, match=text):
        ow.ops.add(X, X)
