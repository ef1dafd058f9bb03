"""Runs PyTorch calls on tensors that are views of the arrays of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from ctypes import c_char
from typing import Any, Final

import numpy as np
import torch

from opwright.kernel import PrepareContext
from opwright.op import dtype_from_numpy
from opwright_torch.calls.text import Calls, read
from opwright_torch.dtypes import torch_dtype

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array] | None
Run = Callable[[], None]

_PRIME: Final = 0x9E3779B97F4A7C15


def ready(ctx: PrepareContext) -> Any:
    """Return a function that binds the operator to the arrays of a plan."""
    calls = read(ctx.attrs["call"])
    if ctx.op_type == "torch.call":
        return _Call(calls)
    if ctx.op_type == "torch.random_call":
        return _RandomCall(calls, ctx.attrs["seed"], ctx.attrs["stream"] or 0)
    return _CallGrad(calls, ctx)


class _Call:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def bind(self, x: Arrays, out: Sequence[Array]) -> Run:
        tensors, results = as_tensors(x), as_tensors(out)
        compute = self._calls.bind(tensors)

        def run() -> None:
            for result, value in zip(results, compute(), strict=True):
                _write(result, value)

        return _guarded(run, self._calls, self._calls.find_writer(tensors, results))


def _guarded(
    run: Run, calls: Calls, later: Callable[[], object] | None = None, what: str = ""
) -> Run:
    """Wrap `run` so that errors name the PyTorch operators; `later` replaces `run` after a call.

    Only the first call checks shapes, since they are constant. Autocast is disabled, since the
    graph contains its casts.
    """
    follower = later or run
    current: Callable[[], object] = run

    def run_guarded() -> None:
        nonlocal current
        if torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                run_guarded()
            return
        try:
            current()
        except Exception as error:
            names, text = ", ".join(calls.names), " ".join(str(error).split())
            raise RuntimeError(f"{what}{names}: {type(error).__name__}: {text}") from error
        current = follower

    return run_guarded


class _RandomCall:
    def __init__(self, calls: Calls, seed: int, stream: int) -> None:
        self._calls, self._seed, self._stream = calls, seed, stream

    def bind(self, x: Arrays, step: Array | None, out: Sequence[Array]) -> Run:
        run, seed, stream = _Call(self._calls).bind(x, out), self._seed, self._stream

        def run_seeded() -> None:
            with _seeded(seed, stream, step):
                run()

        return run_seeded


class _CallGrad:
    def __init__(self, calls: Calls, ctx: PrepareContext) -> None:
        self._calls = calls
        self._wanted, self._given = ctx.attrs["wanted"], ctx.attrs["given"]
        self._stream = ctx.attrs["stream"]
        self._seed = ctx.attrs["seed"]

    def bind(
        self, x: Arrays, step: Array | None, out_grad: Sequence[Array], x_grad: Sequence[Array]
    ) -> Run:
        tensors, grads, results = as_tensors(x), as_tensors(out_grad), as_tensors(x_grad)

        def run() -> None:
            is_random = self._stream is not None
            with _seeded(self._seed, self._stream, step) if is_random else nullcontext():
                found = self._differentiate(tensors, grads)
            for result, grad in zip(results, found, strict=True):
                result.zero_() if grad is None else _write(result, grad)

        return _guarded(run, self._calls, what="the gradient of ")

    def _differentiate(
        self, tensors: list[torch.Tensor], grads: list[torch.Tensor]
    ) -> Sequence[torch.Tensor | None]:
        with torch.inference_mode(False), torch.enable_grad():
            leaves = list(tensors)
            for i in self._wanted:
                leaves[i] = tensors[i].detach().requires_grad_()
            values = self._calls.run(leaves)
            pairs = [(values[i], g) for i, g in zip(self._given, grads) if values[i].requires_grad]
            inputs = [leaves[i] for i in self._wanted]
            if not pairs:
                return [None] * len(inputs)
            ends, seeds = zip(*pairs)
            found: Sequence[torch.Tensor | None] = torch.autograd.grad(
                ends, inputs, seeds, allow_unused=True
            )
            return found


def _write(result: torch.Tensor, value: torch.Tensor) -> None:
    if result.shape != value.shape:
        raise ValueError(
            f"the call must return {result.dtype} {list(result.shape)}, as declared, got "
            f"{value.dtype} {list(value.shape)}"
        )
    result.copy_(value.detach())


@contextmanager
def _seeded(seed: int, stream: int, step: Array | None) -> Iterator[None]:
    """Seed PyTorch's generator for one step, and restore its state afterwards."""
    turn = 0 if step is None else int(step.reshape(-1)[0])
    state = torch.get_rng_state()
    torch.manual_seed((seed + (stream + 1) * _PRIME + turn * 0xBF58476D1CE4E5B9) % 2**63)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def as_tensors(arrays: Iterable[Array] | None) -> list[torch.Tensor]:
    """Return tensors that are views of arrays and keep them alive."""
    return [as_tensor(array) for array in arrays or ()]


def as_tensor(array: Array) -> torch.Tensor:
    """Return a tensor that is a view of an array and keeps it alive.

    ``from_numpy`` warns about read-only arrays, and lacks some dtypes.
    """
    dtype, size = torch_dtype(dtype_from_numpy(array.dtype)), array.dtype.itemsize
    if array.size == 0:
        return torch.empty(array.shape, dtype=dtype)
    if any(step < 0 or step % size for step in array.strides) or not array.dtype.isnative:
        raise ValueError(
            f"strides of a {array.dtype} array must be valid for a tensor, got "
            f"{array.strides}; feed a contiguous array"
        )
    reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides)) + size
    memory = (c_char * reach).from_address(array.ctypes.data)
    memory.__dict__["array"] = array
    flat = torch.frombuffer(memory, dtype=dtype)
    return flat.as_strided(array.shape, [step // size for step in array.strides])
