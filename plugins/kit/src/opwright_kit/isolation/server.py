"""Runs the kernels of an isolated plugin, in its process; see `opwright_kit.isolation`."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opwright import (
    Network,
    Operator,
    Scope,
    context_guard,
    current_context,
    set_num_threads,
)
from opwright.commands import Channel
from opwright.device import HOST_DEVICE
from opwright.errors import KernelError, OpwrightError
from opwright.kernel import KernelEntry, Refuse, Unsupported, prepare_one
from opwright.op import Meta, canonical_dtype, dtype_to_numpy
from opwright.plugin import Package
from opwright.runtime import CompiledNetwork
from opwright_kit.isolation.memory import SharedMemory
from opwright_kit.isolation.process import KernelCall

_MAX_NETWORKS: Final = 256
"""Number of cached networks, each with its plans: the operators of a large model."""

Answer = tuple[str, Any]


class KernelNetwork(NamedTuple):
    """A network of one operator."""

    names: list[str]  # names of its inputs, flat
    variables: frozenset[str]  # inputs read from the scope, which the kernel may pack
    run: CompiledNetwork


class Kernels:
    """Prepares and runs the kernels of requests, and caches them for later requests."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._context = current_context()
        self._networks: OrderedDict[KernelCall, KernelNetwork] = OrderedDict()

    def answer(self, n_threads: int, method: str, *arguments: Any) -> Answer:
        """Call `prepare` or `run` with `n_threads` threads; return the result or the failure."""
        set_num_threads(n_threads)
        try:
            answer: Answer = getattr(self, method)(*arguments)
        except OpwrightError as error:
            return "failed", str(error)
        return answer

    def prepare(self, call: KernelCall) -> Answer:
        """Prepare a kernel; return whether it refuses, and why."""
        entry = self._find(call)
        definition = self._context.ops.get(entry.op_type)
        inputs = tuple(tuple(Meta(*meta) for meta in slot) for slot in call.inputs)
        attrs = dict(call.attrs)
        metas = inputs, definition.infer(inputs, attrs, call.counts)
        try:
            prepare_one(
                entry,
                metas,
                attrs,
                context=self._context,
                device=HOST_DEVICE,
                packable=call.packable,
                options=call.options,
                deterministic=call.deterministic,
            )
        except Unsupported as refusal:
            return "lacks", refusal.lack
        except Refuse as refusal:
            return "refused", refusal.reason
        return "ready", None

    def run(self, call: KernelCall, places: list[int], end: int) -> Answer:
        """Run a kernel; return the offsets and metas of the outputs, which follow the inputs."""
        network = self._networks.get(call)
        if network is None:
            network = self._networks[call] = self._compile(call)
            if len(self._networks) > _MAX_NETWORKS:
                self._networks.popitem(last=False)
        feeds: dict[str, NDArray[Any]] = {}
        metas = [meta for slot in call.inputs for meta in slot]
        for name, place, (shape, dtype) in zip(network.names, places, metas, strict=True):
            if place >= 0:
                array = self._memory.view(place, shape, dtype)
            else:  # only its shape is read, so no page of it is used
                array = np.zeros(shape, dtype_to_numpy(dtype))
            if name in network.variables:
                network.run.scope.var(name).set(array)
            else:
                feeds[name] = array
        outputs = network.run(**feeds)
        self._memory.end = end
        described = [(array.shape, canonical_dtype(array.dtype)) for array in outputs]
        listed = [(self._memory.add(*meta), *meta) for meta in described]
        for array, output in zip(outputs, listed, strict=True):
            self._memory.view(*output)[...] = array
        return "done", listed

    def _compile(self, call: KernelCall) -> KernelNetwork:
        entry = self._find(call)
        definition = self._context.ops.get(entry.op_type)
        proto = definition.proto
        inputs = {
            slot.name: _names(slot.name, len(metas))
            for slot, metas in zip(proto.inputs, call.inputs, strict=True)
        }
        outputs = {
            slot.name: _names(slot.name, count) if slot.aliases is None else inputs[slot.aliases]
            for slot, count in zip(proto.outputs, call.counts, strict=True)
        }
        names = [name for listed in inputs.values() for name in listed]
        fetches = [name for listed in outputs.values() for name in listed]
        variables = frozenset(names[flat] for flat in call.packable).difference(fetches)
        # `Operator(...)` would refuse the plan-only types that passes create.
        operator = Operator.make(None, definition, inputs, outputs, dict(call.attrs))
        with context_guard(self._context.with_pins({entry.op_type: entry.library})):
            run = Network([operator]).compile(
                feed=[name for name in names if name not in variables],
                fetch=fetches,
                scope=Scope(),
                passes=[],
                options=dict(call.options),
                deterministic=call.deterministic,
            )
        return KernelNetwork(names, variables, run)

    def _find(self, call: KernelCall) -> KernelEntry:
        for entry in self._context.kernels.entries(call.key[0]):
            if tuple(entry.key) == call.key and entry.package == Package(*call.package):
                return entry
        raise KernelError(
            f"{call.key[0]}: an isolated kernel must come from an installed package, got a kernel "
            "that only the other process has; install the package that registers it"
        )


def _names(slot: str, count: int) -> tuple[str, ...]:
    return tuple(f"{slot}:{i}" for i in range(count))


def serve_kernels(channel: Channel, memory: int) -> None:
    """Report that the process runs, and answer requests with `Kernels.answer`.

    `memory` is the descriptor of the shared memory.
    """
    os.environ["OPWRIGHT_ISOLATE"] = ""  # kernels run in this process
    kernels = Kernels(SharedMemory(memory))
    channel.send(None)
    while True:
        channel.send(kernels.answer(*channel.receive()))
