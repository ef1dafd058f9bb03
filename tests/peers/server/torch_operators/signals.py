"""Signal transforms, window functions, framing, and image windows as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, pad_spatial, require

Tensor = torch.Tensor


def _complex(x: Tensor) -> Tensor:
    require(x.numel() > 0, "transforms of nothing")
    return torch.view_as_complex(x.contiguous())


def _axes(axis: Sequence[int], x: Tensor) -> list[int]:
    """Return the given axes of a tensor of pairs; the default is all axes except the last."""
    return [a % x.dim() for a in axis] or list(range(x.dim() - 1))


def _of_line(function: Function, from_pairs: bool, to_pairs: bool) -> Function:
    def transformed(x: Tensor, axis: int, norm: str, n: int | None = None) -> Tensor:
        require(x.numel() > 0, "transforms of nothing")
        out = function(_complex(x) if from_pairs else x, n, axis, norm)
        return torch.view_as_real(out.resolve_conj()) if to_pairs else out

    return transformed


def _of_pairs(function: Function) -> Function:
    def transformed(x: Tensor, axis: Sequence[int], norm: str) -> Tensor:
        return torch.view_as_real(function(_complex(x), dim=_axes(axis, x), norm=norm))

    return transformed


def _rfftn(x: Tensor, axis: Sequence[int], norm: str) -> Tensor:
    require(x.numel() > 0, "transforms of nothing")
    return torch.view_as_real(torch.fft.rfftn(x, dim=tuple(axis) or None, norm=norm))


def _irfftn(x: Tensor, axis: Sequence[int], norm: str, n: int) -> Tensor:
    axes = _axes(axis, x)
    sizes = [*(x.shape[a] for a in axes[:-1]), n]
    return torch.fft.irfftn(_complex(x), s=sizes, dim=axes, norm=norm)


def _shift(function: Function) -> Function:
    return lambda x, axis: function(x, tuple(axis) or None) if x.dim() else x


def _window(name: str, **renamed: str) -> Function:
    function = getattr(torch.signal.windows, name)

    def window(length: int, periodic: bool, dtype: str, **given: Any) -> Tensor:
        more = {theirs: given[ours] for ours, theirs in renamed.items()}
        return function(length, sym=not periodic, dtype=torch.float64, **more)

    return window


def _gaussian(length: int, periodic: bool, dtype: str, std: float) -> Tensor:
    """Apply the formula, since torch.signal divides a rounded sum of steps by small widths."""
    middle = (length - 1 + (periodic and length > 1)) / 2
    return torch.exp(-0.5 * ((torch.arange(length, dtype=torch.float64) - middle) / std) ** 2)


def _exponential(length: int, periodic: bool, dtype: str, tau: float) -> Tensor:
    return _window("exponential", tau="tau")(length, periodic, dtype, tau=tau)


def _kaiser(length: int, periodic: bool, dtype: str, beta: float) -> Tensor:
    return _window("kaiser", beta="beta")(length, periodic, dtype, beta=beta)


def _general_cosine(
    length: int, periodic: bool, dtype: str, coefficients: Sequence[float]
) -> Tensor:
    window = _window("general_cosine", coefficients="a")
    return window(length, periodic, dtype, coefficients=list(coefficients))


def _plain(name: str) -> Function:
    return lambda length, periodic, dtype: _window(name)(length, periodic, dtype)


def _stft(
    x: Tensor,
    n_fft: int,
    hop_length: int,
    center: bool,
    normalized: bool,
    onesided: bool,
    pad_mode: str,
    window: Tensor | None = None,
) -> Tensor:
    width, hop = n_fft if window is None else len(window), hop_length or max(n_fft // 4, 1)
    mode = {"edge": "replicate"}.get(pad_mode, pad_mode)
    full = torch.ones(n_fft, dtype=x.dtype) if window is None else window
    frames = torch.stft(
        *(x, n_fft, hop, width, full, center, mode, normalized, onesided), return_complex=True
    )
    return torch.view_as_real(frames)


def _istft(
    x: Tensor,
    n_fft: int,
    hop_length: int,
    center: bool,
    normalized: bool,
    onesided: bool,
    length: int | None = None,
    window: Tensor | None = None,
) -> Tensor:
    width, hop = n_fft if window is None else len(window), hop_length or max(n_fft // 4, 1)
    full = torch.ones(n_fft, dtype=x.dtype) if window is None else window
    try:
        return torch.istft(
            *(_complex(x), n_fft, hop, width, full, center, normalized, onesided, length)
        )
    except RuntimeError as error:
        require("window overlap" not in str(error), "frames without a window over them")
        raise


def _unfold(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> Tensor:
    padded = pad_spatial(x, paddings, 0.0)
    return F.unfold(padded, list(kernel), list(dilations), 0, list(strides))


def _fold(
    x: Tensor,
    output_size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> Tensor:
    whole = [n + sum(paddings[2 * i : 2 * i + 2]) for i, n in enumerate(output_size)]
    out = F.fold(x, whole, list(kernel), list(dilations), 0, list(strides))
    return pad_spatial(out, [-n for n in paddings], 0.0)


_WINDOWS = ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")

OPERATORS: dict[str, Function] = {
    "fft2": _of_pairs(torch.fft.fftn),
    "fftn": _of_pairs(torch.fft.fftn),
    "ifft2": _of_pairs(torch.fft.ifftn),
    "ifftn": _of_pairs(torch.fft.ifftn),
    "rfftn": _rfftn,
    "irfftn": _irfftn,
    **{name: _of_line(getattr(torch.fft, name), True, True) for name in ("fft", "ifft")},
    **{name: _of_line(getattr(torch.fft, name), False, True) for name in ("rfft", "ihfft")},
    **{name: _of_line(getattr(torch.fft, name), True, False) for name in ("irfft", "hfft")},
    "fftshift": _shift(torch.fft.fftshift),
    "ifftshift": _shift(torch.fft.ifftshift),
    **{f"{name}_window": _plain(name) for name in _WINDOWS},
    "exponential_window": _exponential,
    "gaussian_window": _gaussian,
    "general_cosine_window": _general_cosine,
    "kaiser_window": _kaiser,
    "stft": _stft,
    "istft": _istft,
    "unfold": _unfold,
    "fold": _fold,
}
