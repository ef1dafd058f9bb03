"""Evaluates the expressions in `differences`, and renders them as a table for a page."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from differences import DIFFERENCES

import opwright as ow


def _gradient(function: Callable[..., Any], *numbers: Any) -> Any:
    arrays = [np.atleast_1d(np.float32(number)) for number in numbers]
    places = tuple(range(len(arrays)))
    return ow.grad(lambda *xs: ow.ops.sum(function(*xs)), argnums=places)(*arrays)


def _torch_gradient(function: Callable[..., Any], *numbers: Any) -> Any:
    tensors = [torch.tensor(np.atleast_1d(np.float32(n)), requires_grad=True) for n in numbers]
    return torch.autograd.grad(function(*tensors).sum(), tensors, materialize_grads=True)


def _ctc_loss(x: torch.Tensor) -> torch.Tensor:
    one = torch.tensor([1])
    return torch.nn.functional.ctc_loss(x, one.reshape(1, 1), one, one, reduction="sum")


def _by_triangle(x: Any) -> Any:
    half = ow.ops.triangular_solve(x, np.ones((2, 1), np.float32), upper=False)
    return ow.ops.triangular_solve(x, half, upper=False, transpose=True)


def _names() -> dict[str, Any]:
    """Return the namespace of the expressions."""
    return {
        "ops": ow.ops,
        "ow": ow,
        "by_triangle": _by_triangle,
        "ctc_loss": _ctc_loss,
        "np": np,
        "torch": torch,
        "nan": float("nan"),
        "inf": float("inf"),
        "f": lambda *values: np.array(values, np.float32),
        "t": lambda *values: torch.tensor(values, dtype=torch.float32),
        "i": lambda *values: np.array(values, np.int64),
        "u": lambda *values: np.array(values, np.uint8),
        "f22": np.array([[1, 2], [4, 3]], np.float32),
        "image": np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4),
        "ones": np.ones((1, 1, 2, 2), np.float32),
        "q": np.ones((1, 1, 2), np.float32),
        "gradient": _gradient,
        "torch_gradient": _torch_gradient,
        "pooled": torch.nn.functional.max_pool2d,
        "attention": torch.nn.functional.scaled_dot_product_attention,
    }


def evaluate(expression: str) -> str:
    """Return the value of an expression, as the page shows it."""
    if not expression:
        return ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return _shown(eval(expression, _names()))
        except Exception:  # noqa: BLE001 - whatever a library raises is shown
            return "an error"


def _shown(value: Any) -> str:
    if isinstance(value, (str, np.dtype, torch.dtype)):
        return str(value).rpartition(".")[2]
    if isinstance(value, list):
        return str(value)
    values = value if isinstance(value, tuple) else (value,)
    numbers = [number for item in values for number in np.asarray(item).ravel().tolist()]
    return ", ".join(f"{number:.6g}" for number in numbers)


def render() -> str:
    """Return the table for the page."""
    head = "| what | opwright | PyTorch | NumPy | ONNX | why |\n|---|---|---|---|---|---|\n"
    rows = []
    for row in DIFFERENCES:
        cells = [row.topic, *map(evaluate, (row.ours, row.pytorch, row.numpy)), row.onnx, row.why]
        rows.append(f"| {' | '.join(cells)} |\n")
    return head + "".join(rows)
