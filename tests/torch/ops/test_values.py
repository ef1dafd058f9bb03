"""Every operator on tensors: values as in `opwright.ops`, first and second gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from case import Case
from one_operator import graded_slots
from samples import callable_cases, functions, make_sample, over_operators
from table import has_counts
from test_second_gradients import graded_cases, is_once, once_cases

import opwright as ow
from opwright.errors import GradientError

pytestmark = pytest.mark.grid(6)


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@over_operators(callable_cases())
def test_values_match_opwright_ops(case: Case) -> None:
    sample = make_sample(case, case.dtypes[-1])
    arrays = sample.with_tensors([t.numpy() for t in sample.tensors()])
    expected = listed(functions(case.op, ow.ops)(**arrays, **case.attrs))
    found = listed(sample.function(**sample.inputs, **case.attrs))
    assert all(type(tensor) is torch.Tensor for tensor in found)
    for tensor, array in zip(found, expected, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


def differentiated(case: Case) -> tuple[Any, list[torch.Tensor]]:
    """Return the case as a function of its differentiable tensors, and these tensors."""
    sample = make_sample(case, "float64")
    slots = graded_slots(case, case.make_inputs("float64"))
    tensors = sample.tensors()
    owners = [s for s, v in sample.inputs.items() for _ in (v if isinstance(v, list) else [v])]
    places = [
        i
        for i, (slot, tensor) in enumerate(zip(owners, tensors, strict=True))
        if slot in slots and tensor.is_floating_point()
    ]

    def function(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(tensors)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        results = listed(sample.function(**sample.with_tensors(given), **case.attrs))
        return tuple(r for r in results if r.is_floating_point() and r.requires_grad)

    return function, [tensors[place].clone().requires_grad_() for place in places]


def largest_cases() -> list[Case]:
    """Return a case of each operator that has a gradient and a known number of outputs."""
    counted = [[c for c in cases if has_counts(c)] for cases in graded_cases().values()]
    return [cases[0] for cases in counted if cases]


@over_operators(largest_cases())
def test_gradients_agree_with_central_differences(case: Case) -> None:
    function, tensors = differentiated(case)
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


@over_operators([case for case in largest_cases() if not is_once(case)])
def test_second_gradients_agree_with_central_differences(case: Case) -> None:
    function, tensors = differentiated(case)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


ZERO = ("norm", "pow_scalar", "sign")
"""Operators that our rules differentiate only once: their gradients are constant.

PyTorch computes zeros as their second gradients.
"""


@over_operators([case for case in once_cases() if case.op not in ZERO])
def test_a_missing_second_gradient_is_reported(case: Case) -> None:
    function, tensors = differentiated(case)
    total = sum((r.square().sum() for r in function(*tensors)), torch.zeros(()))
    first = torch.autograd.grad(total, tensors, create_graph=True)
    refusal = rf"{case.op}.* (can be differentiated once|it has no second gradient)"
    with pytest.raises(GradientError, match=refusal):
        torch.autograd.grad(sum(g.sum() for g in first), tensors)
