"""One training step of ResNet-18 with momentum, batch 64, 224×224: float32, TF32, bfloat16."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from gpu import (
    HOWS,
    OurProgram,
    choose,
    convolve_by,
    open_opwright,
    open_torch,
    time_torch,
    time_training,
)
from networks.images import CLASSES, RESNET18
from workload import Goal, Timed, Workload

BATCH, SIZE = choose((64, 224), (2, 32))
LEARNING_RATE, MOMENTUM = 0.01, 0.9
STEPS_TO_COMPARE = choose(3, 2)


def make_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [64, 3, 224, 224] and labels int64 [64, 1]."""
    rng = np.random.default_rng(29)
    images = rng.standard_normal((BATCH, 3, SIZE, SIZE), dtype="float32")
    return images, rng.integers(0, CLASSES, (BATCH, 1))


def opwright(library: str, dtype: str = "float32", **how: Any) -> Timed:
    """Prepare a compiled program of layers, with the convolutions of one library."""
    open_opwright()
    convolve_by(library)
    import opwright as ow
    import opwright_nn as nn
    from networks.image_programs import append_network
    from opwright_nn import layers

    policy = nullcontext() if dtype == "float32" else nn.mixed_precision(dtype)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup), policy:
        x = layers.data("x", shape=[None, 3, SIZE, SIZE])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        logits, initial = append_network(RESNET18, x, training=True)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        nn.optimizer.Momentum(LEARNING_RATE, MOMENTUM).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    for name, value in initial.items():
        scope.find_var(name).set(value)
    images, labels = make_batch()
    zero = np.zeros(loss.shape, "float32")
    how.setdefault("tf32", library == "cudnn_tf32")
    program = OurProgram(
        main.global_block(), scope, {"x": images, "y": labels}, {loss.name: zero}, **how
    )
    return time_training(program, STEPS_TO_COMPARE)


def torch(
    how: str,
    channels_last: bool = True,
    tf32: bool = False,
    dtype: str = "float32",
    deterministic: bool = False,
) -> Timed:
    """Prepare the same step in PyTorch, with a fused optimizer."""
    torch, device = open_torch(tf32, deterministic)
    from torch.nn import functional as F  # noqa: N812

    from networks.image_programs import make_torch_module

    layout = torch.channels_last if channels_last else torch.contiguous_format
    images, labels = make_batch()
    module = make_torch_module(RESNET18, training=True).to(device, memory_format=layout)
    x = torch.from_numpy(images).to(device, memory_format=layout)
    y = torch.from_numpy(labels[:, 0]).to(device)
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
    narrow = getattr(torch, dtype)

    def loss_of() -> Any:
        # A graph must not use the autocast cache.
        with torch.autocast(device, narrow, enabled=dtype != "float32", cache_enabled=False):
            return F.cross_entropy(module(x), y)

    return time_torch(how, parameters, optimizer, loss_of, STEPS_TO_COMPARE)


WORKLOADS = [
    Workload(
        "resnet18-train-64",
        "ResNet-18 training step, momentum, batch 64, 224×224",
        "ms",
        {
            "opwright": partial(opwright, "cudnn"),
            "opwright, varying": partial(opwright, "cudnn", varies=True),
            "opwright, own convolutions": partial(opwright, "native"),
            **{f"torch {how}": partial(torch, how) for how in HOWS},
            "torch graph, contiguous": partial(torch, "graph", channels_last=False),
            "torch deterministic": partial(torch, "graph", deterministic=True),
            "torch deterministic, contiguous": partial(
                torch, "graph", channels_last=False, deterministic=True
            ),
        },
        {
            "opwright": [Goal(ratio=1.0, of="torch deterministic")],
            "opwright, varying": [Goal(ratio=1.0, of="torch")],
        },
        # Batch normalization amplifies rounding. The small images of a dry run leave two values per
        # channel, so even PyTorch's two layouts differ by 0.07.
        tolerance=choose(1e-2, 0.2),
    ),
    Workload(
        "resnet18-train-64-tf32",
        "ResNet-18 training step, momentum, batch 64, 224×224, TF32",
        "ms",
        {
            "opwright": partial(opwright, "cudnn_tf32"),
            "opwright, cuDNN's first engines": partial(opwright, "cudnn_tf32", tunes=False),
            "opwright, channels first": partial(opwright, "cudnn_tf32", passes=["-nhwc"]),
            **{f"torch {how}": partial(torch, how, tf32=True) for how in HOWS},
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        tolerance=choose(3e-2, 0.2),
    ),
    Workload(
        "resnet18-train-64-bfloat16",
        "ResNet-18 training step, momentum, batch 64, 224×224, mixed with bfloat16",
        "ms",
        {
            "opwright": partial(opwright, "cudnn", dtype="bfloat16"),
            "opwright, channels first": partial(
                opwright, "cudnn", dtype="bfloat16", passes=["-nhwc"]
            ),
            **{f"torch {how}": partial(torch, how, dtype="bfloat16") for how in HOWS},
        },
        {"opwright": [Goal(ratio=1.0, of="torch")]},
        tolerance=choose(5e-2, 0.3),
    ),
]
