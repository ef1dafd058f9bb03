"""print and assert_true: their output and their errors, outside and inside loops."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError


def watched_program() -> Any:
    """Return a program that sums x; each iteration prints the sum and asserts that x > 0."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 1], "float64", is_data=True)
    block.create_var("start", [1], "float64", is_data=True)
    body = program.create_block()
    body.create_var("total", [1], "float64")
    body.create_var("x_t", [1], "float64")
    body.append_op("fill_like", {"x": "x_t"}, {"out": "zero"})
    body.append_op("greater", {"x": "x_t", "y": "zero"}, {"out": "is_positive"})
    body.append_op("assert_true", {"condition": "is_positive"}, None, {"message": "x must be > 0"})
    body.append_op("add", {"x": "total", "y": "x_t"}, {"out": "sum"})
    body.append_op("print", {"x": "sum"}, {"out": "seen"}, {"message": "sum"})
    program.rollback()
    attrs = {"body": body, "body_init": ["total"], "body_xs": ["x_t"], "body_final": ["seen"]}
    block.append_op("scan", {"init": "start", "xs": "x"}, {"final": ["last"]}, attrs)
    block.append_op("sum", {"x": "last"}, {"out": "loss"})
    return program


def run(program: Any, fetch: list[str], x: list[float], **options: Any) -> Any:
    network = ow.Network(program.global_block())
    call = network.compile(["x", "start"], fetch, scope=ow.Scope(), **options)
    return call(x=np.array(x)[:, None], start=np.zeros(1))


def test_values_are_printed_in_the_order_of_iterations_and_passed_on(capfd: Any) -> None:
    program = watched_program()
    ((_, gradient),) = ow.append_backward(program.global_block().var("loss"), ["x"])
    last, x_grad = run(program, ["last", gradient.name], [1.0, 2.5, 4.0])
    assert last.tolist() == [7.5]
    assert x_grad.tolist() == [[1.0], [1.0], [1.0]]
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["sum float64[1] [1.]", "sum float64[1] [3.5]", "sum float64[1] [7.5]"]


def test_only_the_first_and_last_of_many_elements_are_printed(capfd: Any) -> None:
    ow.ops.print(np.arange(100), limit=10)
    assert capfd.readouterr().out == "int64[100] [ 0,  1,  2, ..., 97, 98, 99]\n"


def test_16_bit_values_are_printed(capfd: Any) -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = np.array([0.5, -2], dtype)
        np.testing.assert_array_equal(ow.ops.print(x), x)
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["float16[2] [ 0.5, -2. ]", "bfloat16[2] [0.5, -2]"]


def test_a_false_element_stops_the_run_with_the_message(capfd: Any) -> None:
    with pytest.raises(KernelError, match=r"^assert_true.*x must be > 0: 1 of 1 elements are fal"):
        run(watched_program(), ["last"], [1.0, -2.0, 4.0])
    assert capfd.readouterr().out == "sum float64[1] [1.]\n"


def test_the_error_names_the_first_element_that_is_not_true() -> None:
    condition = np.array([[True, True], [True, False]])
    with pytest.raises(KernelError, match=r"1 of 4 elements are false, the first at \[1, 1\]"):
        ow.ops.assert_true(condition)
