"""Tests of random operators: ranges, scaling, and the words from which masks are computed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from direct import call

import opwright as ow
from opwright.errors import ShapeError
from opwright_kit.testing import CheckContext
from opwright_std.numerics.box_muller import random_normal, random_truncated_normal
from opwright_std.numerics.philox import multiply_high, random_uniform, random_words
from opwright_std.operators.dropout import DROPOUT, dropout
from opwright_std.operators.random import (
    NORMAL,
    TRUNCATED_NORMAL,
    UNIFORM,
    normal,
    truncated_normal,
    uniform,
)
from opwright_std.operators.random_integers import RANDINT, randint

STEP = np.array([3], np.int64)


def draw(kernel: Any, definition: Any, **attrs: Any) -> Any:
    return call(kernel, definition, {"step": [STEP]}, attrs)["out"][0]


def test_uniform_scales_and_shifts_in_its_own_dtype() -> None:
    out = draw(uniform, UNIFORM, shape=[2, 3], min=-0.3, max=0.7, seed=9, stream=4, dtype="float32")
    numbers = random_uniform(6, np.dtype("float32"), 9, 4, STEP)
    expected = numbers * np.float32(1.0) + np.float32(-0.3)
    assert out.dtype == np.float32
    assert out.tolist() == expected.reshape(2, 3).tolist()


def test_normal_scales_and_shifts_in_its_own_dtype() -> None:
    out = draw(normal, NORMAL, shape=[5], mean=2.0, std=0.1, seed=9, stream=4, dtype="float64")
    numbers = random_normal(5, np.dtype("float64"), 9, 4, STEP)
    assert out.tolist() == (numbers * 0.1 + 2.0).tolist()


@pytest.mark.parametrize(("kernel", "definition"), [(uniform, UNIFORM), (normal, NORMAL)])
def test_half_precision_is_single_precision_rounded_once(kernel: Any, definition: Any) -> None:
    half = draw(kernel, definition, shape=[64], seed=1, dtype="float16")
    single = draw(kernel, definition, shape=[64], seed=1, dtype="float32")
    assert half.tolist() == single.astype(np.float16).tolist()


def test_uniform_refuses_an_empty_range() -> None:
    with pytest.raises(ValueError, match=r"uniform: min must not be above max, got min=1.0, max=0"):
        draw(uniform, UNIFORM, shape=[1], min=1.0, max=0.0)


def drop(x: Any, **attrs: Any) -> tuple[Any, Any]:
    outputs = call(dropout, DROPOUT, {"x": [x], "step": [STEP]}, {"training": True, **attrs})
    return outputs["out"][0], outputs["mask"][0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_mask_compares_the_word_of_each_element_with_the_threshold(dtype: str) -> None:
    x = np.arange(1, 36, dtype=dtype).reshape(5, 7)
    out, mask = drop(x, probability=0.25, seed=11, stream=2)
    words = random_words(35, 11, 2, STEP).reshape(5, 7)
    assert mask.tolist() == (words >= 2**30).tolist()
    assert out.tolist() == np.where(mask, x * np.array(1 / 0.75, dtype), 0).tolist()


def test_dropped_elements_are_zero_even_if_infinite() -> None:
    out, mask = drop(np.full(64, np.inf, np.float32), probability=0.5, seed=1)
    assert set(out[mask].tolist()) == {np.inf}
    assert set(out[~mask].tolist()) == {0.0}


def test_the_fraction_of_dropped_elements_matches_the_probability() -> None:
    n = 100_000
    _, mask = drop(np.ones(n, np.float32), probability=0.3, seed=5)
    assert abs((~mask).mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / n)


def test_mask_changes_with_the_step() -> None:
    x = np.ones(64, np.float32)
    attrs = {"training": True, "seed": 5}
    masks = [
        call(dropout, DROPOUT, {"x": [x], "step": [np.array([step])]}, attrs)["mask"][0].tolist()
        for step in (0, 1)
    ]
    assert masks[0] != masks[1]


EMPTY_STEPS = """
import numpy as np
import opwright as ow

empty = np.zeros(0, np.int64)
for call in (
    lambda: ow.ops.normal(empty, shape=[2], stream=0),
    lambda: ow.ops.uniform(empty, shape=[2], stream=0),
    lambda: ow.ops.dropout(np.ones(2, np.float32), empty, training=True, stream=0),
):
    try:
        print(call())
    except ow.errors.ShapeError as error:
        print(error)
"""


def test_an_empty_step_is_refused() -> None:
    """The test runs in a child process, since a missing check would read address 0."""
    command = [sys.executable, "-c", EMPTY_STEPS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    said = "step must have one element, got int64[0]; give the number of the run"
    assert done.stdout.splitlines() == [f"{op}: {said}" for op in ("normal", "uniform", "dropout")]


@pytest.mark.parametrize("shape", [(0,), (2,), (1, 3)])
def test_every_random_operator_refuses_a_step_that_is_not_a_single_number(
    shape: tuple[int, ...],
) -> None:
    ops = ow.current_context().ops
    random = [op for op in map(ops.get, ops.types(all=True)) if op.random and not op.plan_only]
    random = [op for op in random if op.op_type != "torch.random_call"]  # tested below
    assert len(random) >= 3
    for definition in random:
        checked = CheckContext(ow.current_context())
        kind = "int64" if definition.proto.output("out").same_as == "dtype" else "float32"
        drawn = checked.samples(definition, "float32") or checked.samples(definition, kind)
        sample = drawn[0]
        wrong = {**sample.inputs, "step": (np.zeros(shape, np.int64),)}
        with pytest.raises(ShapeError, match=f"^{definition.op_type}: step must have one element"):
            sample.with_inputs(wrong, "").infer(definition)


def test_a_random_pytorch_call_refuses_a_step_with_two_elements() -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", [3], is_data=True)
    step = block.create_var("steps", [2], "int64", is_data=True)
    call = json.dumps(
        {"inputs": [["float32", [3]]], "calls": [], "taken": [], "results": [["float32", [3]]]}
    )
    with pytest.raises(ShapeError, match=r"^torch\.random_call: step must have one element"):
        block.append_op("torch.random_call", {"x": [x], "step": step}, {}, {"call": call})


def test_a_step_can_have_any_number_of_axes() -> None:
    expected = draw(uniform, UNIFORM, shape=[3])
    step = np.array(3, np.int64)
    out = call(uniform, UNIFORM, {"step": [step]}, {"shape": [3]})["out"][0]
    np.testing.assert_array_equal(out, expected)


def test_truncated_numbers_within_two_deviations_match_normal() -> None:
    plain = random_normal(20_000, np.dtype("float32"), 9, 4, STEP)
    numbers = random_truncated_normal(20_000, np.dtype("float32"), 9, 4, STEP)
    inside = np.abs(plain) <= 2
    assert 0.04 < 1 - inside.mean() < 0.05
    assert numbers[inside].tolist() == plain[inside].tolist()
    assert np.abs(numbers).max() <= 2
    # The variance of a normal number truncated at two deviations.
    assert abs(numbers.var() - 0.7737) < 0.02


@pytest.mark.parametrize("factor", [1, 2, 10, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1])
def test_the_upper_half_of_a_product_is_exact(factor: int) -> None:
    words = np.array([0, 1, 2**31, 2**32, 2**63, 2**64 - 1, 0x123456789ABCDEF], np.uint64)
    expected = [int(word) * factor >> 64 for word in words]
    assert multiply_high(words, factor).tolist() == expected


def test_integers_are_uniform_in_the_range() -> None:
    numbers = np.asarray(ow.ops.randint(shape=[60_000], low=-3, high=3, seed=5))
    counts = np.bincount(numbers + 3, minlength=6)
    assert counts.sum() == 60_000
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(10_000)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fraction_of_ones_matches_the_probability(dtype: str) -> None:
    x = np.repeat(np.array([0.0, 0.25, 1.0], dtype), 40_000)
    ones = np.asarray(ow.ops.bernoulli(x, seed=3)).reshape(3, -1).mean(axis=1)
    assert ones[0] == 0
    assert abs(ones[1] - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 40_000)
    assert ones[2] == 1


@pytest.mark.parametrize("wrong", [-0.5, 1.5, np.nan])
def test_values_outside_of_0_and_1_are_refused(wrong: float) -> None:
    x = np.array([0.5, wrong], np.float32)
    with pytest.raises(ow.errors.OpwrightError, match=r"bernoulli.*x must be in \[0, 1\], got"):
        ow.ops.bernoulli(x, seed=3)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_contains_every_number_once(n: int) -> None:
    order = np.asarray(ow.ops.permutation(n=n, seed=4))
    assert sorted(order.tolist()) == list(range(n))
    assert n < 3 or order.tolist() != list(range(n))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *(
            (op, dtype)
            for op in ("uniform", "truncated_normal")
            for dtype in ("float32", "float64")
        ),
        *(("randint", dtype) for dtype in ("int32", "int64")),
    ],
)
def test_every_kernel_on_the_cpu_draws_the_specified_numbers(op: str, dtype: str) -> None:
    attrs = {"high": 2**31 - 1, "low": -7} if op == "randint" else {}
    entries = ow.current_context().kernels.entries(op)
    assert {"native", "numpy"} <= {e.library for e in entries if e.device == "cpu"}
    expected = call(
        {"uniform": uniform, "truncated_normal": truncated_normal, "randint": randint}[op],
        {"uniform": UNIFORM, "truncated_normal": TRUNCATED_NORMAL, "randint": RANDINT}[op],
        {},
        {"shape": [5000], "dtype": dtype, "seed": 3, **attrs},
    )["out"][0]
    drawn = getattr(ow.ops, op)(shape=[5000], dtype=dtype, seed=3, **attrs)
    np.testing.assert_array_equal(np.asarray(drawn), expected)
