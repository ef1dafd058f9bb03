"""An example call of an operator, drawn from its OpProto so that it runs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from opwright import Context, context_guard, ops
from opwright.device import HOST_DEVICE
from opwright.errors import OpwrightError
from opwright.kernel import Refuse
from opwright.op import DTYPES, Meta, OpDefinition, SlotMetas, format_shape, is_float
from opwright_kit.isolation.forked import Tell, run_forked
from opwright_kit.testing.launch.launching import Launch
from opwright_kit.testing.samples.draw import Sampler, draw_sample, draw_samples
from opwright_kit.testing.samples.sample import Array, Sample, meta_of
from opwright_kit.testing.samples.samplers import find_sampler, load_samplers

_WIDTH: Final = 96

_SEEDS: Final = 12
"""Number of samples from which the simplest is chosen."""

_LONG: Final = 20
"""An axis too long to print."""

_RUNS: Final = 5
"""Maximum number of samples to run, the simplest first, until one works."""

_RAN: Final = "ran"
"""Reported, instead of the name of a kernel, when the call has returned."""

_RAN_AS_DRAWN: Final = "ran as drawn"
"""Reported instead of `_RAN` if a call with random floats does not return."""

_GIVE_UP: Final = 3
"""Number of seeds without a sample after which other attributes are tried."""


class Example(NamedTuple):
    """Inputs and attributes that an operator accepts, and the outputs computed from them.

    Attributes
    ----------
    definition : OpDefinition
    sample : Sample
        The arrays and the complete attributes.
    outputs : tuple of tuple of Meta
        Shape and dtype of the outputs, by slot.
    crash : str
        How the process that ran it crashed, and in which kernel; empty if it ran.
    is_written : bool
        Whether its floats are written out, since other values would be refused.
    """

    definition: OpDefinition
    sample: Sample
    outputs: SlotMetas
    crash: str = ""
    is_written: bool = False

    def code(self) -> list[str]:
        """Return lines of Python source that create the inputs and call the operator."""
        proto = self.definition.proto
        lines = ["import numpy as np", "import opwright as ow", ""]
        inputs = {n: arrays for n, arrays in self.sample.inputs.items() if arrays}
        for name, arrays in inputs.items():
            values = [_array_code(array, self.is_written) for array in arrays]
            value = values[0]
            if proto.input(name).duplicable:
                value = f"[{', '.join(values)}]"
            line = f"{name} = {value}"
            lines += textwrap.wrap(line, _WIDTH, subsequent_indent="    ", break_long_words=False)
        arguments: list[str] = []
        for slot in proto.inputs:
            if slot.name in inputs:
                in_order = len(arguments) == proto.inputs.index(slot)
                arguments.append(slot.name if in_order else f"{slot.name}={slot.name}")
        arguments += [f"{name}={value!r}" for name, value in self.given_attrs().items()]
        results = ", ".join(self._returned()) or "results"
        return [*lines, *_call_code(results, f"ow.ops.{proto.type}", arguments)]

    def _returned(self) -> list[str]:
        """Return the result names of a call, or [] if their number is unknown."""
        slots = [slot for slot in self.definition.proto.outputs if not slot.intermediate]
        if any(slot.duplicable for slot in slots):
            return []
        return [slot.name for slot in slots if len(slots) == 1 or not slot.optional]

    def given_attrs(self) -> dict[str, Any]:
        """Return the attributes that differ from their defaults."""
        protos = self.definition.proto.attr_protos
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.sample.attrs.items()
            if value != protos[name].default
        }

    def shapes(self, unknown: bool = False) -> str | None:
        """Return ``x [2, 3], y [3] -> out [2, 3]``, or None if the shape rule refuses the inputs.

        If `unknown` is set, the first axis of the first input, and of all inputs with the same
        shape, is unknown, as for a fed batch.
        """
        inputs, outputs = self.sample.input_metas(self.definition), self.outputs
        if unknown:
            first = next((metas[0] for metas in inputs if metas), None)
            if first is None or not first.shape:
                return None
            inputs = tuple(
                tuple(
                    Meta((-1, *m.shape[1:]), m.dtype) if m.shape == first.shape else m for m in ms
                )
                for ms in inputs
            )
            counts = self.sample.output_counts(self.definition)
            try:
                outputs = self.definition.infer(inputs, self.sample.attrs, counts)
            except OpwrightError:
                return None
        proto = self.definition.proto
        sides = (zip(proto.inputs, inputs, strict=True), zip(proto.outputs, outputs, strict=True))
        left, right = (
            ", ".join(f"{slot.name} {format_shape(m.shape)}" for slot, ms in side for m in ms)
            for side in sides
        )
        return f"{left} -> {right}" if left else right


def find_example(definition: OpDefinition, context: Context) -> Example | None:
    """Return an example that ran or crashed on the host, or None if there is none.

    The example runs in a separate process, so a crash of a kernel terminates only that process.

    Raises
    ------
    PluginError
        If a package's own samples cannot be loaded.
    """
    if definition.plan_only or definition.control is not None:
        return None
    sampler = find_sampler(load_samplers(), definition)
    for dtype in _runnable_dtypes(definition, context):
        examples = sorted(_draw(definition, dtype, sampler), key=_rank)[:_RUNS]
        example = _find_runnable([*examples, *map(_zero_integers, examples)], context)
        if example is not None:
            return example
    return None


def _find_runnable(examples: list[Example], context: Context) -> Example | None:
    """Return the first example that runs, or crashes."""

    def run_all(tell: Tell) -> None:
        for number, example in enumerate(examples):
            for who in _kernels_in_turn(example, context):
                tell([number, who])
            if _runs(example, context):
                tell([number, _RAN if _runs(_randomize(example), context) else _RAN_AS_DRAWN])
                return

    reports, end = run_forked(run_all)
    if not reports:
        return None
    number, who = reports[-1]
    example: Example = examples[number]
    if end:
        return example._replace(crash=f"{end} in kernel {who}")
    if who == _RAN_AS_DRAWN:
        return example._replace(is_written=True)
    return example if who == _RAN else None


def _kernels_in_turn(example: Example, context: Context) -> Iterator[str]:
    """Yield the kernels that are tried for the example, until one accepts it."""
    definition, sample = example.definition, example.sample
    if definition.body is not None:
        yield f"of the body of {definition.op_type}"
    for entry in context.candidates(definition.op_type, HOST_DEVICE, sample.dtype):
        yield entry.who
        with suppress(Refuse, OpwrightError):  # the call reports errors
            Launch(entry, sample, context=context)
            return


def _zero_integers(example: Example) -> Example:
    """Return the example with every integer set to 0, a value valid for any count or position."""
    inputs = {
        name: tuple(a if is_float(meta_of(a).dtype) else np.zeros_like(a) for a in arrays)
        for name, arrays in example.sample.inputs.items()
    }
    return example._replace(sample=replace(example.sample, inputs=inputs))


def _randomize(example: Example) -> Example:
    """Return the example with its floats replaced by random numbers in [0, 1)."""
    rng = np.random.default_rng(0)
    inputs = {
        name: tuple(
            np.asarray(rng.random(a.shape)).astype(a.dtype) if is_float(meta_of(a).dtype) else a
            for a in arrays
        )
        for name, arrays in example.sample.inputs.items()
    }
    return example._replace(sample=replace(example.sample, inputs=inputs))


def _runs(example: Example, context: Context) -> bool:
    """Return whether the example runs; shape rules do not see values, such as class ids."""
    proto = example.definition.proto
    arguments: dict[str, Any] = dict(example.given_attrs())
    for name, arrays in example.sample.inputs.items():
        if arrays:
            arguments[name] = list(arrays) if proto.input(name).duplicable else arrays[0]
    try:
        with np.errstate(all="ignore"), context_guard(context):
            _find_function(example.definition.op_type)(**arguments)
    except OpwrightError:
        return False
    return True


def _find_function(op_type: str) -> Callable[..., Any]:
    """Return ``opwright.ops.acme.swish`` for ``"acme.swish"``."""
    space: Any = ops
    for part in op_type.split("."):
        space = getattr(space, part)
    return space  # type: ignore[no-any-return]


def _runnable_dtypes(definition: OpDefinition, context: Context) -> list[str]:
    """Return the NumPy dispatch dtypes in which the host runs an operator, float32 first."""
    order = ("float32", "float64", "int64", "int32", "bool", *DTYPES)
    return [
        dtype
        for dtype in dict.fromkeys(order)
        if dtype != "bfloat16"
        and (
            definition.body is not None
            or context.candidates(definition.op_type, HOST_DEVICE, dtype)
        )
    ]


def _draw(definition: OpDefinition, dtype: str, sampler: Sampler | None) -> Iterator[Example]:
    n_found = 0
    for seed in range(_SEEDS):
        if seed == _GIVE_UP and not n_found:
            break
        sample = draw_sample(definition, dtype, seed, sampler)
        if sample is not None:
            n_found += 1
            yield Example(definition, sample, sample.infer(definition))
    if not n_found:
        for sample in draw_samples(definition, dtype, 0, sampler):
            yield Example(definition, sample, sample.infer(definition))


def _rank(example: Example) -> tuple[int, ...]:
    """Rank simple examples first: no axis of length 0, few of length 1, few attributes."""
    slots_metas = example.sample.input_metas(example.definition)
    metas = [meta for slot_metas in slots_metas for meta in slot_metas]
    dims = [dim for meta in metas for dim in meta.shape]
    results = [dim for ms in example.outputs for m in ms for dim in m.shape]
    slots = example.definition.proto.inputs
    lonely = sum(s.duplicable and len(ms) == 1 for s, ms in zip(slots, slots_metas, strict=True))
    return (
        (*dims, *results).count(0) + sum(dim > _LONG for dim in dims),
        len(example.given_attrs()),
        abs((len(metas[0].shape) if metas else 2) - 2) + lonely,
        results.count(1) + dims.count(1),
        len(metas),
    )


def _call_code(results: str, function: str, arguments: list[str]) -> list[str]:
    """Return the source of a function call, split over several lines if it is too long for one."""
    line = f"{results} = {function}({', '.join(arguments)})"
    if len(line) <= _WIDTH:
        return [line]
    if len(results) > _WIDTH // 2:
        results = "results"
    lines = textwrap.wrap(", ".join(arguments), _WIDTH - 4)
    return [f"{results} = {function}(", *(f"    {part}" for part in lines), ")"]


def _array_code(array: Array, is_written: bool) -> str:
    """Return source that creates an array of this shape and dtype, with the sample's integers."""
    dtype = meta_of(array).dtype
    if is_float(dtype) and is_written:
        return f'np.array({array.astype("float64").round(2).tolist()}, "{dtype}")'
    if not is_float(dtype):
        return f'np.array({array.tolist()}, "{dtype}")'
    if not array.ndim:
        return f'np.array(0.5, "{dtype}")'
    return f'np.random.rand({", ".join(map(str, array.shape))}).astype("{dtype}")'


def example_to_json(example: Example | None) -> Mapping[str, Any] | None:
    """Return an example as plain data."""
    if example is None:
        return None
    return {
        "code": "\n".join(example.code()),
        "shapes": example.shapes(),
        "crash": example.crash or None,
    }
