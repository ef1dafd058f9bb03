"""The replacement of an isolated kernel in a plan: it sends inputs and receives outputs."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, Final

import numpy as np

from opwright.errors import KernelError, SettingError
from opwright.kernel import KernelEntry, Refuse, Unsupported
from opwright.op import OpProto, canonical_dtype
from opwright.rewriting import LoweredOp
from opwright.runtime import Prepared, prepare_python
from opwright_kit.isolation.process import KernelCall, KernelProcess, Options

TIME_LIMIT: Final = "OPWRIGHT_ISOLATE_TIME_LIMIT"
"""The environment variable with the time limit of an isolated kernel in seconds."""

_DEFAULT_LIMIT_S: Final = 60.0

_processes: Final[dict[str, tuple[object, KernelProcess]]] = {}
"""For each plugin: the time limit and path of its process, and the process."""


def prepare_isolated(
    entry: KernelEntry,
    op: LoweredOp,
    packable: tuple[int, ...],
    options: Options,
    deterministic: bool,
) -> Prepared | Refuse:
    """Return a callable that runs a kernel in the process of its plugin, or the kernel's refusal.

    Lowering calls this function for the plugins that OPWRIGHT_ISOLATE names.

    Parameters
    ----------
    entry : KernelEntry
    op : LoweredOp
        The operator, with its values.
    packable : tuple of int
        Flat arguments that the plan reads from the scope and never writes.
    options : tuple of (str, value)
        Options that differ from their defaults.
    deterministic : bool
        Whether results must not depend on the number of threads.

    Raises
    ------
    KernelError
        If ``prepare`` fails, ends the process, or does not return.
    SettingError
        If OPWRIGHT_ISOLATE_TIME_LIMIT is not a positive number.
    """
    proto = op.definition.proto
    call = KernelCall(
        tuple(entry.key),
        tuple(entry.package),
        tuple(op.attrs.items()),
        tuple(tuple((v.meta.shape, v.meta.dtype) for v in slot) for slot in op.inputs),
        tuple(map(len, op.outputs)),
        packable if entry.takes_prepare else (),
        options,
        deterministic,
    )
    kernel = IsolatedKernel(entry, proto, call)
    if entry.takes_prepare:
        refusal = kernel.prepare()
        if refusal is not None:
            return refusal
    slots = (*proto.inputs, *proto.outputs)
    return prepare_python(
        kernel,
        list(range(len(slots))),
        duplicable=[i for i, slot in enumerate(slots) if slot.duplicable],
        op_type=proto.type,
    )


class IsolatedKernel:
    """A function of arrays that another process computes.

    The function is prepared for the shapes of `call`, and can be called with any other shapes.
    """

    def __init__(self, entry: KernelEntry, proto: OpProto, call: KernelCall) -> None:
        self._who = entry.who
        self._plugin = entry.package.plugin
        self._inputs = proto.inputs
        self._call = call

    def prepare(self) -> Refuse | None:
        """Prepare the kernel in its process; return its refusal, if any."""
        process = _find_process(self._plugin)
        with process.lock:
            kind, value = process.ask(self._who, "prepare", self._call)
        if kind == "lacks":
            return Unsupported(value)
        if kind == "refused":
            return Refuse(value)
        self._check(kind, value)
        return None

    def __call__(self, *slots: Any) -> None:
        """Compute outputs from inputs: arrays, tuples of them, or None for an absent slot."""
        n_inputs = len(self._inputs)
        inputs = [_as_tuple(slot) for slot in slots[:n_inputs]]
        outputs = [array for slot in slots[n_inputs:] for array in _as_tuple(slot)]
        metas = tuple(tuple((a.shape, canonical_dtype(a.dtype)) for a in slot) for slot in inputs)
        process = _find_process(self._plugin)
        with process.lock:
            memory = process.memory
            memory.end = 0
            places: list[int] = []
            for slot, arrays, described in zip(self._inputs, inputs, metas, strict=True):
                for array, meta in zip(arrays, described, strict=True):
                    places.append(-1 if slot.shape_only else memory.add(*meta))
                    if not slot.shape_only:
                        memory.view(places[-1], *meta)[...] = array
            call = self._call._replace(inputs=metas)
            kind, value = process.ask(self._who, "run", call, places, memory.end)
            self._check(kind, value)
            for out, (place, shape, dtype) in zip(outputs, value, strict=True):
                target = out if isinstance(out, np.ndarray) else out.resize(shape)
                target[...] = memory.view(place, shape, dtype)

    def _check(self, kind: str, value: Any) -> None:
        if kind == "failed":
            raise KernelError(f"{self._who}: the kernel failed in its process, got {value}")


def _as_tuple(slot: Any) -> tuple[Any, ...]:
    if slot is None:
        return ()
    return slot if isinstance(slot, tuple) else (slot,)


def _find_process(plugin: str) -> KernelProcess:
    limit_s = _read_time_limit()
    key = (limit_s, tuple(sys.path))
    old_key, process = _processes.get(plugin, (None, None))
    if process is None or old_key != key:
        process = KernelProcess(limit_s)
        _processes[plugin] = (key, process)  # the old process ends after its last request
    return process


def _read_time_limit() -> float:
    text = os.environ.get(TIME_LIMIT, "").strip()
    try:
        limit_s = float(text) if text else _DEFAULT_LIMIT_S
    except ValueError:
        limit_s = 0.0
    if not 0.0 < limit_s < math.inf:
        raise SettingError(
            f"{TIME_LIMIT}: must be a number of seconds above 0, got {text!r}; change it"
        )
    return limit_s
