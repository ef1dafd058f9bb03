"""Adapters for losses, their weights and reductions."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    cast,
    dtype_of,
    floating,
    in_float32,
    ops,
    promoted,
    rank_of,
    shape_of,
)
from .networks import cosine_similarity, pairwise_distance


def reduction_of(given: dict[str, Any]) -> str:
    """Return the reduction of the losses; `size_average` and `reduce` are its older names."""
    mean, reduce = given.get("size_average"), given.get("reduce")
    if mean is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if mean is False else "mean"
    return str(given.get("reduction", "mean"))


def reduced(losses: Any, given: dict[str, Any]) -> Any:
    kind = reduction_of(given)
    return losses if kind == "none" else getattr(ops, kind)(losses)


def same_shapes(*values: Any) -> list[Any]:
    shape = list(torch.broadcast_shapes(*map(shape_of, values)))
    return [v if shape_of(v) == shape else ops.expand(v, shape=shape) for v in values]


def pointwise(op: str, **renamed: str) -> Adapter:
    """Return an adapter for a loss of two tensors, which are broadcast."""

    def apply(x: Any, target: Any, **given: Any) -> Any:
        attrs = {ours: given[theirs] for theirs, ours in renamed.items() if theirs in given}
        x, target = same_shapes(*promoted(x, target))
        return reduced(getattr(ops, op)(x, target, **attrs), given)

    return apply


def smooth_l1(x: Any, target: Any, *, beta: float = 1.0, **given: Any) -> Any:
    return pointwise("smooth_l1", beta="beta")(x, target, beta=float(beta), **given)


def huber(x: Any, target: Any, *, delta: float = 1.0, weight: Any = None, **given: Any) -> Any:
    x, target = same_shapes(*promoted(x, target))
    return reduced(ops.huber(x, target, delta=float(delta)), given)


def kl_div(x: Any, target: Any, *, log_target: bool = False, **given: Any) -> Any:
    x, target = same_shapes(*promoted(x, target))
    losses = ops.kl_div(x, target, log_label=log_target)
    if given.get("reduction") == "batchmean":
        return ops.scale(ops.sum(losses), scale=1 / shape_of(x)[0])
    return reduced(losses, given)


def mse(x: Any, target: Any, *, weight: Any = None, **given: Any) -> Any:
    x, target = same_shapes(*promoted(x, target))
    losses = ops.mse(x, target)
    if weight is None:
        return reduced(losses, given)
    losses = ops.multiply(losses, weight)
    if reduction_of(given) == "mean":
        return ops.divide(ops.sum(losses), ops.sum(weight))
    return reduced(losses, given)


def rows(x: Any, given: dict[str, Any]) -> dict[str, Any]:
    ignored = given.get("ignore_index", -100)
    axis = min(rank_of(x) - 1, 1)
    return {"axis": axis, "reduction": reduction_of(given), "ignore_index": ignored}


def with_weight(weight: Any) -> dict[str, Any]:
    return {} if weight is None else {"weight": weight}


def nll(x: Any, target: Any, weight: Any = None, **given: Any) -> Any:
    return ops.weighted_nll(x, target, **with_weight(weight), **rows(x, given))


def cross_entropy(
    x: Any, target: Any, weight: Any = None, *, label_smoothing: float = 0.0, **given: Any
) -> Any:
    attrs = rows(x, given)
    is_soft = shape_of(x) == shape_of(target)
    out = ops.weighted_cross_entropy(
        x,
        target,
        **with_weight(weight),
        soft_label=is_soft,
        label_smoothing=float(label_smoothing),
        **attrs,
    )
    is_wide = is_soft and attrs["reduction"] == "none"
    return ops.squeeze(out, axis=[attrs["axis"]]) if is_wide else out


def binary_cross_entropy(x: Any, target: Any, weight: Any = None, **given: Any) -> Any:
    if weight is not None:
        weight = ops.expand(weight, shape=shape_of(x))
    return reduced(ops.binary_cross_entropy(x, target, **with_weight(weight)), given)


def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, *, pos_weight: Any = None, **given: Any
) -> Any:
    more = {} if pos_weight is None else {"positive_weight": pos_weight}
    losses = ops.weighted_sigmoid_cross_entropy(x, target, **with_weight(weight), **more)
    return reduced(losses, given)


def soft_margin(x: Any, target: Any, **given: Any) -> Any:
    x, target = promoted(x, target)
    return reduced(ops.softplus(ops.negative(ops.multiply(x, target))), given)


def hinge_embedding(x: Any, target: Any, *, margin: float = 1.0, **given: Any) -> Any:
    x, target = same_shapes(*promoted(x, target))
    far = ops.relu(ops.scale(x, scale=-1.0, bias=float(margin)))
    alike = ops.where(ops.equal(target, -1), 0.0, x)
    different = ops.where(ops.equal(target, 1), 0.0, far)
    return reduced(ops.add(different, alike), given)


def margin_ranking(x: Any, y: Any, target: Any, *, margin: float = 0.0, **given: Any) -> Any:
    x, y, target = promoted(x, y, target)
    distance = ops.multiply(ops.negative(target), ops.subtract(x, y))
    return reduced(ops.relu(ops.add(floating(distance), float(margin))), given)


def cosine_embedding(x: Any, y: Any, target: Any, *, margin: float = 0.0, **given: Any) -> Any:
    cosine = cosine_similarity(x, y, dim=rank_of(x) - 1, eps=1e-12)
    alike = ops.scale(cosine, scale=-1.0, bias=1.0)
    different = ops.relu(ops.scale(cosine, bias=-float(margin)))
    losses = ops.where(
        ops.equal(target, 1), alike, ops.where(ops.equal(target, -1), different, 0.0)
    )
    return reduced(losses, given)


def multi_margin(
    x: Any, target: Any, *, p: int = 1, margin: float = 1.0, weight: Any = None, **given: Any
) -> Any:
    shape, target_shape = shape_of(x) or [1], shape_of(target)
    x = ops.reshape(x, shape=[-1, shape[-1]])
    target = ops.reshape(target, shape=[-1, 1])
    own = ops.take_along_axis(x, target, axis=1)
    terms = ops.relu(ops.scale(ops.subtract(x, own), bias=float(margin)))
    terms = ops.square(terms) if p == 2 else terms
    if weight is not None:
        terms = ops.multiply(terms, ops.gather(weight, target))
    is_own = ops.one_hot(ops.reshape(target, shape=[-1]), depth=shape[-1], dtype="bool")
    losses = ops.mean(ops.where(is_own, 0.0, terms), axis=[1])
    losses = ops.reshape(losses, shape=target_shape)
    return reduced(losses, given)


def multilabel_soft_margin(x: Any, target: Any, *, weight: Any = None, **given: Any) -> Any:
    return reduced(ops.multilabel_soft_margin_loss(x, target, **with_weight(weight)), given)


def multilabel_margin(x: Any, target: Any, **given: Any) -> Any:
    x, target = (v if rank_of(v) else ops.reshape(v, shape=[1]) for v in (x, target))
    return reduced(ops.multilabel_margin_loss(x, target), given)


def triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    distance_function: Any = None,
    **given: Any,
) -> Any:
    if distance_function not in (None, torch.nn.functional.pairwise_distance):
        raise UnmappedError("a function of PyTorch")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    losses = ops.relu(ops.scale(ops.subtract(near, far), bias=float(margin)))
    return reduced(losses, given)


def gaussian_nll(
    x: Any, target: Any, var: Any, *, full: bool = False, eps: float = 1e-6, **given: Any
) -> Any:
    if isinstance(var, (int, float)):
        var = ops.fill_like(x, value=float(var))
    if rank_of(var) and shape_of(var) != shape_of(x) and rank_of(var) < rank_of(x):
        var = ops.unsqueeze(var, axis=[rank_of(var)])
    var = ops.clip(var, min=eps)
    square = ops.square(ops.subtract(x, target))
    losses = ops.scale(ops.add(ops.log(var), ops.divide(square, var)), scale=0.5)
    if full:
        losses = ops.scale(losses, bias=0.5 * math.log(2 * math.pi))
    return reduced(losses, given)


def poisson_nll(
    x: Any, target: Any, log_input: bool = True, full: bool = False, **given: Any
) -> Any:
    eps = given.get("eps", 1e-8)
    x, target = promoted(x, target, floats=True)
    if log_input:
        losses = ops.subtract(ops.exp(x), ops.multiply(target, x))
    else:
        losses = ops.subtract(x, ops.multiply(target, ops.log(ops.scale(x, bias=eps))))
    if full:
        stirling = ops.add(
            ops.subtract(ops.multiply(target, ops.log(target)), target),
            ops.scale(ops.log(ops.scale(target, scale=2 * math.pi)), scale=0.5),
        )
        losses = ops.add(losses, ops.where(ops.less_equal(target, 1), 0.0, stirling))
    return reduced(losses, given)


def ctc(
    x: Any, target: Any, lengths: Any, target_lengths: Any, blank: int = 0, **given: Any
) -> Any:
    single = rank_of(x) == 2
    if single:
        x = ops.unsqueeze(x, axis=[1])
    counts = [torch.as_tensor(v).reshape(-1).to(torch.int64) for v in (lengths, target_lengths)]
    n = shape_of(x)[1]
    if rank_of(target) == 1:
        parts = target.split(counts[1].tolist()) if not single else (target,)
        longest = max(int(c) for c in counts[1])
        padded = [ops.pad(p, paddings=[0, longest - len(p)]) for p in parts]
        target = ops.stack(padded, axis=0)
    zero = given.get("zero_infinity", False)
    batch_first = ops.transpose(x, axes=[1, 0, 2])
    losses = ops.ctc_loss(batch_first, target, *counts, blank=blank, zero_infinity=zero)
    losses = ops.reshape(losses, shape=[n])
    if reduction_of(given) == "mean":
        return ops.mean(ops.divide(losses, cast(ops.maximum(counts[1], 1), dtype_of(losses))))
    losses = ops.reshape(losses, shape=[]) if single else losses
    return reduced(losses, given)


_LOSSES: dict[str, Adapter] = {
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": in_float32(binary_cross_entropy_with_logits),
    "cosine_embedding_loss": cosine_embedding,
    "cross_entropy": cross_entropy,
    "ctc_loss": ctc,
    "gaussian_nll_loss": gaussian_nll,
    "hinge_embedding_loss": in_float32(hinge_embedding),
    "huber_loss": huber,
    "kl_div": kl_div,
    "l1_loss": pointwise("l1"),
    "margin_ranking_loss": margin_ranking,
    "mse_loss": mse,
    "multi_margin_loss": multi_margin,
    "multilabel_margin_loss": multilabel_margin,
    "multilabel_soft_margin_loss": multilabel_soft_margin,
    "nll_loss": nll,
    "poisson_nll_loss": poisson_nll,
    "smooth_l1_loss": smooth_l1,
    "soft_margin_loss": soft_margin,
    "triplet_margin_loss": triplet,
    "triplet_margin_with_distance_loss": triplet,
}

ADAPTERS: Final = {f"nn.functional.{name}": adapter for name, adapter in _LOSSES.items()}
