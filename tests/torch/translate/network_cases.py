"""PyTorch network functions with inputs: products, convolutions, norms, losses, pooling."""

from __future__ import annotations

from typing import Any, Final

import torch
from row_cases import MASK, PICTURE, POSITIVE, A, B, Case, drawn, whole
from torch.nn import functional as fn

LINE, IMAGE, VOLUME = drawn(2, 4, 9), drawn(2, 4, 7, 6), drawn(2, 4, 5, 4, 6)
Q, K, V = (drawn(2, 3, 5, 4, seed=seed) for seed in range(3))
SCORES, IDS = drawn(6, 5), whole(6)
IDS_WITH_HOLES = torch.where(torch.arange(6) % 3 == 1, -100, IDS)
SCALE, SHIFT = drawn(4, seed=5), drawn(4, seed=6)
MEAN = drawn(4, seed=7).detach()
VARIANCE = (drawn(4, seed=8).detach().abs() + 0.5).detach()
PROBABILITIES = torch.softmax(drawn(6, 5, seed=9), 1).detach().requires_grad_()
INSIDE = torch.sigmoid(drawn(6, 5, seed=10)).detach().requires_grad_()
LABELS = torch.sigmoid(drawn(6, 5, seed=11)).detach()


def _products() -> list[Case]:
    x, y = drawn(2, 3, 4), drawn(2, 4, 5)
    return [
        Case("linear", fn.linear, [x, drawn(5, 4), drawn(5)]),
        Case("linear-vector", fn.linear, [drawn(4), drawn(5, 4), drawn(5)]),
        Case("linear-of-transposed", lambda x, w: fn.linear(x, w.t()), [x, drawn(4, 5)]),
        Case("matmul-stack", torch.matmul, [x, y]),
        Case("matmul-broadcast", torch.matmul, [x[:, None].detach(), drawn(3, 4, 5)]),
        Case("matmul-vector", lambda x, v: (x @ v, v @ x.mT), [x, drawn(4)]),
        Case("mm", torch.mm, [A, drawn(4, 5)]),
        Case("bmm", torch.bmm, [x, y]),
        Case("mv", torch.mv, [A, drawn(4)]),
        Case("dot", torch.dot, [drawn(4), drawn(4, seed=1)]),
        Case("inner", torch.inner, [A, drawn(5, 4)]),
        Case("outer", torch.outer, [drawn(3), drawn(4)]),
        Case("addmm", torch.addmm, [drawn(5), A, drawn(4, 5)]),
        Case(
            "addmm-factors",
            lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2),
            [drawn(3, 5), A, drawn(4, 5)],
        ),
        Case("addmv", torch.addmv, [drawn(3), A, drawn(4)]),
        Case("baddbmm", lambda c, x, y: torch.baddbmm(c, x, y, beta=0.1), [drawn(2, 3, 5), x, y]),
        Case("addbmm", torch.addbmm, [drawn(3, 5), x, y]),
        Case("bilinear", fn.bilinear, [A, drawn(3, 5), drawn(2, 4, 5), drawn(2)]),
    ]


def _grouped() -> list[Case]:
    """Return products of integers, which are exact; PyTorch captures them only in bfloat16."""
    x, y, weight = (
        whole(*shape, low=-4, dtype=torch.bfloat16) for shape in ((24, 16), (24, 8), (3, 16, 8))
    )
    ends = torch.tensor([8, 8, 24], dtype=torch.int32)
    by_rows, turned = (lambda x, w, ends: fn.grouped_mm(x, w, offs=ends)), weight.mT.contiguous()
    return [
        Case("grouped_mm", by_rows, [x, weight, ends]),
        Case("grouped_mm-turned", lambda x, w, e: by_rows(x, w.mT, e), [x, turned, ends]),
        Case("grouped_mm-inner", lambda x, y, e: by_rows(x.mT, y, e), [x, y, ends]),
        Case("grouped_mm-columns", lambda w, x, e: by_rows(w, x.mT, e), [turned, x, ends]),
        Case("grouped_mm-stacks", fn.grouped_mm, [turned, weight]),
    ]


def _attention() -> list[Case]:
    attend = fn.scaled_dot_product_attention
    few = [drawn(2, 1, 5, 4, seed=seed) for seed in (3, 4)]
    added = drawn(3, 5, 5, seed=5)
    return [
        Case("attention", attend, [Q, K, V]),
        Case("attention-3d", attend, [Q[0].detach(), K[0].detach(), V[0].detach()]),
        Case("attention-causal", lambda q, k, v: attend(q, k, v, is_causal=True), [Q, K, V]),
        Case("attention-scale", lambda q, k, v: attend(q, k, v, scale=0.3), [Q, K, V]),
        Case(
            "attention-bool-mask",
            lambda q, k, v, m: attend(q, k, v, attn_mask=m),
            [Q, K, V, whole(5, 5, high=2, dtype=torch.bool)],
        ),
        Case(
            "attention-float-mask",
            lambda q, k, v, m: attend(q, k, v, attn_mask=m),
            [Q, K, V, added.detach()],
        ),
        Case(
            "attention-trained-mask",
            lambda q, k, v, m: attend(q, k, v, attn_mask=m * 2),
            [Q, K, V, added],
        ),
        Case("attention-grouped", lambda q, k, v: attend(q, k, v, enable_gqa=True), [Q, *few]),
        Case("attention-shared-key", attend, [Q, *few]),
        Case("attention-shared-batch", attend, [Q, K[:1].detach(), V[0].detach()]),
        Case("attention-shared-query", attend, [Q[:1, :1].detach(), K, V]),
        Case(
            "attention-grouped-trained-mask",
            lambda q, k, v, m: attend(q, k, v, attn_mask=m * 2, enable_gqa=True),
            [Q, *few, added],
        ),
    ]


def _convolutions() -> list[Case]:
    w1, w2, w3 = drawn(6, 2, 3), drawn(6, 2, 3, 2), drawn(6, 2, 3, 2, 3)
    return [
        Case("conv1d", lambda x, w, b: fn.conv1d(x, w, b, 2, 1, 1, 2), [LINE, w1, drawn(6)]),
        Case(
            "conv2d",
            lambda x, w, b: fn.conv2d(x, w, b, (2, 1), (1, 2), 2, 2),
            [IMAGE, w2, drawn(6)],
        ),
        Case(
            "conv2d-same", lambda x, w: fn.conv2d(x, w, padding="same"), [IMAGE, drawn(6, 4, 3, 5)]
        ),
        Case("conv2d-valid", lambda x, w: fn.conv2d(x, w, padding="valid", groups=2), [IMAGE, w2]),
        Case("conv2d-single", lambda x, w: fn.conv2d(x, w, groups=2), [drawn(4, 7, 6), w2]),
        Case("conv3d", lambda x, w: fn.conv3d(x, w, stride=2, padding=1, groups=2), [VOLUME, w3]),
        Case(
            "conv_transpose1d",
            lambda x, w: fn.conv_transpose1d(x, w, None, 2, 1, 1),
            [LINE, drawn(4, 3, 3)],
        ),
        Case(
            "conv_transpose2d",
            lambda x, w, b: fn.conv_transpose2d(x, w, b, 2, 1, (1, 0), 2, (1, 2)),
            [IMAGE, drawn(4, 3, 3, 2), drawn(6)],
        ),
        Case("conv_transpose3d", fn.conv_transpose3d, [VOLUME, drawn(4, 2, 2, 2, 2)]),
    ]


def _norms() -> list[Case]:
    def trained(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        mean, variance = m.clone(), v.clone()
        return fn.batch_norm(x, mean, variance, w, b, True, 0.2), mean, variance

    return [
        Case("batch_norm-training", trained, [IMAGE, SCALE, SHIFT, MEAN, VARIANCE]),
        Case(
            "batch_norm-inference",
            lambda x, w, b, m, v: fn.batch_norm(x, m, v, w, b),
            [IMAGE, SCALE, SHIFT, MEAN, VARIANCE],
        ),
        Case("batch_norm-plain", lambda x: fn.batch_norm(x, None, None, training=True), [LINE]),
        Case("layer_norm", lambda x, w, b: fn.layer_norm(x, (4,), w, b), [A, SCALE, SHIFT]),
        Case("layer_norm-all", lambda x: fn.layer_norm(x, (3, 4)), [A]),
        Case(
            "native_layer_norm",
            lambda x: torch.native_layer_norm(x, (4, 4), None, None, 1e-3),
            [PICTURE],
        ),
        Case("group_norm", lambda x, w, b: fn.group_norm(x, 2, w, b), [IMAGE, SCALE, SHIFT]),
        Case(
            "instance_norm",
            lambda x, w, b: fn.instance_norm(x, None, None, w, b),
            [IMAGE, SCALE, SHIFT],
        ),
        Case("rms_norm", lambda x, w: fn.rms_norm(x, (4,), w), [A, SCALE]),
        Case("local_response_norm", lambda x: fn.local_response_norm(x, 3), [IMAGE]),
        Case("softmax", lambda x: (x.softmax(1), x.log_softmax(0)), [A]),
        Case("softmax-dtype", lambda x: x.softmax(-1, dtype=torch.float32), [A.detach()]),
        Case("weight_norm", lambda v, g: torch._weight_norm(v, g, 0), [A, drawn(3, 1)]),
    ]


def _losses() -> list[Case]:
    soft = PROBABILITIES
    weight = (drawn(5, seed=4).abs() + 0.1).detach()
    cases = [
        Case(
            f"cross_entropy-{reduction}",
            lambda x, i, r=reduction: fn.cross_entropy(x, i, reduction=r),
            [SCORES, IDS_WITH_HOLES],
        )
        for reduction in ("none", "mean", "sum")
    ]
    return [
        *cases,
        Case(
            "cross_entropy-weights",
            lambda x, i, w: fn.cross_entropy(x, i, w, label_smoothing=0.1),
            [SCORES, IDS_WITH_HOLES, weight],
        ),
        Case("cross_entropy-soft", fn.cross_entropy, [SCORES, soft]),
        Case(
            "cross_entropy-soft-rows",
            lambda x, y: fn.cross_entropy(x, y, reduction="none"),
            [SCORES, soft],
        ),
        Case("cross_entropy-images", fn.cross_entropy, [IMAGE, whole(2, 7, 6, high=4)]),
        Case(
            "nll_loss", lambda x, i, w: fn.nll_loss(x.log_softmax(1), i, w), [SCORES, IDS, weight]
        ),
        Case("mse_loss", fn.mse_loss, [A, B]),
        Case("mse_loss-rows", lambda x, y: fn.mse_loss(x, y, reduction="none"), [A, B]),
        Case("l1_loss", lambda x, y: fn.l1_loss(x, y, reduction="sum"), [A, B]),
        Case("smooth_l1_loss", lambda x, y: fn.smooth_l1_loss(x, y, beta=0.4), [A, B]),
        Case("huber_loss", lambda x, y: fn.huber_loss(x, y, delta=0.4), [A, B]),
        Case("binary_cross_entropy", fn.binary_cross_entropy, [INSIDE, LABELS]),
        Case("binary_cross_entropy-weights", fn.binary_cross_entropy, [INSIDE, LABELS, LABELS]),
        Case("with_logits", fn.binary_cross_entropy_with_logits, [SCORES, LABELS]),
        Case(
            "with_logits-weights",
            lambda x, y, w: fn.binary_cross_entropy_with_logits(x, y, pos_weight=w),
            [SCORES, LABELS, weight],
        ),
        Case(
            "kl_div",
            lambda x, y: fn.kl_div(x.log_softmax(1), y, reduction="batchmean"),
            [SCORES, soft],
        ),
        Case(
            "kl_div-log",
            lambda x, y: fn.kl_div(x, y, reduction="sum", log_target=True),
            [SCORES, SCORES.detach() - 1],
        ),
    ]


def _margins() -> list[Case]:
    return [
        Case("soft_margin_loss", fn.soft_margin_loss, [A, B.detach().sign()]),
        Case("multi_margin_loss", lambda x: fn.multi_margin_loss(x, torch.tensor([0, 3, 1])), [A]),
        Case(
            "poisson_nll_loss", lambda x, y: fn.poisson_nll_loss(x, y, full=True), [A, B.detach()]
        ),
        Case(
            "triplet_margin_loss",
            lambda x, y: fn.triplet_margin_loss(x, y, x.flip(0), 3.0, swap=True),
            [A, B],
        ),
        Case("cosine_similarity", fn.cosine_similarity, [A, B]),
        Case("one_hot", lambda i: fn.one_hot(i, 5), [IDS]),
        Case("cosine_embedding_loss", fn.cosine_embedding_loss, [A, B, whole(3, high=2) * 2 - 1]),
        Case("triplet_margin_loss", fn.triplet_margin_loss, [A, B, drawn(3, 4, seed=2)]),
        Case("margin_ranking_loss", fn.margin_ranking_loss, [A, B, B.detach().sign()]),
        Case("hinge_embedding_loss", fn.hinge_embedding_loss, [A, B.detach().sign()]),
        Case("poisson_nll_loss", fn.poisson_nll_loss, [A, POSITIVE.detach()]),
        Case("pairwise_distance", fn.pairwise_distance, [A, B]),
        Case("rrelu", fn.rrelu, [A]),
        Case("threshold-bool-mask", lambda x, m: fn.threshold(x, 0.2, 0.1) * m, [POSITIVE, MASK]),
    ]


def _pooling() -> list[Case]:
    return [
        Case("max_pool1d", lambda x: fn.max_pool1d(x, 3, 2, 1), [LINE]),
        Case("max_pool2d", lambda x: fn.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True), [IMAGE]),
        Case("max_pool2d-single", lambda x: fn.max_pool2d(x, 2), [drawn(4, 7, 6)]),
        Case("max_pool2d-places", lambda x: fn.max_pool2d(x, 2, return_indices=True), [IMAGE]),
        Case("max_pool3d", lambda x: fn.max_pool3d(x, 2), [VOLUME]),
        Case("avg_pool1d", lambda x: fn.avg_pool1d(x, 3, 2, 1), [LINE]),
        Case("avg_pool2d", lambda x: fn.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [IMAGE]),
        Case("avg_pool2d-ceil", lambda x: fn.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [IMAGE]),
        Case("avg_pool2d-divisor", lambda x: fn.avg_pool2d(x, 2, divisor_override=3), [IMAGE]),
        Case("avg_pool3d", lambda x: fn.avg_pool3d(x, 2), [VOLUME]),
        Case("adaptive_avg_pool1d", lambda x: fn.adaptive_avg_pool1d(x, 4), [LINE]),
        Case("adaptive_avg_pool2d", lambda x: fn.adaptive_avg_pool2d(x, (3, 1)), [IMAGE]),
        Case(
            "adaptive_avg_pool3d",
            lambda x: fn.adaptive_avg_pool3d(x, (1, 2, 3)),
            [VOLUME[:, :, :4].detach()],
        ),
        Case("adaptive_max_pool1d", lambda x: fn.adaptive_max_pool1d(x, 4), [LINE]),
        Case("adaptive_max_pool2d", lambda x: fn.adaptive_max_pool2d(x, (3, 2)), [IMAGE]),
        Case("max_unpool2d", _unpooled, [IMAGE]),
        Case("lp_pool2d", lambda x: fn.lp_pool2d(x, 2, 2), [IMAGE]),
    ]


def _unpooled(x: torch.Tensor) -> torch.Tensor:
    pooled, places = fn.max_pool2d(x, 2, return_indices=True)
    return fn.max_unpool2d(pooled, places, 2, output_size=(7, 6))


def _resizing() -> list[Case]:
    return [
        Case("nearest-1d", lambda x: fn.interpolate(x, 13), [LINE]),
        Case("nearest-2d", lambda x: fn.interpolate(x, scale_factor=2), [IMAGE]),
        Case("nearest-3d", lambda x: fn.interpolate(x, (7, 3, 9)), [VOLUME]),
        Case("linear-1d", lambda x: fn.interpolate(x, 13, mode="linear"), [LINE]),
        Case("bilinear", lambda x: fn.interpolate(x, (5, 9), mode="bilinear"), [IMAGE]),
        Case(
            "bilinear-corners",
            lambda x: fn.interpolate(x, (5, 9), mode="bilinear", align_corners=True),
            [IMAGE],
        ),
    ]


def _recurrent() -> list[Case]:
    def weights(gates: int, *inputs: int, size: int = 3, states: int = 3) -> list[torch.Tensor]:
        shapes = [s for n in inputs for s in ((gates * size, n), (gates * size, states))]
        return [drawn(*shape, seed=20 + i) for i, shape in enumerate(shapes)]

    def biased(gates: int) -> list[torch.Tensor]:
        pair = weights(gates, 4)
        return [*pair, drawn(3 * gates, seed=30), drawn(3 * gates, seed=31)]

    x, state, cell = drawn(2, 5, 4), drawn(1, 2, 3, seed=40), drawn(1, 2, 3, seed=41)
    two, narrow = drawn(4, 2, 3, seed=42), drawn(1, 2, 2, seed=43)
    projected = [*weights(4, 4, states=2), drawn(2, 3, seed=44)]
    both = weights(3, 4, 4, 6, 6)
    return [
        Case(
            "lstm",
            lambda x, h, c, *w: torch.lstm(x, (h, c), w, True, 1, 0.0, True, False, True),
            [x, state, cell, *biased(4)],
        ),
        Case(
            "lstm-projected",
            lambda x, h, c, *w: torch.lstm(x, (h, c), w, False, 1, 0.0, False, False, True),
            [x, narrow, cell, *projected],
        ),
        Case(
            "gru-stacked-both-ways",
            lambda x, h, *w: torch.gru(x, h, w, False, 2, 0.0, True, True, False),
            [x.transpose(0, 1).detach(), two, *both],
        ),
        Case(
            "rnn_tanh",
            lambda x, h, *w: torch.rnn_tanh(x, h, w, True, 1, 0.0, True, False, True),
            [x, state, *biased(1)],
        ),
        Case(
            "rnn_relu",
            lambda x, h, *w: torch.rnn_relu(x, h, w, True, 1, 0.0, True, False, True),
            [x, state, *biased(1)],
        ),
    ]


NETWORK_CASES: Final = [
    *_products(),
    *_grouped(),
    *_attention(),
    *_convolutions(),
    *_norms(),
    *_recurrent(),
    *_losses(),
    *_margins(),
    *_pooling(),
    *_resizing(),
]
