"""Draws programs that may contain a pass's pattern.

A pass reveals little about its pattern, but it names the pattern's operators: in its registration,
and as strings in its code. Programs are drawn from these operators, which read each other's
outputs; half of the programs continue with gradients, and with the updates of parameters that the
pass names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from opwright import Block, Context, Program, append_backward
from opwright.errors import OpwrightError, ShapeError
from opwright.op import Meta, OpDefinition, is_float, numel
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Skipped
from opwright_kit.testing.samples.gradient_samples import find_forward
from opwright_kit.testing.samples.sample import Array, Sample, count_elements, meta_of

_MOST_OPERATORS: Final = 4
"""The maximum number of operators in a drawn program."""

_MOST_ELEMENTS: Final = 2**14
"""Maximum input size of one operator; it is small because there are many programs."""

_PLAIN: Final = ("multiply", "add")
"""Operators drawn if a pass names only updates."""

_MOST_FUNCTIONS: Final = 200
"""Maximum number of a package's functions that are searched for operator names."""


class DrawnProgram(NamedTuple):
    """A program with its feeds and fetches.

    Attributes
    ----------
    block : Block
    feeds : dict of str to ndarray
    persistables : dict of str to ndarray
        Initial values of the scope: inputs that operators write in place.
    results : list of str
        Variables that no operator reads.
    between : list of str
        Variables that later operators read.
    text : str
        Its operators, in one line.
    """

    block: Block
    feeds: dict[str, Array]
    persistables: dict[str, Array]
    results: list[str]
    between: list[str]
    text: str


def find_operators(pass_name: str, context: Context) -> tuple[list[str], list[str]]:
    """Return the operators that a pass names: in its registration, and in its code.

    A gradient operator is replaced by the operator that it differentiates.
    """
    entry = context.passes.get(pass_name)
    named = {text for text in _strings_of(entry.load()) if text in context.ops}
    chosen = set(entry.operators) & set(context.ops.types(all=True))
    return _forward_types(chosen, context), _forward_types(named, context)


def _forward_types(op_types: Iterable[str], context: Context) -> list[str]:
    forwards = {op_type: find_forward(op_type, context) for op_type in op_types}
    return sorted({op_type if f is None else f.op_type for op_type, f in forwards.items()})


def _strings_of(function: Any) -> Iterator[str]:
    """Yield the strings of a function and of everything that it reaches in its own package."""
    package = getattr(function, "__module__", "").partition(".")[0]
    found: set[int] = set()
    waiting: list[Any] = [function]
    while waiting and len(found) < _MOST_FUNCTIONS:
        item = waiting.pop()
        if id(item) in found:
            continue
        found.add(id(item))
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, (tuple, list, set, frozenset)):
            waiting += item
        elif isinstance(item, CodeType):
            waiting += item.co_consts
        elif isinstance(item, FunctionType) and item.__module__.partition(".")[0] == package:
            waiting += [item.__code__, *_globals_of(item)]


def _globals_of(function: FunctionType) -> list[Any]:
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    return [function.__globals__[name] for name in names if name in function.__globals__]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class ProgramDrawer:
    """Draws programs of some operators.

    Parameters
    ----------
    last : sequence of str
        Operators; if there are any, a program ends with one.
    others : sequence of str
        The operators before it.
    dtype : str
        The dispatch dtype for which samples are drawn.
    check : CheckContext
    """

    def __init__(
        self, last: Sequence[str], others: Sequence[str], dtype: str, check: CheckContext
    ) -> None:
        self._check = check
        self._dtype = dtype
        self._samples = {op_type: self._draw(op_type) for op_type in {*last, *others}}
        self._last = [op_type for op_type in last or others if self._samples[op_type]]
        self._others = [op_type for op_type in {*last, *others} if self._samples[op_type]]
        self._others.sort()
        self._updates = [t for t in self._others if _is_update(self._check.context.ops.get(t))]
        self._others = [t for t in self._others if t not in self._updates]
        if not self._others:  # an updated parameter must have a gradient
            self._samples.update({t: self._draw(t) for t in _PLAIN if t in check.context.ops})
            self._others = [t for t in _PLAIN if self._samples.get(t)]

    def _draw(self, op_type: str) -> list[Sample]:
        definition = self._check.context.ops.get(op_type)
        if definition.plan_only or definition.random or definition.control is not None:
            return []
        try:
            samples = self._check.samples(definition, self._dtype)
        except Skipped:
            return []
        return [sample for sample in samples if 0 < count_elements(sample) <= _MOST_ELEMENTS]

    def draw(self, rng: np.random.Generator) -> DrawnProgram | None:
        """Return a program, or None if an operator refuses every input or none has samples."""
        if not self._last:
            return None
        is_training = bool(rng.random() < 0.5)
        writer = _Writer(Program().global_block(), self._check.context, rng, is_training)
        last = self._last
        if is_training:
            last = [t for t in last if t not in self._updates] or self._others
        for _ in range(int(rng.integers(_MOST_OPERATORS))):
            writer.add(_choose(self._samples[_choose(self._others or last, rng)], rng))
        writer.add(_choose(self._samples[_choose(last, rng)], rng))
        if is_training:
            writer.differentiate()
            if self._updates:
                update = _choose(self._updates, rng)
                writer.update(self._samples[update])
        return writer.finish()


class _Writer:
    """Appends operators to a block; each reads earlier results if it can."""

    def __init__(
        self, block: Block, context: Context, rng: np.random.Generator, is_training: bool
    ) -> None:
        self._is_training = is_training
        self._parameters: list[str] = []
        self._block = block
        self._context = context
        self._rng = rng
        self._feeds: dict[str, Array] = {}
        self._persistables: dict[str, Array] = {}
        self._written: dict[str, Meta] = {}
        self._read: set[str] = set()
        self._inner: set[str] = set()
        self._readable: list[str] = []  # the first result of the last operator first
        self._gradients: dict[str, str] = {}
        self._text: list[str] = []

    def add(self, sample: Sample) -> None:
        """Append the operator of a sample."""
        definition = self._context.ops.get(sample.op_type)
        names: dict[tuple[str, int], str] = {}
        for name in self._readable:
            adapted = self._adapt(sample, definition, name, names)
            if adapted is not None:
                sample, place = adapted
                names[place] = name
                if self._rng.random() < 0.6:  # a second input may also be a written variable
                    break
        self._append(sample, definition, names)

    def _adapt(
        self,
        sample: Sample,
        definition: OpDefinition,
        name: str,
        names: Mapping[tuple[str, int], str],
    ) -> tuple[Sample, tuple[str, int]] | None:
        """Resize the sample so that one of its inputs reads a written variable.

        Return the sample, and the slot and index of this input, or None if no input fits.
        """
        meta = self._written[name]
        in_place = {slot.aliases for slot in definition.proto.outputs}
        places = [(slot, i) for slot, arrays in sample.inputs.items() for i in range(len(arrays))]
        for place in self._rng.permutation(len(places)).tolist():
            slot, i = places[place]
            if (
                slot in in_place
                or (slot, i) in names
                or meta_of(sample.inputs[slot][i]).dtype != meta.dtype
            ):
                continue
            try:
                resized = _resize(sample, (slot, i), meta.shape, names)
                outputs = resized.infer(definition)
            except OpwrightError:
                continue
            if sum(numel(m.shape) for slot_metas in outputs for m in slot_metas) <= _MOST_ELEMENTS:
                return resized, (slot, i)
        return None

    def _append(
        self, sample: Sample, definition: OpDefinition, names: Mapping[tuple[str, int], str]
    ) -> dict[str, list[str]]:
        """Append an operator; return its inputs, by slot."""
        number = len(self._text)
        in_place = {slot.aliases for slot in definition.proto.outputs}
        inputs: dict[str, list[str]] = {}
        for name, arrays in sample.inputs.items():
            inputs[name] = [
                names.get((name, i)) or self._give(f"{name}_{number}_{i}", array, name in in_place)
                for i, array in enumerate(arrays)
            ]
        metas = sample.infer(definition)
        outputs: dict[str, list[str]] = {}
        for slot, slot_metas in zip(definition.proto.outputs, metas, strict=True):
            outputs[slot.name] = [f"{slot.name}_{number}_{i}" for i in range(len(slot_metas))]
            if slot.aliases and slot_metas:
                outputs[slot.name] = list(inputs[slot.aliases])
        attrs = {n: v for n, v in sample.attrs.items() if v is not None}
        self._block.append_op(sample.op_type, inputs, outputs, attrs)
        self._read.update(name for listed in inputs.values() for name in listed)
        latest: list[str] = []
        for slot, slot_metas in zip(definition.proto.outputs, metas, strict=True):
            self._written.update(zip(outputs[slot.name], slot_metas, strict=True))
            if slot.intermediate:
                self._inner.update(outputs[slot.name])
            elif not slot.aliases:
                latest += outputs[slot.name]
        self._readable = [*latest, *self._readable]
        arguments = ", ".join(name for listed in inputs.values() for name in listed)
        results = ", ".join(name for listed in outputs.values() for name in listed)
        self._text.append(f"{results} = {sample.op_type}({arguments})")
        return inputs

    def differentiate(self) -> None:
        """Append the gradients of all parameters, if they can be computed."""
        targets = [self._block.var(n) for n in self._results if is_float(self._written[n].dtype)]
        if not targets or not self._parameters:
            return
        try:
            pairs = append_backward(targets, parameters=self._parameters)
        except OpwrightError:
            return  # not every operator passes a gradient on
        for parameter, gradient in pairs:
            self._gradients[parameter.name] = gradient.name
            self._written[gradient.name] = meta_of(self._persistables[parameter.name])
        self._text.append(f"gradients of {', '.join(self._gradients)}")

    def update(self, samples: Sequence[Sample]) -> None:
        """Append an update of each parameter that has a gradient, all with one operator type."""
        sample = _choose(samples, self._rng)
        definition = self._context.ops.get(sample.op_type)
        in_place = {slot.aliases for slot in definition.proto.outputs}
        shared: dict[tuple[str, int], str] = {}  # such as the learning rate
        for parameter, gradient in self._gradients.items():
            if meta_of(sample.inputs["param"][0]).dtype != self._written[gradient].dtype:
                return
            places = {**shared, ("param", 0): parameter, ("grad", 0): gradient}
            shape = self._persistables[parameter].shape
            inputs = self._append(_resize(sample, ("param", 0), shape, shared), definition, places)
            for slot in {*inputs} - in_place - {"grad"}:
                shared.update({(slot, i): name for i, name in enumerate(inputs[slot])})

    def _give(self, name: str, array: Array, persistable: bool) -> str:
        """Declare an input that no operator writes, and return its name."""
        meta = meta_of(array)
        is_parameter = self._is_training and not persistable and is_float(meta.dtype)
        if is_parameter and self._rng.random() < 0.7:
            self._parameters.append(name)
            persistable = True
        (self._persistables if persistable else self._feeds)[name] = array
        self._block.create_var(
            name,
            shape=meta.shape,
            dtype=meta.dtype,
            persistable=persistable,
            is_data=not persistable,
        )
        return name

    @property
    def _results(self) -> list[str]:
        """Variables that no operator reads, except intermediate values of gradients."""
        return [name for name in self._written if name not in self._read | self._inner]

    def finish(self) -> DrawnProgram:
        """Return the program."""
        results = self._results
        if len(results) > 1 and self._rng.random() < 0.5:
            results = results[-1:]
        between = [name for name in self._written if name in self._read]
        text = "; ".join(self._text)
        return DrawnProgram(self._block, self._feeds, self._persistables, results, between, text)


def _resize(
    sample: Sample,
    place: tuple[str, int],
    shape: tuple[int, ...],
    fixed: Mapping[tuple[str, int], str],
) -> Sample:
    """Return the sample with a different shape for one array, and adapt the other shapes.

    If an axis of another input had the old length of a changed axis, it gets the new length.
    """
    slot, i = place
    before = sample.inputs[slot][i].shape
    lengths: dict[int, int] = {}
    if len(before) == len(shape):
        lengths = dict(zip(before, shape, strict=True))
    same = before if len(before) != len(shape) else None
    inputs = {}
    for name, arrays in sample.inputs.items():
        new = []
        for j, array in enumerate(arrays):
            target: tuple[int, ...] = tuple(lengths.get(int(dim), int(dim)) for dim in array.shape)
            if array.shape == same:
                target = shape
            if (name, j) == place:
                target = shape
            if (name, j) in fixed:
                target = array.shape
            if numel(target) > _MOST_ELEMENTS:
                raise ShapeError(f"{name}: must have fewer elements, got {numel(target)}")
            new.append(np.resize(array, target) if target != array.shape else array)
        inputs[name] = tuple(new)
    return replace(sample, inputs=inputs)


def _is_update(definition: OpDefinition) -> bool:
    """Return whether an operator updates a parameter by its gradient."""
    aliased = {slot.aliases for slot in definition.proto.outputs}
    return "param" in aliased and "grad" in definition.proto.input_slots


def _choose(items: Sequence[Any], rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


def floats_first(dtypes: Sequence[str]) -> list[str]:
    """Return dtypes with floats before other dtypes."""
    return sorted(dtypes, key=lambda dtype: not is_float(dtype))
