"""Operators that mixed precision runs in 16 bits or float32; all others follow their inputs."""

from __future__ import annotations

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


REDUCED: Final = _names(
    """
    bilinear cached_attention conv1d conv2d conv2d_transpose conv3d conv3d_transpose deform_conv2d
    einsum fc gemm grouped_matmul grouped_outer gru gru_cell lstm lstm_cell matmul
    multi_head_attention rnn scaled_dot_product_attention sequence_conv
    """
)
"""Sums of products, which processors multiply in 16 bits and accumulate in float32."""

FLOAT32: Final = _names(
    """
    acos acosh asin asinh atan atan2 atanh cosh digamma erfc erfinv exp exp2 expm1 hypot lgamma log
    log10 log1p log2 log_sigmoid logaddexp logaddexp2 logit polygamma pow_scalar power reciprocal
    rsqrt sinh softplus soft_relu square squared_difference tan xlog1py xlogy
    cdist clip_by_global_norm clip_by_norm cos_sim count_nonzero cumprod cumsum logcumsumexp
    logsumexp mean median nanmean nanmedian nanquantile nansum norm prod quantile std sum trace
    variance
    masked_cumprod masked_cumsum masked_logsumexp masked_mean masked_norm masked_prod masked_std
    masked_sum masked_variance
    log_softmax masked_log_softmax masked_softmax sequence_softmax softmax
    cosine_embedding_loss cross_entropy ctc_loss gaussian_nll hinge huber kl_div l1 linear_chain_crf
    log_loss margin_rank_loss mse multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss nce nll poisson_nll rank_loss sampled_softmax
    sigmoid_cross_entropy_with_logits smooth_l1 soft_margin_loss softmax_with_cross_entropy
    triplet_margin_loss viterbi_decode
    accuracy auc bincount histogram precision_recall
    batched_nms box_coder iou multiclass_nms nms prior_box roi_align roi_pool
    affine_grid grid_sample lp_pool1d lp_pool2d lp_pool3d
    cholesky det fft fft2 fftn hfft ifft ifft2 ifftn ihfft inverse irfft irfftn istft rfft rfftn
    slogdet solve stft triangular_solve
    """
)
"""Reductions, losses, and functions that magnify rounding errors or overflow."""

NORMALIZATIONS: Final = _names(
    "batch_norm dist.batch_norm group_norm instance_norm layer_norm lrn rms_norm"
)
"""These also compute in float32; later operators continue in the dtype of the normalized input."""

UNCHANGED: Final = frozenset({"assign", "cast", "cast_like"})
"""Operators that change dtypes, or write into a variable with its own dtype."""
