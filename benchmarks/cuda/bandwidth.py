"""Memory-bound operators on float32 arrays of a gigabyte, compared with a copy on the device.

To compute bandwidth, each byte that an operator must read or write is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpu import OurProgram, choose, open_opwright, open_torch, wait_for_torch
from workload import Goal, Timed, Workload

ROWS, WIDTH = choose((65536, 4096), (64, 128))
IMAGES = choose((256, 256, 64, 64), (4, 8, 16, 16))  # as many elements as [ROWS, WIDTH]
SIZE_BYTES = 4 * ROWS * WIDTH

# The number of one-gigabyte arrays that each operator reads and writes.
TRAFFIC = {
    "add": 3,
    "batch_norm": 3,  # images are read twice, the second time after their statistics are known
    **dict.fromkeys(("copy", "relu", "exp", "gelu", "softmax", "layer_norm"), 2),
    **dict.fromkeys(("sum", "cross_entropy"), 1),
}
EPSILON = 1e-5


def make_array(seed: int) -> np.ndarray:
    """Return float32 [65536, 4096] in [-0.5, 1)."""
    rng = np.random.default_rng(seed)
    return rng.random((ROWS, WIDTH), dtype="float32") * np.float32(1.5) - np.float32(0.5)


def make_labels() -> np.ndarray:
    """Return the class of each row, int64 [65536, 1]."""
    return np.random.default_rng(3).integers(0, WIDTH, (ROWS, 1))


def pick(result: Any) -> list[float]:
    """Return a few values of a result."""
    flat = np.asarray(result).ravel()
    return flat[:: max(1, flat.size // 64)].tolist()


def opwright(operator: str) -> Timed:
    """Prepare a compiled one-operator network; its arrays stay in the scope, on the device."""
    open_opwright()
    import opwright as ow

    inputs: dict[str, np.ndarray] = {"x": make_array(1)}
    slots, attrs, shape, op_type = {"x": "x"}, {}, [ROWS, WIDTH], operator
    if operator == "copy":
        op_type = "assign"
    elif operator == "add":
        inputs["y"], slots["y"] = make_array(2), "y"
    elif operator == "sum":
        shape = []
    elif operator == "layer_norm":
        inputs |= {"w": np.ones(WIDTH, "float32"), "b": np.zeros(WIDTH, "float32")}
        slots |= {"scale": "w", "bias": "b"}
        attrs = {"epsilon": EPSILON}
    elif operator == "batch_norm":
        return batch_norm(inputs["x"].reshape(IMAGES))
    elif operator == "cross_entropy":
        inputs["label"] = make_labels()
        slots, shape = {"logits": "x", "label": "label"}, [ROWS, 1]
        op_type = "softmax_with_cross_entropy"
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for name, array in inputs.items():
            block.create_var(name, array.shape, array.dtype)
        block.create_var("result", shape)
        block.append_op(op_type, slots, {"out": "result"}, attrs)
    return time_program(block, operator, inputs, tuple(shape))


def batch_norm(images: np.ndarray) -> Timed:
    """Batch normalization in training, on images with channels first."""
    import opwright as ow

    channels = images.shape[1]
    ones, zeros = np.ones(channels, "float32"), np.zeros(channels, "float32")
    inputs = {"x": images, "scale": ones, "bias": zeros, "mean": zeros, "variance": ones}
    outputs = {"out": "result", "mean_out": "mean", "variance_out": "variance"}
    saved = ("saved_mean", "saved_inv_std")
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for name, array in inputs.items():
            block.create_var(name, array.shape, array.dtype)
        block.create_var("result", images.shape)
        for name in saved:
            block.create_var(name, [channels])
        slots = {name: name for name in inputs}
        attrs = {"epsilon": EPSILON, "training": True}
        block.append_op("batch_norm", slots, outputs | {name: name for name in saved}, attrs)
    return time_program(block, "batch_norm", inputs, images.shape)


def time_program(
    block: Any, operator: str, inputs: dict[str, np.ndarray], shape: tuple[int, ...]
) -> Timed:
    """Return the timed call of a block that writes ``result``, a float32 array of this shape."""
    import opwright as ow

    program = OurProgram(block, ow.Scope(), inputs, {"result": np.zeros(shape, "float32")})
    program.call()
    return Timed(
        program.call,
        per=TRAFFIC[operator] * SIZE_BYTES,
        values=pick(program.read()),
        # Waiting must not read the one-gigabyte result repeatedly.
        wait=program.wait,
    )


def torch(operator: str) -> Timed:
    """Prepare the operator in PyTorch without autograd; it reuses its output array if possible."""
    torch, device = open_torch()
    from torch.nn import functional as F  # noqa: N812

    torch.set_grad_enabled(False)
    x = torch.from_numpy(make_array(1)).to(device)
    y = torch.from_numpy(make_array(2)).to(device) if operator == "add" else x
    label = torch.from_numpy(make_labels()[:, 0]).to(device)
    w, b = torch.ones(WIDTH, device=device), torch.zeros(WIDTH, device=device)
    out, total = torch.empty_like(x), torch.zeros((), device=device)
    images, ones = x.view(IMAGES), torch.ones(IMAGES[1], device=device)
    zeros, mean, variance = torch.zeros_like(ones), torch.zeros_like(ones), ones.clone()
    calls: dict[str, Callable[[], Any]] = {
        "copy": lambda: out.copy_(x),
        "add": lambda: torch.add(x, y, out=out),
        "relu": lambda: torch.clamp_min(x, 0, out=out),
        "exp": lambda: torch.exp(x, out=out),
        "gelu": lambda: torch.ops.aten.gelu.out(x, out=out),
        "softmax": lambda: torch.softmax(x, dim=1, out=out),
        "layer_norm": lambda: F.layer_norm(x, (WIDTH,), w, b, EPSILON),
        "batch_norm": lambda: F.batch_norm(
            images, mean, variance, ones, zeros, training=True, eps=EPSILON
        ),
        "sum": lambda: torch.sum(x, dim=(0, 1), out=total),
        "cross_entropy": lambda: F.cross_entropy(x, label, reduction="none"),
    }
    call = calls[operator]
    values = pick(call().cpu().numpy())
    return Timed(call, per=TRAFFIC[operator] * SIZE_BYTES, values=values, wait=wait_for_torch)


def copy() -> Timed:
    """Prepare a one-gigabyte copy on the device, performed by the driver."""
    torch, device = open_torch()
    x = torch.from_numpy(make_array(1)).to(device)
    out = torch.empty_like(x)
    return Timed(lambda: out.copy_(x), per=2 * SIZE_BYTES, wait=wait_for_torch)


def make_workload(operator: str) -> Workload:
    """Return the row of one operator."""
    goals = [Goal(ratio=0.9, of="copy")]
    if operator in ("softmax", "layer_norm", "batch_norm", "cross_entropy"):
        goals.append(Goal(ratio=1.0, of="torch"))
    return Workload(
        f"bandwidth-{operator}",
        f"{operator} on a gigabyte of float32",
        "GB/s",
        {"opwright": partial(opwright, operator), "torch": partial(torch, operator), "copy": copy},
        {"opwright": goals},
    )


WORKLOADS = [make_workload(operator) for operator in TRAFFIC]
