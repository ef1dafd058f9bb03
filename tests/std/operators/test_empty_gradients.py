"""Gradients for inputs with an empty axis are zeros in the shape of each input, not errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from case import Array, Case, Random, is_float
from one_operator import OneOperator, build, compiled, definition_of
from table import by_operator, load_cases, sample_cases
from test_gradients import add_loss

import opwright as ow
from opwright.errors import OpwrightError
from opwright.op import GradOp, NoGradient, OpDefinition

Arrays = Mapping[str, Sequence[Array]]


def can_have_gradient(definition: OpDefinition) -> bool:
    return definition.control is None and not isinstance(definition.gradient, NoGradient)


def differentiable(one: OneOperator) -> list[str]:
    """Return the float inputs that have a gradient, including the inputs of composites."""
    rule = one.definition.gradient
    excluded = set(rule.no_grad) if isinstance(rule, GradOp) else set()
    excluded.update(slot.aliases for slot in one.definition.proto.outputs if slot.aliases)
    names = [
        variable.name
        for slot in one.definition.proto.inputs
        if slot.name not in excluded and slot.name != "label" and not slot.shape_only
        for variable in one.inputs.get(slot.name, ())
        if is_float(one.feeds[variable.name].dtype)
    ]
    for name in names:
        one.block.var(name).stop_gradient = False
    return names


def with_empty_axes(arrays: Arrays) -> Iterator[dict[str, list[Array]]]:
    """Yield inputs with one axis of one array empty, and with all axes of equal length empty."""
    listed = [(slot, i, array) for slot, values in arrays.items() for i, array in enumerate(values)]
    places = [(s, i, axis) for s, i, array in listed for axis in range(array.ndim)]
    groups = [{place} for place in places]
    for length in {n for _, _, array in listed for n in array.shape}:
        groups.append({(s, i, k) for s, i, k in places if arrays[s][i].shape[k] == length})
    for group in groups:
        yield {
            slot: [
                array[
                    tuple(
                        slice(0) if (slot, i, k) in group else slice(None)
                        for k in range(array.ndim)
                    )
                ]
                for i, array in enumerate(values)
            ]
            for slot, values in arrays.items()
        }


def find_operator(case: Case, arrays: Arrays) -> OneOperator | None:
    """Return the program, or None if the operator refuses the shapes or values such as indices."""
    try:
        one = build(case, arrays)
        compiled(one.block, one.feeds, [v for slot in one.outputs.values() for v in slot])(
            **one.feeds
        )
    except OpwrightError:
        return None
    return one


FAR_DIAGONALS = (
    Case("trace", {"x": Random((5, 3, 3))}, None, {"k": 9}, label="beyond"),
    Case("diag", {"x": Random((3, 3))}, None, {"k": -4}, label="beyond"),
)

CASES = by_operator(
    case
    for case in (*sample_cases(load_cases()), *FAR_DIAGONALS)
    if can_have_gradient(definition_of(case))
)


@pytest.mark.parametrize("op_type", CASES)
def test_gradients_of_empty_arrays_are_zeros_of_their_shape(op_type: str) -> None:
    for case in CASES[op_type]:
        given = case.make_inputs(case.dtypes[-1])
        for arrays in (given, *with_empty_axes(given)):
            one = find_operator(case, arrays)
            if one is not None:
                check_gradients(case, one)


def check_gradients(case: Case, one: OneOperator) -> None:
    names = differentiable(one)
    floats = [v for slot in one.outputs.values() for v in slot if is_float(np.dtype(v.dtype))]
    if not names or not floats:
        return
    loss = add_loss(one)
    pairs = ow.append_backward(loss, parameters=names)
    gradients = compiled(one.block, one.feeds, [grad for _, grad in pairs])(**one.feeds)
    is_empty = all(0 in variable.shape for variable in floats)
    for name, gradient in zip(names, gradients, strict=True):
        shapes = {n: a.shape for n, a in one.feeds.items()}
        assert gradient.shape == one.feeds[name].shape, f"{case}: {name} of {shapes}"
        if is_empty:
            np.testing.assert_array_equal(gradient, 0, err_msg=f"{case}: {name} of {shapes}")
