"""Sizes that are unknown before a run can be used as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import opwright_torch

USES: Final[dict[str, Callable[[Tensor, int], Tensor]]] = {
    "equal": lambda x, n: x.long() == n - 6,
    "less": lambda x, n: x < n,
    "greater": lambda x, n: n - 6 > x,
    "positions": lambda x, n: (torch.arange(n) != n - 1) & (torch.arange(n) < n // 2),
    "full": lambda x, n: torch.full((2, 3), n) + x.sum().long(),
    "full of floats": lambda x, n: torch.full((2, n), n, dtype=torch.float32) + x[:2],
    "new_full": lambda x, n: x.new_full((n,), n) + x[0],
    "fill": lambda x, n: x.clone().fill_(n),
    "tensor": lambda x, n: x / torch.sqrt(torch.tensor(n)),
    "maximum": lambda x, n: torch.maximum(9 * x, torch.tensor(n)),
    "clamp": lambda x, n: (9 * x).clamp(0, n),
    "clamp of integers": lambda x, n: (9 * x).long().clamp(max=n - 1),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "value": lambda x, n: torch.addcmul(x, x, x, value=n),
    "eye": lambda x, n: torch.eye(n) @ x.T,
    "eye with more columns": lambda x, n: torch.eye(3, n) + x[:1],
    "diag_embed": lambda x, n: torch.diag_embed(x, 1) + torch.diag(x[0], 1),
    "triu": lambda x, n: (x.T @ x).triu(n - 4),
    "tril": lambda x, n: (x.T @ x).tril(4 - n),
    "topk": lambda x, n: x.topk(n - 3)[0],
    "lowest": lambda x, n: x.topk(n // 2, largest=False)[1],
    "unfold": lambda x, n: x.unfold(1, 3, 2) + x[:, :1, None],
    "unfold without overlap": lambda x, n: x.unfold(1, 2, 2).unfold(0, 2, 2).flatten(2),
    "randperm": lambda x, n: torch.randperm(n).sort()[0] + x,
    "std": lambda x, n: x.std(1) + x.var(1),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_size_is_used_as_a_number(use: Any) -> None:
    class Uses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = use(x, x.shape[1])
            return result

    torch.manual_seed(0)
    x = torch.randn(4, 7)
    program = opwright_torch.to_program(Uses(), (torch.randn(4, 6),), {"x": {1: "n"}})
    (found,), expected = program(x.numpy()), use(x, 7).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
