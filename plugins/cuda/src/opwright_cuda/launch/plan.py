"""Launch plans, which are built in ``prepare`` and contain the launches of each run.

>>> class Cosine:
...     @staticmethod
...     def prepare(ctx):
...         rows, columns = ctx.inputs["x"][0].shape
...         plan = LaunchPlan(ctx)
...         arguments = [plan.input("x"), plan.output("out"), np.int64(columns)]
...         plan.launch(SOURCE, "cosine<float>", rows, 256, arguments)
...         return plan.finish()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from opwright.errors import KernelError
from opwright.kernel import DeviceCall, PrepareContext
from opwright.op import Meta
from opwright_cuda import native
from opwright_cuda.compile.compiler import Instance
from opwright_cuda.compile.toolchain import LoadedKernel, current_toolchain
from opwright_cuda.dtypes import ITEM_BYTES
from opwright_cuda.launch.arguments import FAULT, WORKSPACE, Argument, Constants, Pointer
from opwright_cuda.launch.copying import describe_copy
from opwright_cuda.options import ALLOW_TF32, ALLOW_VARYING, TUNE, EngineChoice
from opwright_cuda.source import Source

LAUNCH_NS: Final = 2_000
"""Estimated minimum time of a launch."""

_COMPILED_LATER: Final = LoadedKernel(0, None)
WORKSPACE_ALIGNMENT: Final = 256
MAX_GRID: Final = (2**31 - 1, 65_535, 65_535)
"""The maximum grid size along each dimension."""
MAX_THREADS: Final = 1024
"""Maximum threads in a block."""
FREE_SHARED_BYTES: Final = 48 * 1024
"""Maximum shared memory of a block that does not opt in to more."""


class ActionCode(IntEnum):
    """The code that begins an action record, ``ActionCode`` of native/launch/launch.h."""

    LAUNCH = 0
    FILL = 1
    PRODUCT = 2
    UNLESS_SAME = 3
    OPERATION_GRAPH = 4


class OperationGraph(Protocol):
    """The interface of a cuDNN graph that a plan needs; see `opwright_cuda.cudnn`."""

    @property
    def pointers(self) -> Sequence[Pointer | None]:
        """Pointers of the tensors, in order."""

    def record(self, places: Sequence[int], choice: EngineChoice) -> list[int]:
        """Return the record for native/cudnn/record.cc, with the pointers at `places`."""


class Grid(NamedTuple):
    """The number of blocks along each dimension."""

    x: int
    y: int = 1
    z: int = 1


class _Launch(NamedTuple):
    source: Source
    expression: str
    grid: Grid
    block: Grid
    shared_bytes: int
    places: list[int]
    sizes: tuple[int, ...]
    unless_same: tuple[int, ...] = ()


class LaunchPlan:
    """Collects the launches of one operator.

    Parameters
    ----------
    ctx : PrepareContext
        As given to ``prepare``.

    Attributes
    ----------
    gpu : GpuInfo
        The target GPU.
    """

    def __init__(self, ctx: PrepareContext) -> None:
        self._ctx = ctx
        self.gpu = native.describe_gpu(ctx.device_number)
        self._constants = Constants(ctx.op_type)
        self._actions: list[_Launch | list[int]] = []
        self._workspace_bytes = 0
        slots = [*ctx.inputs.items(), *ctx.outputs.items()]
        self._metas = [meta for _, metas in slots for meta in metas]
        self._begin: dict[tuple[bool, str], int] = {}
        flat = 0
        for i, (slot, metas) in enumerate(slots):
            self._begin[i < len(ctx.inputs), slot] = flat
            flat += len(metas)

    @property
    def allows_tf32(self) -> bool:
        """Whether float32 may be rounded to TF32 before it is multiplied."""
        return bool(self._ctx.options[ALLOW_TF32])

    @property
    def tunes(self) -> bool:
        """Whether library engines and algorithms are benchmarked."""
        return bool(self._ctx.options[TUNE]) and not self._ctx.deterministic

    def input(self, slot: str, index: int = 0) -> Pointer:
        """Return the address of an input's data, which is null for an empty input."""
        return self._argument(True, slot, index)

    def output(self, slot: str, index: int = 0) -> Pointer:
        """Return the address of an output's data, which is null for an empty output."""
        return self._argument(False, slot, index)

    def optional_input(self, slot: str) -> Pointer | None:
        """Return the address of an input's data, or None if the slot is absent."""
        return self.input(slot) if self._ctx.inputs[slot] else None

    def optional_output(self, slot: str) -> Pointer | None:
        """Return the address of an output's data, or None if the output is absent or never read."""
        is_wanted = self._ctx.outputs[slot] and slot not in self._ctx.unread
        return self.output(slot) if is_wanted else None

    def _argument(self, is_input: bool, slot: str, index: int) -> Pointer:
        metas = (self._ctx.inputs if is_input else self._ctx.outputs)[slot]
        if index >= len(metas):
            raise KernelError(
                f"{self._ctx.op_type}: slot {slot!r} holds {len(metas)} variables, "
                f"got index {index}; check ctx.inputs and ctx.outputs first"
            )
        return Pointer(self._begin[is_input, slot] + index, 0)

    def workspace(self, n_bytes: int) -> Pointer:
        """Return scratch memory, aligned to 256 bytes and not preserved between runs."""
        begin = -(-self._workspace_bytes // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        self._workspace_bytes = begin + n_bytes
        return Pointer(WORKSPACE, begin)

    def fault(self) -> Pointer:
        """Return the address of the device's fault record, a ``Fault*``."""
        return Pointer(FAULT, 0)

    def fault_text(self, text: str) -> np.int32:
        """Return the number with which a kernel reports a fault.

        Parameters
        ----------
        text : str
            The error's text, with ``{value}`` for the reported value.
        """
        return np.int32(native.register_fault(text))

    def launch(
        self,
        source: Source,
        expression: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Argument],
        shared_bytes: int = 0,
    ) -> None:
        """Add the launch of one kernel.

        Parameters
        ----------
        source : Source
            The source of the kernel.
        expression : str
            The instance of the ``__global__`` function: ``"cosine<float>"``.
        grid, block : int or sequence of int
            Blocks, and threads in a block, in up to three directions. An empty grid launches
            nothing.
        arguments : sequence
            The kernel's parameters, in order and with their types: pointers, NumPy scalars,
            structs.
        shared_bytes : int
            Dynamic shared memory of each block.

        Raises
        ------
        KernelError
            If grid, block or shared memory exceed the limits of GPUs.
        """
        if min(_grid(grid)) > 0:
            self._actions.append(
                self._prepare_launch(source, expression, grid, block, arguments, shared_bytes)
            )

    def _prepare_launch(
        self,
        source: Source,
        expression: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Argument],
        shared_bytes: int = 0,
    ) -> _Launch:
        blocks, threads = _grid(grid), _grid(block)
        if any(n > most for n, most in zip(blocks, MAX_GRID, strict=True)) or not (
            0 < threads.x * threads.y * threads.z <= MAX_THREADS
        ):
            raise KernelError(
                f"{self._ctx.op_type}: {expression} must be launched with a grid of at most "
                f"{MAX_GRID} and a block of at most {MAX_THREADS} threads, got {tuple(blocks)} "
                f"and {tuple(threads)}; give each thread more work"
            )
        if shared_bytes > self.gpu.shared_bytes:
            self._ctx.refuse(
                f"{expression} needs {shared_bytes} bytes of shared memory, "
                f"{self.gpu.name} has {self.gpu.shared_bytes}"
            )
        packed = [self._constants.pack(argument) for argument in arguments]
        places, sizes = [place for place, _ in packed], tuple(size for _, size in packed)
        return _Launch(source, expression, blocks, threads, shared_bytes, places, sizes)

    def fill(self, pointer: Pointer, n_bytes: int, value: int = 0) -> None:
        """Add a fill of memory with one byte value."""
        if n_bytes > 0:
            self._actions.append([ActionCode.FILL, self._place(pointer), n_bytes, value])

    def copy(self, out: Pointer, x: Pointer, n_bytes: int) -> None:
        """Add a copy of compact memory; nothing is launched if `out` is `x`."""
        if n_bytes > 0:
            copying = describe_copy(out, x, n_bytes)
            launch = self._prepare_launch(*copying)
            same = self._place(out), self._place(x)
            self._actions.append(launch._replace(unless_same=same))

    def product(self, numbers: Sequence[int], pointers: Sequence[Pointer | None]) -> None:
        """Add a matrix product by cuBLASLt; `opwright_cuda.products` provides its numbers."""
        places = [self._place(pointer) for pointer in pointers]
        self._actions.append([ActionCode.PRODUCT, *numbers, *places])

    def operations(self, graph: OperationGraph) -> None:
        """Add a cuDNN graph, and add its workspace to the workspace of the plan."""
        places = [self._place(pointer) for pointer in graph.pointers]
        allows_varying = bool(self._ctx.options[ALLOW_VARYING]) and not self._ctx.deterministic
        choice = EngineChoice(self.allows_tf32, self.tunes, allows_varying)
        self._actions.append([ActionCode.OPERATION_GRAPH, *graph.record(places, choice)])

    def _place(self, pointer: Pointer | None) -> int:
        return self._constants.pack(pointer)[0]

    def finish(self, estimate_ns: int | None = None) -> DeviceCall:
        """Return the result of ``prepare``; compile the kernels unless lowering defers compilation.

        Parameters
        ----------
        estimate_ns : int, optional
            Estimated time of a run; by default the time of a launch plus reading and writing every
            argument.
        """
        kernels = self._compile()
        actions: list[int] = []
        for action in self._actions:
            if isinstance(action, _Launch):
                handle, sizes = kernels[action.source, action.expression]
                if sizes is not None:
                    self._check_sizes(action, sizes)
                if handle and action.shared_bytes > FREE_SHARED_BYTES:
                    native.allow_shared(handle, self._ctx.device_number, action.shared_bytes)
                if action.unless_same:
                    actions += [ActionCode.UNLESS_SAME, *action.unless_same]
                actions += [ActionCode.LAUNCH, handle, *action.grid, *action.block]
                actions += [action.shared_bytes, len(action.places), *action.places]
            else:
                actions += action
        attrs: Mapping[str, Any] = {
            "name": self._ctx.op_type,
            "constants": bytes(self._constants.data),
            "fixups": self._constants.fixups,
            "actions": actions,
            "workspace": self._workspace_bytes,
            "estimate": self._estimate() if estimate_ns is None else estimate_ns,
        }
        return DeviceCall("cuda.launch", attrs)

    def _check_sizes(self, action: _Launch, sizes: tuple[int, ...]) -> None:
        """Check that packed arguments have the sizes of the parameters; the driver does not."""
        if action.sizes != sizes:
            raise KernelError(
                f"{self._ctx.op_type}: the parameters of {action.expression} in "
                f"{action.source.name} have {sizes} bytes, got arguments of {action.sizes}; "
                "pass arguments with the types of the parameters, in their order"
            )

    def _compile(self) -> dict[tuple[Source, str], LoadedKernel]:
        """Return the kernels, or placeholders if compilation is deferred to the end of lowering."""
        wanted: dict[Source, dict[str, None]] = {}
        for action in self._actions:
            if isinstance(action, _Launch):
                wanted.setdefault(action.source, {})[action.expression] = None
        toolchain, arch = current_toolchain(), self.gpu.arch
        instances = [Instance(s, e, arch) for s, expressions in wanted.items() for e in expressions]
        missing = [i for i in instances if toolchain.must_compile(i)]
        if missing and self._ctx.defer(toolchain.compile, missing):
            return {(i.source, i.expression): _COMPILED_LATER for i in instances}
        found = {}
        for source, expressions in wanted.items():
            kernels = toolchain.find(source, list(expressions), arch)
            for expression, kernel in zip(expressions, kernels, strict=True):
                found[source, expression] = kernel
        return found

    def _estimate(self) -> int:
        n_bytes = sum(bytes_of(meta) for meta in self._metas)
        return LAUNCH_NS * len(self._actions) + n_bytes // 2_000  # two terabytes per second


def _grid(extent: int | Sequence[int]) -> Grid:
    return Grid(extent) if isinstance(extent, int) else Grid(*extent)


def bytes_of(meta: Meta) -> int:
    """Return the size of a tensor in bytes."""
    return count_of(meta) * ITEM_BYTES[meta.dtype]


def count_of(meta: Meta) -> int:
    """Return the number of elements of a tensor."""
    n = 1
    for dim in meta.shape:
        n *= dim
    return n


def fill_zeros(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write zeros to all outputs."""
    for slot, metas in ctx.outputs.items():
        if metas:
            plan.fill(plan.output(slot), bytes_of(metas[0]))


def refuse_for(ctx: PrepareContext, reason: str | None) -> None:
    """Refuse the operator if a reason is given."""
    if reason is not None:
        ctx.refuse(reason)


class Kernel:
    """A kernel made from a function that fills a plan; hooks register it for its ``prepare``.

    Parameters
    ----------
    fill_in : callable
        Called with the context and an empty `LaunchPlan`; it adds launches.
    """

    def __init__(self, fill_in: Callable[[PrepareContext, LaunchPlan], None]) -> None:
        self._fill_in = fill_in
        self.__doc__ = fill_in.__doc__

    def prepare(self, ctx: PrepareContext) -> DeviceCall:
        """Build the launch plan; see `opwright.kernel`."""
        plan = LaunchPlan(ctx)
        self._fill_in(ctx, plan)
        return plan.finish()
