"""The test cases of the standard operators, as calls of `opwright_torch.ops` on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
import torch
from case import Case
from one_operator import definition_of
from table import first_cases

import opwright as ow
from opwright_torch import ops

STEP: Final = [3]
"""The step of random operators, which would otherwise draw a step."""


class Sample(NamedTuple):
    """A call, with a tensor for each slot, or a list of tensors for a duplicable slot."""

    case: Case
    inputs: dict[str, Any]

    @property
    def function(self) -> Callable[..., Any]:
        """The function of `opwright_torch.ops`."""
        return functions(self.case.op, ops)

    def tensors(self) -> list[torch.Tensor]:
        """Return all tensors."""
        lists = [v if isinstance(v, list) else [v] for v in self.inputs.values()]
        return [tensor for listed in lists for tensor in listed]

    def with_tensors(self, tensors: Iterable[torch.Tensor]) -> dict[str, Any]:
        """Return the inputs with their tensors replaced."""
        rest = iter(tensors)
        return {
            slot: [next(rest) for _ in value] if isinstance(value, list) else next(rest)
            for slot, value in self.inputs.items()
        }


def functions(op_type: str, module: Any) -> Callable[..., Any]:
    """Return the function of an operator in a module such as `opwright.ops`."""
    for part in op_type.split("."):
        module = getattr(module, part)
    function: Callable[..., Any] = module
    return function


def make_sample(case: Case, dtype: str) -> Sample:
    """Return a case as a call."""
    inputs: dict[str, Any] = {}
    for slot, arrays in case.make_inputs(dtype).items():
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]
        if tensors or case.is_list(slot):
            inputs[slot] = tensors if case.is_list(slot) else tensors[0]
    if definition_of(case).random and "step" not in inputs:
        inputs["step"] = torch.tensor(STEP)
    return Sample(case, inputs)


def callable_cases() -> list[Case]:
    """Return a case of each operator that can be called."""
    types = set(ow.current_context().ops.types())
    return [case for case in first_cases() if case.op in types]


def over_operators(cases: Iterable[Case], left_out: dict[str, str] | None = None) -> Any:
    """Parametrize a test over the cases of all operators except those excluded with a reason."""
    reasons = left_out or {}
    return pytest.mark.parametrize("case", [c for c in cases if c.op not in reasons], ids=str)
