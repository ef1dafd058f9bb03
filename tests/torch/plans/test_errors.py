"""A kernel that fails in a compiled model raises an opwright error; everything stays usable."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import opwright as ow
import opwright_torch
from opwright.errors import KernelError, SettingError


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": {"determinstic": True}}, "got 'determinstic'.*did you mean 'deterministic'"),
        ({"mode": "max-autotune"}, "mode must be 'default', got 'max-autotune'"),
    ],
)
def test_the_error_names_an_unknown_option(options: dict[str, Any], message: str) -> None:
    fast = torch.compile(scaled, backend="opwright", **options)
    with pytest.raises(BackendCompilerFailed, match=message):
        fast(torch.ones(3))


def test_refresh_of_an_object_that_is_not_a_module_raises() -> None:
    with pytest.raises(SettingError, match=r"refresh: model must be a torch\.nn\.Module, got list"):
        opwright_torch.refresh([])


def test_the_error_names_a_mistyped_argument_of_report() -> None:
    with pytest.raises(TypeError, match="mesure.*did you mean 'measure'"):
        opwright_torch.report(torch.compile(scaled, backend="opwright"), mesure=False)


def test_a_graph_that_cannot_be_captured_is_left_to_pytorch_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def swap(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.add_(1)
        return x * 2

    fast = torch.compile(swap, backend="opwright")
    base = torch.ones(4)
    with caplog.at_level(logging.WARNING, "opwright_torch"):
        torch.testing.assert_close(fast(base[:2], base[1:3]), torch.tensor([2.0, 4.0]))
    (call,) = opwright_torch.report(fast).calls
    assert call.operator == "the whole graph"
    assert "share" in call.reason
    assert any("PyTorch runs a graph" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("function", [torch.view_as_complex, torch.view_as_real])
def test_pytorch_runs_a_graph_with_complex_inputs_or_results(function: Any) -> None:
    x = torch.ones(3, 2)
    given = torch.view_as_complex(x) if function is torch.view_as_real else x
    fast = torch.compile(lambda x: function(x * 2), backend="opwright")
    torch.testing.assert_close(fast(given), function(given * 2))
    (call,) = opwright_torch.report(fast).calls
    assert "a dtype that opwright supports, got torch.complex64" in call.reason


@pytest.mark.parametrize("name", ["nonzero", "mask"])
def test_pytorch_runs_a_graph_with_data_dependent_sizes(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def find(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).nonzero() + 1 if name == "nonzero" else x[x > 0] * 2

    x = torch.tensor([[0.0, 1.0, -2.0]])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = torch.compile(find, backend="opwright")(x)
    torch.testing.assert_close(found, find(x))
    assert "capture: sizes must follow from the sizes of inputs, got u" in caplog.text
