"""Adapters for pooling and image resizing."""

from __future__ import annotations

import math
from typing import Any, Final

from .arguments import (
    Adapter,
    UnmappedError,
    cast,
    many,
    ops,
    rank_of,
    repeated,
    shape_of,
)
from .networks import both_sides, in_batch


def windows(rank: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    sizes = repeated(kernel, rank)
    has_stride = stride is not None and many(stride)
    return {
        "kernel": sizes,
        "strides": repeated(stride, rank) if has_stride else sizes,
        "paddings": both_sides(repeated(padding, rank)),
        "ceil_mode": ceil_mode,
    }


def max_pool(rank: int) -> Adapter:
    def apply(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        attrs = windows(rank, kernel_size, stride, padding, ceil_mode)
        attrs["dilations"] = repeated(dilation, rank)
        call = getattr(ops, f"max_pool{rank}d")

        def write(image: Any) -> Any:
            out, index = call(image, returns=["out", "index"], **attrs)
            return out, cast(index, "int64")

        out, index = in_batch(x, rank, write)
        return (out, index) if return_indices else out

    return apply


def avg_pool(rank: int) -> Adapter:
    def apply(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        attrs = windows(rank, kernel_size, stride, padding, ceil_mode)
        divisor = divisor_override or 0
        attrs |= {"count_include_pad": count_include_pad, "divisor": abs(divisor)}
        x = ops.negative(x) if divisor < 0 else x
        return in_batch(x, rank, lambda image: getattr(ops, f"avg_pool{rank}d")(image, **attrs))

    return apply


def adaptive_sizes(x: Any, output_size: Any, rank: int) -> list[int]:
    own = shape_of(x)[-rank:]
    return [old if new is None else new for old, new in zip(own, repeated(output_size, rank))]


def adaptive_avg(rank: int) -> Adapter:
    def apply(x: Any, output_size: Any) -> Any:
        sizes = adaptive_sizes(x, output_size, rank)
        if rank == 1:
            image = ops.unsqueeze(x, axis=[rank_of(x) - 1])
            out = in_batch(image, 2, lambda v: ops.adaptive_avg_pool2d(v, output_size=[1, *sizes]))
            return ops.squeeze(out, axis=[rank_of(x) - 1])
        call = getattr(ops, f"adaptive_avg_pool{rank}d")
        return in_batch(x, rank, lambda image: call(image, output_size=sizes))

    return apply


def adaptive_max(rank: int) -> Adapter:
    def apply(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        sizes = adaptive_sizes(x, output_size, rank)
        wide = ops.unsqueeze(x, axis=[rank_of(x) - 1]) if rank == 1 else x
        n = max(rank, 2)
        call = getattr(ops, f"adaptive_max_pool{n}d")
        whole = [1] * (n - rank) + sizes

        def write(image: Any) -> Any:
            out, index = call(image, output_size=whole, returns=["out", "index"])
            return out, cast(index, "int64")

        out = in_batch(wide, n, write)
        if rank == 1:
            out = tuple(ops.squeeze(value, axis=[rank_of(x) - 1]) for value in out)
        return tuple(out) if return_indices else out[0]

    return apply


def max_unpool(rank: int) -> Adapter:
    def apply(
        x: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Any:
        attrs = windows(rank, kernel_size, stride, padding, False)
        spatial = shape_of(x)[-rank:]
        sizes = [
            (n - 1) * s + k - 2 * p
            for n, s, k, p in zip(
                spatial, attrs["strides"], attrs["kernel"], attrs["paddings"][::2]
            )
        ]
        if output_size is not None:
            sizes = list(output_size)[-rank:]
        return unpooled(x, indices, sizes, rank)

    return apply


def unpooled(x: Any, indices: Any, sizes: list[int], rank: int) -> Any:
    if rank_of(x) == rank + 1:
        wide = [ops.unsqueeze(v, axis=[0]) for v in (x, indices)]
        return ops.squeeze(unpooled(*wide, sizes, rank), axis=[0])
    call = getattr(ops, f"max_unpool{rank}d")
    return call(x, cast(indices, "int32"), output_size=sizes)


def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    rank = rank_of(x) - 2
    own = shape_of(x)[2:]
    if size is not None:
        sizes, factors = repeated(size, rank), []
    else:
        given = repeated(scale_factor, rank)
        sizes = [math.floor(n * factor) for n, factor in zip(own, given)]
        factors = [] if recompute_scale_factor else [float(factor) for factor in given]
    attrs: dict[str, Any] = {"output_size": sizes}
    if mode == "area":
        return ops.resize(x, mode="area", **attrs)
    if mode in ("nearest", "nearest-exact"):
        attrs |= {"mode": "nearest", "scales": factors}
        is_exact = mode == "nearest-exact"
        attrs["rounding"] = "round_prefer_ceil" if is_exact else "floor"
        attrs["coordinates"] = "half_pixel" if is_exact else "asymmetric"
        return ops.resize(x, **attrs)
    attrs["mode"] = "cubic" if mode == "bicubic" else "linear"
    attrs["antialias"] = antialias
    if antialias and mode == "bicubic":
        attrs["cubic_coefficient"] = -0.5
    if align_corners:
        if antialias:
            raise UnmappedError("a filter with aligned corners")
        return ops.resize(x, coordinates="align_corners", **attrs)
    return ops.resize(x, scales=factors, **attrs)


def grid_sample(
    x: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return ops.grid_sample(x, grid, **attrs)


def grid_sampler(x: Any, grid: Any, interpolation: int, padding: int, align_corners: bool) -> Any:
    mode = ("bilinear", "nearest", "bicubic")[interpolation]
    return grid_sample(x, grid, mode, ("zeros", "border", "reflection")[padding], align_corners)


def upsample(mode: str, align_corners: bool | None) -> Adapter:
    def apply(x: Any, size: Any = None, scale_factor: Any = None) -> Any:
        return interpolate(x, size, scale_factor, mode, align_corners)

    return apply


_SIZED = {
    "adaptive_avg_pool": adaptive_avg,
    "adaptive_max_pool": adaptive_max,
    "avg_pool": avg_pool,
    "max_pool": max_pool,
    "max_unpool": max_unpool,
}

ADAPTERS: Final[dict[str, Adapter]] = {
    **{f"nn.functional.{name}{n}d": make(n) for name, make in _SIZED.items() for n in (1, 2, 3)},
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), grid_sampler),
    "nn.functional.grid_sample": grid_sample,
    "nn.functional.interpolate": interpolate,
    "nn.functional.upsample_bilinear": upsample("bilinear", True),
    "nn.functional.upsample_nearest": upsample("nearest", None),
}
