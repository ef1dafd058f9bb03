"""Layers as simpler operators, from which the gradients of their gradients follow."""

from __future__ import annotations

import math

from opwright.errors import GradientError
from opwright.op import BodyContext, Composition, by_differentiating
from opwright_std.compositions.expression import Expression, rank_of, read


def _affine(b: BodyContext, x: str, kind: str) -> Expression:
    """``x @ weight^T + bias`` of the inputs or of the state."""
    out = read(b, x).with_("matmul", read(b, f"weight_{kind}"), transpose_y=True)
    return out + read(b, f"bias_{kind}") if b.has_input(f"bias_{kind}") else out


def _parts(b: BodyContext, x: Expression, count: int) -> list[Expression]:
    names = b.emit_multi("split", {"x": x.name}, {"out": count}, {"axis": 1, "num": count})["out"]
    return [Expression(b, name) for name in names]


def _lstm_cell(b: BodyContext) -> dict[str, str]:
    i, f, g, o = _parts(b, _affine(b, "x", "ih") + _affine(b, "h", "hh"), 4)
    kept = f.then("sigmoid") * read(b, "c")
    cell = kept + i.then("sigmoid") * g.then("tanh")
    return {"h_out": (o.then("sigmoid") * cell.then("tanh")).name, "c_out": cell.name}


def _gru_cell(b: BodyContext) -> dict[str, str]:
    inputs, states = _parts(b, _affine(b, "x", "ih"), 3), _parts(b, _affine(b, "h", "hh"), 3)
    r, z = ((inputs[k] + states[k]).then("sigmoid") for k in (0, 1))
    n = (inputs[2] + r * states[2]).then("tanh")
    return {"h_out": ((1.0 - z) * n + z * read(b, "h")).name}


def _repeated(b: BodyContext, slot: str) -> Expression:
    """The keys or values with as many heads as q has."""
    held, rank = read(b, slot), rank_of(b, "q")
    if rank == 2:
        return held
    heads, shared = (
        meta.shape[-3] if (meta := b.meta(b.input(name) or "")) else -1 for name in ("q", slot)
    )
    if heads == shared:
        return held
    if min(heads, shared) <= 0:
        raise GradientError(
            f"{b.type}: its gradient depends on the number of heads, got {heads} and {shared}; "
            "declare axis -3 of q, k and v"
        )
    repeats = [1] * (rank + 1)
    repeats[rank - 2] = heads // shared
    spread = held.then("unsqueeze", axis=[rank - 2]).then("tile", repeats=repeats)
    return spread.then("flatten", start_axis=rank - 3, stop_axis=rank - 2)


def _seen(b: BodyContext, x: Expression) -> Expression:
    """Keys or values with zeros for those that the mask hides from all queries: they may be NaN."""
    mask, rank = read(b, "mask"), rank_of(b, "mask")
    if rank == 0:
        return x
    meta = b.meta(mask.name)
    if meta is None or meta.dtype != "bool":
        mask = mask.compare("greater", -math.inf)
    if rank > 1:
        mask = mask.reduce("any", [-2])
        mask = mask.then("transpose", axes=[*range(rank - 2), rank - 1, rank - 2])
    else:
        mask = mask.then("unsqueeze", axis=[1])
    return mask.choose(x, x.filled(0.0))


def attention(b: BodyContext, dropped: float = 0.0) -> str:
    """Attention as products, of whose weights a share may be dropped."""
    q, k, v = read(b, "q"), _repeated(b, "k"), _repeated(b, "v")
    meta = b.meta(b.input("q") or "")
    size, dtype = (meta.shape[-1], meta.dtype) if meta else (-1, "float32")
    factor = b.attr("scale")
    if factor is None:
        if size < 0:
            raise GradientError(
                f"{b.type}: its gradient depends on the last axis of q, got an unknown one; "
                "declare it, or give scale"
            )
        factor = 1 / math.sqrt(max(size, 1))
    if b.has_input("mask"):
        k, v = _seen(b, k), _seen(b, v)
    scores = q.with_("matmul", k, transpose_y=True) * float(factor)
    lowest = -6e4 if dtype == "float16" else -1e30  # finite: a row may be wholly masked
    allowed = []
    if b.has_input("mask"):
        mask = read(b, "mask")
        mask_meta = b.meta(mask.name)
        if mask_meta is not None and mask_meta.dtype == "bool":
            allowed.append(mask)
        else:
            scores = scores + mask.then("clip", min=lowest)
            allowed.append(mask.compare("greater", lowest))
    if b.attr("causal"):
        allowed.append(scores.filled(1.0).then("tril").compare("greater", 0.0))
    for mask in allowed:
        scores = mask.choose(scores, scores.filled(lowest))
    weights = scores.then("softmax", axis=-1)
    for mask in allowed:
        weights = mask.choose(weights, weights.filled(0.0))
    if dropped:
        weights = weights.then("dropout", probability=dropped, training=True)
    return weights.with_("matmul", v).name


def _cumprod(b: BodyContext) -> str:
    """The running product in as many steps as the length has bits, without a division."""
    x, rank = read(b, "x"), rank_of(b, "x")
    if rank == 0:
        return (x.filled(1.0) + x * 0.0 if b.attr("exclusive") else x).name
    axis = b.attr("axis") % rank
    meta = b.meta(x.name)
    length = meta.shape[axis] if meta else -1
    if length < 0:
        raise GradientError(
            f"{b.type}: its gradient depends on the length of axis {axis} of x, got an unknown "
            "one; declare it"
        )
    out = x.then("flip", axis=[axis]) if b.attr("reverse") else x
    if b.attr("exclusive"):
        out = _shifted(out, 1, axis, rank, length)
    step = 1
    while step < length:
        out = out * _shifted(out, step, axis, rank, length)
        step *= 2
    return (out.then("flip", axis=[axis]) if b.attr("reverse") else out).name


def _shifted(x: Expression, step: int, axis: int, rank: int, length: int) -> Expression:
    """Elements moved along an axis, with ones in the places of those before the first."""
    paddings = [0] * (2 * rank)
    paddings[2 * axis] = step
    padded = x.then("pad", paddings=paddings, value=1.0)
    return padded.then("slice", axes=[axis], starts=[0], ends=[length], steps=[1])


def _write_logcumsumexp_grad(b: BodyContext) -> None:
    """Write e**x times the sum behind each place of out_grad / e**out, through logarithms.

    They exist of positive numbers: those of out_grad that are not are added up apart.
    """
    x, out, grad = (read(b, slot) for slot in ("x", "out", "out_grad"))
    attrs = {"axis": b.attr("axis"), "reverse": not b.attr("reverse")}
    parts = []
    for part in (grad, -grad):
        is_positive = part.compare("greater", 0.0)
        logs = is_positive.choose(part, part.filled(1.0)).then("log") - out
        logs = is_positive.choose(logs, part.filled(-math.inf))
        parts.append((logs.then("logcumsumexp", **attrs) + x).then("exp"))
    b.emit("subtract", {"x": parts[0].name, "y": parts[1].name}, {"out": b.outputs("x_grad")})


LSTM_CELL = by_differentiating(_lstm_cell)
GRU_CELL = by_differentiating(_gru_cell)
ATTENTION = by_differentiating(attention)
CUMPROD = by_differentiating(_cumprod)
LOGCUMSUMEXP = Composition(_write_logcumsumexp_grad)
