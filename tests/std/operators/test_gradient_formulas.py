"""Gradients that finite differences cannot check; see `Case.gradients`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from case import Array, Case, Values
from one_operator import Target, build, compiled, definition_of, graded_slots, pinned
from table import load_cases, over_targets
from test_gradients import append, float_inputs, weighted_sum

import opwright as ow


def with_gradients() -> Iterator[tuple[Case, str]]:
    for case in load_cases():
        for dtype in case.dtypes if case.gradients is not None else ():
            yield case, dtype


def compute(
    case: Case, dtype: str, target: Target, passes: Sequence[str] | None
) -> tuple[list[Array], tuple[Any, ...]]:
    """Return the gradients of a case, and the reference gradients."""
    arrays = case.make_inputs(dtype)
    one = build(case, arrays)
    out = one.outputs[definition_of(case).proto.outputs[0].name][0]
    out_grad = np.array(np.broadcast_to(case.out_grad, out.shape), dtype)
    loss = weighted_sum(one, out, out_grad)
    wanted = float_inputs(one, graded_slots(case, arrays))
    fetch = [gradient for _, gradient in ow.append_backward([loss], parameters=wanted)]
    with pinned(case, target), np.errstate(all="ignore"):
        function = compiled(one.block, one.feeds, fetch, target.device, passes)
        return function(**one.feeds), case.compute_gradients(arrays, out_grad)


# Passes can replace the pinned kernel.
@pytest.mark.parametrize("passes", [(), None], ids=["alone", "with passes"])
@over_targets(with_gradients)
def test_gradient_matches_the_reference(
    case: Case, dtype: str, target: Target, passes: Sequence[str] | None
) -> None:
    gradients, expected = compute(case, dtype, target, passes)
    for got, number in zip(gradients, expected, strict=True):
        relative, absolute = case.tolerance(got.dtype)
        with np.errstate(over="ignore", under="ignore"):
            rounded = np.asarray(number, np.float64).astype(got.dtype).astype(np.float64)
        np.testing.assert_allclose(
            got.astype(np.float64), rounded, rtol=relative, atol=absolute, err_msg=str(case)
        )


@pytest.mark.parametrize("passes", [(), None], ids=["alone", "with passes"])
@pytest.mark.parametrize("library", ["native", "numpy"])
def test_the_gradient_of_a_negative_relu_input_is_0_if_the_sqrt_gradient_is_infinite(
    library: str, passes: Sequence[str] | None
) -> None:
    case = Case("relu", {"x": Values([-1.0, 0.0, 4.0])}, None)
    one = build(case, case.make_inputs("float32"))
    root = append(one.block, "sqrt", {"x": one.outputs["out"][0]})
    fetch = [gradient for _, gradient in ow.append_backward([root], parameters=["x"])]
    with pinned(case, Target("cpu", library)), np.errstate(divide="ignore"):
        (x_grad,) = compiled(one.block, one.feeds, fetch, passes=passes)(**one.feeds)
    np.testing.assert_array_equal(x_grad, [0, 0, 0.25])
