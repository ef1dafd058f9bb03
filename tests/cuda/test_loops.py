"""Loops on a GPU with array elements, carried values and conditions match the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_nested_control as nested
import test_scan as scans
import test_watching as watching
import test_while_loop as whiles

import opwright as ow
from opwright.errors import KernelError, ProgramError

pytestmark = pytest.mark.cuda_kernels


def compare(run: Callable[..., Any], program: Any, fetch: list[str], values: Any) -> None:
    """Compare the results of a program on the GPU and on the CPU."""
    wanted = run(program, fetch, values)
    found = run(program, fetch, values, device="cuda")
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_network_and_its_gradients_match_the_cpu(reverse: bool) -> None:
    program = scans.rnn_program(reverse=reverse)
    names = scans.gradients(program, ["x", "h0", "w", "u"])
    compare(scans.run, program, ["states", "loss", *names], scans.VALUES)


@pytest.mark.parametrize("reverse", [False, True])
def test_recomputed_iterations_match_the_cpu(reverse: bool) -> None:
    program = scans.rnn_program(reverse=reverse, checkpoint_every=2)
    names = scans.gradients(program, ["x", "h0", "w", "u"])
    compare(scans.run, program, ["states", "loss", *names], scans.VALUES)


def test_a_bounded_loop_and_its_gradients_match_the_cpu() -> None:
    program = whiles.growing_program(max_steps=30)
    pairs = ow.append_backward(program.global_block().var("loss"), ["x", "w"])
    names = [gradient.name for _, gradient in pairs]
    compare(whiles.run, program, ["loss", *names], whiles.START)


@pytest.mark.parametrize("make", [nested.scan_in_scan, nested.while_in_scan, nested.cond_in_scan])
def test_nested_control_flow_and_its_gradients_match_the_cpu(
    make: Callable[..., Any],
) -> None:
    program, loss = nested.build(make)
    ((_, gradient),) = ow.append_backward(program.global_block().var(loss), ["w"])
    pruned = program.prune([loss, gradient.name])
    used = {n: v for n, v in nested.VALUES.items() if n in pruned.global_block().vars}
    compare(nested.run, pruned, [loss, gradient.name], used)


def test_prints_and_assertions_run_on_the_host_with_a_fallback(capfd: Any) -> None:
    program = watching.watched_program()
    options = {"device": "cuda", "fallback": "cpu"}
    assert watching.run(program, ["last"], [1.0, 2.5], **options)[0].tolist() == [3.5]
    assert "sum float64[1] [3.5]" in capfd.readouterr().out
    with pytest.raises(KernelError, match="x must be > 0"):
        watching.run(program, ["last"], [1.0, -2.0], **options)


def test_native_code_does_not_run_asynchronous_plans() -> None:
    program = ow.Program()
    with ow.program_guard(program):
        x = program.global_block().create_var("x", [2], is_data=True)
        out = ow.ops.relu(x)
    call = ow.Network(program.global_block()).compile(["x"], [out], device="cuda")
    plan = call.plan_for({"x": np.ones(2, np.float32)}).lowered.plan
    with pytest.raises(ProgramError, match="got one with work in the order of a stream"):
        plan.direct_entry()
