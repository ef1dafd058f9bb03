"""One training step of a small GPT on characters with Adam, batch 32, 64 characters, float32."""

from __future__ import annotations

from functools import partial
from typing import Any

from contest import Goal, Timed, Workload
from networks.gpt import (
    BLOCK_SIZE,
    BLOCKS,
    HEADS,
    LEARNING_RATE,
    STEPS_TO_COMPARE,
    make_batch,
    make_opwright_step,
    make_parameters,
)


def opwright() -> Timed:
    """A program of layers and one compiled step."""
    import opwright as ow

    block, scope, loss = make_opwright_step()
    characters, following = make_batch()
    call = ow.Network(block).compile(feed=["x", "y"], fetch=[loss], scope=scope)

    def step() -> float:
        return float(call(x=characters, y=following)[0])

    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


def torch_block(h: Any, parameters: list[Any]) -> Any:
    """Causal attention and a feed-forward network, each behind a norm and added to its input."""
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
    """Forward, with PyTorch's fused attention and cross entropy."""
    from torch.nn import functional as F  # noqa: N812

    table, positions, *rest = parameters
    h = F.embedding(x, table) + positions
    for i in range(BLOCKS):
        h = torch_block(h, rest[i * BLOCK_SIZE : (i + 1) * BLOCK_SIZE])
    scale, offset, weight, bias = rest[-4:]
    h = F.layer_norm(h, h.shape[-1:], scale, offset)
    return F.cross_entropy(F.linear(h, weight, bias).flatten(0, 1), y.flatten())


def torch_step(compiled: bool = False, **options: bool) -> Timed:
    """Functional layers, autograd and torch.optim.Adam."""
    import torch

    x, y = map(torch.from_numpy, make_batch())
    parameters = []
    for i, value in enumerate(make_parameters()):
        # As nn.Linear keeps them, [out, in]; the two tables stay as they are.
        tensor = torch.from_numpy(value.T.copy() if value.ndim == 2 and i > 1 else value)
        parameters.append(tensor.requires_grad_())
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, **options)
    loss_of = torch.compile(torch_loss) if compiled else torch_loss

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(x, y, parameters)
        loss.backward()
        optimizer.step()
        return loss.item()

    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


WORKLOADS = [
    Workload(
        "gpt-train",
        "GPT training step, 3 blocks, 128 wide, Adam, batch 32 of 64 characters",
        "ms",
        {
            "opwright": opwright,
            "torch": torch_step,
            "torch fused": partial(torch_step, fused=True),
            "torch.compile": partial(torch_step, compiled=True, fused=True),
        },
        {"opwright": [Goal(ratio=0.45, of="torch")]},
        tolerance=1e-3,
    ),
]
