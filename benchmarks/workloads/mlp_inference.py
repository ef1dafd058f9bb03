"""Inference of 784-200-200-10 with sigmoid and softmax, one image."""

from __future__ import annotations

from typing import Any

import numpy as np

from networks.mlp import SIZES, make_batch, make_parameters
from workload import Goal, Timed, Workload

X = make_batch(1)[0]


def timed(call: Any) -> Timed:
    """Return a call and its probabilities."""
    return Timed(call, values=np.asarray(call()).ravel().tolist())


def opwright() -> Timed:
    """Prepare the forward program compiled for inference."""
    import opwright as ow
    from opwright_nn import layers

    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        h = layers.data("img", shape=[None, SIZES[0]])
        for size, activation in zip(SIZES[1:], ("sigmoid", "sigmoid", "softmax"), strict=True):
            h = layers.fc(h, size=size, activation=activation)
    scope = ow.Scope()
    for parameter, value in zip(main.parameters(), make_parameters(), strict=True):
        scope.var(parameter.name).set(value)
    call = ow.Network(main.global_block()).compile(feed=["img"], fetch=[h], scope=scope)
    return timed(lambda: call(img=X)[0])


def onnxruntime() -> Timed:
    """Prepare a session with Gemm, Sigmoid and Softmax nodes, with NumPy inputs and outputs."""
    from networks.onnx_models import make_mlp
    from peers import open_session

    session = open_session(make_mlp())
    feed = {"x": X}
    return timed(lambda: session.run(None, feed)[0])


def torch_forward() -> Any:
    """Return the forward function in PyTorch, including its parameters."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    w1, b1, w2, b2, w3, b3 = (
        torch.from_numpy(np.ascontiguousarray(value.T)) for value in make_parameters()
    )
    torch.set_grad_enabled(False)

    def forward(x: torch.Tensor) -> torch.Tensor:
        h = F.linear(x, w1, b1).sigmoid_()
        h = F.linear(h, w2, b2).sigmoid_()
        return F.softmax(F.linear(h, w3, b3), dim=1)

    return forward


def torch() -> Timed:
    """Prepare the eager function, without autograd."""
    import torch

    forward, x = torch_forward(), torch.from_numpy(X)
    return timed(lambda: forward(x).numpy())


def torch_compiled() -> Timed:
    """Prepare the function with torch.compile, without autograd."""
    import torch

    forward, x = torch.compile(torch_forward()), torch.from_numpy(X)
    return timed(lambda: forward(x).numpy())


def jax() -> Timed:
    """Prepare a jitted function with constant parameters, device input and NumPy output."""
    import jax
    import jax.numpy as jnp

    w1, b1, w2, b2, w3, b3 = (jnp.asarray(value) for value in make_parameters())

    @jax.jit
    def forward(x: jax.Array) -> jax.Array:
        h = jax.nn.sigmoid(x @ w1 + b1)
        h = jax.nn.sigmoid(h @ w2 + b2)
        return jax.nn.softmax(h @ w3 + b3)

    x = jnp.asarray(X)
    return timed(lambda: np.asarray(forward(x)))


WORKLOADS = [
    Workload(
        "mlp-infer-1",
        "inference 784-200-200-10 sigmoid, batch 1",
        "µs",
        {
            "opwright": opwright,
            "onnxruntime": onnxruntime,
            "torch": torch,
            "torch.compile": torch_compiled,
            "jax": jax,
        },
        {"opwright": [Goal(ratio=0.8, of="onnxruntime")]},
    ),
]
