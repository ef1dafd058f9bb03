"""constant, arange, linspace and eye: tensors described by attributes."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import BodyContext, InferContext, OpMaker, is_float, no_gradient, numel
from opwright_std.numerics.dtypes import NUMBERS, Array

_NO_GRADIENT = no_gradient("it has no input")


def _with_dtype(maker: OpMaker, default: str, *dtypes: str) -> OpMaker:
    return (
        maker.add_attr("dtype", str, "dtype of out")
        .default(default)
        .as_dtype(*dtypes)
        .dispatch_on("dtype")
    )


def constant(out: Array, *, values: tuple[float, ...], shape: tuple[int, ...], dtype: str) -> None:
    if out.dtype.kind in "iu":
        values = tuple(map(int, values))
    out[...] = np.array(values, out.dtype).reshape(shape)


def _constant_shape(ctx: InferContext) -> None:
    """The output has the given shape; each element has one value, representable in the dtype."""
    shape, values = ctx.attr("shape"), ctx.attr("values")
    if numel(shape) != len(values):
        ctx.fail(
            f"values must have {numel(shape)} numbers for shape={list(shape)}, got {len(values)}"
        )
    ctx.require_held("values", ctx.attr("dtype"))
    ctx.set_output("out", shape)


CONSTANT = _with_dtype(
    OpMaker("constant")
    .add_comment("A tensor of given elements.")
    .add_output("out", "the given shape and dtype")
    .same_dtype_as("dtype")
    .add_attr("values", list[float], "the elements in row-major order, representable in the dtype")
    .required()
    .add_attr("shape", list[int], "shape of out")
    .required()
    .at_least(0),
    "float32",
).build(infer_shape=_constant_shape, gradient=_NO_GRADIENT)


def arange(out: Array, *, start: float, stop: float, step: float, dtype: str) -> None:
    _write_steps(out, start, step)


def _write_steps(out: Array, start: float, step: float) -> None:
    if out.dtype.kind == "f":
        out[...] = np.arange(out.size) * float(step) + float(start)
    else:
        # Integer arithmetic wraps around, so every result within the range of the dtype is correct.
        bits = [int(number) % 2**64 for number in (start, step)]
        places = np.arange(out.size, dtype=np.uint64)
        out[...] = (places * np.uint64(bits[1]) + np.uint64(bits[0])).astype(out.dtype)


def _arange_shape(ctx: InferContext) -> None:
    """The output has one element per step from start up to stop, which is excluded."""
    start, stop, step = (ctx.attr(name) for name in ("start", "stop", "step"))
    if None in (start, stop, step):
        ctx.set_output("out", (None,))
        return
    if not all(map(math.isfinite, (start, stop, step))) or step == 0:
        ctx.fail(
            f"start, stop and step must be finite and step not 0, got start={start}, "
            f"stop={stop}, step={step}"
        )
    if all(number == math.floor(number) for number in (start, stop, step)):
        start, stop, step = int(start), int(stop), int(step)
        length = max(-((start - stop) // step), 0)
    else:
        length = max(math.ceil((stop - start) / step), 0)
    ctx.require(length < 2**62, f"stop must be nearer to start, got {length} elements")
    dtype = ctx.attr("dtype")
    if not is_float(dtype):
        ctx.require(
            step == math.floor(step), f"step must be an integer for an integer dtype, got {step}"
        )
    if length:
        ctx.require_held("start", dtype)
        ctx.require_held("the last element", dtype, start + (length - 1) * step)
    ctx.set_output("out", (length,))


ARANGE = _with_dtype(
    OpMaker("arange")
    .add_comment(
        "Evenly spaced numbers, out[i] = start + i * step, from start up to stop, which is "
        "excluded, as numpy.arange: computed in float64 and rounded once, 64-bit integers exactly."
    )
    .add_output("out", "[n] with n the number of steps, rounded up; of the given dtype")
    .same_dtype_as("dtype")
    .add_attr("start", float, "the first number")
    .as_shape_operand()
    .default(0.0)
    .add_attr("stop", float, "the end, which is excluded")
    .as_shape_operand()
    .required()
    .add_attr("step", float, "distance between numbers, not 0")
    .as_shape_operand()
    .default(1.0),
    "int64",
    *NUMBERS,
).build(infer_shape=_arange_shape, gradient=_NO_GRADIENT)


def linspace(out: Array, *, start: float, stop: float, num: int, dtype: str) -> None:
    _write_steps(out, start, (stop - start) / max(num - 1, 1))
    if num > 1:
        out[-1] = stop


def _linspace_shape(ctx: InferContext) -> None:
    """The output has num elements."""
    start, stop = ctx.attr("start"), ctx.attr("stop")
    ctx.require(
        math.isfinite(start) and math.isfinite(stop - start),
        f"start, stop and their difference must be finite, got start={start}, stop={stop}",
    )
    ctx.set_output("out", (ctx.attr("num"),))


LINSPACE = _with_dtype(
    OpMaker("linspace")
    .add_comment(
        "Evenly spaced numbers, out[i] = start + i * (stop - start) / (num - 1), as "
        "numpy.linspace: computed in float64 and rounded once; the last one is stop."
    )
    .add_output("out", "[num], of the given dtype")
    .same_dtype_as("dtype")
    .add_attr("start", float, "the first number")
    .required()
    .add_attr("stop", float, "the last number")
    .required()
    .add_attr("num", int, "how many numbers")
    .as_shape_operand()
    .required()
    .at_least(0),
    "float32",
    "float16",
    "bfloat16",
    "float32",
    "float64",
).build(infer_shape=_linspace_shape, gradient=_NO_GRADIENT)


def _logspace_shape(ctx: InferContext) -> None:
    """The output has num elements."""
    _linspace_shape(ctx)
    ctx.require(ctx.attr("base") > 0, f"base must be greater than 0, got {ctx.attr('base')}")


def _logspace_body(b: BodyContext) -> None:
    attrs = {name: b.attr(name) for name in ("start", "stop", "num")}
    wide = {"dtype": "float64"}
    exponents = b.emit("linspace", {}, attrs={**attrs, **wide})
    base = b.emit("fill", {}, attrs={"shape": [], "value": b.attr("base"), **wide})
    powers = b.emit("power", {"x": base, "y": exponents})
    b.emit("cast", {"x": powers}, {"out": b.output("out")}, {"dtype": b.attr("dtype")})


LOGSPACE = _with_dtype(
    OpMaker("logspace")
    .add_comment(
        "Numbers evenly spaced on a logarithmic scale, out[i] = base**(start + i * (stop - start) "
        "/ "
        "(num - 1)), as numpy.logspace: computed in float64 and rounded once."
    )
    .add_output("out", "[num], of the given dtype")
    .same_dtype_as("dtype")
    .add_attr("start", float, "the exponent of the first number")
    .required()
    .add_attr("stop", float, "the exponent of the last number")
    .required()
    .add_attr("num", int, "how many numbers")
    .as_shape_operand()
    .required()
    .at_least(0)
    .add_attr("base", float, "the base")
    .default(10.0),
    "float32",
    "float16",
    "bfloat16",
    "float32",
    "float64",
).build(infer_shape=_logspace_shape, gradient=_NO_GRADIENT, body=_logspace_body)


def eye(out: Array, *, n_rows: int, n_cols: int | None, k: int, dtype: str) -> None:
    rows, columns = out.shape
    out[...] = np.eye(rows, columns, max(-rows, min(k, columns)), dtype=bool)


def _eye_shape(ctx: InferContext) -> None:
    """The output is [n_rows, n_cols], or square without n_cols."""
    rows, columns = ctx.attr("n_rows"), ctx.attr("n_cols")
    ctx.set_output("out", (rows, rows if columns is None else columns))


EYE = _with_dtype(
    OpMaker("eye")
    .add_comment("Ones on a diagonal, zeros elsewhere: 1 where j - i = k, as numpy.eye.")
    .add_output("out", "[n_rows, n_cols], of the given dtype")
    .same_dtype_as("dtype")
    .add_attr("n_rows", int, "number of rows")
    .as_shape_operand()
    .required()
    .at_least(0)
    .add_attr("n_cols", int, "number of columns; absent: n_rows")
    .at_least(0)
    .add_attr("k", int, "the diagonal: 0 main, positive above it, negative below it")
    .default(0)
    .between(-(2**62), 2**62),
    "float32",
).build(infer_shape=_eye_shape, gradient=_NO_GRADIENT)
