"""deterministic=True excludes kernels declared as nondeterministic, and reports this."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from acme_operators import COUNT
from opwright import Context, context_guard
from opwright.context.threads import DETERMINISTIC_THREADS, is_deterministic
from opwright.errors import KernelNotFoundError, ProgramError, SettingError
from opwright.packages import Package

ACME = Package("acme", "opwright-acme", "1.0")


class CountThreads:
    @staticmethod
    def prepare(ctx):
        def run(x, out):
            out[...] = ctx.n_threads if ctx.deterministic else -ctx.n_threads

        return run


def answer_quickly(x, out):
    out[...] = 1000


@pytest.fixture
def context():
    made = Context()
    made.ops.add("acme.count", COUNT, ACME)
    with context_guard(made):
        yield made


def add(context, library, kernel, **options):
    context.kernels.add(
        "acme.count", device="cpu", dtypes="*", kernel=kernel, library=library, package=ACME,
        **options,
    )  # fmt: skip


def count(deterministic, size=300_000):
    """Run acme.count, by default on an array too large for a short plan; return one element."""
    network = ow.Network([ow.Operator("acme.count", x="x", out="out")])
    call = network.compile(["x"], ["out"], deterministic=deterministic)
    return call(x=np.zeros(size, "float32"))[0][0]


def test_kernels_in_a_deterministic_plan_are_prepared_for_a_fixed_thread_count(context):
    add(context, "slow", CountThreads)
    for n_threads in (1, 2, 3):
        ow.set_num_threads(n_threads)
        assert count(True) == DETERMINISTIC_THREADS
        assert count(False) == -n_threads


def test_a_short_deterministic_plan_is_short_for_any_thread_count(context):
    add(context, "slow", CountThreads)
    for n_threads in (1, 2, 3):
        ow.set_num_threads(n_threads)
        assert count(True, 8) == 1


def test_a_nondeterministic_kernel_is_skipped(context):
    add(context, "slow", CountThreads)
    add(context, "quick", answer_quickly, priority=90, deterministic=False)
    assert count(False) == 1000
    assert count(True) == DETERMINISTIC_THREADS


def test_without_another_kernel_the_error_suggests_a_fix(context):
    add(context, "quick", answer_quickly, deterministic=False)
    with pytest.raises(KernelNotFoundError, match="give deterministic=False"):
        count(True)
    assert count(False) == 1000


@pytest.mark.parametrize(("text", "expected"), [("", False), (" 0 ", False), ("1", True)])
def test_the_environment_variable_is_used_if_no_argument_is_given(monkeypatch, text, expected):
    monkeypatch.setenv("OPWRIGHT_DETERMINISTIC", text)
    assert is_deterministic.__wrapped__() == expected


def test_the_environment_variable_must_be_0_or_1(monkeypatch):
    monkeypatch.setenv("OPWRIGHT_DETERMINISTIC", "maybe")
    with pytest.raises(SettingError, match="OPWRIGHT_DETERMINISTIC: must be 0 or 1, got 'maybe'"):
        is_deterministic.__wrapped__()


@pytest.mark.parametrize("method", ["run", "compile"])
def test_deterministic_must_be_a_bool(method):
    network = ow.Network([ow.Operator("relu", x="x", out="out")])
    with pytest.raises(ProgramError, match=f"Network.{method}: deterministic must be True, False"):
        getattr(network, method)(deterministic=1)
