"""The context of a rule: draws samples, runs kernels on them, and finds reference kernels."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from opwright import Context
from opwright.device import HOST_DEVICE, get_device
from opwright.errors import OpwrightError
from opwright.kernel import ANY, KernelEntry, Refuse, Unsupported
from opwright.op import DTYPES, FLOAT_DTYPES, OpDefinition, dtype_to_numpy, is_float, item_size
from opwright_kit.testing.launch.kernel_run import POISON, KernelRun
from opwright_kit.testing.launch.launching import Launch
from opwright_kit.testing.observation.failures import skipping_lacks
from opwright_kit.testing.results.notes import Note
from opwright_kit.testing.results.scorecard import Skipped
from opwright_kit.testing.samples.draw import Sampler, draw_samples
from opwright_kit.testing.samples.gradient_samples import (
    find_forward,
    make_gradient_sample,
    replace_outputs,
)
from opwright_kit.testing.samples.sample import Sample
from opwright_kit.testing.samples.samplers import GROUP, SamplerError, find_sampler

_ANY_DTYPES: Final = ("float32", "int64", "bool", "float16")
"""Dtypes in which kernels of any dtype run: floats, integers, and dtypes of one and two bytes."""

_FEW: Final = 4
"""Number of samples in further integer dtypes, whose kernels are instances of one template."""

_MOST_LAUNCHES: Final = 512
"""Number of kept launches of the checked kernel; preparing one takes longer than most runs."""


class CheckContext:
    """The context of a rule: draws samples, runs kernels, and finds reference kernels.

    Parameters
    ----------
    context : Context
        The registries.
    seed : int
        The seed of the samples.
    only_sample : int, optional
        Number of the only sample to draw.
    only_dtype : str, optional
        The only dispatch dtype.
    samplers : mapping of str to callable
        Functions of packages that draw samples, by operator type.
    notes : callable, optional
        Receives a note before each action.

    Attributes
    ----------
    context : Context
    seed : int
    reasons : dict of str to str
        By ``"pass NAME"``, why no drawn program is changed by a pass.
    """

    def __init__(
        self,
        context: Context,
        seed: int = 0,
        only_sample: int | None = None,
        only_dtype: str | None = None,
        samplers: Mapping[str, Sampler] | None = None,
        notes: Callable[[Note], object] | None = None,
    ) -> None:
        self.context = context
        self.seed = seed
        self._only_sample = only_sample
        self._only_dtype = only_dtype
        given = dict(samplers or {})
        self.reasons = {name: given.pop(name) for name in [*given] if name.startswith("pass ")}
        self._samplers = given
        self._notes = notes
        self._noted: tuple[str, Sample | None] = ("", None)
        self._drawn: dict[tuple[str, str], list[Sample]] = {}
        self._undrawable: set[str] = set()
        self._refusals: dict[str, Counter[str]] = {}
        self._launches: OrderedDict[Any, Launch] = OrderedDict()
        self._devices: dict[str, str | None] = {HOST_DEVICE: None}

    def with_seed(self, seed: int) -> CheckContext:
        """Return this context with another seed for all samples, or itself for the same seed."""
        if seed == self.seed:
            return self
        return CheckContext(self.context, seed, samplers=self._samplers, notes=self._notes)

    def samples(self, definition: OpDefinition, dtype: str) -> list[Sample]:
        """Return the samples of an operator for a dispatch dtype, drawn once.

        The samples of a gradient operator are derived from samples of its forward operator. The
        list is empty if nothing could be drawn.
        """
        samples = self._all_samples(definition, dtype)
        if self._only_sample is not None:
            samples = [sample for sample in samples if sample.number == self._only_sample]
        return samples

    def rng(self, sample: Sample) -> np.random.Generator:
        """Return a random generator that depends only on the seed and the number of a sample."""
        return np.random.default_rng([self.seed, max(sample.number, 0)])

    def _all_samples(self, definition: OpDefinition, dtype: str) -> list[Sample]:
        key = (definition.op_type, dtype)
        if key not in self._drawn:
            forward = find_forward(definition.op_type, self.context)
            sampler = find_sampler(self._samplers, definition)
            if sampler is not None or forward is None:
                self._drawn[key] = self._draw(definition, dtype, sampler)
            else:
                self._drawn[key] = list(self._derive(forward, definition, dtype))
        return self._drawn[key]

    def _draw(self, definition: OpDefinition, dtype: str, sampler: Sampler | None) -> list[Sample]:
        if sampler is None and definition.plan_only:
            raise Skipped("only passes create it, so its inputs cannot be drawn from its OpProto")
        op_type = definition.op_type
        self.note(f"drawing samples of {op_type} in {dtype}")
        if op_type in self._undrawable:
            raise Skipped("the function that draws its samples raises an error, reported once")
        try:
            refusals = self._refusals.setdefault(op_type, Counter())
            return draw_samples(definition, dtype, self.seed, sampler, refusals)
        except Exception as error:
            if sampler is None:
                raise
            self._undrawable.add(op_type)
            name = getattr(sampler, "__name__", repr(sampler))
            raise SamplerError(
                f"samples must be drawn, got {type(error).__name__}: {error} in {name} for "
                f"{op_type} in {dtype}; fix the function ({GROUP})"
            ) from error

    def _derive(
        self, forward: OpDefinition, definition: OpDefinition, dtype: str
    ) -> Iterator[Sample]:
        """Yield samples of a gradient operator: inputs and outputs of its forward operator."""
        kernels = self.references(forward.op_type, dtype)
        for sample in self._all_samples(forward, dtype):
            outputs = self.compute(kernels, sample)
            if outputs is not None:
                derived = make_gradient_sample(forward, definition, sample, outputs, self.seed)
                if derived is not None:
                    yield derived

    def references(
        self, op_type: str, dtype: str, checked: KernelEntry | None = None
    ) -> list[KernelEntry]:
        """Return the kernels that are used as references, best first.

        The kernels of the host come first, in order of rising priority, since by convention the
        plainest kernel has the lowest priority. If the host has no kernel, kernels of another
        available device are used. If the first reference is the `checked` kernel, only kernels of
        other packages are used, because other kernels of its package are checked against it.
        """
        kernels = self.context.kernels
        devices = [HOST_DEVICE, *(d for d in kernels.devices_of(op_type) if d != HOST_DEVICE)]
        groups = (kernels.candidates(op_type, d, dtype) for d in devices if self._is_available(d))
        references = next((list(reversed(entries)) for entries in groups if entries), [])
        if checked is None or not references:
            return references
        if _is_same(references[0], checked):
            return [entry for entry in references if entry.package != checked.package]
        return [entry for entry in references if not _is_same(entry, checked)]

    def widen(self, sample: Sample, dtype: str = "float64") -> Sample | None:
        """Return a sample with a wider dtype instead of its dispatch dtype, or None if none fits.

        Forward outputs that a gradient operator reads are recomputed, since their values are
        rounded; for example, a rounded norm can be exactly a bound.
        """
        definition = self.context.ops.get(sample.op_type)
        narrow = is_float(sample.dtype) and item_size(sample.dtype) < item_size(dtype)
        if not narrow or definition.random:
            return None
        wide = sample.cast(dtype)
        if sample.forward is not None:
            forward = self.widen(sample.forward, dtype)
            kernels = self.references(sample.forward.op_type, dtype)
            outputs = None if forward is None else self.compute(kernels, forward)
            wide = replace(wide, forward=forward)
            wide = wide if outputs is None else replace_outputs(wide, outputs)
        try:
            wide.infer(definition)
        except OpwrightError:
            return None
        return wide

    def compute(
        self, kernels: Iterable[KernelEntry], sample: Sample
    ) -> dict[str, list[Any]] | None:
        """Return the outputs of the first kernel that computes a sample, or None if all fail."""
        for entry in kernels:
            try:
                return self.run(entry, sample).outputs
            except (Refuse, Skipped, OpwrightError):
                continue
        return None

    def launches(self, entries: Iterable[KernelEntry]) -> Iterator[tuple[KernelEntry, Sample]]:
        """Yield each kernel with each sample of its dtypes; further integer dtypes get few samples.

        Raises
        ------
        Skipped
            If the device is not available, or nothing could be drawn.
        """
        entries, n_given = list(entries), 0
        seen: set[str] = set()
        for entry in entries:
            self.need_device(entry.device)
            definition = self.context.ops.get(entry.op_type)
            for dtype in self.dtypes(entry):
                kind = dtype if dtype in FLOAT_DTYPES else dtype_to_numpy(dtype).kind
                samples = self.samples(definition, dtype)
                for sample in samples[: _FEW if kind in seen else None]:
                    n_given += 1
                    yield entry, sample
                seen.add(kind)
        if not n_given and self._only_sample is not None:
            raise Skipped(f"no sample {self._only_sample} of it could be drawn")
        if not n_given:
            raise self.lack_of_inputs(*(entry.op_type for entry in entries))

    def lack_of_inputs(self, *op_types: str) -> Skipped:
        """Return why a rule that needs samples is skipped without them."""
        forwards = [find_forward(op_type, self.context) for op_type in op_types]
        drawn = {*op_types, *(forward.op_type for forward in forwards if forward is not None)}
        refusals = sum((self._refusals.get(op_type, Counter()) for op_type in drawn), Counter())
        (common,) = refusals.most_common(1) or [("no dtype fits", 0)]
        return Skipped(f"no inputs could be drawn: {common[0]}; describe them in {GROUP}")

    def dtypes(self, entry: KernelEntry) -> tuple[str, ...]:
        """Return the dispatch dtypes in which a kernel is run."""
        if entry.dtype != ANY:
            dtypes: tuple[str, ...] = (entry.dtype,)
        else:
            definition = self.context.ops.get(entry.op_type)
            slot = definition.proto.input_slots.get(definition.proto.dispatch_slot)
            allowed = slot.dtypes if slot is not None and slot.dtypes else DTYPES
            dtypes = tuple(d for d in _ANY_DTYPES if d in allowed) or allowed[:2]
        return tuple(d for d in dtypes if self._only_dtype in (None, d))

    def operator_dtypes(self, op_type: str) -> list[str]:
        """Return the dispatch dtypes in which any kernel of an operator is run, float64 first.

        For an operator that only its body computes, these are the dtypes that it declares.
        """
        dtypes = {d for e in self.context.kernels.entries(op_type) for d in self.dtypes(e)}
        dtypes = dtypes or set(self.declared_dtypes(self.context.ops.get(op_type)))
        order = ("float64", "float32", *DTYPES)
        return sorted(dtypes, key=order.index)

    def declared_dtypes(self, definition: OpDefinition) -> tuple[str, ...]:
        """Return the dispatch dtypes that an operator declares, or all if it declares none."""
        proto = definition.proto
        slot = proto.input_slots.get(proto.dispatch_slot)
        attr = proto.attr_protos.get(proto.dispatch_slot)
        allowed = (slot.dtypes if slot else attr.allowed if attr else ()) or DTYPES
        return tuple(d for d in map(str, allowed) if self._only_dtype in (None, d))

    def _is_available(self, device: str) -> bool:
        try:
            self.need_device(device)
        except Skipped:
            return False
        return True

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
            raise Skipped(f"the device {kind!r} is not available: {reason}")

    def run(
        self, entry: KernelEntry, sample: Sample, poison: int = POISON, **options: Any
    ) -> KernelRun:
        """Run a kernel on a sample; see `launch` for options and errors."""
        with skipping_lacks(entry):
            return self.launch(entry, sample, **options).run(poison)

    def launch(self, entry: KernelEntry, sample: Sample, **options: Any) -> Launch:
        """Return the launch of a kernel on a sample, prepared once; see `new_launch`."""
        key = (entry, id(sample), tuple(options.items()))
        launch = self._launches.get(key)
        if launch is None:
            launch = self.new_launch(entry, sample, **options)
            self._launches[key] = launch  # which keeps the sample alive, so its id stays
            if len(self._launches) > _MOST_LAUNCHES:
                self._launches.popitem(last=False)
        return launch

    def new_launch(self, entry: KernelEntry, sample: Sample, **options: Any) -> Launch:
        """Return a new launch of a kernel on a sample; it writes notes of its runs.

        See `opwright_kit.testing.Launch`, also for errors. Without the option `packed`, a kernel
        that refuses unpacked inputs is prepared again with packed inputs.

        Raises
        ------
        Skipped If this machine lacks an ability that the kernel needs.
        """
        who = str(entry.key)

        def prepare(**packing: Any) -> Launch:
            return Launch(
                entry,
                sample,
                context=self.context,
                before_run=lambda: self.note(who, sample),
                **options,
                **packing,
            )

        with skipping_lacks(entry), np.errstate(all="ignore"):
            try:
                return prepare()
            except Refuse as refusal:
                if "packed" in options or isinstance(refusal, Unsupported):
                    raise
                with suppress(OpwrightError):  # its inputs may all be parameters
                    return prepare(packed=True)
                raise

    def note(self, what: str, sample: Sample | None = None) -> None:
        """Write a note of the next action, to be read if this process crashes."""
        if self._notes is None or (what == self._noted[0] and sample is self._noted[1]):
            return
        self._noted = (what, sample)
        if sample is None:
            self._notes(Note(what))
        else:
            self._notes(Note(what, sample.describe(), sample.number, sample.dtype))


def _is_same(a: KernelEntry, b: KernelEntry) -> bool:
    """Return whether two entries are one kernel, possibly in different dtypes."""
    return (a.device, a.library) == (b.device, b.library)
