"""Linear algebra."""

from __future__ import annotations

import torch

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _dot(x: Tensor, y: Tensor) -> Tensor:
    if x.dim() == 0 or y.dim() == 0:
        return x * y
    return torch.tensordot(x, y, ([x.dim() - 1], [max(y.dim() - 2, 0)]))


def _cross(x: Tensor, y: Tensor, axis: int) -> Tensor:
    require(x.dim() == y.dim() or axis == -1, "axes of which one has fewer")
    return torch.linalg.cross(x, y, dim=axis)


def _diag(x: Tensor, k: int) -> Tensor:
    return torch.diag(x, k)


def _trace(x: Tensor, k: int) -> Tensor:
    return torch.diagonal(x, k, -2, -1).sum(-1)


def _cholesky(x: Tensor, upper: bool) -> Tensor:
    return torch.linalg.cholesky((x + x.mT) / 2, upper=upper)


def _solve(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve(a, b)


def _triangular_solve(
    a: Tensor, b: Tensor, upper: bool, transpose: bool, unit_diagonal: bool, left: bool
) -> Tensor:
    matrix, upper = (a.mT, not upper) if transpose else (a, upper)
    attrs = {"upper": upper, "left": left, "unitriangular": unit_diagonal}
    return torch.linalg.solve_triangular(matrix, b, **attrs)


OPERATORS: dict[str, Function] = {
    "dot": _dot,
    "outer": lambda x, y: torch.outer(x.reshape(-1), y.reshape(-1)),
    "kron": lambda x, y: torch.kron(x, y),
    "cross": _cross,
    "diag": _diag,
    "trace": _trace,
    "det": lambda x: torch.linalg.det(x),
    "slogdet": lambda x: tuple(torch.linalg.slogdet(x)),
    "inverse": lambda x: torch.linalg.inv(x),
    "cholesky": _cholesky,
    "solve": _solve,
    "triangular_solve": _triangular_solve,
}
