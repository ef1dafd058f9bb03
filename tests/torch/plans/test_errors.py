"""A kernel that fails inside a compiled model is our error, and everything stays usable."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import opwright as ow
from opwright.errors import KernelError


def failing(x: np.ndarray, out: np.ndarray) -> None:
    if (x > 100).any():
        raise ValueError("more than 100")
    np.cosh(x, out)


@pytest.fixture(autouse=True)
def _with_broken_kernel() -> Iterator[None]:
    context = ow.Context.discover()
    context.kernels.add(
        "cosh",
        device="cpu",
        dtypes="*",
        kernel=failing,
        library="broken",
        priority=99,
        package=ow.plugin.Package("broken", "opwright-broken", "1.0"),
    )
    with ow.context_guard(context), context.pin("cosh", "broken"):
        yield


def scaled(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return torch.cosh(y).sum()


@pytest.mark.parametrize("training", [False, True])
def test_an_error_names_kernel_package_and_the_line_of_the_model(training: bool) -> None:
    fast = torch.compile(scaled, backend="opwright")
    x = torch.ones(3, requires_grad=training)
    expected = scaled(x)
    torch.testing.assert_close(fast(x), expected)
    with pytest.raises(KernelError, match=r"cosh\[cpu\].*'broken' of .*more than 100") as caught:
        fast(torch.full((3,), 99.0, requires_grad=training))
    (note,) = caught.value.__notes__
    assert "torch.cosh(y).sum()" in note
    torch.testing.assert_close(fast(x), expected)
