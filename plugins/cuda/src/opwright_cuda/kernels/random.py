"""Random tensors and dropout, bitwise identical on every device.

Blocks of random words are assigned to elements, not to threads, so results do not depend on the
grid.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES, compute_type
from opwright_cuda.kernels.elementwise import THREADS, blocks_for, launch_elementwise, operand
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct, bytes_of, count_of
from opwright_cuda.source import Source, own_source


def _source() -> Source:
    return own_source("random.cu", ("-fmad=false",))


def _key(ctx: PrepareContext, plan: LaunchPlan) -> Struct:
    """Return ``RandomKey`` of philox.h."""
    seed = np.uint64(ctx.attrs["seed"] % 2**64)
    return Struct(seed, plan.optional_input("step"), np.uint32(ctx.attrs["stream"] or 0))


def _number(value: float, dtype: str) -> Any:
    return np.float64(value) if compute_type(dtype) == "double" else np.float32(value)


def _draw(ctx: PrepareContext, plan: LaunchPlan, numbers: str, scale: float, shift: float) -> None:
    (meta,) = ctx.outputs["out"]
    n = count_of(meta)
    each = 2 if meta.dtype == "float64" else 4
    arguments = [
        plan.output("out"),
        np.int64(n),
        _key(ctx, plan),
        _number(scale, meta.dtype),
        _number(shift, meta.dtype),
    ]
    expression = f"draw<{numbers}, {CTYPES[meta.dtype]}>"
    plan.launch(_source(), expression, blocks_for(-(-n // each), plan), THREADS, arguments)


def _fill_in_uniform(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Draw numbers uniformly distributed between two bounds."""
    low, high = ctx.attrs["min"], ctx.attrs["max"]
    _draw(ctx, plan, "UniformNumbers", high - low, low)


def _fill_in_normal(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Draw normally distributed numbers by the Box-Muller method."""
    _draw(ctx, plan, "NormalNumbers", ctx.attrs["std"], ctx.attrs["mean"])


def _fill_in_truncated_normal(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Draw normally distributed numbers, and redraw any that exceed two standard deviations."""
    _draw(ctx, plan, "TruncatedNumbers", ctx.attrs["std"], ctx.attrs["mean"])


UNIFORM: Final = Kernel(_fill_in_uniform)
NORMAL: Final = Kernel(_fill_in_normal)
TRUNCATED_NORMAL: Final = Kernel(_fill_in_truncated_normal)


def _fill_in_bernoulli(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write 1 where the random word is below the probability, and 0 elsewhere."""
    (meta,) = ctx.inputs["x"]
    n = count_of(meta)
    text = plan.fault_text("bernoulli: x must be in [0, 1], got a value outside")
    arguments: list[Argument] = [plan.input("x"), plan.output("out"), np.int64(n)]
    arguments += [_key(ctx, plan), plan.fault(), text]
    expression = f"bernoulli<{CTYPES[meta.dtype]}>"
    plan.launch(_source(), expression, blocks_for(-(-n // 4), plan), THREADS, arguments)


def _fill_in_randint(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Draw integers in a range."""
    (meta,) = ctx.outputs["out"]
    n, low = count_of(meta), ctx.attrs["low"]
    arguments: list[Argument] = [plan.output("out"), np.int64(n), _key(ctx, plan)]
    arguments += [np.uint64(ctx.attrs["high"] - low), np.uint64(low % 2**64)]
    expression = f"randint<{CTYPES[meta.dtype]}>"
    plan.launch(_source(), expression, blocks_for(-(-n // 2), plan), THREADS, arguments)


def _part(ctx: PrepareContext, plan: LaunchPlan) -> tuple[Struct, Argument]:
    """Return ``PartKey`` of random.cu, and the fault text for an invalid part."""
    (meta,) = ctx.inputs["x"]
    axis = ctx.attrs["axis"]
    run, length = math.prod(meta.shape[axis:]), meta.shape[axis]
    text = plan.fault_text(
        "part must be [rows_before, own_rows, all_rows], and own_rows must divide the length of "
        f"axis {axis}, got an invalid part for a length of {length}"
    )
    return Struct(plan.input("part"), np.int64(run), np.int64(length)), text


def _fill_in_bernoulli_part(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write 1 where the word of the larger tensor is below the probability, and 0 elsewhere."""
    (meta,) = ctx.inputs["x"]
    n = count_of(meta)
    part, part_text = _part(ctx, plan)
    text = plan.fault_text("bernoulli: x must be in [0, 1], got a value outside")
    arguments: list[Argument] = [plan.input("x"), plan.output("out"), np.int64(n)]
    arguments += [_key(ctx, plan), part, plan.fault(), text, part_text]
    expression = f"bernoulli_part<{CTYPES[meta.dtype]}>"
    plan.launch(_source(), expression, blocks_for(n, plan), THREADS, arguments)


BERNOULLI: Final = Kernel(_fill_in_bernoulli)
BERNOULLI_PART: Final = Kernel(_fill_in_bernoulli_part)
RANDINT: Final = Kernel(_fill_in_randint)


def _keep_scale(ctx: PrepareContext) -> float:
    probability: float = ctx.attrs["probability"]
    return 1.0 / (1.0 - probability) if probability < 1.0 else 0.0


def _tensors(ctx: PrepareContext, plan: LaunchPlan) -> list[Argument]:
    n = np.int64(count_of(ctx.inputs["x"][0]))
    return [plan.input("x"), plan.output("out"), plan.output("mask"), n]


def _threshold_and_scale(ctx: PrepareContext) -> list[Argument]:
    threshold = np.uint64(math.floor(ctx.attrs["probability"] * 2**32))
    return [threshold, _number(_keep_scale(ctx), ctx.inputs["x"][0].dtype)]


def _fill_in_dropout(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Drop elements in training; copy them otherwise."""
    (meta,) = ctx.inputs["x"]
    n = count_of(meta)
    if not ctx.attrs["training"]:
        plan.fill(plan.output("mask"), bytes_of(ctx.outputs["mask"][0]), 1)
        out = operand(plan.output("out"), ctx.outputs["out"][0])
        function = f"Identity<{compute_type(meta.dtype)}>"
        launch_elementwise(plan, function, out, [operand(plan.input("x"), meta)])
        return
    arguments = [*_tensors(ctx, plan), _key(ctx, plan), *_threshold_and_scale(ctx)]
    expression = f"dropout<{CTYPES[meta.dtype]}>"
    plan.launch(_source(), expression, blocks_for(-(-n // 4), plan), THREADS, arguments)


def _fill_in_dropout_part(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Drop the elements whose random words in the larger tensor are below the threshold."""
    (meta,) = ctx.inputs["x"]
    part, text = _part(ctx, plan)
    arguments = [*_tensors(ctx, plan), _key(ctx, plan), part, *_threshold_and_scale(ctx)]
    arguments += [plan.fault(), text]
    expression = f"dropout_part<{CTYPES[meta.dtype]}>"
    plan.launch(_source(), expression, blocks_for(count_of(meta), plan), THREADS, arguments)


def _fill_in_dropout_grad(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Scale the gradients of kept elements."""
    (meta,) = ctx.outputs["x_grad"]
    x_grad = operand(plan.output("x_grad"), meta)
    out_grad = operand(plan.input("out_grad"), ctx.inputs["out_grad"][0])
    ctype = compute_type(meta.dtype)
    if not ctx.attrs["training"]:
        launch_elementwise(plan, f"Identity<{ctype}>", x_grad, [out_grad])
        return
    mask = operand(plan.input("mask"), ctx.inputs["mask"][0])
    scale = Struct(_number(_keep_scale(ctx), meta.dtype))
    launch_elementwise(plan, f"KeepScaled<{ctype}>", x_grad, [mask, out_grad], scale)


DROPOUT: Final = Kernel(_fill_in_dropout)
DROPOUT_PART: Final = Kernel(_fill_in_dropout_part)
DROPOUT_GRAD: Final = Kernel(_fill_in_dropout_grad)
