"""Regions of interest: roi_align."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.source import own_source

_SPAN_BYTES: Final = 16
_MOST: Final = 2**20


def _launch(
    ctx: PrepareContext, plan: LaunchPlan, pointers: tuple[Pointer, Pointer], images: Meta
) -> None:
    """Add the operator's kernel from one tensor to another; `images` are those of x."""
    (rois,), (batch_index,) = ctx.inputs["rois"], ctx.inputs["batch_index"]
    types = f"{CTYPES[rois.dtype]}, {CTYPES[batch_index.dtype]}"
    n_boxes, bins, size = rois.shape[0], ctx.attrs["output_size"], images.shape[2:]
    extents = np.array([n_boxes, *images.shape[:2], *size, *bins], np.int64)
    boxes = [plan.input("rois"), plan.input("batch_index")]
    regions = Struct(*boxes, np.float64(ctx.attrs["spatial_scale"]), extents)

    def launch(kernel: str, n_threads: int, arguments: list[Argument], last: str = "") -> None:
        # A product and a sum in one operation would put samples on other sides of edges.
        source = own_source("regions.cu", ("-fmad=false",))
        grid = blocks_for(n_threads, plan)
        plan.launch(source, f"{kernel}<{types}{last}>", grid, THREADS, arguments)

    far = plan.fault_text(
        f"{ctx.op_type}: rois times spatial_scale must be in [-{_MOST}, {_MOST}], those of box "
        "{value} are not; clip boxes to their images"
    )
    wrong = f"{ctx.op_type}: batch_index must be in [0, {images.shape[0]}), got {{value}}"
    launch("check_regions", n_boxes, [regions, plan.fault(), far, plan.fault_text(wrong)])
    shares = [plan.workspace(max(n_boxes * b * s, 1) * 8) for b, s in zip(bins, size, strict=True)]
    spans = [plan.workspace(max(n_boxes * b, 1) * _SPAN_BYTES) for b in bins]
    for axis in range(2):
        arguments: list[Argument] = [shares[axis], spans[axis], regions]
        arguments += [np.int64(ctx.attrs["sampling_ratio"]), np.bool_(ctx.attrs["aligned"])]
        launch("share_pixels", n_boxes * bins[axis], arguments, f", {axis}")
    made = ctx.outputs["x_grad" if ctx.op_type.endswith("_grad") else "out"][0]
    launch(ctx.op_type, prod(made.shape), [*pointers, regions, Struct(*shares, *spans)])


def _fill_in_align(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Mix the pixels of each bin."""
    _launch(ctx, plan, (plan.output("out"), plan.input("x")), ctx.inputs["x"][0])


def _fill_in_align_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum up what bins give to each pixel."""
    for x_grad in ctx.outputs["x_grad"]:
        _launch(ctx, plan, (plan.output("x_grad"), plan.input("out_grad")), x_grad)


ROI_ALIGN: Final = Kernel(_fill_in_align)
ROI_ALIGN_GRAD: Final = Kernel(_fill_in_align_grad)
