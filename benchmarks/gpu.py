"""Code that GPU workloads share: flags of both frameworks, device data, PyTorch variants.

``OPWRIGHT_BENCH_DRY=1`` runs the scripts without a GPU, with small sizes, opwright in the emulator,
and PyTorch on the CPU. The figures are then meaningless.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from workload import NotAvailableError, Timed

DRY = os.environ.get("OPWRIGHT_BENCH_DRY") == "1"
EMULATOR = Path(__file__).parents[1] / "build" / "emulator"


def choose(real: Any, dry: Any) -> Any:
    """Return the measured size, or a small size for a dry run."""
    return dry if DRY else real


@contextmanager
def alone() -> Iterator[None]:
    """Use the GPU exclusively, since other processes would disturb the timing of engines."""
    with (Path(tempfile.gettempdir()) / "opwright-bench-gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# -- opwright ----------------------------------------------------------------------------------


def open_opwright() -> None:
    """Check that the device "cuda" can be used."""
    from opwright.errors import OpwrightError
    from opwright_cuda import native

    if DRY:
        from opwright_cuda_emulator import start

        start(Path(os.environ.get("OPWRIGHT_EMULATOR_DIR", EMULATOR)))
        return
    try:
        if not native.count_gpus():
            raise NotAvailableError("no GPU is visible")
    except OpwrightError as error:
        raise NotAvailableError(str(error)) from error


def convolve_by(library: str) -> None:
    """Use "cudnn", "cudnn_tf32" or "native" for all convolutions in this process."""
    import opwright as ow
    from opwright_cuda import cudnn

    reason = cudnn.find_refusal() if library != "native" else None
    if reason is not None:
        raise NotAvailableError(reason)
    for op_type in ("conv2d", "conv2d_grad"):
        ow.current_context().pin(op_type, library)


class OurProgram:
    """A program whose inputs and results stay on the GPU, so calls do not copy data.

    Parameters
    ----------
    block : Block
        The operators; variables with an array in `inputs` or `results` become persistable.
    scope : Scope
        Holds the parameters.
    inputs : mapping of str to array
        The inputs of every call.
    results : mapping of str to array
        The outputs of every call, with their initial contents.
    tf32 : bool
        Whether float32 may be rounded to TF32.
    tunes : bool
        Whether cuDNN engines are benchmarked, as PyTorch does here.
    varies : bool
        Whether cuDNN can use a different summation order in each run, as for PyTorch.
    passes : sequence of str, optional
        As for `Network.compile`.
    """

    def __init__(
        self,
        block: Any,
        scope: Any,
        inputs: Mapping[str, Any],
        results: Mapping[str, Any],
        tf32: bool = False,
        tunes: bool = True,
        varies: bool = False,
        passes: Sequence[str] | None = None,
    ) -> None:
        import opwright as ow

        for name, array in {**inputs, **results}.items():
            block.var(name).persistable = True
            scope.var(name).set(array)
        self._scope, self._result = scope, next(iter(results))
        self._mark = put_on_gpu(np.zeros(1, "float32"))
        self.network = ow.Network(block)
        options = {"cuda.allow_tf32": tf32, "cuda.tune": tunes, "cuda.allow_varying": varies}
        self.call = self.network.compile(
            [], [], device="cuda", scope=scope, options=options, passes=passes
        )

    def read(self) -> np.ndarray[Any, Any]:
        """Wait and return the first result."""
        found: np.ndarray[Any, Any] = self._scope.find_var(self._result).numpy()
        return found

    def wait(self) -> None:
        """Wait for all calls by reading a value; the read follows them on the device stream."""
        self._mark.numpy()

    def step(self) -> float:
        """Call the step and return its result, a loss."""
        self.call()
        return self.read().item()


def put_on_gpu(array: np.ndarray[Any, Any]) -> Any:
    """Copy an array to the GPU as an opwright tensor."""
    import opwright as ow

    network = ow.Network([ow.Operator("assign", x="x", out="out")])
    move = network.compile(
        feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope(), fetch_device=True
    )
    return move(x=array)[0]


def time_training(program: OurProgram, n_steps: int) -> Timed:
    """Return a step with its first losses."""
    with alone():
        losses = [program.step() for _ in range(n_steps)]
    refusal = program.network.placement().graph_refusal
    if refusal:
        raise RuntimeError(f"the step could not be captured as a graph: {refusal}")
    return Timed(program.call, values=losses, wait=program.wait)


# -- PyTorch -----------------------------------------------------------------------------------


def open_torch(tf32: bool = False, deterministic: bool = False) -> tuple[Any, str]:
    """Return PyTorch with the same flags as opwright, and its device.

    16-bit products are accumulated in float32. cuDNN benchmarks its algorithms; unless
    `deterministic` is true, this includes nondeterministic algorithms.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = deterministic
    if DRY:
        return torch, "cpu"
    if not torch.cuda.is_available():
        raise NotAvailableError("PyTorch does not find a GPU")
    return torch, "cuda"


def wait_for_torch() -> None:
    """Wait until all work that PyTorch has enqueued is done."""
    if not DRY:
        import torch

        torch.cuda.synchronize()


HOWS = ("eager", "compile", "reduce-overhead", "graph")
"""Eager; torch.compile; torch.compile with CUDA graphs; the whole step as one CUDA graph."""


def time_torch(
    how: str,
    parameters: Sequence[Any],
    optimizer: Any,
    loss_of: Callable[[], Any],
    n_steps: int,
) -> Timed:
    """Return a PyTorch training step in one of its variants, with its first losses.

    Parameters
    ----------
    how : str
        One of `HOWS`.
    parameters : sequence of Tensor
        The updated parameters.
    optimizer : Optimizer
        Their optimizer; for a graph, it must be capturable, and its states must be initially 0.
    loss_of : callable
        Computes the loss of data on the device.
    n_steps : int
        The number of losses to return.
    """
    import torch

    if how == "compile":
        loss_of = torch.compile(loss_of)
    elif how == "reduce-overhead":
        loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step() -> Any:
        if how == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    # The GPU is not reserved during compilation, which takes much longer than benchmarking engines.
    with nullcontext() if "compile" in how or "reduce" in how else alone():
        call = record(step, parameters, optimizer) if how == "graph" else step
        losses = [call().item() for _ in range(n_steps)]
    return Timed(call, values=losses, wait=wait_for_torch)


def record(step: Callable[[], Any], parameters: Sequence[Any], optimizer: Any) -> Callable[[], Any]:
    """Return a step that replays a graph; recording leaves parameters and states unchanged."""
    import torch

    if DRY:
        raise NotAvailableError("graphs need a GPU")
    initial = [parameter.detach().clone() for parameter in parameters]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for parameter, value in zip(parameters, initial, strict=True):
            parameter.copy_(value)
        for states in optimizer.state.values():
            for state in states.values():
                if torch.is_tensor(state):
                    state.zero_()

    def replay() -> Any:
        graph.replay()
        return loss

    return replay
