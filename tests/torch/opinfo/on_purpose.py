"""Lists intended differences: for each operator, samples and the subject of a `differences` row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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


def _is_pole(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return x.isinf() | (x <= 0) & (x == x.round())


def _is_end(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        return x.isinf()
    ends = torch.iinfo(x.dtype)
    return (x <= ends.min + 1) | (x == ends.max)


def _is_least(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Mark elements for which PyTorch returns about the smallest integer instead of -inf."""
    if truth.is_floating_point():
        return torch.zeros_like(truth, dtype=torch.bool)
    return truth <= torch.iinfo(truth.dtype).min + 8


def _is_whole(x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return torch.full_like(truth, not x.is_floating_point(), dtype=torch.bool)


_POLES = "`polygamma(3, x)` for x of -1 and -inf"
_NOTHING_SEEN = "`softmax` of a fully masked line"

_TRUNCATED_MEAN = "`avg_pool2d` of int64, a mean of 1.5"

MARKS: Final[dict[str, tuple[Mark, str]]] = {
    "heaviside": (_is_nan, "`heaviside(NaN, 2)`"),
    "hypot": (_is_infinite_length, "`hypot(inf, NaN)`"),
    "masked.log_softmax": (_gives_nan, _NOTHING_SEEN),
    "masked.logsumexp": (_is_least, "`logsumexp` of a fully masked line of int8"),
    "masked.softmax": (_gives_nan, _NOTHING_SEEN),
    "masked.softmin": (_gives_nan, _NOTHING_SEEN),
    "sign": (_is_nan, "`sign(NaN)`"),
    "sgn": (_is_nan, "`sign(NaN)`"),
    "signal.windows.kaiser": (_has_overflowed, "the edge of `kaiser_window` with a beta of 100"),
    "nn.functional.local_response_norm": (_is_whole, _TRUNCATED_MEAN),
    "nn.functional.mish": (_is_infinite, "`mish(-inf)`"),
    "nn.functional.silu": (_is_infinite, "`silu(-inf)`"),
    "nn.functional.softsign": (_is_end, "`softsign(inf)`, and of -128 as int8"),
    "polygamma": (_is_pole, _POLES),
    "special.polygamma": (_is_pole, _POLES),
}
"""By operator: the elements that differ from PyTorch, as a function, and the row."""

AS_WHOLE: Final = {
    **{f"nn.functional.avg_pool{n}d": _TRUNCATED_MEAN for n in (1, 2, 3)},
    "einsum": "dtype of `einsum` of int8 if one operand is summed first",
}
"""By operator: the row of results that PyTorch rounds to different integers or truncates."""

WITHOUT_GRADIENT: Final = dict.fromkeys(("__rmod__", "remainder"), "gradient of `mod(x, y)`")
"""By operator: the row with the reason why it refuses a gradient."""


def _of_triangle(function: Callable[..., torch.Tensor], place: int) -> Callable[..., torch.Tensor]:
    """Wrap a function so that values and gradients involve only one triangle of its matrix."""

    def read(*given: torch.Tensor, upper: bool = False) -> torch.Tensor:
        operands = list(given)
        operands[place] = operands[place].triu() if upper else operands[place].tril()
        return function(*operands, upper=upper)

    return read


def _strided_scatter(x: torch.Tensor, y: torch.Tensor, *places: Any, **given: Any) -> torch.Tensor:
    scatter, zeros = torch.as_strided_scatter, torch.zeros_like(x)
    kept = scatter(zeros + 1, torch.zeros_like(y), *places, **given)
    return x * kept + scatter(zeros, y, *places, **given)


def _masked_log_softmax(
    x: torch.Tensor, dim: int, *, mask: torch.Tensor | None = None, **given: Any
) -> torch.Tensor:
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    return torch.masked.log_softmax(x, dim, mask=mask, **given).where(seen, -torch.inf)


def _ctc_loss(
    x: torch.Tensor, label: torch.Tensor, x_lengths: Any, lengths: Any, **given: Any
) -> torch.Tensor:
    """Remove the term exp(x), which PyTorch adds to the gradient for a preceding log_softmax."""
    reduction = given.pop("reduction", "mean")
    losses = torch.nn.functional.ctc_loss(x, label, x_lengths, lengths, reduction="none", **given)
    counts = torch.arange(len(x))[:, None] < torch.as_tensor(x_lengths).reshape(1, -1)
    counts = counts.reshape(*x.shape[:-1], 1) * losses.detach().isfinite().unsqueeze(-1)
    sums = (x.exp() * counts).sum((0, -1))
    losses = losses - sums + sums.detach()
    if reduction == "none":
        return losses
    if reduction == "mean":
        losses = losses / torch.as_tensor(lengths).clamp(min=1)
    return losses.mean() if reduction == "mean" else losses.sum()


_UNREAD = "gradient of `cholesky_solve` with respect to the unread triangle"

INSTEAD: Final[dict[str, tuple[Callable[..., torch.Tensor], str]]] = {
    "cholesky_inverse": (_of_triangle(torch.cholesky_inverse, 0), _UNREAD),
    "cholesky_solve": (_of_triangle(torch.cholesky_solve, 1), _UNREAD),
    "as_strided_scatter": (
        _strided_scatter,
        "gradient of `as_strided_scatter` with respect to overwritten elements",
    ),
    "masked.log_softmax": (
        _masked_log_softmax,
        "gradient of `masked_log_softmax` with respect to masked elements",
    ),
    "nn.functional.ctc_loss": (
        _ctc_loss,
        "gradient of `ctc_loss` with respect to log probabilities",
    ),
}
"""By operator: a PyTorch formula whose gradient follows our choice, and the row."""

REFERENCES: Final = {"std": "`std` by default", "var": "`std` by default"}
"""By operator: the row about the difference of NumPy from PyTorch, which adapters follow."""
