"""Convolution by cuDNN, which adds the bias before rounding; each gradient is one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda import cudnn
from opwright_cuda.cudnn import OperationGraph, Tensor, What, Windows
from opwright_cuda.dtypes import compute_type
from opwright_cuda.kernels.convolution import (
    Images,
    add_bias_grad,
    describe,
)
from opwright_cuda.kernels.elementwise import launch_elementwise, operand
from opwright_cuda.kernels.unfolded_convolution import find_unfolded
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, bytes_of, refuse_for


def _images(ctx: PrepareContext, meta: Meta, pointer: Pointer | None) -> Tensor:
    """Return images with the axis order of data_format."""
    images = Images.of(meta, ctx.attrs["data_format"])
    extents = images.n, images.channels, images.height, images.width
    image, channel, _, row, pixel = images.strides
    return Tensor(extents, (image, channel, row, pixel), pointer)


def _weight(meta: Meta, pointer: Pointer) -> Tensor:
    filters, channels, height, width = meta.shape
    strides = channels * height * width, height * width, width, 1
    return Tensor((filters, channels, height, width), strides, pointer)


def _bias(like: Tensor, pointer: Pointer) -> Tensor:
    """Return a channel vector that broadcasts against images in their axis order."""
    channels = like.extents[1]
    is_last = like.strides[1] == 1
    strides = (channels, 1, channels, channels) if is_last else (channels, 1, 1, 1)
    return Tensor((1, channels, 1, 1), strides, pointer)


def _add(ctx: PrepareContext, plan: LaunchPlan, graph: OperationGraph, slot: str) -> None:
    """Add a graph that computes an output; an empty sum is 0, or the bias."""
    refuse_for(ctx, cudnn.find_refusal())
    if not graph.is_empty:
        plan.operations(graph)
    elif slot == "out" and ctx.inputs["bias"]:
        _add_bias_alone(ctx, plan)
    else:
        plan.fill(plan.output(slot), bytes_of(ctx.outputs[slot][0]))


def _add_bias_alone(ctx: PrepareContext, plan: LaunchPlan) -> None:
    (bias,), (out,) = ctx.inputs["bias"], ctx.outputs["out"]
    behind = () if ctx.attrs["data_format"] == "NHWC" else (1, 1)
    repeated = operand(plan.input("bias"), Meta((*bias.shape, *behind), bias.dtype))
    functor = f"Identity<{compute_type(bias.dtype)}>"
    launch_elementwise(plan, functor, operand(plan.output("out"), out), [repeated])


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the convolution and add the bias."""
    (x,), (weight,), (out,) = ctx.inputs["x"], ctx.inputs["weight"], ctx.outputs["out"]
    unfolded = find_unfolded(ctx, plan, x, weight, out)
    if unfolded is not None and unfolded.gives_out:
        unfolded.add_out()
        return
    result, bias = _images(ctx, out, plan.output("out")), plan.optional_input("bias")
    graph = OperationGraph(x.dtype)
    sums = graph.add_convolution(
        What.FORWARD,
        _images(ctx, x, plan.input("x")),
        _weight(weight, plan.input("weight")),
        result if bias is None else result._replace(pointer=None),
        Windows.of(ctx.attrs),
    )
    if bias is not None:
        graph.add_sum(sums, _bias(result, bias), result)
    _add(ctx, plan, graph, "out")


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the requested gradients."""
    slots = [slot for slot, metas in ctx.outputs.items() if metas]
    if not slots:
        return
    (x,), (weight,), (out_grad,) = (ctx.inputs[slot] for slot in ("x", "weight", "out_grad"))
    gradients, windows = _images(ctx, out_grad, plan.input("out_grad")), Windows.of(ctx.attrs)
    unfolded = find_unfolded(ctx, plan, x, weight, out_grad)

    def add(what: What, slot: str, images: Pointer, filters: Pointer) -> None:
        graph = OperationGraph(x.dtype)
        sides = _images(ctx, x, images), _weight(weight, filters)
        graph.add_convolution(what, *sides, gradients, windows)
        _add(ctx, plan, graph, slot)

    if "x_grad" in slots:
        if unfolded is not None and unfolded.gives_x_grad:
            unfolded.add_x_grad()
        else:
            add(What.DATA_GRADIENT, "x_grad", plan.output("x_grad"), plan.input("weight"))
    if "weight_grad" in slots:
        if unfolded is not None and unfolded.gives_weight_grad:
            unfolded.add_weight_grad()
        else:
            add(What.WEIGHT_GRADIENT, "weight_grad", plan.input("x"), plan.output("weight_grad"))
    if "bias_grad" in slots:
        add_bias_grad(plan, describe(ctx, x, weight, out_grad))


def _where_tf32_is_allowed(
    fill_in: Callable[[PrepareContext, LaunchPlan], None],
) -> Callable[[PrepareContext, LaunchPlan], None]:
    """Return a kernel that refuses the operator if TF32 is not allowed."""

    def fill_in_if_allowed(ctx: PrepareContext, plan: LaunchPlan) -> None:
        refuse_for(ctx, cudnn.find_tf32_refusal(ctx.options))
        fill_in(ctx, plan)

    fill_in_if_allowed.__doc__ = fill_in.__doc__
    return fill_in_if_allowed


CONV2D: Final = Kernel(_fill_in)
"""conv2d; if cuDNN refuses, our own kernel is used."""

CONV2D_GRAD: Final = Kernel(_fill_in_grad)
"""conv2d_grad; bias sums use our own kernel."""

CONV2D_TF32: Final = Kernel(_where_tf32_is_allowed(_fill_in))
"""conv2d of float32 in TF32, which prefers a different axis order than full precision."""

CONV2D_GRAD_TF32: Final = Kernel(_where_tf32_is_allowed(_fill_in_grad))
"""conv2d_grad of float32 in TF32; see `CONV2D_TF32`."""
