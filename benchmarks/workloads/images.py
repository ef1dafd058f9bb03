"""Image networks: inference of one 224×224 image, in opwright also in bfloat16, and training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from networks.images import CLASSES, MOBILENET, RESNET18, RESNEXT, ImageNetwork
from workload import Goal, NotAvailableError, Timed, Workload

BATCH, SIZE = 16, 96
LEARNING_RATE = 0.01
STEPS_TO_COMPARE = 3


def timed(call: Any) -> Timed:
    """Return a call and its logits."""
    return Timed(call, values=np.asarray(call()).ravel().tolist())


def make_image() -> np.ndarray:
    """Return float32 [1, 3, 224, 224]."""
    return np.random.default_rng(28).standard_normal((1, 3, 224, 224), dtype="float32")


def opwright(network: ImageNetwork, dtype: str = "float32") -> Timed:
    """Prepare layers in inference mode and one compiled network."""
    import opwright as ow
    from networks.image_programs import append_network
    from opwright.op import dtype_to_numpy
    from opwright_nn import layers

    scope, numpy_dtype = ow.Scope(), dtype_to_numpy(dtype)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = layers.data("x", shape=[None, 3, 224, 224], dtype=dtype)
        logits, initial = append_network(network, x, training=False)
    for name, value in initial.items():
        variable = main.global_block().var(name)
        scope.var(name).set(value.astype(dtype_to_numpy(variable.dtype)))
    image = make_image().astype(numpy_dtype)
    call = ow.Network(main.global_block()).compile(feed=["x"], fetch=[logits], scope=scope)
    return timed(lambda: call(x=image)[0])


def opwright_bfloat16(network: ImageNetwork) -> Timed:
    """Prepare the network with all arrays in bfloat16, if the processor can multiply them."""
    check_bfloat16()
    return opwright(network, "bfloat16")


def check_bfloat16() -> None:
    """Raise if the processor cannot multiply bfloat16."""
    flags = Path("/proc/cpuinfo").read_text().split()
    if "avx512_bf16" not in flags and "amx_bf16" not in flags:
        raise NotAvailableError("this processor has no bfloat16 instructions")


def torch(network: ImageNetwork, channels_last: bool = False, how: str = "eager") -> Timed:
    """Prepare the network: eager, with torch.compile, or traced and optimized for inference."""
    import torch

    from networks.image_programs import make_torch_module

    torch.set_grad_enabled(False)
    module, x = make_torch_module(network, training=False), torch.from_numpy(make_image())
    if channels_last:
        module, x = (value.to(memory_format=torch.channels_last) for value in (module, x))
    if how == "compile":
        torch._inductor.config.freezing = True
        module = torch.compile(module)
    elif how == "traced":
        module = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, x)))
    return timed(lambda: module(x).numpy())


def onnxruntime(network: ImageNetwork) -> Timed:
    """Prepare a session with Conv, BatchNormalization, Relu, Clip, Add nodes, on NumPy arrays."""
    from networks.onnx_models import make_image_network
    from peers import open_session

    session = open_session(make_image_network(network))
    feed = {"x": make_image()}
    return timed(lambda: session.run(None, feed)[0])


def make_batch(batch: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images float32 [batch, 3, size, size] and labels int64 [batch, 1]."""
    rng = np.random.default_rng(29)
    images = rng.standard_normal((batch, 3, size, size), dtype="float32")
    return images, rng.integers(0, CLASSES, (batch, 1))


def timed_step(step: Callable[[], float]) -> Timed:
    """Return a step with the losses of its first calls."""
    return Timed(step, values=[step() for _ in range(STEPS_TO_COMPARE)])


def opwright_step(
    network: ImageNetwork, batch: int = BATCH, size: int = SIZE, mixed: bool = False
) -> Timed:
    """Prepare a program of layers and one compiled step, in mixed precision if supported."""
    import opwright as ow
    import opwright_nn as nn
    from networks.image_programs import append_network
    from opwright_nn import layers

    if mixed:
        check_bfloat16()
    precision = nn.mixed_precision("bfloat16" if mixed else "float32")
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup), precision:
        x = layers.data("x", shape=[None, 3, size, size])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        logits, initial = append_network(network, x, training=True)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, y))
        nn.optimizer.SGD(LEARNING_RATE).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    while initial:  # leaves the arrays to the scope
        name, value = initial.popitem()
        scope.find_var(name).set(value)
    del value
    images, labels = make_batch(batch, size)
    call = ow.Network(main.global_block()).compile(feed=["x", "y"], fetch=[loss], scope=scope)
    return timed_step(lambda: float(call(x=images, y=labels)[0]))


def torch_step(
    network: ImageNetwork,
    compiled: bool = False,
    channels_last: bool = False,
    batch: int = BATCH,
    size: int = SIZE,
) -> Timed:
    """Prepare a module with autograd, and torch.optim.SGD for all parameters at once."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    from networks.image_programs import make_torch_module

    layout = torch.channels_last if channels_last else torch.contiguous_format
    images, labels = make_batch(batch, size)
    module = make_torch_module(network, training=True).to(memory_format=layout)
    x, y = torch.from_numpy(images).to(memory_format=layout), torch.from_numpy(labels[:, 0])
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, foreach=True)
    forward = torch.compile(module) if compiled else module

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return timed_step(step)


def inference(name: str, title: str, network: ImageNetwork, ratio: float) -> Workload:
    """Return the row for inference of one image by a network."""
    return Workload(
        f"{name}-infer-1",
        f"{title} inference, batch 1, 224×224",
        "ms",
        {
            "opwright": partial(opwright, network),
            "opwright bfloat16": partial(opwright_bfloat16, network),
            "onnxruntime": partial(onnxruntime, network),
            "torch": partial(torch, network),
            "torch channels_last": partial(torch, network, channels_last=True),
            "torch.jit traced": partial(torch, network, how="traced"),
            "torch.compile": partial(torch, network, how="compile"),
        },
        {"opwright": [Goal(ratio=ratio)], "opwright bfloat16": [Goal(ratio=0.5)]},
        tolerance=1e-3,
        # bfloat16 has eight bits of mantissa, and there are 18 layers or more.
        tolerances={"opwright bfloat16": 0.1},
    )


def training(
    name: str,
    title: str,
    network: ImageNetwork,
    batch: int = BATCH,
    size: int = SIZE,
    mixed: bool = False,
) -> Workload:
    """Return the row for the training step of a network, optionally also in mixed precision."""
    sizes = {"batch": batch, "size": size}
    step = partial(torch_step, network, **sizes)
    reduced = {"opwright bfloat16": partial(opwright_step, network, mixed=True, **sizes)}
    return Workload(
        f"{name}-train-{batch}",
        f"{title} training step, SGD, batch {batch}, {size}×{size}",
        "ms",
        {
            "opwright": partial(opwright_step, network, **sizes),
            **(reduced if mixed else {}),
            "torch": step,
            "torch channels_last": partial(step, channels_last=True),
            "torch.compile": partial(step, compiled=True),
        },
        {
            "opwright": [Goal(ratio=0.75, of="torch")],
            **({kind: [Goal(ratio=0.55, of="opwright")] for kind in reduced} if mixed else {}),
        },
        # Batch normalization over the few values of late layers amplifies rounding.
        tolerance=1e-2,
        tolerances={"opwright bfloat16": 0.1},
    )


WORKLOADS = [
    inference("resnet18", "ResNet-18", RESNET18, 1.0),
    inference("mobilenet", "MobileNetV2", MOBILENET, 0.95),
    inference("resnext", "ResNeXt of two blocks a stage", RESNEXT, 0.95),
    training("resnet18", "ResNet-18", RESNET18, batch=8, size=224, mixed=True),
    training("mobilenet", "MobileNetV2", MOBILENET),
    training("resnext", "ResNeXt of two blocks a stage", RESNEXT),
]
