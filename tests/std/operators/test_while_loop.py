"""while_loop: a block runs while its condition holds; gradients require a bound."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import GradientError, KernelError, ShapeError, SlotError

START = {"x": np.array([1.0, 3.0]), "w": np.array([1.5, 1.25]), "limit": np.array([20.0])}


def growing_program(**attrs: Any) -> Any:
    """Return a program of ``while sum(x) < limit: x = x * w``."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [2], "float64", is_data=True)
    block.create_var("limit", [1], "float64", is_data=True)
    block.create_parameter("w", [2], "float64")
    ask(block, "x", "begins")
    body = program.create_block()
    body.create_var("v", [2], "float64")
    body.append_op("multiply", {"x": "v", "y": "w"}, {"out": "after"})
    ask(body, "after", "again")
    program.rollback()
    names = {"body_init": ["v"], "body_out": ["after"], "body_condition": "again"}
    inputs = {"condition": "begins", "init": "x"}
    block.append_op("while_loop", inputs, {"out": ["grown"]}, {"body": body, **names, **attrs})
    block.append_op("multiply", {"x": "grown", "y": "grown"}, {"out": "squares"})
    block.append_op("sum", {"x": "squares"}, {"out": "loss"})
    return program


def ask(block: Any, x: str, out: str) -> None:
    block.append_op("sum", {"x": x}, {"out": f"{out}_total"}, {"axis": [0], "keepdims": True})
    block.append_op("less", {"x": f"{out}_total", "y": "limit"}, {"out": out})


def run(program: Any, fetch: list[str], values: dict[str, Any] = START, **options: Any) -> Any:
    scope = ow.Scope()
    scope.var("w").set(values["w"])
    step = ow.Network(program.global_block()).compile(["x", "limit"], fetch, scope=scope, **options)
    return step(x=values["x"], limit=values["limit"])


def grown(values: dict[str, Any]) -> Any:
    x = values["x"]
    while x.sum() < values["limit"]:
        x = x * values["w"]
    return x


@pytest.mark.parametrize("limit", [-1.0, 3.9, 4.1, 20.0, 1e6])
@pytest.mark.parametrize("attrs", [{}, {"max_steps": 100}])
def test_a_loop_runs_until_its_condition_fails(limit: float, attrs: Any) -> None:
    values = {**START, "limit": np.array([limit])}
    (found,) = run(growing_program(**attrs), ["grown"], values)
    np.testing.assert_allclose(found, grown(values), rtol=1e-12)


def test_more_iterations_than_max_steps_raise_an_error_that_names_the_loop() -> None:
    values = {**START, "limit": np.array([1e6])}
    with pytest.raises(KernelError, match=r"^while_loop\[cpu\]: operator 2 .*within 5 iterations"):
        run(growing_program(max_steps=5), ["grown"], values)


@pytest.mark.parametrize("limit", [-1.0, 20.0, 1e3])
def test_gradients_of_a_bounded_loop_agree_with_central_differences(limit: float) -> None:
    program = growing_program(max_steps=30)
    pairs = ow.append_backward(program.global_block().var("loss"), ["x", "w"])
    values = {**START, "limit": np.array([limit])}
    found = run(program, [gradient.name for _, gradient in pairs], values)
    for (variable, _), gradient in zip(pairs, found, strict=True):
        for index in np.ndindex(gradient.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {n: np.array(v) for n, v in values.items()}
                moved[variable.name][index] += step
                ends.append((grown(moved) ** 2).sum())
            expected = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(gradient[index], expected, rtol=1e-6, atol=1e-8)


def test_the_gradient_of_a_loop_without_a_bound_is_refused_with_a_remedy() -> None:
    program = growing_program()
    before = str(program)
    with pytest.raises(
        GradientError, match="while_loop .*must have a bound.*give max_steps, or use"
    ):
        ow.append_backward(program.global_block().var("loss"), ["w"])
    assert str(program) == before


def test_the_number_of_iterations_is_returned_on_request() -> None:
    program = growing_program()
    block = program.global_block()
    body = next(op for op in block.ops if op.type == "while_loop").attrs["body"]
    twin = ow.Program.from_proto(program.to_proto())
    op = next(op for op in twin.global_block().ops if op.type == "while_loop")
    twin.global_block().create_var("n", [1], "int64")
    op.outputs["steps"] = ("n",)
    (n,) = run(twin, ["n"])
    assert n.tolist() == [6]
    assert body == 1


def test_iterations_are_saved_only_with_a_bound() -> None:
    with pytest.raises(ShapeError, match="max_steps must be given for saved iterations"):
        growing_program(body_kept=["v"])


def test_a_loop_with_duplicate_names_of_initial_values_is_refused() -> None:
    program = growing_program()
    op = next(op for op in program.global_block().ops if op.type == "while_loop")
    op.inputs["init"] = ("x", "x")
    op.outputs["out"] = ("grown", "other")
    program.global_block().create_var("other", [2], "float64")
    op.attrs["body_init"], op.attrs["body_out"] = ("v", "v"), ("after", "after")
    with pytest.raises(SlotError, match=r"while_loop: .*have its own name, got \['v', 'v'\]"):
        run(program, ["grown"])


def test_a_loop_and_its_gradient_are_preserved_by_serialization_and_pruning() -> None:
    program = growing_program(max_steps=30)
    ((_, gradient),) = ow.append_backward(program.global_block().var("loss"), ["w"])
    (wanted,) = run(program, [gradient.name])
    read = ow.Program.from_proto(program.to_proto())
    assert str(read) == str(program)
    for other in (read, program.prune([gradient.name])):
        np.testing.assert_array_equal(run(other, [gradient.name])[0], wanted)


def test_ctrl_c_interrupts_an_endless_loop() -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, stop)
    values = {**START, "x": np.zeros(2)}

    def run_interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        run(growing_program(), ["grown"], values)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
