"""Fills the arguments of one kernel before a run, and reads them after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from opwright.op import Meta, OpProto
from opwright_kit.testing.launch.kernel_run import KernelRun
from opwright_kit.testing.launch.memory import Memory, Place
from opwright_kit.testing.samples.sample import Array, SlotMetas, variable_name

Arrays: TypeAlias = Mapping[str, Sequence[Array]]


class Layout:
    """The positions of a kernel's arguments within one `Memory`.

    Parameters
    ----------
    proto : OpProto
    metas : pair of SlotMetas
        The metas of the inputs and of the outputs.
    memory : Memory
        The memory in which the arguments are placed; it is closed here.
    workspace_bytes : int
    reuse : mapping of str to str
        Output slots in the memory of an input, besides declared aliases.
    strided : bool
        Whether inputs have gaps between the elements of the last axis.
    n_outputs : int
        The number of output sets, one for each of several consecutive runs.
    apart : collection of int
        Flat positions of the inputs that are in other memory.

    Attributes
    ----------
    memory : Memory
    inputs : list of list of Place or None
        By slot; None for arrays outside of the memory: of `apart`, or read only for their shape.
    outputs : list of list of list of Place or None
        Each set, by slot; None for outputs whose shape the kernel sets.
    workspace : Place or None
    """

    def __init__(
        self,
        proto: OpProto,
        metas: tuple[SlotMetas, SlotMetas],
        memory: Memory,
        *,
        workspace_bytes: int,
        reuse: Mapping[str, str],
        strided: bool,
        n_outputs: int,
        apart: Sequence[int],
    ) -> None:
        self._proto = proto
        self._metas = metas
        self.memory = memory
        self.inputs = self._place_inputs(strided, apart)
        self.outputs = [self._place_outputs(reuse) for _ in range(n_outputs)]
        self.workspace = (
            memory.add("the workspace", Meta((workspace_bytes,), "uint8"), is_workspace=True)
            if workspace_bytes
            else None
        )
        memory.close()

    def _place_inputs(self, strided: bool, apart: Sequence[int]) -> list[list[Place | None]]:
        inputs: list[list[Place | None]] = []
        flat = 0
        for slot, metas in zip(self._proto.inputs, self._metas[0], strict=True):
            places = []
            for name, meta in named(slot.name, metas):
                elsewhere = slot.shape_only or flat in apart
                places.append(None if elsewhere else self.memory.add(name, meta, strided=strided))
                flat += 1
            inputs.append(places)
        return inputs

    def _place_outputs(self, reuse: Mapping[str, str]) -> list[list[Place | None]]:
        outputs: list[list[Place | None]] = []
        slots = [slot.name for slot in self._proto.inputs]
        for slot, metas in zip(self._proto.outputs, self._metas[1], strict=True):
            source = slot.aliases or reuse.get(slot.name)
            if source is not None and metas:
                shared = self.inputs[slots.index(source)]
                outputs.append([p and p.share(m) for p, m in zip(shared, metas, strict=True)])
                continue
            outputs.append(
                [
                    None if -1 in meta.shape else self.memory.add(name, meta)
                    for name, meta in named(slot.name, metas)
                ]
            )
        return outputs

    def fill(self, arrays: Arrays, poison: int, beside: int) -> list[Array]:
        """Return images with the inputs at their positions, and poison everywhere else.

        Parameters
        ----------
        arrays : mapping of str to sequence of ndarray
            The inputs by slot.
        poison : int
            The byte that outputs are filled with.
        beside : int
            The byte for workspace and guards.
        """
        images = self.memory.fill(beside)
        for places in self.outputs[-1] if beside != poison else ():
            for written in filter(None, places):
                written.fill(images, poison)
        for places, slot in zip(self.inputs, self._proto.inputs, strict=True):
            for place, array in zip(places, arrays.get(slot.name, ()), strict=True):
                if place is not None:
                    place.view(images)[...] = array
        return images

    def read(
        self,
        before: list[Array],
        after: list[Array],
        resized: Sequence[Array],
        originals: Arrays,
        poison: int,
    ) -> KernelRun:
        """Return the inputs and the last set of outputs after a run, and which guards are broken.

        Parameters
        ----------
        before, after : list of ndarray
            The images.
        resized : sequence of ndarray
            The outputs whose shapes the kernel set.
        originals : mapping of str to sequence of ndarray
            The inputs; inputs outside of the memory are returned unchanged.
        poison : int
            The contents of the outputs.
        """
        outputs, untouched, inputs, changed = {}, {}, {}, []
        remaining = iter(resized)
        for slot, places in zip(self._proto.outputs, self.outputs[-1], strict=True):
            arrays = [place.view(after).copy() if place else next(remaining) for place in places]
            outputs[slot.name] = arrays
            untouched[slot.name] = [_is_poison(array, poison) for array in arrays]
        written = {place.index for places in self.outputs[-1] for place in places if place}
        for slot, places in zip(self._proto.inputs, self.inputs, strict=True):
            inputs[slot.name] = [
                place.view(after).copy() if place else array
                for place, array in zip(places, originals.get(slot.name, ()), strict=True)
            ]
            changed += [
                place.name
                for place in places
                if place and place.index not in written and place.differs(before, after)
            ]
        guards = self.memory.find_broken_guards(before, after)
        return KernelRun(outputs, inputs, tuple(changed), guards, untouched)


def named(slot: str, metas: Sequence[Meta]) -> list[tuple[str, Meta]]:
    """Return the name in messages and the meta of each variable of a slot."""
    return [(variable_name(slot, i, len(metas)), meta) for i, meta in enumerate(metas)]


def _is_poison(array: Array, poison: int) -> Array:
    item = array.dtype.itemsize
    each = np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, item)
    return np.asarray((each == poison).all(axis=-1))
