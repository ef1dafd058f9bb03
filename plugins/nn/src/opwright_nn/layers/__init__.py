"""Layer functions, like `torch.nn.functional`, which create the parameters that they need.

Each appends variables, parameters and operators to the default programs.
"""

from __future__ import annotations

from opwright_nn.layers.accuracy import accuracy
from opwright_nn.layers.activations import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from opwright_nn.layers.cond import cond
from opwright_nn.layers.conv2d import conv2d
from opwright_nn.layers.data import data
from opwright_nn.layers.dropout import dropout
from opwright_nn.layers.embedding import embedding
from opwright_nn.layers.fc import fc
from opwright_nn.layers.loops import scan, while_loop
from opwright_nn.layers.losses import (
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    hinge,
    huber,
    kl_div,
    l1,
    label_smooth,
    log_loss,
    margin_rank_loss,
    mean,
    nll,
    rank_loss,
    sigmoid_cross_entropy_with_logits,
    smooth_l1,
    softmax_with_cross_entropy,
)
from opwright_nn.layers.normalization import batch_norm, layer_norm
from opwright_nn.layers.pooling import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from opwright_nn.layers.shapes import concat, flatten, reshape

__all__ = [
    "accuracy",
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "concat",
    "cond",
    "conv2d",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "data",
    "dropout",
    "elu",
    "embedding",
    "fc",
    "flatten",
    "gelu",
    "hinge",
    "huber",
    "kl_div",
    "l1",
    "label_smooth",
    "layer_norm",
    "leaky_relu",
    "log_loss",
    "log_softmax",
    "margin_rank_loss",
    "max_pool2d",
    "mean",
    "nll",
    "rank_loss",
    "relu",
    "reshape",
    "scan",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "smooth_l1",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "tanh",
    "while_loop",
]
