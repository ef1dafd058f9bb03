"""Attention composed of simpler operators, for second gradients and rare attributes."""

from __future__ import annotations

import math

from opwright.errors import GradientError
from opwright.op import BodyContext, by_differentiating
from opwright_std.compositions.expression import Expression, dtype_of, rank_of, read
from opwright_std.numerics.dtypes import HALVES


def _repeated(b: BodyContext, slot: str) -> Expression:
    """Repeat the heads of keys or values to match the heads of q."""
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
            f"{b.type}: its gradient depends on the number of heads, got {heads} in q and {shared} "
            "in k; declare axis -3 of q, k and v"
        )
    repeats = [1] * (rank + 1)
    repeats[rank - 2] = heads // shared
    spread = held.then("unsqueeze", axis=[rank - 2]).then("tile", repeats=repeats)
    return spread.then("flatten", start_axis=rank - 3, stop_axis=rank - 2)


def _seen(b: BodyContext, x: Expression) -> Expression:
    """Zero the keys or values that the mask hides from all queries, since they may be NaN."""
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


def in_window(b: BodyContext) -> Expression | None:
    """Emit the causal and window mask, [queries, keys]; return None if no key is masked."""
    before, behind = b.attr("window") or (-1, -1)
    if b.attr("causal"):
        behind = 0
    if before < 0 and behind < 0:
        return None
    queries, keys = (
        meta.shape[-2] if (meta := b.meta(b.input(slot) or "")) else -1 for slot in ("q", "k")
    )
    if min(queries, keys) < 0:
        raise GradientError(
            f"{b.type}: the causal or window mask depends on the numbers of queries and keys, got "
            f"{queries} and "
            f"{keys}; declare axis -2 of q and k"
        )
    first = keys - queries if b.attr("from_end") else 0
    attrs = {"start": first, "stop": first + queries, "dtype": "int64"}
    places = Expression(b, b.emit("arange", {}, attrs=attrs)).then("unsqueeze", axis=[1])
    attrs = {"start": 0, "stop": keys, "dtype": "int64"}
    away = Expression(b, b.emit("arange", {}, attrs=attrs)) - places
    seen = []
    if before >= 0:
        seen.append(away.compare("greater_equal", -before))
    if behind >= 0:
        seen.append(away.compare("less_equal", behind))
    return seen[0] if len(seen) == 1 else seen[0].with_("logical_and", seen[1])


def attention_by_mask(b: BodyContext) -> bool:
    """Emit attention or its gradient with window and from_end as a mask; False if not needed."""
    if b.attr("softcap") or not (b.attr("window") or b.attr("from_end")):
        return False
    mask = None if not b.has_input("mask") else read(b, "mask")
    window = in_window(b)
    if mask is None or window is None:
        mask = window or mask
    elif (meta := b.meta(mask.name)) is not None and meta.dtype == "bool":
        mask = mask.with_("logical_and", window)
    else:
        lowest = Expression(b, b.emit("fill_like", {"x": mask.name}, attrs={"value": -math.inf}))
        mask = window.choose(mask, lowest)
    inputs = {slot.name: b.inputs(slot.name) for slot in b.proto.inputs}
    outputs = {slot.name: b.outputs(slot.name) for slot in b.proto.outputs}
    attrs = {**b.attrs, "causal": False, "window": [], "from_end": False}
    inputs["mask"] = [] if mask is None else [mask.name]
    b.emit_multi(b.type, inputs, {slot: names for slot, names in outputs.items() if names}, attrs)
    return True


def _factor(b: BodyContext) -> float:
    factor = b.attr("scale")
    if factor is None:
        meta = b.meta(b.input("q") or "")
        size = meta.shape[-1] if meta else -1
        if size < 0:
            raise GradientError(
                f"{b.type}: its gradient depends on the last axis of q, got an unknown one; "
                "declare it, or give scale"
            )
        factor = 1 / math.sqrt(max(size, 1))
    return float(factor)


def _is_widened(b: BodyContext) -> bool:
    """Return whether 16-bit scores use float32, since bfloat16 has a spacing of 0.25 near 50."""
    return dtype_of(b, "q") in HALVES


def _masked(
    b: BodyContext, scores: Expression, lowest: float
) -> tuple[Expression, list[Expression]]:
    """Return scores plus the float mask, and the bool masks of visible keys."""
    allowed = []
    if b.has_input("mask"):
        mask = read(b, "mask")
        meta = b.meta(mask.name)
        if meta is not None and meta.dtype == "bool":
            allowed.append(mask)
        else:
            if _is_widened(b):
                mask = mask.then("cast", dtype="float32")
            scores = scores + mask.then("clip", min=lowest)
            allowed.append(mask.compare("greater", lowest))
    if b.attr("window") or b.attr("from_end"):
        if window := in_window(b):
            allowed.append(window)
    elif b.attr("causal"):
        allowed.append(scores.filled(1.0).then("tril").compare("greater", 0.0))
    return scores, allowed


def attention(b: BodyContext, dropped: float = 0.0, outputs: bool = False) -> str:
    """Emit attention as matrix products, with optional dropout of the weights.

    With `outputs`, the outputs of the operator are also emitted. Scores of 16-bit floats are
    computed in float32.
    """
    q, k, v = read(b, "q"), _repeated(b, "k"), _repeated(b, "v")
    if b.has_input("mask"):
        k, v = _seen(b, k), _seen(b, v)
    if _is_widened(b):
        q, k = (x.then("cast", dtype="float32") for x in (q, k))
    scores = q.with_("matmul", k, transpose_y=True) * _factor(b)
    if cap := float(b.attr("softcap")):
        scores = (scores / cap).then("tanh") * cap
    # The lowest score is finite, since a row may be fully masked.
    lowest = -6e4 if dtype_of(b, "q") == "float16" and not _is_widened(b) else -1e30
    scores, allowed = _masked(b, scores, lowest)
    for mask in allowed:
        scores = mask.choose(scores, scores.filled(lowest))
    weights = scores.then("softmax", axis=-1)
    for mask in allowed:
        weights = mask.choose(weights, weights.filled(0.0))
    if dropped:
        weights = weights.then("dropout", probability=dropped, training=True)
    if _is_widened(b):
        weights = weights.then("cast", dtype=dtype_of(b, "q"))
    out = weights.with_("matmul", v).name
    if outputs:
        b.set_output("out", out)
        for mask in allowed:
            scores = mask.choose(scores, scores.filled(-math.inf))
        if b.has_output("log_sum_exp"):
            b.set_output("log_sum_exp", scores.then("logsumexp", axis=[-1]).name)
    return out


def attention_body(b: BodyContext) -> bool:
    """Emit attention with attributes that kernels need not support."""
    if attention_by_mask(b):
        return True
    if not b.attr("softcap"):
        return False
    attention(b, outputs=True)
    return True


def _attention_grad(b: BodyContext) -> None:
    if not attention_by_mask(b):
        _ATTENTION(b)


_ATTENTION = by_differentiating(attention)
ATTENTION = _attention_grad
