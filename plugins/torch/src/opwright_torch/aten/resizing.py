"""Images of another size."""

from __future__ import annotations

from typing import Any, Final

import torch

from opwright_torch.translate import Decline, Rows, Translator
from opwright_torch.translate.translator import Value

ROWS: Final = Rows()


def _scales(input: Value, size: list[int], given: Any) -> list[float]:
    """Return for each axis how far neighbours of the result are apart in the input."""
    if given is not None:
        return [1.0 / scale for scale in given]
    return [old / new for old, new in zip(input.shape[2:], size)]


@ROWS.row(
    "aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec", "aten::upsample_nearest3d.vec"
)
def nearest(t: Translator, input: Value, output_size: Value, scale_factors: Value) -> Value:
    """The pixel at floor(i · scale)."""
    size = t.shape()[2:]
    places = [
        (torch.arange(new) * torch.tensor(scale)).floor().long().clamp(max=old - 1).tolist()
        for new, scale, old in zip(size, _scales(input, size, scale_factors), input.shape[2:])
    ]
    exact = [[i * old // new for i in range(new)] for new, old in zip(size, input.shape[2:])]
    if len(size) == 2 and places == exact:
        return t.op("interpolate", input, output_size=size, mode="nearest")
    for axis, index in enumerate(places, 2):
        indices = t.op("constant", values=index, shape=[len(index)], dtype="int64")
        input = t.op("index_select", input, indices, axis=axis)
    return input


@ROWS.row("aten::upsample_bilinear2d.vec", "aten::upsample_linear1d.vec")
def linear(
    t: Translator, input: Value, output_size: Value, align_corners: bool, scale_factors: Value
) -> Value:
    """The mean of the pixels around each place; a line is an image of height 1."""
    size = t.shape()[2:]
    scales, wanted = _scales(input, size, scale_factors), _scales(input, size, None)
    if not align_corners and scales != wanted:
        raise Decline(f"sizes that the factors do not give exactly, got {scale_factors}")
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
    """The nearest element, a mean or a cubic function of those around, or a filter of more."""
    name: str = t.node.target._schema.name
    attrs: dict[str, Any] = {"scales": list(scale_factors or ())}
    if "nearest" in name:
        attrs |= {"mode": "nearest", "rounding": "round_prefer_ceil"}
    else:
        attrs["mode"] = "cubic" if "cubic" in name else "linear"
        attrs["antialias"] = name.endswith("_aa")
    if align_corners and attrs.get("antialias"):
        raise Decline("a filter with aligned corners")
    if align_corners:
        attrs |= {"coordinates": "align_corners", "scales": []}
    if name.endswith("bicubic2d_aa"):
        attrs["cubic_coefficient"] = -0.5
    dtype = "float32" if input.dtype in ("float16", "bfloat16") else input.dtype
    resized = t.op("resize", t.cast(input, dtype), output_size=t.shape()[2:], **attrs)
    return t.cast(resized, input.dtype)
