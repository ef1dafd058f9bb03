"""Strided views contain the same elements as in PyTorch for any memory layout in a plan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import opwright_torch

READS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: (x * 2).t().as_strided((3, 4), (2, 1)),
    "computed from transposed": lambda x: x.t().sin().as_strided((3, 4), (2, 1)),
    "slice": lambda x: (x * 2)[1:].as_strided((3, 4), (2, 1)),
    "expanded": lambda x: (x * 2).expand(2, 4, 6).as_strided((5, 3), (2, 1), 2),
    "axis of one": lambda x: (x * 2)[None].as_strided((5, 1, 3), (2, 7, 6), 2),
    "no axis": lambda x: (x * 2).t().as_strided((), (), 7),
    "detached": lambda x: x.t().detach().as_strided((3, 2), (2, 1)) * x[0, 0],
}


@pytest.mark.parametrize("name", READS)
def test_strided_reads_match_pytorch(name: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    ours, theirs = (torch.arange(24.0).reshape(4, 6).requires_grad_() for _ in range(2))
    compiled = torch.compile(READS[name], backend="opwright")
    found, expected = compiled(ours), READS[name](theirs)
    weights = torch.randn(expected.shape)
    for result in (found, expected):
        (result * weights).sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert not opwright_torch.report(compiled, measure=False).calls


def test_strided_writes_match_pytorch() -> None:
    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter((x * 2).t(), y, (2, 2), (2, 1))

    torch._dynamo.reset()
    given = torch.arange(24.0).reshape(4, 6), torch.ones(2, 2)
    torch.testing.assert_close(torch.compile(write, backend="opwright")(*given), write(*given))


def test_pytorch_runs_a_graph_with_strided_reads_of_memory_with_gaps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((3,), (1,)) + 1

    torch._dynamo.reset()
    x = torch.arange(24.0).reshape(4, 6)[:, ::2]
    torch.testing.assert_close(torch.compile(read, backend="opwright")(x), read(x))
    assert "must read memory that a tensor fills without gaps, got strides (6, 2)" in caplog.text


class Windows(torch.nn.Module):
    """Returns windows of two elements along the second axis."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        return x.t().contiguous().t().as_strided((n - 1, 2), (x.shape[0], x.shape[0]))


def test_strides_can_be_dynamic_sizes() -> None:
    program = opwright_torch.to_program(Windows(), (torch.zeros(4, 6),), dynamic=True)
    for x in (torch.randn(4, 6), torch.randn(7, 3)):
        np.testing.assert_array_equal(program(x)[0], Windows()(x))
