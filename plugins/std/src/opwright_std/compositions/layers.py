"""Layers, composed of simpler operators to compute second gradients."""

from __future__ import annotations

import math

from opwright.errors import GradientError
from opwright.op import BodyContext, Composition, by_differentiating
from opwright_std.compositions.expression import (
    Expression,
    rank_of,
    read,
    read_wide,
    rounded_to,
)
from opwright_std.compositions.recurrent import Memory, gru_step, split


def _affine(b: BodyContext, x: str, kind: str) -> Expression:
    """Return ``x @ weight^T + bias`` for the inputs or for the state."""
    out = read(b, x).with_("matmul", read(b, f"weight_{kind}"), transpose_y=True)
    return out + read(b, f"bias_{kind}") if b.has_input(f"bias_{kind}") else out


@by_differentiating
def lstm_cell(b: BodyContext) -> dict[str, str]:
    i, f, g, o = split(_affine(b, "x", "ih") + _affine(b, "h", "hh"), 4)
    kept = f.then("sigmoid") * read(b, "c")
    cell = kept + i.then("sigmoid") * g.then("tanh")
    return {"h_out": (o.then("sigmoid") * cell.then("tanh")).name, "c_out": cell.name}


def _gru_memory(b: BodyContext) -> Memory:
    weight, bias = read(b, "weight_hh"), read(b, "bias_hh") if b.has_input("bias_hh") else None
    meta = b.meta(weight.name)
    size = -1 if meta is None else meta.shape[1]
    if size < 0:
        raise GradientError(f"{b.type}: the shape of weight_hh must be known, got {meta}")
    step = gru_step(b, weight, bias, size, b.attr("reset_after"))
    return step(_affine(b, "x", "ih"), Memory(read(b, "h")))


@by_differentiating
def gru_cell(b: BodyContext) -> dict[str, str]:
    return {"h_out": _gru_memory(b).state.name}


def gru_cell_body(b: BodyContext) -> bool:
    """Emit a GRU step that resets the state before the product; return False if not requested."""
    if b.attr("reset_after"):
        return False
    memory = _gru_memory(b)
    b.set_output("h_out", memory.state.name)
    if memory.gates is not None:
        b.set_output("gates", memory.gates.name)
    return True


@by_differentiating
def cumprod(b: BodyContext) -> str:
    """Return the cumulative product, computed in log2(length) steps without a division."""
    x, rank = read(b, "x"), rank_of(b, "x")
    if rank == 0:
        return (x.filled(1.0) + x * 0.0 if b.attr("exclusive") else x).name
    axis = b.attr("axis") % rank
    length = _length_of(b, x, axis)
    out = x.then("flip", axis=[axis]) if b.attr("reverse") else x
    if b.attr("exclusive"):
        out = _shifted(out, 1, axis, rank, length, 1.0)
    step = 1
    while step < length:
        out = out * _shifted(out, step, axis, rank, length, 1.0)
        step *= 2
    return (out.then("flip", axis=[axis]) if b.attr("reverse") else out).name


def _length_of(b: BodyContext, x: Expression, axis: int) -> int:
    meta = b.meta(x.name)
    length = meta.shape[axis] if meta else -1
    if length < 0:
        raise GradientError(
            f"{b.type}: its gradient depends on the length of axis {axis} of x, got an unknown "
            "one; declare it"
        )
    return length


def _shifted(
    x: Expression, step: int, axis: int, rank: int, length: int, value: float
) -> Expression:
    """Shift elements along an axis by `step`, and fill the gap in front with a value."""
    paddings = [0] * (2 * rank)
    paddings[2 * axis] = step
    padded = x.then("pad", paddings=paddings, value=value)
    return padded.then("slice", axes=[axis], starts=[0], ends=[length], steps=[1])


def _write_logcumsumexp_grad(b: BodyContext) -> None:
    """Emit exp(x - out) * t, where t[i] = out_grad[i] + exp(out[i] - out[i + 1]) * t[i + 1].

    The recurrence takes log2(length) steps. It is linear in out_grad, and its differences are at
    most 0. 16-bit floats are computed in float32.
    """
    x, out, total = (read_wide(b, slot) for slot in ("x", "out", "out_grad"))
    is_none = x.compare("equal", -math.inf)
    share = is_none.choose(x.filled(-math.inf), x - out).then("exp")
    rank = rank_of(b, "x")
    if rank:
        axis = b.attr("axis") % rank
        length = _length_of(b, x, axis)
        is_flipped = not b.attr("reverse")
        if is_flipped:
            out, total = (each.then("flip", axis=[axis]) for each in (out, total))
        before = _shifted(out, 1, axis, rank, length, math.inf)
        difference = out - before
        # Equal infinities have difference 0.
        finite = out.then("isfinite").choose(difference, difference.filled(0.0))
        decay = out.with_("equal", before).choose(finite, difference).then("exp")
        step = 1
        while step < length:
            total = total + decay * _shifted(total, step, axis, rank, length, 0.0)
            decay = decay * _shifted(decay, step, axis, rank, length, 0.0)
            step *= 2
        total = total.then("flip", axis=[axis]) if is_flipped else total
    x_grad = rounded_to(b, total * share)
    b.set_output("x_grad", x_grad.name)


LOGCUMSUMEXP = Composition(_write_logcumsumexp_grad)
