"""`Plan.direct_entry` lets native code of another framework run a plan."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from native_code import run_directly

import opwright as ow
from opwright.errors import ProgramError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def plan_of(build: Any, x: np.ndarray[Any, Any] = X, **options: Any) -> Any:
    """Return the plan of operators appended to a program with the feed x."""
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        fetch = build(block.create_var("x", list(x.shape), str(x.dtype), is_data=True))
    call = ow.Network(block).compile(["x"], fetch, scope=ow.Scope(), **options)
    return call.plan_for({"x": x}).lowered.plan


def run(plan: Any, x: np.ndarray[Any, Any], *results: np.ndarray[Any, Any]) -> str:
    return run_directly(plan, [x.ctypes.data], [result.ctypes.data for result in results])


def test_kernels_read_and_write_memory_of_the_caller():
    plan = plan_of(lambda x: [ow.ops.softmax(x), x, ow.ops.sum(ow.ops.square(x))])
    for x in (X, 2 * X):
        results = np.empty_like(X), np.empty_like(X), np.empty((), np.float32)
        assert run(plan, x, *results) == ""
        np.testing.assert_allclose(results[0], ow.ops.softmax(x), rtol=1e-6)
        np.testing.assert_array_equal(results[1], x)
        np.testing.assert_allclose(results[2], np.square(x).sum(), rtol=1e-6)


def test_python_steps_acquire_the_gil():
    with ow.current_context().pin("*", "numpy"):
        plan = plan_of(lambda x: [ow.ops.softmax(ow.ops.relu(x))])
    assert plan.python_steps > 0
    wrong = []

    def work(factor: int) -> None:
        x, out = np.ascontiguousarray(factor * X), np.empty_like(X)
        for _ in range(50):
            if run(plan, x, out) or not np.allclose(out, ow.ops.softmax(np.maximum(x, 0))):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("library", ["numpy", "native"])
def test_a_failed_run_returns_the_error_message(library):
    index = np.array([0, 7], np.int64)
    table = np.eye(3, dtype=np.float32)
    with ow.current_context().pin("gather", library):
        plan = plan_of(lambda x: [ow.ops.gather(table, x, axis=0)], index)
    out = np.empty((2, 3), np.float32)
    assert "gather" in run(plan, index, out)
    assert "7" in run(plan, index, out)
    assert run(plan, np.array([2, 1], np.int64), out) == ""
    np.testing.assert_array_equal(out, table[[2, 1]])


def test_plans_with_unknown_shapes_have_no_direct_entry():
    with pytest.raises(
        ProgramError, match="must work on feeds of fixed shapes, got one with shape"
    ):
        plan_of(lambda x: [ow.ops.nonzero(x)]).direct_entry()
