"""Resizing of images; the gradient of a pixel is gathered from the outputs that read the pixel."""

from __future__ import annotations

from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, count_of
from opwright_cuda.source import own_source


def _describe(ctx: PrepareContext, x: Meta, out: Meta) -> Struct:
    """Return ``Resizing`` of interpolate.cu."""
    attrs = ctx.attrs
    is_last = attrs["data_format"].endswith("C")
    first, channels = (1, x.shape[3]) if is_last else (2, 1)
    sizes = [(x.shape[first + i], out.shape[first + i]) for i in range(2)]
    flags = attrs["mode"] == "nearest", attrs["align_corners"]
    return Struct(
        np.array([*sizes[0], *sizes[1], channels, *flags, 0], np.int32),
        np.array([count_of(out), count_of(x)], np.int64),
    )


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Interpolate the pixels around each position."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    arguments: list[Argument] = [plan.output("out"), plan.input("x"), _describe(ctx, x, out)]
    expression = f"resize<{CTYPES[x.dtype]}>"
    blocks = blocks_for(count_of(out), plan)
    plan.launch(own_source("interpolate.cu"), expression, blocks, THREADS, arguments)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the contributions of a pixel to outputs."""
    if not ctx.outputs["x_grad"]:
        return
    (x,), (out,) = ctx.outputs["x_grad"], ctx.inputs["out_grad"]
    arguments: list[Argument] = [
        plan.output("x_grad"),
        plan.input("out_grad"),
        _describe(ctx, x, out),
    ]
    expression = f"resize_grad<{CTYPES[x.dtype]}>"
    blocks = blocks_for(count_of(x), plan)
    plan.launch(own_source("interpolate.cu"), expression, blocks, THREADS, arguments)


INTERPOLATE: Final = Kernel(_fill_in)
"""interpolate."""

INTERPOLATE_GRAD: Final = Kernel(_fill_in_grad)
"""interpolate_grad."""
