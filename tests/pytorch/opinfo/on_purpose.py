"""Which samples differ on purpose: by operator, what a row of `differences` says of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

Mark = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _is_nan(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return x.isnan()


def _is_infinite(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return x.isinf()


def _is_infinite_length(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return truth.isinf()


def _gives_nan(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return truth.isnan()


def _has_overflowed(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return truth.isnan() | (truth == 0)


_NOTHING_SEEN = "`softmax` of a line of which a mask leaves nothing"

MARKS: Final[dict[str, tuple[Mark, str]]] = {
    "heaviside": (_is_nan, "`heaviside(NaN, 2)`"),
    "hypot": (_is_infinite_length, "`hypot(inf, NaN)`"),
    "masked.log_softmax": (_gives_nan, _NOTHING_SEEN),
    "masked.softmax": (_gives_nan, _NOTHING_SEEN),
    "masked.softmin": (_gives_nan, _NOTHING_SEEN),
    "sign": (_is_nan, "`sign(NaN)`"),
    "sgn": (_is_nan, "`sign(NaN)`"),
    "signal.windows.kaiser": (_has_overflowed, "the edge of `kaiser_window` by a beta of 100"),
    "nn.functional.mish": (_is_infinite, "`mish(-inf)`"),
    "nn.functional.silu": (_is_infinite, "`silu(-inf)`"),
    "nn.functional.softsign": (_is_infinite, "`softsign(inf)`"),
    "polygamma": (_is_infinite, "`polygamma(2, -inf)`"),
}
"""By operator: which elements differ from PyTorch's, by its input and result, and the row."""

GRADIENTS: Final[dict[str, str]] = {
    "__rmod__": "gradient of `mod(x, y)`",
    "fmod": "gradient of `mod(x, y)`",
    "remainder": "gradient of `mod(x, y)`",
    "cholesky_inverse": "gradient of `cholesky_solve` with respect to the unread triangle",
    "cholesky_solve": "gradient of `cholesky_solve` with respect to the unread triangle",
    "as_strided_scatter": "gradient of `as_strided_scatter` with respect to overwritten elements",
    "masked.log_softmax": "gradient of `masked_log_softmax` with respect to hidden elements",
    "nn.functional.ctc_loss": "gradient of `ctc_loss` by logarithms",
    "nn.functional.max_unpool3d": "gradient of `scatter` by two updates of one place",
}
"""By operator: the row that says why no gradient agrees with PyTorch's."""

REFERENCES: Final = {"std": "`std` by default", "var": "`std` by default"}
"""By operator: the row that says where NumPy differs from PyTorch, whom adapters follow."""
