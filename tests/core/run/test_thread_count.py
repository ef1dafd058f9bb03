"""The thread count is a process-wide setting that kernels receive in prepare."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

import opwright as ow
from acme_operators import COUNT
from opwright import Context, context_guard
from opwright.context.threads import count_from_environment
from opwright.errors import AttributeTypeError, SettingError
from opwright.packages import Package
from opwright.runtime import use_openmp

ACME = Package("acme", "opwright-acme", "1.0")


class CountThreads:
    @staticmethod
    def prepare(ctx):
        def run(x, out):
            out[...] = ctx.n_threads

        return run


def test_the_default_is_the_number_of_cpus_available_to_the_process():
    assert count_from_environment({}) == len(os.sched_getaffinity(0))
    assert count_from_environment({"OPWRIGHT_NUM_THREADS": " "}) == len(os.sched_getaffinity(0))
    assert count_from_environment({"OPWRIGHT_NUM_THREADS": " 3 "}) == 3


@pytest.mark.parametrize(("text", "expected"), [("3", 3), (" 5, 2", 5), ("0", 0), ("all", 0)])
def test_openmp_provides_the_default_unless_its_number_is_invalid(text, expected):
    environ = {"OMP_NUM_THREADS": text}
    assert count_from_environment(environ) == (expected or len(os.sched_getaffinity(0)))
    assert count_from_environment({**environ, "OPWRIGHT_NUM_THREADS": "7"}) == 7


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "1025", "9" * 5000])
def test_an_invalid_environment_is_reported(text):
    with pytest.raises(SettingError, match="OPWRIGHT_NUM_THREADS: must be a number from 1 to 1024"):
        count_from_environment({"OPWRIGHT_NUM_THREADS": text})


def test_the_error_for_a_mistyped_thread_argument_suggests_the_right_name():
    with pytest.raises(AttributeTypeError, match="^set_num_threads: .*; did you mean 'n_threads'"):
        ow.set_num_threads(n_thread=3)


@pytest.mark.parametrize("value", [0, -2, 1025, 2**70, True, 1.0, "2", None])
def test_an_invalid_count_is_refused_and_changes_nothing(value):
    ow.set_num_threads(3)
    with pytest.raises(SettingError, match="set_num_threads: must be an int from 1 to 1024, got"):
        ow.set_num_threads(value)
    assert ow.get_num_threads() == 3


def test_numpy_integers_are_accepted_as_counts():
    ow.set_num_threads(np.int32(2))
    assert ow.get_num_threads() == 2


def test_a_changed_count_advances_the_epoch_of_every_context():
    contexts = Context(), Context()
    ow.set_num_threads(1)
    before = [context.epoch.now for context in contexts]
    ow.set_num_threads(1)
    assert [context.epoch.now for context in contexts] == before
    ow.set_num_threads(2)
    assert all(c.epoch.now > now for c, now in zip(contexts, before, strict=True))


def test_a_python_kernel_receives_the_thread_count_in_prepare():
    context = Context()
    context.ops.add("acme.count", COUNT, ACME)
    context.kernels.add(
        "acme.count", device="cpu", dtypes="*", kernel=CountThreads, library="acme", package=ACME
    )
    with context_guard(context):
        network = ow.Network([ow.Operator("acme.count", x="x", out="y")])
        run = network.compile(feed=["x"], fetch=["y"])
        for n in (4, 1, 2):
            ow.set_num_threads(n)
            assert set(run(x=np.zeros(200_000))[0]) == {n}
            assert set(run(x=np.zeros(2))[0]) == {1}
            assert network.placement().n_threads == 1
        ow.release_memory()
        gc.collect()
        # Prepared kernels are freed with their plans.
        assert all(reference() is None for reference in context.prepared.values())


@pytest.mark.parametrize("library", ["libc.so.6", "no such library"])
def test_opwright_uses_its_own_threads_if_a_library_has_no_openmp(library: str) -> None:
    assert not use_openmp(library)
