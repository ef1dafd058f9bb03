"""Elementwise operators and reductions on arrays of 64 MB, compared with the copy bandwidth.

Bandwidth counts each byte that an operator must read or write once. A store through the cache also
reads its line first. This read is not counted, so avoiding it appears as higher bandwidth. "copy"
is the fastest of three ways to copy such an array: NumPy's, memcpy in two threads, and stores that
bypass the cache in two threads. All results are written to an existing array, since page faults in
a new array of 64 MB would cost more than the copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from native import compile_library
from workload import Goal, Timed, Workload

ROWS, WIDTH = 16 * 1024, 1024
SIZE_BYTES = 4 * ROWS * WIDTH

# The number of 64 MB arrays that each operator reads and writes.
TRAFFIC = {
    "add": 3,
    **dict.fromkeys(("relu", "exp", "log", "sigmoid", "tanh", "silu", "gelu", "softplus"), 2),
    **dict.fromkeys(("softmax", "log_softmax"), 2),
    **dict.fromkeys(("sum", "max"), 1),
}
SHARE = 0.9


def make_array(seed: int = 1) -> np.ndarray:
    """Return float32 [16384, 1024] in [-0.5, 1)."""
    rng = np.random.default_rng(seed)
    return rng.random((ROWS, WIDTH), dtype="float32") * np.float32(1.5) - np.float32(0.5)


def first_input(operator: str) -> np.ndarray:
    """Return the input of an operator, with values within its domain."""
    return np.abs(make_array()) if operator == "log" else make_array()


def timed(operator: str, call: Callable[[], Any], result: Callable[[], Any]) -> Timed:
    """Return a call, with a few values of its result."""
    call()
    values = np.asarray(result()).ravel()[:: 1024 * 1024 + 1].tolist()
    return Timed(call, per=TRAFFIC[operator] * SIZE_BYTES, values=values)


def opwright(operator: str) -> Timed:
    """Prepare a compiled one-operator network that writes into the scope."""
    import opwright as ow

    feeds = {"x": first_input(operator), "y": make_array(2)}
    if operator != "add":
        del feeds["y"]
    is_reduction = TRAFFIC[operator] == 1
    out = np.zeros(() if is_reduction else (ROWS, WIDTH), "float32")
    scope = ow.Scope()
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for name in feeds:
            block.create_var(name, shape=[ROWS, WIDTH])
        block.create_var("out", shape=out.shape, persistable=True)
        block.append_op(operator, {name: name for name in feeds}, {"out": "out"})
    scope.var("out").set(out)
    call = ow.Network(block).compile(feed=list(feeds), fetch=[], scope=scope)
    return timed(operator, lambda: call(**feeds), lambda: scope.find_var("out").numpy())


def numpy(operator: str) -> Timed:
    """Prepare the operator in NumPy, which uses one thread."""
    x, y, out = make_array(), make_array(2), np.zeros((ROWS, WIDTH), "float32")
    total = np.zeros((), "float32")
    calls: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
        "add": (lambda: np.add(x, y, out=out), out),
        "relu": (lambda: np.maximum(x, np.float32(0), out=out), out),
        "sum": (lambda: np.sum(x, out=total), total),
        "max": (lambda: np.max(x, out=total), total),
    }
    call, result = calls[operator]
    return timed(operator, call, lambda: result)


def torch(operator: str) -> Timed:
    """Prepare the operator in PyTorch without autograd; it writes into an existing array."""
    import torch

    torch.set_grad_enabled(False)
    x, y = torch.from_numpy(first_input(operator)), torch.from_numpy(make_array(2))
    out, total = torch.zeros(ROWS, WIDTH), torch.zeros(())
    calls: dict[str, tuple[Callable[[], Any], torch.Tensor]] = {
        "add": (lambda: torch.add(x, y, out=out), out),
        "relu": (lambda: torch.clamp_min(x, 0, out=out), out),
        "exp": (lambda: torch.exp(x, out=out), out),
        "log": (lambda: torch.log(x, out=out), out),
        "sigmoid": (lambda: torch.sigmoid(x, out=out), out),
        "tanh": (lambda: torch.tanh(x, out=out), out),
        "silu": (lambda: torch.ops.aten.silu.out(x, out=out), out),
        "gelu": (lambda: torch.ops.aten.gelu.out(x, out=out), out),
        "softplus": (lambda: torch.ops.aten.softplus.out(x, out=out), out),
        "softmax": (lambda: torch.softmax(x, dim=1, out=out), out),
        "log_softmax": (lambda: torch.log_softmax(x, dim=1, out=out), out),
        "sum": (lambda: torch.sum(x, dim=(0, 1), out=total), total),
        "max": (lambda: torch.amax(x, dim=(0, 1), out=total), total),
    }
    call, result = calls[operator]
    return timed(operator, call, lambda: result)


def copy(how: str) -> Timed:
    """Prepare a copy of 64 MB: NumPy's, memcpy in two threads, or stores that bypass the cache."""
    library = compile_library("copy")
    x, out = make_array(), np.zeros((ROWS, WIDTH), "float32")
    to, source = (array.ctypes.data_as(ctypes.c_void_p) for array in (out, x))
    size = ctypes.c_int64(SIZE_BYTES)
    ways: dict[str, Callable[[], Any]] = {
        "numpy": lambda: np.copyto(out, x),
        "memcpy": lambda: library.copy_memcpy(to, source, size),
        "streaming": lambda: library.copy_streaming(to, source, size),
    }
    return Timed(ways[how], per=2 * SIZE_BYTES)


def make_workload(operator: str) -> Workload:
    """Return the row of one operator."""
    implementations: dict[str, Callable[[], Timed]] = {
        "opwright": partial(opwright, operator),
        "torch": partial(torch, operator),
        "copy, NumPy": partial(copy, "numpy"),
        "copy, memcpy": partial(copy, "memcpy"),
        "copy, streaming stores": partial(copy, "streaming"),
    }
    if operator in ("add", "relu", "sum", "max"):
        implementations["numpy"] = partial(numpy, operator)
    return Workload(
        f"bandwidth-{operator}",
        f"{operator} on 64 MB of float32",
        "GB/s",
        implementations,
        {"opwright": [Goal(ratio=SHARE, of="copy")]},
    )


WORKLOADS = [make_workload(operator) for operator in TRAFFIC]
