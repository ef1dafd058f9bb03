"""A one-step plan, built manually, that reads images of the memory and returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opwright import runtime
from opwright.kernel import PreparedKernel
from opwright.op import Meta, SlotMetas, dtype_to_code
from opwright_kit.testing.launch.guard_pages import GuardPages
from opwright_kit.testing.launch.layout import Layout
from opwright_kit.testing.launch.memory import Place

_BYTE: Final = dtype_to_code("uint8")

_LONG_NS: Final = 1_000_000
"""The declared duration of a step: the runtime releases the GIL for long steps."""


class OneStepPlan:
    """Builds the plan of one kernel on one layout.

    Parameters
    ----------
    device : Device
    kind : str
        Its device type.
    metas : (sequence, sequence)
        The metas of the slots of inputs and outputs.
    kernel : PreparedKernel
    layout : Layout
    parameters : mapping of int to str
        Flat inputs that are read from the scope, and their names there.
    repeat : int
        How often the kernel runs.

    Attributes
    ----------
    feeds : list of str
        The names of the images.
    plan : Plan
    """

    def __init__(
        self,
        device: runtime.Device,
        kind: str,
        metas: tuple[SlotMetas, SlotMetas],
        kernel: PreparedKernel,
        layout: Layout,
        parameters: Mapping[int, str],
        repeat: int,
    ) -> None:
        self._device = device
        self._kind = kind
        self._errors = kernel.errors
        self._layout = layout
        self._parameters = parameters
        self._metas = [*metas[0], *metas[1]]
        guards = layout.memory.guards
        self._guard = GuardPages(guards) if guards else None
        self.feeds = [f"image_{i}" for i in range(len(layout.memory.sizes))]
        self.plan = self._build(kernel.prepared, repeat)

    def open_pages(self) -> None:
        """Open the pages that remained closed after a failed run in this thread."""
        if self._guard is not None:
            self._guard.open()

    def _build(self, prepared: runtime.Prepared, repeat: int) -> runtime.Plan:
        builder = self._new_builder()
        images = self._add_images(builder)
        sets = self._add_arguments(builder)
        place = self._layout.workspace
        if self._guard is not None:
            self._guard.add_step(builder, images[0], close=True)
        for i in range(repeat):
            args, begin, dynamic = sets[i % len(sets)]
            builder.kernel(
                prepared,
                args,
                begin,
                len(self._layout.inputs),
                0,
                place.index if place else -1,
                prepared.workspace_bytes,
                _LONG_NS,
            )
        if self._guard is not None:
            self._guard.add_step(builder, images[0], close=False)
        if dynamic:
            names = [*self.feeds, *(f"out_{i}" for i in range(len(dynamic)))]
            bound = list(zip((*images, *dynamic), names, strict=True))
            builder.continuation(dynamic, self._build_fetches, bound)
        else:
            for image, size in zip(images, self._layout.memory.sizes, strict=True):
                _fetch(builder, image, (size,), _BYTE)
        return builder.build(self._errors)

    def _new_builder(self) -> runtime.PlanBuilder:
        # The image determines the contents of outputs before the run.
        checks = runtime.CHECK_TENSORS | (runtime.ITEM_ALIGNED if self._guard else 0)
        return runtime.PlanBuilder(self._device, self._kind, checks=checks)

    def _add_images(self, builder: runtime.PlanBuilder) -> list[int]:
        """Return the memory regions as byte arrays, each copied from a feed."""
        host = runtime.host_device()
        sizes = self._layout.memory.sizes
        if self._device.has_arena:
            builder.arena(sizes[0])
        else:
            builder.buffers(sizes)
        images = []
        for region, (name, size) in enumerate(zip(self.feeds, sizes, strict=True)):
            index = 0 if self._device.has_arena else region
            image = builder.value(_BYTE, (size,), runtime.ARENA, index)
            feed = builder.external(runtime.FEED, name)
            builder.copy(builder.value(_BYTE, (size,), runtime.EXTERNAL, feed, device=host), image)
            images.append(image)
        return images

    def _add_arguments(
        self, builder: runtime.PlanBuilder
    ) -> list[tuple[list[int], list[int], list[int]]]:
        """Return, for each output set, the arguments, the slot starts and the resized outputs."""
        parameters = {
            flat: builder.external(runtime.PERSISTABLE, name)
            for flat, name in self._parameters.items()
        }
        sets = []
        for outputs in self._layout.outputs:
            args: list[int] = []
            begin = [0]
            dynamic: list[int] = []
            places = (*self._layout.inputs, *outputs)
            for slot_places, metas in zip(places, self._metas, strict=True):
                for place, meta in zip(slot_places, metas, strict=True):
                    value = self._add_argument(builder, place, meta, parameters.get(len(args)))
                    dynamic += [value] if -1 in meta.shape else []
                    args.append(value)
                begin.append(len(args))
            sets.append((args, begin, dynamic))
        return sets

    def _add_argument(
        self, builder: runtime.PlanBuilder, place: Place | None, meta: Meta, external: int | None
    ) -> int:
        code = dtype_to_code(meta.dtype)
        if external is not None:
            return builder.value(code, meta.shape, runtime.EXTERNAL, external)
        if place is not None:
            return builder.value(
                code, meta.shape, runtime.ARENA, place.index, strides=place.strides
            )
        return builder.value(
            code, meta.shape, runtime.DYNAMIC if -1 in meta.shape else runtime.NONE
        )

    def _build_fetches(self, shapes: tuple[tuple[int, ...], ...]) -> runtime.Plan:
        """Return the plan that fetches the resized outputs, once their shapes are known."""
        builder = self._new_builder()
        fetches: list[tuple[tuple[int, ...], int]] = [
            ((size,), _BYTE) for size in self._layout.memory.sizes
        ]
        metas = [m for slot_metas in self._metas for m in slot_metas if -1 in m.shape]
        fetches += [(s, dtype_to_code(m.dtype)) for s, m in zip(shapes, metas, strict=True)]
        names = [*self.feeds, *(f"out_{i}" for i in range(len(metas)))]
        values = [
            builder.value(code, shape, runtime.EXTERNAL, builder.external(runtime.CAPTURED, name))
            for name, (shape, code) in zip(names, fetches, strict=True)
        ]
        for value, (shape, code) in zip(values, fetches, strict=True):
            _fetch(builder, value, shape, code)
        return builder.build(self._errors)


def _fetch(builder: runtime.PlanBuilder, value: int, shape: Sequence[int], code: int) -> None:
    """Copy a value to the host and fetch it."""
    external = builder.external(runtime.FETCH, f"fetch_{value}")
    host = runtime.host_device()
    target = builder.value(code, shape, runtime.EXTERNAL, external, device=host)
    builder.copy(value, target)
    builder.fetch(target)
