"""Layer functions, like `torch.nn.functional`, which create the parameters that they need.

Each function appends variables, parameters and operators to the default programs. Within ``with
model:``, a name refers to a variable; a new name becomes an input. In formulas `input` is called x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.arguments import suggest
from opwright_nn.foreign_names import LAYERS, answering
from opwright_nn.layers.accuracy import accuracy
from opwright_nn.layers.activations import (
    elu,
    gelu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from opwright_nn.layers.arithmetic import add, cos_sim, divide, matmul, multiply, subtract
from opwright_nn.layers.attention import attention
from opwright_nn.layers.bilinear import bilinear
from opwright_nn.layers.cond import cond
from opwright_nn.layers.convolution import conv1d, conv2d, conv3d
from opwright_nn.layers.cross_entropy import (
    cross_entropy,
    label_smooth,
    nll,
    sigmoid_cross_entropy_with_logits,
    softmax_with_cross_entropy,
)
from opwright_nn.layers.dropout import dropout
from opwright_nn.layers.embedding import embedding
from opwright_nn.layers.fc import fc
from opwright_nn.layers.inputs import data
from opwright_nn.layers.loops import scan, while_loop
from opwright_nn.layers.losses import (
    cosine_embedding_loss,
    ctc_loss,
    hinge,
    huber,
    kl_div,
    l1,
    log_loss,
    margin_rank_loss,
    mean,
    mse,
    rank_loss,
    smooth_l1,
)
from opwright_nn.layers.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    lrn,
    rms_norm,
)
from opwright_nn.layers.pooling import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from opwright_nn.layers.positions import learned_positions, rotary_embedding, sinusoidal_positions
from opwright_nn.layers.prelu import prelu
from opwright_nn.layers.recurrent import gru, lstm, rnn
from opwright_nn.layers.shapes import concat, flatten, reshape, squeeze, transpose, unsqueeze
from opwright_nn.layers.transformer import transformer_decoder_block, transformer_encoder_block
from opwright_nn.layers.transposed_convolution import (
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
)

__all__ = [
    "accuracy",
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "add",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "concat",
    "cond",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cos_sim",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "data",
    "divide",
    "dropout",
    "elu",
    "embedding",
    "fc",
    "flatten",
    "gelu",
    "group_norm",
    "gru",
    "hard_sigmoid",
    "hard_swish",
    "hinge",
    "huber",
    "instance_norm",
    "kl_div",
    "l1",
    "label_smooth",
    "layer_norm",
    "leaky_relu",
    "learned_positions",
    "log_loss",
    "log_softmax",
    "lrn",
    "lstm",
    "margin_rank_loss",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mean",
    "mish",
    "mse",
    "multiply",
    "nll",
    "prelu",
    "rank_loss",
    "relu",
    "relu6",
    "reshape",
    "rms_norm",
    "rnn",
    "rotary_embedding",
    "scan",
    "selu",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "sinusoidal_positions",
    "smooth_l1",
    "softmax",
    "softmax_with_cross_entropy",
    "softplus",
    "squeeze",
    "subtract",
    "tanh",
    "transformer_decoder_block",
    "transformer_encoder_block",
    "transpose",
    "unsqueeze",
    "while_loop",
]

for _name in __all__:
    globals()[_name] = suggest(globals()[_name])

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, LAYERS, has_operators=True)
