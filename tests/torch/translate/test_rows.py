"""Every row, run in one plan, agrees with PyTorch in values, dtypes and gradients."""

from __future__ import annotations

import pytest
import torch
from image_cases import IMAGES
from network_cases import NETWORK_CASES
from plans import translated, with_plan, with_torch
from row_cases import CASES, Case


@pytest.mark.parametrize("case", [*CASES, *IMAGES, *NETWORK_CASES], ids=lambda case: case.name)
def test_a_row_agrees_with_pytorch(case: Case) -> None:
    found = translated(case.function, case.tensors)
    assert not found.declined
    truth = with_torch(case.function, case.tensors)
    results = with_plan(found, case.tensors, truth)
    for result, expected in zip(results.outputs, truth.outputs, strict=True):
        tolerance = 1e-12 if expected.dtype == torch.float64 else 1e-5
        torch.testing.assert_close(
            result, expected.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    for result, expected in zip(results.gradients, truth.gradients, strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-7, atol=1e-7, equal_nan=True)
