"""What mixed precision moves to 16 bits or to float32; other operators follow their inputs."""

from __future__ import annotations

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


REDUCED: Final = _names(
    """
    bilinear conv1d conv2d conv2d_transpose conv3d conv3d_transpose einsum fc gemm gru gru_cell lstm
    lstm_cell matmul rnn scaled_dot_product_attention sequence_conv
    """
)
"""Sums of products, which processors multiply in 16 bits and add up in float32."""

FLOAT32: Final = _names(
    """
    acos asin atan atan2 cosh exp expm1 log log1p log2 log_sigmoid pow_scalar power reciprocal rsqrt
    sinh softplus soft_relu square squared_difference tan
    clip_by_global_norm clip_by_norm cos_sim count_nonzero cumprod cumsum logsumexp mean median norm
    prod quantile std sum trace variance
    log_softmax sequence_softmax softmax
    cosine_embedding_loss cross_entropy ctc_loss hinge huber kl_div l1 linear_chain_crf log_loss
    margin_rank_loss mse nce nll rank_loss sampled_softmax sigmoid_cross_entropy_with_logits
    smooth_l1 softmax_with_cross_entropy viterbi_decode
    accuracy auc bincount histogram precision_recall
    box_coder iou multiclass_nms nms prior_box roi_align roi_pool
    cholesky fft ifft inverse irfft rfft solve triangular_solve
    """
)
"""Reductions, losses, and functions that magnify rounding errors or overflow."""

NORMALIZATIONS: Final = _names(
    "batch_norm dist.batch_norm group_norm instance_norm layer_norm lrn rms_norm"
)
"""They compute in float32, too. What follows goes on with the dtype of what is normalized."""

UNCHANGED: Final = frozenset({"assign", "cast", "cast_like"})
"""Operators that change dtypes, or write a value to a place that has its own."""
