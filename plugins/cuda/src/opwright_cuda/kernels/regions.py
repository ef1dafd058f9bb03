"""Regions of interest: roi_align and roi_pool."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.add_slices import LookUp, Slices, launch_add_slices
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Pointer, Struct
from opwright_cuda.source import Source, own_source

_SPAN_BYTES: Final = 16
_MOST: Final = 2**20


class _Boxes(NamedTuple):
    """The boxes of an operator.

    Attributes
    ----------
    regions : Struct
        ``Regions`` of regions.h.
    types : str
        Its template arguments.
    n : int
        Number of boxes.
    """

    regions: Struct
    types: str
    n: int

    def launch(
        self,
        plan: LaunchPlan,
        kernel: str,
        n_threads: int,
        arguments: list[Argument],
        last: str = "",
    ) -> None:
        """Add a kernel whose template arguments are the types of the boxes, followed by `last`."""
        blocks = blocks_for(n_threads, plan)
        plan.launch(_source_of(kernel), f"{kernel}<{self.types}{last}>", blocks, THREADS, arguments)


def _source_of(kernel: str) -> Source:
    # Contracting products and sums could move samples across pixel edges.
    file = "roi_pool.cu" if kernel.startswith("roi_pool") else "regions.cu"
    return own_source(file, ("-fmad=false",))


def _check_boxes(ctx: PrepareContext, plan: LaunchPlan, images: Meta) -> _Boxes:
    """Add the checks of the boxes and of their image indices."""
    (rois,), (batch_index,) = ctx.inputs["rois"], ctx.inputs["batch_index"]
    n_boxes, bins, size = rois.shape[0], ctx.attrs["output_size"], images.shape[2:]
    extents = np.array([n_boxes, *images.shape[:2], *size, *bins], np.int64)
    given = [plan.input("rois"), plan.input("batch_index")]
    regions = Struct(*given, np.float64(ctx.attrs["spatial_scale"]), extents)
    boxes = _Boxes(regions, f"{CTYPES[rois.dtype]}, {CTYPES[batch_index.dtype]}", n_boxes)
    far = plan.fault_text(
        f"{ctx.op_type}: rois times spatial_scale must be in [-{_MOST}, {_MOST}], but box "
        "{value} is outside; clip boxes to their images"
    )
    texts = [far, plan.fault_text(_image_text(ctx, images))]
    arguments: list[Argument] = [regions, plan.fault(), *texts]
    boxes.launch(plan, "check_regions", n_boxes, arguments)
    return boxes


def _image_text(ctx: PrepareContext, images: Meta) -> str:
    return f"{ctx.op_type}: batch_index must be in [0, {images.shape[0]}), got {{value}}"


def _launch_align(
    ctx: PrepareContext, plan: LaunchPlan, pointers: tuple[Pointer, Pointer], images: Meta
) -> None:
    """Add the RoI-align launches, which read one tensor and write the other; x holds the images."""
    boxes, size, bins = _check_boxes(ctx, plan, images), images.shape[2:], ctx.attrs["output_size"]
    n = boxes.n
    shares = [plan.workspace(max(n * b * s, 1) * 8) for b, s in zip(bins, size, strict=True)]
    spans = [plan.workspace(max(n * b, 1) * _SPAN_BYTES) for b in bins]
    for axis in range(2):
        arguments: list[Argument] = [shares[axis], spans[axis], boxes.regions]
        arguments += [np.int64(ctx.attrs["sampling_ratio"]), np.bool_(ctx.attrs["aligned"])]
        boxes.launch(plan, "share_pixels", n * bins[axis], arguments, f", {axis}")
    made = ctx.outputs["x_grad" if ctx.op_type.endswith("_grad") else "out"][0]
    arguments = [*pointers, boxes.regions, Struct(*shares, *spans)]
    boxes.launch(plan, ctx.op_type, prod(made.shape), arguments)


def _fill_in_align(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Average the samples of each bin."""
    _launch_align(ctx, plan, (plan.output("out"), plan.input("x")), ctx.inputs["x"][0])


def _fill_in_align_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the contributions of bins to each pixel."""
    for x_grad in ctx.outputs["x_grad"]:
        _launch_align(ctx, plan, (plan.output("x_grad"), plan.input("out_grad")), x_grad)


def _fill_in_pool(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Find the maximum of each bin, and its index."""
    (x,), (out,) = ctx.inputs["x"], ctx.outputs["out"]
    boxes = _check_boxes(ctx, plan, x)
    made = [plan.output("out"), plan.output("index")]
    arguments: list[Argument] = [*made, plan.input("x"), boxes.regions]
    boxes.launch(plan, "roi_pool", prod(out.shape), arguments)


def _fill_in_pool_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Sum the gradients of bins at the pooling indices, in order."""
    (index,), (batch_index,) = ctx.inputs["index"], ctx.inputs["batch_index"]
    for x_grad in ctx.outputs["x_grad"]:
        n, pixels = prod(index.shape), prod(x_grad.shape[2:])
        places = plan.workspace(max(n, 1) * 8)
        counts = [n, index.shape[1], prod(index.shape[2:]), x_grad.shape[0], pixels]
        wrong = f"{ctx.op_type}: index must be in [-1, {pixels}), got {{value}}"
        arguments: list[Argument] = [places, plan.input("index"), plan.input("batch_index")]
        arguments += [*(np.int64(count) for count in counts), plan.fault()]
        arguments += [plan.fault_text(wrong), plan.fault_text(_image_text(ctx, x_grad))]
        expression = f"roi_pool_places<{CTYPES[batch_index.dtype]}>"
        source, blocks = _source_of("roi_pool_places"), blocks_for(n, plan)
        plan.launch(source, expression, blocks, THREADS, arguments)
        look_up = LookUp(1, prod(x_grad.shape), 1, 0, -1)
        slices = Slices(plan.input("out_grad"), places, Meta((n,), "int64"))
        launch_add_slices(plan, plan.output("x_grad"), x_grad, slices, look_up, None)


ROI_ALIGN: Final = Kernel(_fill_in_align)
ROI_ALIGN_GRAD: Final = Kernel(_fill_in_align_grad)
ROI_POOL: Final = Kernel(_fill_in_pool)
ROI_POOL_GRAD: Final = Kernel(_fill_in_pool_grad)
