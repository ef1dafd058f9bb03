"""Gradients match central differences of a loss that weights every output element randomly.

Differences are computed on the host, in float64. On other devices, differences would take most of
the time without finding more errors. Therefore, gradients on other devices and in narrower dtypes
are compared with the NumPy kernels in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from case import Array, Case, is_float
from one_operator import (
    OneOperator,
    Target,
    build,
    compiled,
    definition_of,
    graded_slots,
    pinned,
    run,
)
from table import graded, over_targets

import opwright as ow

MANY = 100
"""Up to this size, differences are computed for every element separately."""


def add_loss(one: OneOperator) -> Any:
    """Append ``sum(weight * out)`` over all float outputs except state, with random weights."""
    rng = np.random.default_rng(0)
    parts = []
    for slot in one.definition.proto.outputs:
        for variable in one.outputs[slot.name]:
            dtype = np.dtype(variable.dtype)
            if not is_float(dtype) or slot.intermediate or slot.aliases:
                continue
            # Numbers that every dtype represents, so their gradients can be compared.
            shape = known_shape(one, variable)
            weight = np.rint(np.asarray(rng.standard_normal(shape)) * 32) / 32
            parts.append(weighted_sum(one, variable, weight.astype(dtype)))
    return append(one.block, "add_n", {"x": parts})


def known_shape(one: OneOperator, variable: Any) -> tuple[int, ...]:
    """Return the shape of an output; the shape can depend on values."""
    if -1 not in variable.shape:
        return tuple(variable.shape)
    return run(one.block, one.feeds, [variable])[0].shape


def weighted_sum(one: OneOperator, variable: Any, weight: Array) -> Any:
    """Append ``sum(weight * variable)``, and feed the weights, which are its gradient."""
    name = f"weight_of_{variable.name}"
    one.feeds[name] = weight
    one.block.create_var(name, weight.shape, weight.dtype, stop_gradient=True)
    product = append(one.block, "multiply", {"x": variable, "y": name})
    return append(one.block, "sum", {"x": product})


def append(block: Any, op_type: str, inputs: Mapping[str, Any]) -> Any:
    return block.var(block.append_op(op_type, inputs).output("out")[0])


def float_inputs(one: OneOperator, slots: Sequence[str]) -> list[Any]:
    listed = [variable for slot in slots for variable in one.inputs[slot]]
    return [variable for variable in listed if is_float(np.dtype(variable.dtype))]


def compute_gradients(
    case: Case, arrays: Mapping[str, Sequence[Array]], target: Target
) -> dict[str, Array]:
    """Return the gradient of the loss with respect to every float input, by variable."""
    one = build(case, arrays)
    loss = add_loss(one)
    wanted = float_inputs(one, graded_slots(case, arrays))
    pairs = ow.append_backward([loss], parameters=wanted)
    assert [variable.name for variable, _ in pairs] == [variable.name for variable in wanted]
    fetch = [gradient for _, gradient in pairs]
    with pinned(case, target), np.errstate(all="ignore"):
        results = compiled(one.block, one.feeds, fetch, target.device)(**one.feeds)
    for variable, array in zip(wanted, results, strict=True):
        assert array.dtype == np.dtype(variable.dtype)
    return {variable.name: array for variable, array in zip(wanted, results, strict=True)}


class Differences(NamedTuple):
    """Central differences of the loss along each of the `directions` of one variable."""

    directions: list[Array]
    differences: Array


def compute_differences(
    case: Case, arrays: Mapping[str, Sequence[Array]], target: Target
) -> dict[str, Differences]:
    """Return the central differences of the loss, by variable."""
    one = build(case, arrays)
    loss = add_loss(one)
    with pinned(case, target), np.errstate(all="ignore"):
        function = compiled(one.block, one.feeds, [loss], target.device)
        return {
            variable.name: central_differences(function, one.feeds, variable.name)
            for variable in float_inputs(one, graded_slots(case, arrays))
        }


def directions_of(array: Array) -> Iterator[Array]:
    """Yield a direction per element; for large arrays, a random direction, then some elements."""
    places = list(np.ndindex(*array.shape))
    rng = np.random.default_rng(len(places))
    if len(places) > MANY:
        chosen = rng.choice(len(places), MANY // 2, replace=False)
        places = [places[i] for i in sorted(chosen)]
        # Each element moves less than in the loop below, so no additional kink is crossed.
        yield rng.choice([-1.0, 1.0], array.shape) / np.sqrt(array.size)
    for place in places:
        direction = np.zeros_like(array)
        direction[place] = max(1.0, abs(float(array[place])))
        yield direction


def central_differences(function: Any, feeds: dict[str, Array], name: str) -> Differences:
    step = 1e-6
    directions = list(directions_of(feeds[name]))
    differences = []
    for direction in directions:
        ends = (feeds[name] + sign * step * direction for sign in (1, -1))
        above, below = (float(function(**{**feeds, name: array})[0]) for array in ends)
        differences.append((above - below) / (2 * step))
    return Differences(directions, np.array(differences))


def in_double() -> Iterator[tuple[Case, str]]:
    return ((case, dtype) for case, dtype in graded() if dtype == "float64")


def in_single() -> Iterator[tuple[Case, str]]:
    return ((case, dtype) for case, dtype in graded() if dtype != "float64")


@over_targets(in_double, lambda target: target.device == "cpu")
def test_gradient_agrees_with_central_differences(case: Case, dtype: str, target: Target) -> None:
    arrays = case.make_inputs(dtype)
    gradients = compute_gradients(case, arrays, target)
    for name, (directions, differences) in compute_differences(case, arrays, target).items():
        size = max(1.0, float(np.max(np.abs(differences), initial=0.0)))
        found = [float(np.sum(gradients[name] * direction)) for direction in directions]
        np.testing.assert_allclose(
            found, differences, rtol=1e-5, atol=1e-7 * size, err_msg=f"{case}: {name}"
        )


KNOWN: dict[tuple[str, str], dict[str, Array]] = {}
"""Results of `exact_gradients`, for several devices and libraries."""


def exact_gradients(case: Case, dtype: str) -> dict[str, Array]:
    """Return the gradients that NumPy's kernels compute in float64 from inputs of a dtype."""
    key = (str(case), dtype)
    if key not in KNOWN:
        wide = {
            slot: [a.astype("float64") if is_float(a.dtype) else a for a in listed]
            for slot, listed in case.make_inputs(dtype).items()
        }
        KNOWN[key] = compute_gradients(case, wide, Target("cpu", "numpy"))
    return KNOWN[key]


def compare_with_numpy(case: Case, dtype: str, target: Target) -> None:
    gradients = compute_gradients(case, case.make_inputs(dtype), target)
    for name, exact in exact_gradients(case, dtype).items():
        size = max(1.0, float(np.max(np.abs(exact), initial=0.0)))
        relative = 4 * case.tolerance(gradients[name].dtype)[0]
        np.testing.assert_allclose(
            gradients[name].astype(np.float64),
            exact,
            rtol=relative,
            atol=relative * size,
            err_msg=f"{case}: {name} of {definition_of(case).op_type}",
        )


@over_targets(in_single)
def test_gradient_in_a_narrower_dtype_matches_float64(
    case: Case, dtype: str, target: Target
) -> None:
    compare_with_numpy(case, dtype, target)


@over_targets(in_double, lambda target: target.device != "cpu")
def test_a_gradient_on_a_device_matches_numpy(case: Case, dtype: str, target: Target) -> None:
    compare_with_numpy(case, dtype, target)
