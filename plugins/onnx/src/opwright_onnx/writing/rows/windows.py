"""Rows of convolutions, pooling and other operators with windows over images."""

from __future__ import annotations

from typing import Any

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()


def in_channels_first(w: Writer, op: Op, write: Any) -> Any:
    """Emit an operator that needs [n, channels, ...], with transposes for other axis orders."""
    x, layout = w.input(op, "x"), str(op.attrs.get("data_format", "NC"))
    if layout.startswith("NC"):
        return write(x)
    last = len(layout) - 1
    results = write(w.node("Transpose", x, perm=[0, last, *range(1, last)]))
    back = [0, *range(2, last + 1), 1]
    if isinstance(results, str):
        return w.node("Transpose", results, perm=back)
    return tuple(r and w.node("Transpose", r, perm=back) for r in results)


def read_windows(op: Op, count: int) -> dict[str, Any]:
    """Convert the attributes to ONNX's kernel_shape, strides, dilations, pads and group."""
    pads = list(op.attrs["paddings"])
    if min(pads, default=0) < 0:
        raise DeclinedError(f"paddings must be at least 0, got {pads}")
    found: dict[str, Any] = {"pads": pads[::2] + pads[1::2]}
    if "kernel" in op.attrs:
        found["kernel_shape"] = list(op.attrs["kernel"])
    found["strides"] = list(op.attrs["strides"]) or list(op.attrs["kernel"])
    if "dilations" in op.attrs:
        found["dilations"] = list(op.attrs["dilations"])
    if "groups" in op.attrs:
        found["group"] = op.attrs["groups"]
    if len(found["strides"]) != count:
        raise DeclinedError(f"strides must have {count} values, one for each axis")
    return found


@ROWS.row("conv1d", "conv2d", "conv3d")
def conv(w: Writer, op: Op) -> Any:
    attrs = read_windows(op, int(op.type[4]))
    rest = w.input(op, "weight"), w.input(op, "bias")
    return in_channels_first(w, op, lambda x: w.node("Conv", x, *rest, **attrs))


@ROWS.row("conv1d_transpose", "conv2d_transpose", "conv3d_transpose")
def conv_transpose(w: Writer, op: Op) -> Any:
    attrs = read_windows(op, int(op.type[4]))
    rest = w.input(op, "weight"), w.input(op, "bias")
    attrs["output_padding"] = list(op.attrs["output_padding"])
    return in_channels_first(w, op, lambda x: w.node("ConvTranspose", x, *rest, **attrs))


def _rounding(w: Writer, op: Op) -> int:
    """Return ceil_mode, or 0 if it has no effect on window counts, since old opsets miscount."""
    if not op.attrs["ceil_mode"]:
        return 0
    rank = len(op.attrs["kernel"])
    first = 2 if str(op.attrs["data_format"]).startswith("NC") else 1
    lengths, wanted = (w.shape(op, slot)[first : first + rank] for slot in ("x", "out"))
    if -1 in lengths + wanted:
        return 1
    found = read_windows(op, rank)
    dilations, pads = found.get("dilations") or [1] * rank, found["pads"]
    counts = []
    for i, (size, stride) in enumerate(zip(op.attrs["kernel"], found["strides"])):
        window = (size - 1) * dilations[i] + 1
        counts.append((lengths[i] + pads[i] + pads[i + rank] - window) // stride + 1)
    return int(tuple(counts) != wanted)


@ROWS.row("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(w: Writer, op: Op) -> Any:
    attrs = read_windows(op, int(op.type[8]))
    attrs["ceil_mode"] = _rounding(w, op)
    if not w.wants(op, "index"):
        return in_channels_first(w, op, lambda x: w.node("MaxPool", x, **attrs))

    def both(x: str) -> Any:
        out, index = w.node("MaxPool", x, outputs=2, **attrs)
        area = w.node("ReduceProd", w.node("Shape", x, start=2), keepdims=0)  # per channel
        return out, w.node("Mod", index, area)

    return in_channels_first(w, op, both)


@ROWS.row("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(w: Writer, op: Op) -> Any:
    attrs = read_windows(op, int(op.type[8]))
    attrs["ceil_mode"] = _rounding(w, op)
    attrs["count_include_pad"] = int(op.attrs["count_include_pad"])
    if op.attrs["divisor"]:
        raise DeclinedError("ONNX's AveragePool has no divisor")
    if w.opset < 19 and set(attrs.pop("dilations")) != {1}:
        raise DeclinedError("ONNX's AveragePool has no dilations before opset 19")
    return in_channels_first(w, op, lambda x: w.node("AveragePool", x, **attrs))


@ROWS.row("lp_pool1d", "lp_pool2d", "lp_pool3d")
def lp_pool(w: Writer, op: Op) -> Any:
    attrs = read_windows(op, int(op.type[7]))
    attrs["ceil_mode"] = _rounding(w, op)
    if op.attrs["p"] != int(op.attrs["p"]):
        raise DeclinedError("p must be an integer")
    return in_channels_first(w, op, lambda x: w.node("LpPool", x, p=int(op.attrs["p"]), **attrs))


@ROWS.row(*(f"adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (2, 3)))
def global_pool(w: Writer, op: Op) -> Any:
    if set(op.attrs["output_size"]) != {1} or w.wants(op, "index"):
        raise DeclinedError("output_size must be 1, and index must not be read")
    name = "GlobalAveragePool" if "avg" in op.type else "GlobalMaxPool"
    return in_channels_first(w, op, lambda x: w.node(name, x))


@ROWS.row("deform_conv2d")
def deform_conv(w: Writer, op: Op) -> Any:
    names = [w.input(op, slot) for slot in ("x", "weight", "offset", "bias", "mask")]
    return w.node(
        "DeformConv", *names, offset_group=op.attrs["offset_groups"], **read_windows(op, 2)
    )


@ROWS.row("grid_sample")
def grid_sample(w: Writer, op: Op) -> Any:
    modes = {"bilinear": "linear", "bicubic": "cubic"} if w.opset >= 20 else {}
    mode = modes.get(op.attrs["mode"], op.attrs["mode"])
    if not op.attrs["normalized"]:
        raise DeclinedError("normalized must be true")
    flags: dict[str, Any] = {"align_corners": int(op.attrs["align_corners"])}
    padding = op.attrs["padding_mode"]
    grid = w.input(op, "grid")
    return w.node("GridSample", w.input(op, "x"), grid, mode=mode, padding_mode=padding, **flags)


@ROWS.row("roi_align")
def roi_align(w: Writer, op: Op) -> Any:
    height, width = op.attrs["output_size"]
    index = w.cast(w.input(op, "batch_index"), "int64")
    return w.node(
        "RoiAlign",
        w.input(op, "x"),
        w.input(op, "rois"),
        index,
        output_height=height,
        output_width=width,
        spatial_scale=op.attrs["spatial_scale"],
        sampling_ratio=max(op.attrs["sampling_ratio"], 0),
        mode=op.attrs["mode"],
        coordinate_transformation_mode="half_pixel" if op.attrs["aligned"] else "output_half_pixel",
    )


@ROWS.row("resize")
def resize(w: Writer, op: Op) -> Any:
    shape, sizes = w.shape(op), w.items(op, "output_size")
    axes = list(range(len(shape) - len(sizes), len(shape)))
    if op.attrs["mode"] == "area":
        raise DeclinedError("ONNX's Resize has no mode area")
    scales, crop = list(op.attrs["scales"]), list(op.attrs["crop"])
    attrs: dict[str, Any] = {"axes": axes, "mode": op.attrs["mode"]}
    coordinates = op.attrs["coordinates"]
    is_crop = coordinates == "crop_and_resize"
    attrs["coordinate_transformation_mode"] = "tf_crop_and_resize" if is_crop else coordinates
    attrs["nearest_mode"] = op.attrs["rounding"]
    attrs["cubic_coeff_a"] = op.attrs["cubic_coefficient"]
    attrs["antialias"] = int(op.attrs["antialias"])
    attrs["exclude_outside"] = int(op.attrs["exclude_outside"] or op.attrs["antialias"])
    attrs["extrapolation_value"] = op.attrs["extrapolation_value"]
    roi = w.const(crop[::2] + crop[1::2], "float32") if crop else ""
    if not scales:
        return w.node("Resize", w.input(op, "x"), roi, "", w.vector(sizes), **attrs)
    lengths = [int(shape[axis] * scale) for axis, scale in zip(axes, scales)]
    if -1 in [shape[axis] for axis in axes] or (not is_crop and lengths != sizes):
        raise DeclinedError(
            "x must have known sizes, and output_size must be the sizes times scales, rounded down"
        )
    return w.node("Resize", w.input(op, "x"), roi, w.const(scales, "float32"), **attrs)


@ROWS.row("interpolate")
def interpolate(w: Writer, op: Op) -> Any:
    corners = "align_corners" if op.attrs["align_corners"] else "half_pixel"
    attrs: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": corners}
    if op.attrs["mode"] == "nearest":
        attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        attrs["nearest_mode"] = "floor"
    sizes = w.items(op, "output_size")

    # Resize all axes, since ONNX Runtime incorrectly moves a Transpose past a Resize of some axes.
    def write(x: str) -> Any:
        whole = w.vector([w.node("Shape", x, end=2), *sizes])
        return w.node("Resize", x, "", "", whole, **attrs)

    return in_channels_first(w, op, write)
