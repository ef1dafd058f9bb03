"""Inputs that a kernel packs; like a network's parameters, they are in a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from opwright import runtime
from opwright.op import OpProto
from opwright_kit.testing.launch.kernel_run import KernelRun
from opwright_kit.testing.launch.layout import Arrays, named
from opwright_kit.testing.samples.sample import Array, SlotMetas


def find_packable(proto: OpProto, inputs: SlotMetas, reuse: Mapping[str, str]) -> tuple[int, ...]:
    """Return flat positions of inputs whose elements are read and which no output overwrites."""
    written = {slot.aliases or reuse.get(slot.name) for slot in proto.outputs}
    slots = [s for s, metas in zip(proto.inputs, inputs, strict=True) for _ in metas]
    return tuple(
        flat for flat, slot in enumerate(slots) if slot.name not in written and not slot.shape_only
    )


class Parameters:
    """The inputs of one launch that are in a scope.

    Parameters
    ----------
    proto : OpProto
    inputs : SlotMetas
    packs : sequence of int
        Flat inputs that the kernel packs.
    device : Device
        The device of their memory.

    Attributes
    ----------
    names : dict of int to str
        By flat input, its name in messages and in the scope.
    """

    def __init__(
        self, proto: OpProto, inputs: SlotMetas, packs: Sequence[int], device: runtime.Device
    ) -> None:
        flat_inputs = [
            (slot.name, i, name)
            for slot, metas in zip(proto.inputs, inputs, strict=True)
            for i, (name, _) in enumerate(named(slot.name, metas))
        ]
        self._places = [flat_inputs[flat] for flat in packs]
        self._device = device
        self.names = {flat: flat_inputs[flat][2] for flat in packs}

    def write(self, scope: runtime.Scope, arrays: Arrays) -> None:
        """Set the variables; existing variables are written in place."""
        for slot, i, name in self._places:
            scope.var(name).set(arrays[slot][i], self._device)

    def read(self, scope: runtime.Scope, originals: Arrays, run: KernelRun) -> KernelRun:
        """Return a run with the current variables, and the variables that it changed."""
        inputs: dict[str, list[Array]] = {slot: list(arrays) for slot, arrays in run.inputs.items()}
        changed = []
        for slot, i, name in self._places:
            inputs[slot][i] = scope.var(name).numpy()
            if inputs[slot][i].tobytes() != originals[slot][i].tobytes():
                changed.append(name)
        return replace(run, inputs=inputs, changed=(*run.changed, *changed))
