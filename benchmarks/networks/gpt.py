"""A GPT with 3 blocks, width 128 and 4 heads, for 64 characters out of 100; batch 32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

LEARNING_RATE = 1e-3
BATCH, TIME, CHARACTERS = 32, 64, 100
BLOCKS, WIDTH, HEADS = 3, 128, 4
STEPS_TO_COMPARE = 5

_NORM = ((WIDTH,), (WIDTH,))


def _linear(columns: int, size: int) -> tuple[tuple[int, ...], ...]:
    return (columns, size), (size,)


# Norm, query-key-value projection, output projection; norm, hidden layer, output layer. Weights are
# [in, out].
_BLOCK = (
    *_NORM, *_linear(WIDTH, 3 * WIDTH), *_linear(WIDTH, WIDTH),
    *_NORM, *_linear(WIDTH, 4 * WIDTH), *_linear(4 * WIDTH, WIDTH),
)  # fmt: skip
BLOCK_SIZE = len(_BLOCK)
SHAPES = (
    (CHARACTERS, WIDTH), (TIME, WIDTH), *BLOCKS * _BLOCK, *_NORM, *_linear(WIDTH, CHARACTERS)
)  # fmt: skip


def make_parameters() -> Iterator[np.ndarray]:
    """Yield the tables and the parameters of each block, the last norm and the last layer."""
    rng = np.random.default_rng(31)
    for shape in SHAPES:
        if shape == (WIDTH,):  # scales and offsets of norms, some biases
            yield rng.uniform(0.5, 1, shape).astype("float32")
        else:
            yield rng.normal(0, 0.05, shape).astype("float32")


def make_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return characters and the characters that follow them, int64 [32, 64]."""
    numbers = np.random.default_rng(32).integers(0, CHARACTERS, (BATCH, TIME + 1))
    return np.ascontiguousarray(numbers[:, :-1]), np.ascontiguousarray(numbers[:, 1:])


def make_opwright_step() -> tuple[Any, Any, Any]:
    """Return a program of layers with its training step, its scope, and its loss."""
    import opwright as ow
    import opwright_nn as nn
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, TIME], dtype="int64")
        y = layers.data("y", shape=[None, TIME], dtype="int64")
        h = layers.learned_positions(layers.embedding(x, [CHARACTERS, WIDTH]), TIME)
        for _ in range(BLOCKS):
            h = layers.transformer_encoder_block(h, heads=HEADS, causal=True)
        h = layers.layer_norm(h, begin_norm_axis=2)
        scores = layers.fc(h, CHARACTERS, num_flatten_dims=2)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, y))
        nn.optimizer.Adam(LEARNING_RATE).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    for parameter, value in zip(main.parameters(), make_parameters(), strict=True):
        if tuple(parameter.shape) != value.shape:
            raise ValueError(
                f"{parameter.name}: shape must be {value.shape}, got {parameter.shape}"
            )
        scope.find_var(parameter.name).set(value)
    return main.global_block(), scope, loss


def make_torch_parameters(device: str) -> list[Any]:
    """Return the same parameters in PyTorch's layout."""
    import torch

    parameters = []
    for i, value in enumerate(make_parameters()):
        # Weights are [out, in], as in nn.Linear; the two tables are not transposed.
        turned = value.T.copy() if value.ndim == 2 and i > 1 else value
        parameters.append(torch.from_numpy(turned).to(device).requires_grad_())
    return parameters


def torch_block(h: Any, parameters: list[Any]) -> Any:
    """Causal attention and a feed-forward network, each after a norm and added to its input."""
    from torch.nn import functional as F  # noqa: N812

    scale_0, offset_0, w_qkv, b_qkv, w_o, b_o, scale_1, offset_1, w_h, b_h, w_c, b_c = parameters
    n, time, width = h.shape
    norm = F.layer_norm(h, (width,), scale_0, offset_0)
    parts = F.linear(norm, w_qkv, b_qkv).split(width, dim=2)
    q, k, v = (part.view(n, time, HEADS, width // HEADS).transpose(1, 2) for part in parts)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    h = h + F.linear(seen.transpose(1, 2).reshape(n, time, width), w_o, b_o)
    norm = F.layer_norm(h, (width,), scale_1, offset_1)
    return h + F.linear(F.gelu(F.linear(norm, w_h, b_h)), w_c, b_c)


def torch_loss(x: Any, y: Any, parameters: list[Any]) -> Any:
    """Compute the loss with PyTorch's fused attention and cross entropy."""
    from torch.nn import functional as F  # noqa: N812

    table, positions, *rest = parameters
    h = F.embedding(x, table) + positions
    for i in range(BLOCKS):
        h = torch_block(h, rest[i * BLOCK_SIZE : (i + 1) * BLOCK_SIZE])
    scale, offset, weight, bias = rest[-4:]
    h = F.layer_norm(h, h.shape[-1:], scale, offset)
    return F.cross_entropy(F.linear(h, weight, bias).flatten(0, 1), y.flatten())
