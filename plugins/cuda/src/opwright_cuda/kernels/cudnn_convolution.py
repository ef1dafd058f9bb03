"""Convolution by cuDNN: a bias is added before a sum is rounded, gradients are a graph each."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext
from opwright.op import Meta
from opwright_cuda.cudnn import OperationGraph, Tensor, What, Windows
from opwright_cuda.kernels.convolution import Images, add_bias_grad, describe
from opwright_cuda.launch import Kernel, LaunchPlan, Pointer, bytes_of


def _images(ctx: PrepareContext, meta: Meta, pointer: Pointer | None) -> Tensor:
    """Return images, in the order that data_format says."""
    images = Images.of(meta, ctx.attrs["data_format"])
    extents = images.n, images.channels, images.height, images.width
    return Tensor(extents, images.strides, pointer)


def _weight(meta: Meta, pointer: Pointer) -> Tensor:
    filters, channels, height, width = meta.shape
    strides = channels * height * width, height * width, width, 1
    return Tensor((filters, channels, height, width), strides, pointer)


def _bias(like: Tensor, pointer: Pointer) -> Tensor:
    """Return one number a channel, in the order of axes of what it is added to."""
    channels = like.extents[1]
    is_last = like.strides[1] == 1
    strides = (channels, 1, channels, channels) if is_last else (channels, 1, 1, 1)
    return Tensor((1, channels, 1, 1), strides, pointer)


def _add(ctx: PrepareContext, plan: LaunchPlan, graph: OperationGraph) -> None:
    reason = graph.find_refusal()
    if reason is not None:
        ctx.refuse(reason)
    plan.operations(graph)


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Convolve, add the bias."""
    (x,), (weight,), (out,) = ctx.inputs["x"], ctx.inputs["weight"], ctx.outputs["out"]
    graph, windows = OperationGraph(x.dtype), Windows.of(ctx.attrs)
    result = _images(ctx, out, plan.output("out"))
    bias = plan.optional_input("bias")
    tensors = (
        graph.add_tensor(_images(ctx, x, plan.input("x"))),
        graph.add_tensor(_weight(weight, plan.input("weight"))),
        graph.add_tensor(result if bias is None else result._replace(pointer=None)),
    )
    graph.add_convolution(What.FORWARD, *tensors, windows)
    if bias is not None:
        added = graph.add_tensor(_bias(result, bias))
        graph.add_sum(tensors[-1], added, graph.add_tensor(result))
    _add(ctx, plan, graph)


def _fill_in_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradients that are wanted."""
    slots = [slot for slot, metas in ctx.outputs.items() if metas]
    if not ctx.inputs["out_grad"]:
        for slot in slots:
            plan.fill(plan.output(slot), bytes_of(ctx.outputs[slot][0]))
        return
    (x,), (weight,), (out_grad,) = (ctx.inputs[slot] for slot in ("x", "weight", "out_grad"))
    slopes = _images(ctx, out_grad, plan.input("out_grad"))
    windows = Windows.of(ctx.attrs)
    if "x_grad" in slots:
        graph = OperationGraph(x.dtype)
        tensors = (
            graph.add_tensor(_images(ctx, x, plan.output("x_grad"))),
            graph.add_tensor(_weight(weight, plan.input("weight"))),
            graph.add_tensor(slopes),
        )
        graph.add_convolution(What.DATA_GRADIENT, *tensors, windows)
        _add(ctx, plan, graph)
    if "weight_grad" in slots:
        graph = OperationGraph(x.dtype)
        tensors = (
            graph.add_tensor(_images(ctx, x, plan.input("x"))),
            graph.add_tensor(_weight(weight, plan.output("weight_grad"))),
            graph.add_tensor(slopes),
        )
        graph.add_convolution(What.WEIGHT_GRADIENT, *tensors, windows)
        _add(ctx, plan, graph)
    if "bias_grad" in slots:
        add_bias_grad(plan, describe(ctx, x, weight, out_grad))


CONV2D: Final = Kernel(_fill_in)
"""conv2d; where cuDNN refuses, our own kernel serves."""

CONV2D_GRAD: Final = Kernel(_fill_in_grad)
"""conv2d_grad; sums of the bias are our own kernel's."""
