"""What rules need: samples of operators, and kernels run on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from opwright.context import Context
from opwright.definition import OpDefinition
from opwright.devices import get_device
from opwright.dtypes import DTYPES
from opwright.errors import OpwrightError
from opwright.registry import ANY, HOST_DEVICE, KernelEntry
from opwright.testing.drawing import Sampler, draw_samples
from opwright.testing.launching import KernelRun, run_kernel
from opwright.testing.sample import Sample
from opwright.testing.scorecard import Skipped

_ANY_DTYPES: Final = ("float32", "int64", "bool", "float16")
"""In what kernels of every dtype are run: floats, integers and what takes one or two bytes."""


class CheckContext:
    """What rules need: samples, and kernels run on them.

    Parameters
    ----------
    context : Context
        The registries.
    seed : int
        Of the samples.
    only_sample : int, optional
        Number of the only sample to draw.
    only_dtype : str, optional
        The only dispatch dtype.
    samplers : mapping of str to callable
        What packages say of their operators.

    Attributes
    ----------
    context : Context
    seed : int
    """

    def __init__(
        self,
        context: Context,
        seed: int = 0,
        only_sample: int | None = None,
        only_dtype: str | None = None,
        samplers: dict[str, Sampler] | None = None,
    ) -> None:
        self.context = context
        self.seed = seed
        self._only_sample = only_sample
        self._only_dtype = only_dtype
        self._samplers = samplers or {}
        self._drawn: dict[tuple[str, str], list[Sample]] = {}
        self._devices: dict[str, str | None] = {HOST_DEVICE: None}

    def samples(self, definition: OpDefinition, dtype: str) -> list[Sample]:
        """Return the samples of an operator for a dispatch dtype, drawn once."""
        key = (definition.op_type, dtype)
        if key not in self._drawn:
            sampler = self._samplers.get(definition.op_type)
            drawn = draw_samples(definition, dtype, self.seed, sampler)
            self._drawn[key] = drawn
        found = self._drawn[key]
        if self._only_sample is not None:
            found = [sample for sample in found if sample.number == self._only_sample]
        return found

    def launches(self, entries: Iterable[KernelEntry]) -> Iterator[tuple[KernelEntry, Sample]]:
        """Give each kernel with each sample of its dtype.

        Raises
        ------
        Skipped
            Where the device is not there, or nothing could be drawn.
        """
        count = 0
        for entry in entries:
            self.need_device(entry.device)
            definition = self.context.ops.get(entry.op_type)
            for dtype in self.dtypes(entry):
                for sample in self.samples(definition, dtype):
                    count += 1
                    yield entry, sample
        if not count:
            raise Skipped("no inputs could be drawn; say which in the hook opwright_samples")

    def dtypes(self, entry: KernelEntry) -> tuple[str, ...]:
        """Return the dispatch dtypes in which a kernel is run."""
        if entry.dtype != ANY:
            found: tuple[str, ...] = (entry.dtype,)
        else:
            definition = self.context.ops.get(entry.op_type)
            slot = definition.proto.input_slots.get(definition.proto.dispatch_slot)
            allowed = slot.dtypes if slot is not None and slot.dtypes else DTYPES
            found = tuple(d for d in _ANY_DTYPES if d in allowed) or allowed[:2]
        return tuple(d for d in found if self._only_dtype in (None, d))

    def need_device(self, device: str) -> None:
        """Raise Skipped unless the device can be opened here."""
        kind = HOST_DEVICE if device == ANY else device
        if kind not in self._devices:
            try:
                get_device(kind, self.context)
                self._devices[kind] = None
            except OpwrightError as error:
                self._devices[kind] = str(error).splitlines()[0]
        reason = self._devices[kind]
        if reason is not None:
            raise Skipped(f"the device {kind!r} is not at hand: {reason}")

    def run(self, entry: KernelEntry, sample: Sample, **options: Any) -> KernelRun:
        """Run a kernel on a sample; see `opwright.testing.launching.run_kernel`."""
        with np.errstate(all="ignore"):
            return run_kernel(entry, sample, context=self.context, **options)
