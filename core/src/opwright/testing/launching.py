"""One kernel on memory of ours: guard bytes around every array, outputs poisoned before the run.

A plan of one step is built by hand. It takes an image of the whole memory, with inputs and poison
in their places, runs the kernel on it and gives the image back. So it works the same for Python
kernels, compiled ones and those of any device, and everything that a kernel did shows in the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from opwright import _runtime
from opwright.context import Context, current_context
from opwright.definition import OpDefinition
from opwright.devices import get_device
from opwright.dtypes import dtype_to_code
from opwright.kernel import Refuse
from opwright.lowering import LowerRequest
from opwright.lowering.failure import StepErrors
from opwright.lowering.prepare import prepare_kernel
from opwright.lowering.values import LoweredOp, new_value
from opwright.meta import Meta
from opwright.registry import ANY, HOST_DEVICE, KernelEntry
from opwright.testing.memory import Memory, Place
from opwright.testing.sample import Array, Sample

POISON: Final = 0xFF
"""What outputs and guards hold before the run: NaN in floats, -1 in integers."""

_BYTE: Final = dtype_to_code("uint8")

_LONG_NS: Final = 1_000_000
"""What a step is said to take: the runtime lets go of the GIL for long ones."""


@dataclass(frozen=True)
class KernelRun:
    """What one run of a kernel left behind.

    Attributes
    ----------
    outputs : dict of str to list of ndarray
        By slot, each in memory of its own.
    inputs : dict of str to list of ndarray
        The inputs as they are afterwards.
    changed : tuple of str
        Inputs whose bytes changed though no output lies there: ``"x"``, ``"x[1]"``.
    broken_guards : tuple of str
        What was written outside of every array: ``"3 bytes before out"``.
    untouched : dict of str to list of ndarray of bool
        By output slot, true where an element holds nothing but poison. A kernel may have written
        just that: an element is unwritten where this holds for two different poisons.
    """

    outputs: dict[str, list[Array]]
    inputs: dict[str, list[Array]]
    changed: tuple[str, ...]
    broken_guards: tuple[str, ...]
    untouched: dict[str, list[Array]]


def run_kernel(
    entry: KernelEntry,
    sample: Sample,
    *,
    context: Context | None = None,
    device: str | None = None,
    poison: int = POISON,
    n_threads: int = 1,
    reuse: Sequence[tuple[str, str]] = (),
    strided: bool = False,
) -> KernelRun:
    """Run one kernel once; see `Launch` for parameters and errors."""
    launch = Launch(
        entry,
        sample,
        context=context,
        device=device,
        n_threads=n_threads,
        reuse=reuse,
        strided=strided,
    )
    return launch.run(poison)


class Launch:
    """A kernel prepared for a sample, in a plan of its own, ready to be run again and again.

    Parameters
    ----------
    entry : KernelEntry
        The kernel.
    sample : Sample
        What it is given.
    context : Context, optional
        Where the operator and the device are registered; the current one.
    device : str, optional
        Device type to run on; by default the kernel's, the host for one of any device.
    n_threads : int
        How many threads the kernel may use.
    reuse : sequence of (str, str)
        Output slots that lie where an input lies, of one variable each, beside those that the
        operator declares as aliases.
    strided : bool
        Whether inputs lie with gaps between the elements of the last axis; only for kernels that
        declare ``strided``.
    repeat : int
        How often the kernel runs in each run of the plan. The difference between two numbers is
        what the kernel takes, without the way of the memory to the device and back.
    apart : bool
        Whether each of these runs writes outputs of its own, of which `run` returns the last; not
        for outputs that the kernel resizes.

    Raises
    ------
    Refuse
        Where the kernel's ``prepare`` refuses.
    OpwrightError
        Where the operator does not accept the sample, or ``prepare`` fails.
    """

    def __init__(
        self,
        entry: KernelEntry,
        sample: Sample,
        *,
        context: Context | None = None,
        device: str | None = None,
        n_threads: int = 1,
        reuse: Sequence[tuple[str, str]] = (),
        strided: bool = False,
        repeat: int = 1,
        apart: bool = False,
    ) -> None:
        self.entry = entry
        self.sample = sample
        self.context = current_context() if context is None else context
        self._kind = device or (HOST_DEVICE if entry.device == ANY else entry.device)
        self._device = get_device(self._kind, self.context)
        definition = self.context.ops.get(sample.op_type)
        self._definition = definition
        self._metas = (sample.input_metas(definition), sample.infer(definition))
        self._op = self._make_op(definition)
        self._prepared = self._prepare(n_threads)
        self._memory = Memory(self._device.has_arena, self._device.alignment)
        self._lay_out(dict(reuse), strided, repeat if apart else 1)
        self._plan = self._build(repeat)
        self._runner = _runtime.EagerOperator(0, 0, _never, 2)

    def _make_op(self, definition: OpDefinition) -> LoweredOp:
        inputs, outputs = (
            tuple(
                tuple(new_value(slot.name, meta) for meta in metas)
                for slot, metas in zip(slots, listed, strict=True)
            )
            for slots, listed in zip(
                (definition.proto.inputs, definition.proto.outputs), self._metas, strict=True
            )
        )
        op = LoweredOp(definition, inputs, self.sample.attrs, 0)
        op.outputs = outputs
        op.entry = self.entry
        return op

    def _prepare(self, n_threads: int) -> _runtime.Prepared:
        request = LowerRequest((), self.context, device=self._kind, n_threads=n_threads)
        prepared = prepare_kernel(self.entry, self._op, self._kind, (), request)
        if isinstance(prepared, Refuse):
            raise prepared
        return prepared

    def _lay_out(self, reuse: dict[str, str], strided: bool, n_outputs: int) -> None:
        proto = self._definition.proto
        self._inputs: list[list[Place | None]] = []
        for slot, metas in zip(proto.inputs, self._metas[0], strict=True):
            places = [
                None if slot.shape_only else self._memory.add(name, meta, strided=strided)
                for name, meta in _named(slot.name, metas)
            ]
            self._inputs.append(places)
        self._all_outputs = [self._place_outputs(reuse) for _ in range(n_outputs)]
        self._outputs = self._all_outputs[-1]
        size_bytes = self._prepared.workspace_bytes
        self._workspace = (
            self._memory.add("the workspace", Meta((size_bytes,), "uint8")) if size_bytes else None
        )
        self._memory.close()

    def _place_outputs(self, reuse: dict[str, str]) -> list[list[Place | None]]:
        outputs: list[list[Place | None]] = []
        for slot, metas in zip(self._definition.proto.outputs, self._metas[1], strict=True):
            source = slot.aliases or reuse.get(slot.name)
            if source is not None and metas:
                listed = self._inputs[self._definition.input_index[source]]
                outputs.append([p and p.share(m) for p, m in zip(listed, metas, strict=True)])
                continue
            outputs.append(
                [
                    None if -1 in meta.shape else self._memory.add(name, meta)
                    for name, meta in _named(slot.name, metas)
                ]
            )
        return outputs

    def _build(self, repeat: int) -> _runtime.Plan:
        host = _runtime.host_device()
        builder = _runtime.PlanBuilder(self._device, self._kind)
        sizes = self._memory.sizes
        if self._device.has_arena:
            builder.arena(sizes[0])
        else:
            builder.buffers(sizes)
        images = []
        for region, size in enumerate(sizes):
            index = 0 if self._device.has_arena else region
            image = builder.value(_BYTE, (size,), _runtime.ARENA, index)
            feed = builder.external(_runtime.FEED, f"image_{region}")
            builder.copy(builder.value(_BYTE, (size,), _runtime.EXTERNAL, feed, device=host), image)
            images.append(image)
        arguments = [self._add_args(builder, outputs) for outputs in self._all_outputs]
        place = self._workspace
        for i in range(repeat):
            args, begin, dynamic = arguments[i % len(arguments)]
            builder.kernel(
                self._prepared,
                args,
                begin,
                len(self._inputs),
                0,
                place.index if place else -1,
                self._prepared.workspace_bytes,
                _LONG_NS,
            )
        errors = StepErrors([self._op], self._kind)
        if dynamic:
            names = [f"image_{i}" for i in range(len(images))] + [
                f"out_{i}" for i in range(len(dynamic))
            ]
            builder.continuation(
                dynamic, self._finish_dynamic, list(zip((*images, *dynamic), names, strict=True))
            )
        else:
            for image, size in zip(images, sizes, strict=True):
                _fetch(builder, image, (size,), _BYTE)
        return builder.build(errors)

    def _add_args(
        self, builder: _runtime.PlanBuilder, outputs: list[list[Place | None]]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return the arguments of the step, where slots begin, and what the kernel resizes."""
        args: list[int] = []
        begin = [0]
        dynamic: list[int] = []
        places = (*self._inputs, *outputs)
        for listed, metas in zip(places, (*self._metas[0], *self._metas[1]), strict=True):
            for place, meta in zip(listed, metas, strict=True):
                code = dtype_to_code(meta.dtype)
                if place is not None:
                    value = builder.value(
                        code, meta.shape, _runtime.ARENA, place.index, strides=place.strides
                    )
                elif -1 in meta.shape:
                    value = builder.value(code, meta.shape, _runtime.DYNAMIC)
                    dynamic.append(value)
                else:
                    value = builder.value(code, meta.shape, _runtime.NONE)
                args.append(value)
            begin.append(len(args))
        return args, begin, dynamic

    def _finish_dynamic(self, shapes: tuple[tuple[int, ...], ...]) -> _runtime.Plan:
        """Return the plan that fetches what was resized, once its shape is known."""
        builder = _runtime.PlanBuilder(self._device, self._kind)
        wanted: list[tuple[tuple[int, ...], int]] = [
            ((size,), _BYTE) for size in self._memory.sizes
        ]
        metas = [m for listed in self._metas[1] for m in listed if -1 in m.shape]
        wanted += [(s, dtype_to_code(m.dtype)) for s, m in zip(shapes, metas, strict=True)]
        names = [f"image_{i}" for i in range(len(self._memory.sizes))]
        names += [f"out_{i}" for i in range(len(metas))]
        values = [
            builder.value(code, shape, _runtime.EXTERNAL, builder.external(_runtime.CAPTURED, name))
            for name, (shape, code) in zip(names, wanted, strict=True)
        ]
        for value, (shape, code) in zip(values, wanted, strict=True):
            _fetch(builder, value, shape, code)
        return builder.build(StepErrors([self._op], self._kind))

    def run(
        self,
        poison: int = POISON,
        *,
        beside: int | None = None,
        inputs: Mapping[str, Sequence[Array]] | None = None,
    ) -> KernelRun:
        """Run the kernel and return what it left behind; several threads may do so at once.

        Parameters
        ----------
        poison : int
            The byte that outputs, workspace and guards are filled with.
        beside : int, optional
            The byte for workspace and guards, where it is another one.
        inputs : mapping of str to sequence of ndarray, optional
            In the place of the sample's, of the same shapes and dtypes.

        Raises
        ------
        KernelError
            Where the kernel fails.
        """
        images = self.fill(poison, beside=beside, inputs=inputs)
        before = [image.copy() for image in images]
        fetched = self.run_images(images)
        after, dynamic = fetched[: len(images)], fetched[len(images) :]
        return self._read(before, after, dynamic, poison)

    def fill(
        self,
        poison: int = POISON,
        *,
        beside: int | None = None,
        inputs: Mapping[str, Sequence[Array]] | None = None,
    ) -> list[Array]:
        """Return the memory as it is before a run; parameters as of `run`."""
        images = self._memory.fill(poison if beside is None else beside)
        for places in self._outputs if beside is not None else ():
            for written in filter(None, places):
                written.fill(images, poison)
        given = self.sample.inputs if inputs is None else inputs
        for places, slot in zip(self._inputs, self._definition.proto.inputs, strict=True):
            for place, array in zip(places, given.get(slot.name, ()), strict=True):
                if place is not None:
                    place.view(images)[...] = array
        return images

    def run_images(self, images: list[Array]) -> list[Array]:
        """Return the memory as it is after a run, and behind it every output that was resized.

        The workspace is zero in it: what a kernel leaves there is nobody's, oneDNN for example
        addresses that differ from thread to thread.
        """
        with np.errstate(all="ignore"):  # samples lie at the edges of what can be computed
            fetched = list(self._runner.run(self._plan, images))
        if self._workspace is not None:
            self._workspace.fill(fetched, 0)
        return fetched

    def _read(
        self, before: list[Array], after: list[Array], dynamic: list[Array], poison: int
    ) -> KernelRun:
        written = {place.index for listed in self._outputs for place in listed if place}
        found = iter(dynamic)
        outputs, untouched, inputs, changed = {}, {}, {}, []
        for slot, listed in zip(self._definition.proto.outputs, self._outputs, strict=True):
            arrays = [place.view(after).copy() if place else next(found) for place in listed]
            outputs[slot.name] = arrays
            untouched[slot.name] = [_is_poison(array, poison) for array in arrays]
        for slot, listed in zip(self._definition.proto.inputs, self._inputs, strict=True):
            given = self.sample.inputs.get(slot.name, ())
            inputs[slot.name] = [
                place.view(after).copy() if place else array
                for place, array in zip(listed, given, strict=True)
            ]
            changed += [
                place.name
                for place in listed
                if place and place.index not in written and place.differs(before, after)
            ]
        guards = self._memory.find_broken_guards(before, after)
        return KernelRun(outputs, inputs, tuple(changed), guards, untouched)


def _named(slot: str, metas: Sequence[Meta]) -> list[tuple[str, Meta]]:
    if len(metas) == 1:
        return [(slot, metas[0])]
    return [(f"{slot}[{i}]", meta) for i, meta in enumerate(metas)]


def _fetch(builder: _runtime.PlanBuilder, value: int, shape: Sequence[int], code: int) -> None:
    """Copy a value to the host and fetch it."""
    external = builder.external(_runtime.FETCH, f"fetch_{value}")
    host = _runtime.host_device()
    target = builder.value(code, shape, _runtime.EXTERNAL, external, device=host)
    builder.copy(value, target)
    builder.fetch(target)


def _is_poison(array: Array, poison: int) -> Array:
    item = array.dtype.itemsize
    each = np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, item)
    return np.asarray((each == poison).all(axis=-1))


def _never(*args: Any) -> Any:
    raise AssertionError(f"no arrays are given by name, got {args!r}")
