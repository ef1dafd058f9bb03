"""Linear algebra, and Fourier transforms with real pairs on the last axis."""

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
    a: Tensor, b: Tensor, upper: bool, transpose: bool, unit_diagonal: bool
) -> Tensor:
    matrix, upper = (a.mT, not upper) if transpose else (a, upper)
    is_vector = b.dim() == 1
    out = torch.linalg.solve_triangular(
        matrix, b[..., None] if is_vector else b, upper=upper, unitriangular=unit_diagonal
    )
    return out[..., 0] if is_vector else out


def _complex(x: Tensor) -> Tensor:
    require(x.numel() > 0, "transforms of nothing")
    return torch.view_as_complex(x.contiguous())


def _irfft(x: Tensor, n: int | None = None) -> Tensor:
    return torch.fft.irfft(_complex(x), n)


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
    "fft": lambda x: torch.view_as_real(torch.fft.fft(_complex(x))),
    "ifft": lambda x: torch.view_as_real(torch.fft.ifft(_complex(x))),
    "rfft": lambda x: torch.view_as_real(torch.fft.rfft(x)),
    "irfft": _irfft,
}
