"""The gradient kernels of operators agree with the compositions that replace them.

A second backward pass replaces a gradient operator with its composition, so the first gradient of
the same program is then computed differently. The cases include infinities, NaN, and ties.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from case import HALVES, Array, Case, is_float
from one_operator import OneOperator, build, compiled, definition_of, graded_slots
from table import load_cases
from test_gradients import float_inputs, known_shape
from test_halves import has_numbers_of
from test_second_gradients import float_outputs, is_once

import opwright as ow
from every_case import EVERY, is_one_in
from opwright.op import GradOp

SHARE = 16
"""One in `SHARE` cases and dtypes is compared, and every case with a reference gradient."""

DIFFERENT = {
    "cumprod-special": "the composition multiplies parts of a row, among them 0 and inf",
    "det-singular": "the composition inverts the matrix",
}
"""Cases whose gradients differ, and why."""


def is_replaced(case: Case) -> bool:
    """Return whether the gradient of an operator is an operator with a composition."""
    if not isinstance(definition_of(case).gradient, GradOp):
        return False
    gradient = ow.current_context().ops.get(f"{case.op}_grad")
    return gradient.body is not None and gradient.gradient is None


def is_chosen(case: Case, dtype: str) -> bool:
    if EVERY or is_one_in(SHARE, f"{case} {dtype}"):
        return True
    return case.gradients is not None and (dtype in case.dtypes or is_one_in(4, f"{case} {dtype}"))


def dtypes_of(case: Case) -> Iterator[str]:
    """Yield the float dtypes of a case, and 16-bit floats that represent its numbers."""
    floats = {dtype for slot in definition_of(case).proto.inputs for dtype in slot.dtypes or ()}
    is_wide = "float32" in case.dtypes and not case.no_half_grad
    halves = [d for d in HALVES if d in floats and is_wide and has_numbers_of(case, d)]
    for dtype in dict.fromkeys((*case.dtypes, *halves)):
        if is_float(np.dtype(dtype)) and graded_slots(case, case.make_inputs(dtype)):
            yield dtype


def replaced_cases() -> Iterator[tuple[Case, str]]:
    firsts: set[tuple[str, str]] = set()
    for case in load_cases():
        if str(case) in DIFFERENT or is_once(case) or not is_replaced(case):
            continue
        for dtype in dtypes_of(case):
            if (case.op, dtype) not in firsts or is_chosen(case, dtype):
                yield case, dtype
            firsts.add((case.op, dtype))


def add_seeds(case: Case, one: OneOperator) -> dict[ow.Variable, ow.Variable]:
    """Feed a gradient of each output."""
    rng = np.random.default_rng(0)
    seeds = {}
    for place, variable in enumerate(float_outputs(one)):
        shape = known_shape(one, variable)
        # Numbers that every dtype represents.
        seed = np.rint(np.asarray(rng.standard_normal(shape)) * 32) / 32
        if case.gradients is not None and place == 0:
            seed = np.broadcast_to(case.out_grad, shape)
        name = f"{variable.name}_seed"
        with np.errstate(over="ignore"):
            one.feeds[name] = np.array(seed, np.dtype(variable.dtype))
        seeds[variable] = one.block.create_var(name, shape, variable.dtype, is_data=True)
    return seeds


def compute_both(case: Case, dtype: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield each input with its gradient by the kernel and by the composition."""
    arrays = case.make_inputs(dtype)
    one = build(case, arrays)
    wanted = float_inputs(one, graded_slots(case, arrays))
    seeds = add_seeds(case, one)
    firsts = ow.append_backward(list(seeds), wanted, grads=seeds)
    fetch = [gradient for _, gradient in firsts]
    before = list(one.block.ops)
    with np.errstate(all="ignore"):
        kernel = compiled(one.block, one.feeds, fetch)(**one.feeds)
        ow.append_backward(fetch, list(seeds.values()), allow_unused=True)
        composition = compiled(one.block, one.feeds, fetch)(**one.feeds)
    (replaced,) = [op for op in before if op.type == f"{case.op}_grad"]
    assert replaced not in one.block.ops
    for (variable, _), *both in zip(firsts, kernel, composition, strict=True):
        yield variable.name, *both


GROUPS: dict[str, list[tuple[Case, str]]] = {}
for _case, _dtype in replaced_cases():
    GROUPS.setdefault(_case.op, []).append((_case, _dtype))


@pytest.mark.parametrize("op_type", GROUPS)
def test_a_gradient_agrees_with_the_composition_that_replaces_it(op_type: str) -> None:
    for case, dtype in GROUPS[op_type]:
        for name, kernel, composition in compute_both(case, dtype):
            relative = 4 * case.tolerance(kernel.dtype)[0]
            expected = kernel.astype(np.float64)
            size = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=1.0))
            np.testing.assert_allclose(
                composition.astype(np.float64),
                expected,
                rtol=relative,
                atol=relative * size,
                err_msg=f"{case} in {dtype}: {name}",
            )


@pytest.mark.parametrize("name", DIFFERENT)
def test_every_case_that_is_not_compared_exists(name: str) -> None:
    assert name in {str(case) for case in load_cases()}
