"""Gradients of programs whose dimensions are unknown until they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from case import Array, Case, Random
from one_operator import OneOperator, build, compiled, definition_of
from table import by_operator, first_cases, load_cases
from test_empty_gradients import can_have_gradient, differentiable

import opwright as ow
from every_case import EVERY
from opwright.vocabulary import STEP_SLOT

Shapes = Mapping[str, tuple[int, ...]]


def with_unknown_dims(feeds: Mapping[str, Array]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the shapes with all dimensions unknown, then with one axis of all arrays unknown."""
    yield {name: (-1,) * array.ndim for name, array in feeds.items()}
    for axis in range(max((array.ndim for array in feeds.values()), default=0)):
        yield {
            name: tuple(-1 if i == axis else n for i, n in enumerate(array.shape))
            for name, array in feeds.items()
        }


def build_unknown(case: Case, arrays: Mapping[str, Sequence[Array]], shapes: Shapes) -> OneOperator:
    one = build(case, arrays)
    block = ow.Program().global_block()
    for name, shape in shapes.items():
        known = one.block.var(name)
        block.create_var(name, shape, known.dtype, stop_gradient=known.stop_gradient)
    (op,) = one.block.ops
    given = {slot: names for slot, names in op.inputs.items() if slot != STEP_SLOT}
    block.append_op(op.type, given, op.outputs, op.attrs)
    inputs = {s: [block.var(v.name) for v in listed] for s, listed in one.inputs.items()}
    outputs = {s: [block.var(v.name) for v in listed] for s, listed in one.outputs.items()}
    return OneOperator(block, one.definition, one.feeds, inputs, outputs)


def compute(one: OneOperator) -> list[Array]:
    names = differentiable(one)
    floats = [
        v
        for slot in one.definition.proto.outputs
        for v in one.outputs[slot.name]
        if np.dtype(v.dtype).kind == "f" and not slot.intermediate and not slot.aliases
    ]
    if not names or not floats:
        return []
    squares = [ow.ops.sum(ow.ops.square(v)) for v in floats]
    pairs = ow.append_backward(squares, parameters=names)
    return compiled(one.block, one.feeds, [grad for _, grad in pairs])(**one.feeds)


DIAGONAL = Case(
    "einsum", {"x": [Random((3, 3, 2))]}, None, {"equation": "iij->i"}, label="diagonal"
)

CASES = by_operator(
    case
    for case in (*(load_cases() if EVERY else first_cases()), DIAGONAL)
    if not case.known_shapes
    and can_have_gradient(definition_of(case))
    and not definition_of(case).random  # random numbers depend on the position in the program
)


@pytest.mark.parametrize("op_type", CASES)
def test_gradients_match_known_shapes(op_type: str) -> None:
    for case in CASES[op_type]:
        arrays = case.make_inputs(case.dtypes[-1])
        known = build(case, arrays)
        expected = compute(known)
        for shapes in with_unknown_dims(known.feeds):
            for a, b in zip(compute(build_unknown(case, arrays, shapes)), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=f"{case}: {shapes}")
