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
from opwright_nn.layers.losses import (
    cross_entropy,
    mean,
    sigmoid_cross_entropy_with_logits,
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
    "cross_entropy",
    "data",
    "dropout",
    "elu",
    "embedding",
    "fc",
    "flatten",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "max_pool2d",
    "mean",
    "relu",
    "reshape",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "tanh",
]
