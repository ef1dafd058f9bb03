"""Losses that return one value per row or element."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from torch_operators.convert import Function, require

Tensor = torch.Tensor


def _ids(label: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return class ids without their optional axis of length 1."""
    return label.squeeze(axis).long() if label.dim() == x.dim() else label.long()


def _rows(loss: Tensor, label: Tensor) -> Tensor:
    """Return a loss in the shape of its class ids."""
    return loss.reshape(label.shape)


def _cross_entropy(x: Tensor, label: Tensor, soft_label: bool, epsilon: float) -> Tensor:
    logs = torch.log(torch.clamp_min(x, epsilon))
    if soft_label:
        return -(label * logs).sum(-1, keepdim=True)
    return _rows(-torch.gather(logs, -1, _ids(label, x, -1)[..., None]), label)


def _softmax_with_cross_entropy(
    logits: Tensor, label: Tensor, soft_label: bool, ignore_index: int, axis: int
) -> Any:
    logs = torch.log_softmax(logits, axis)
    if soft_label:
        return -(label * logs).sum(axis, keepdim=True), logs.exp()
    ids = _ids(label, logits, axis)
    kept = ids != ignore_index
    picked = torch.gather(logs, axis, torch.where(kept, ids, 0).unsqueeze(axis))
    loss = torch.where(kept.unsqueeze(axis), -picked, torch.zeros_like(picked))
    return _rows(loss, label), logs.exp()


def _weighted_cross_entropy(
    logits: Tensor,
    label: Tensor,
    soft_label: bool,
    label_smoothing: float,
    ignore_index: int,
    axis: int,
    reduction: str,
    weight: Tensor | None = None,
) -> Tensor:
    options: dict[str, Any] = {"label_smoothing": label_smoothing, "reduction": reduction}
    classes_second = logits.movedim(axis, 1 if logits.dim() > 1 else 0)
    if soft_label:
        target = label.movedim(axis, 1 if logits.dim() > 1 else 0)
        loss = F.cross_entropy(classes_second, target, weight, **options)
        return loss.unsqueeze(axis) if reduction == "none" else loss
    ids = _ids(label, logits, axis)
    loss = F.cross_entropy(classes_second, ids, weight, ignore_index=ignore_index, **options)
    return _rows(loss, label) if reduction == "none" else loss


def _weighted_nll(
    x: Tensor,
    label: Tensor,
    ignore_index: int,
    axis: int,
    reduction: str,
    weight: Tensor | None = None,
) -> Tensor:
    require(x.numel() > 0, "batches without elements")
    rows = x.movedim(axis, 1 if x.dim() > 1 else 0)
    loss = F.nll_loss(
        rows, _ids(label, x, axis), weight, ignore_index=ignore_index, reduction=reduction
    )
    return _rows(loss, label) if reduction == "none" else loss


def _weighted_sigmoid(
    x: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    positive_weight: Tensor | None = None,
) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        x, label, weight, reduction="none", pos_weight=positive_weight
    )


def _binary(x: Tensor, label: Tensor, weight: Tensor | None = None) -> Tensor:
    require(bool(((x >= 0) & (x <= 1)).all()), "probabilities that are none")
    out = F.binary_cross_entropy(x, label, reduction="none")
    return out if weight is None else out * weight  # PyTorch has no gradient of the weight


def _nll(x: Tensor, label: Tensor, ignore_index: int, axis: int) -> Tensor:
    ids = _ids(label, x, axis)
    kept = ids != ignore_index
    picked = torch.gather(x, axis, torch.where(kept, ids, 0).unsqueeze(axis))
    return _rows(torch.where(kept.unsqueeze(axis), -picked, torch.zeros_like(picked)), label)


def _cosine_embedding_loss(x: Tensor, y: Tensor, label: Tensor, margin: float) -> Tensor:
    norms = [torch.linalg.vector_norm(one, dim=-1) for one in (x, y)]
    require(all(bool((norm > 1e-3).all()) for norm in norms), "vectors of almost no length")
    # The loss function of PyTorch adds 1e-12 to the squares.
    cosine = F.cosine_similarity(x, y, -1)
    apart = torch.where(label == -1, torch.clamp_min(cosine - margin, 0), 0.0)
    return torch.where(label == 1, 1 - cosine, apart)


def _ctc_loss(
    x: Tensor,
    label: Tensor,
    blank: int,
    zero_infinity: bool,
    lengths: Tensor | None = None,
    label_lengths: Tensor | None = None,
) -> Tensor:
    n, steps, _ = x.shape
    require(not zero_infinity, "a gradient of 0 beside its own")
    lengths = torch.full((n,), steps) if lengths is None else lengths.long()
    counts = torch.full((n,), label.shape[1]) if label_lengths is None else label_lengths.long()
    steps_first, ids = x.transpose(0, 1), label.long()
    out = F.ctc_loss(steps_first, ids, lengths, counts, blank, "none", zero_infinity)
    require(bool(torch.isfinite(out).all()), "gradients of losses that are infinite")
    # The gradient in PyTorch includes the gradient of log_softmax, so it exceeds the gradient of x
    # by exp(x).
    inside = (torch.arange(steps) < lengths[:, None])[..., None]
    excess = torch.where(inside, torch.exp(x), 0).sum((1, 2))
    return out - (excess - excess.detach())


def _label_smooth(x: Tensor, epsilon: float, prior: Tensor | None = None) -> Tensor:
    share = 1 / x.shape[-1] if prior is None else prior
    return (1 - epsilon) * x + epsilon * share


def _kl_div(x: Tensor, label: Tensor, log_label: bool) -> Tensor:
    return F.kl_div(x, label, reduction="none", log_target=log_label)


def _rank_loss(x: Tensor, y: Tensor, label: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x - y, label, reduction="none")


def _hinge(x: Tensor, label: Tensor) -> Tensor:
    return torch.clamp_min(1 - label * x, 0)


def _log_loss(x: Tensor, label: Tensor, epsilon: float) -> Tensor:
    return -label * torch.log(x + epsilon) - (1 - label) * torch.log(1 - x + epsilon)


def _margin_rank_loss(x: Tensor, y: Tensor, label: Tensor, margin: float) -> Tensor:
    return F.margin_ranking_loss(x, y, label, margin, reduction="none")


def _logits(
    x: Tensor,
    weight: Tensor,
    ids: Tensor,
    bias: Tensor | None,
    log_probability: Tensor | None,
) -> Tensor:
    """Return the scores of some classes for all rows, [n, ids]."""
    logits = F.linear(x, weight, bias)[:, ids.long()]
    return logits if log_probability is None else logits - log_probability


def _sampled(loss: Function) -> Function:
    """Return an operator that passes label logits, sample logits and accidental hits to a loss."""

    def run(
        x: Tensor,
        weight: Tensor,
        label: Tensor,
        samples: Tensor,
        remove_accidental_hits: bool,
        bias: Tensor | None = None,
        label_log_probability: Tensor | None = None,
        samples_log_probability: Tensor | None = None,
    ) -> Tensor:
        true = _logits(x, weight, label, bias, label_log_probability).diagonal()
        others = _logits(x, weight, samples, bias, samples_log_probability)
        hits = (label[:, None] == samples) & remove_accidental_hits
        return loss(true, others, hits)

    return run


def _nce(true: Tensor, others: Tensor, hits: Tensor) -> Tensor:
    one = F.binary_cross_entropy_with_logits
    each = one(others, torch.zeros_like(others), reduction="none")
    own = one(true, torch.ones_like(true), reduction="none")
    return own + torch.where(hits, torch.zeros_like(each), each).sum(1)


def _sampled_softmax(true: Tensor, others: Tensor, hits: Tensor) -> Tensor:
    held = torch.where(hits, torch.full_like(others, -torch.inf), others)
    logits = torch.cat([true[:, None], held], 1)
    return F.cross_entropy(logits, torch.zeros(len(true), dtype=torch.int64), reduction="none")


OPERATORS: dict[str, Function] = {
    "cross_entropy": _cross_entropy,
    "softmax_with_cross_entropy": _softmax_with_cross_entropy,
    "sigmoid_cross_entropy_with_logits": lambda x, label: F.binary_cross_entropy_with_logits(
        x, label, reduction="none"
    ),
    "nll": _nll,
    "weighted_cross_entropy": _weighted_cross_entropy,
    "weighted_nll": _weighted_nll,
    "weighted_sigmoid_cross_entropy": _weighted_sigmoid,
    "binary_cross_entropy": _binary,
    "nce": _sampled(_nce),
    "sampled_softmax": _sampled(_sampled_softmax),
    "cosine_embedding_loss": _cosine_embedding_loss,
    "ctc_loss": _ctc_loss,
    "label_smooth": _label_smooth,
    "mse": lambda x, label: F.mse_loss(x, label, reduction="none"),
    "l1": lambda x, label: F.l1_loss(x, label, reduction="none"),
    "smooth_l1": lambda x, label, beta: F.smooth_l1_loss(x, label, reduction="none", beta=beta),
    "huber": lambda x, label, delta: F.huber_loss(x, label, reduction="none", delta=delta),
    "hinge": _hinge,
    "log_loss": _log_loss,
    "kl_div": _kl_div,
    "margin_rank_loss": _margin_rank_loss,
    "rank_loss": _rank_loss,
}
