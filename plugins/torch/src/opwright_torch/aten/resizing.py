"""Resizing images."""

from __future__ import annotations

from typing import Any, Final

import torch

from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def _nearest(t: Translator, new: Any, old: Any, factor: float | None) -> Value:
    """Return source indices along an axis, or None if `interpolate` reads these indices anyway."""
    if isinstance(new, int) and isinstance(old, int):
        scale = torch.tensor(old / new if factor is None else 1.0 / factor)
        places = (torch.arange(new) * scale).floor().long().clamp(max=old - 1).tolist()
        if places == [i * old // new for i in range(new)]:
            return None
        return t.op("constant", values=places, shape=[len(places)], dtype="int64")
    if any(new == old * power for power in (1, 2, 4, 8, 16, 32)):
        return None
    length, end = (t.full(size, (), "float32") for size in (old, new))
    scale = t.op("divide", length, end) if factor is None else t.full(1 / factor, (), "float32")
    positions = t.op("multiply", t.op("arange", stop=new, dtype="float32"), scale)
    last = t.op("subtract", length, 1)
    return t.cast(t.op("minimum", t.op("floor", positions), last), "int64")


@ROWS.row(
    "aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec", "aten::upsample_nearest3d.vec"
)
def nearest(t: Translator, input: Value, output_size: Value, scale_factors: Value) -> Value:
    """For each output pixel i, return the input pixel at floor(i · scale)."""
    size, old = t.shape()[2:], t.shape(input)[2:]
    factors = scale_factors or [None] * len(size)
    found = [_nearest(t, *axis) for axis in zip(size, old, factors, strict=True)]
    if len(size) == 2 and found == [None, None]:
        return t.op("interpolate", input, output_size=size, mode="nearest")
    for axis, (index, new, dim) in enumerate(zip(found, size, old), 2):
        places = _spread(t, new, dim) if index is None else index
        input = t.op("gather", input, places, axis=axis)
    return input


def _spread(t: Translator, new: Any, old: Any) -> Value:
    count = t.op("arange", stop=new, dtype="int64")
    return t.op("floor_divide", t.op("multiply", count, old), new)


def _has_factors(size: list[Any], old: list[Any], factors: Any) -> bool:
    """Return whether the factors, if any, yield the sizes exactly."""
    return factors is None or all(
        new
        == (
            dim * int(factor) if factor == int(factor) or not isinstance(dim, int) else dim * factor
        )
        for new, dim, factor in zip(size, old, factors, strict=True)
    )


@ROWS.row("aten::upsample_bilinear2d.vec", "aten::upsample_linear1d.vec")
def linear(
    t: Translator, input: Value, output_size: Value, align_corners: bool, scale_factors: Value
) -> Value:
    """Interpolate bilinearly; 1-d inputs are treated as images of height 1."""
    size = t.shape()[2:]
    if not align_corners and not _has_factors(size, t.shape(input)[2:], scale_factors):
        raise Decline(f"the factors must yield the sizes exactly, got {scale_factors}")
    attrs: dict[str, Any] = {"mode": "bilinear", "align_corners": align_corners}
    if len(size) == 2:
        return t.op("interpolate", input, output_size=size, **attrs)
    image = t.op("unsqueeze", input, axis=[2])
    return t.op("squeeze", t.op("interpolate", image, output_size=[1, *size], **attrs), axis=[2])


@ROWS.row(
    "aten::_upsample_nearest_exact1d.vec",
    "aten::_upsample_nearest_exact2d.vec",
    "aten::_upsample_nearest_exact3d.vec",
    "aten::upsample_trilinear3d.vec",
    "aten::upsample_bicubic2d.vec",
    "aten::_upsample_bilinear2d_aa.vec",
    "aten::_upsample_bicubic2d_aa.vec",
)
def resize(
    t: Translator,
    input: Value,
    output_size: Value,
    scale_factors: Value,
    align_corners: bool = False,
) -> Value:
    """Append nearest, linear or cubic interpolation, or an antialiased filter."""
    name: str = t.node.target._schema.name
    attrs: dict[str, Any] = {"scales": list(scale_factors or ())}
    if "nearest" in name:
        attrs |= {"mode": "nearest", "rounding": "round_prefer_ceil"}
    else:
        attrs["mode"] = "cubic" if "cubic" in name else "linear"
        attrs["antialias"] = name.endswith("_aa")
    if align_corners and attrs.get("antialias"):
        raise Decline("an antialiasing filter must not align corners")
    if align_corners:
        attrs |= {"coordinates": "align_corners", "scales": []}
    if name.endswith("bicubic2d_aa"):
        attrs["cubic_coefficient"] = -0.5
    dtype = "float32" if input.dtype in ("float16", "bfloat16") else input.dtype
    resized = t.op("resize", t.cast(input, dtype), output_size=t.shape()[2:], **attrs)
    return t.cast(resized, input.dtype)
