"""Provides small inputs for every CUDA kernel in every dtype, and the NumPy results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np
from case import Array, Case
from direct import call, infer
from one_operator import Target, run_case
from table import first_cases

import opwright as ow
from opwright.op import DTYPES, NARROW_DTYPES
from opwright_kit.testing import draw_samples
from opwright_kit.testing.samples.samplers import find_sampler, load_samplers

Arrays = dict[str, list[Array]]
NARROW = ("float16", "bfloat16")
MOST_DRAWN = 12
"""The maximum number of samples drawn for an operator."""


class Sample(NamedTuple):
    """A kernel in one dtype; for a plan-only kernel, also the index of its sample in the kit."""

    op_type: str
    dtype: str
    library: str
    number: int = -1

    def __str__(self) -> str:
        name = f"{self.op_type}-{self.dtype}-{self.library}"
        return name if self.number < 0 else f"{name}-{self.number}"


class Call(NamedTuple):
    """The arguments with which an operator is called.

    Attributes
    ----------
    arrays : dict
        Arrays by input slot.
    attrs : dict
        Attributes whose values differ from the defaults.
    counts : dict
        Number of output variables by slot.
    """

    arrays: Arrays
    attrs: dict[str, Any]
    counts: dict[str, int]


NUMPY = ("std", "numpy")
"""The plugin and the library of the kernels that every standard operator has."""

OURS: Final = ("native", "small", "tensor_cores")
"""The libraries of kernels whose source is part of opwright-cuda."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name; bfloat16 comes from ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def standard_kernels() -> dict[str, set[str]]:
    """Return the dtypes of the NumPy kernels by operator type, including gradients.

    Pass-only operators have no case and are excluded.
    """
    kernels, ops = ow.current_context().kernels, ow.current_context().ops
    found = {
        op_type: {
            e.dtype for e in kernels.entries(op_type) if (e.package.plugin, e.library) == NUMPY
        }
        for op_type in sorted(kernels.op_types())
        if not ops.get(op_type).plan_only
    }
    return {op_type: dtypes for op_type, dtypes in found.items() if dtypes}


def samples() -> list[Sample]:
    """Return a sample for every CUDA kernel of the standard operators in every dtype."""
    kernels = ow.current_context().kernels
    found = set()
    for op_type, known in standard_kernels().items():
        wanted = wanted_dtypes(op_type, known)
        for entry in kernels.entries(op_type):
            if entry.device == "cuda":
                for dtype in wanted if entry.dtype == "*" else (entry.dtype,):
                    found.add(Sample(op_type, dtype, entry.library))
    return sorted(found)


def one_of_each() -> list[Sample]:
    """Return one sample per operator and library, in float32 or int64 if available."""
    found: dict[tuple[str, str], dict[str, Sample]] = {}
    for sample in samples():
        found.setdefault((sample.op_type, sample.library), {})[sample.dtype] = sample
    return [
        by_dtype.get("float32") or by_dtype.get("int64") or next(iter(by_dtype.values()))
        for by_dtype in found.values()
    ]


def wanted_dtypes(op_type: str, known: set[str]) -> list[str]:
    """Return the NumPy dtypes, plus narrow floats if the operator has float32 and bfloat16."""
    if "*" in known:
        return [dtype for dtype in DTYPES if dtype not in NARROW_DTYPES]
    definition = ow.current_context().ops.get(op_type)
    allowed = [set(slot.dtypes) for slot in definition.proto.inputs if "float32" in slot.dtypes]
    has_narrow = "float32" in known and all("bfloat16" in dtypes for dtypes in allowed)
    return [d for d in DTYPES if d in known or (d in NARROW and has_narrow)]


@cache
def case_of(op_type: str) -> Case:
    """Return the case of an operator; for a gradient operator, the case of its forward operator."""
    cases = {case.op: case for case in first_cases()}
    return cases[op_type if op_type in cases else op_type.removesuffix("_grad")]


def converted(array: Array, dtype: str) -> Array:
    """Cast an array; floats are scaled before rounding to integers to reduce duplicates."""
    if dtype == "bool":
        return array > 0
    if np.issubdtype(numpy_dtype(dtype), np.integer) and array.dtype.kind == "f":
        whole = np.round(np.clip(array, -20, 20) * 3)
        return np.abs(whole).astype(dtype) if dtype.startswith("u") else whole.astype(dtype)
    return np.asarray(array).astype(numpy_dtype(dtype))


def make_call(op_type: str, dtype: str) -> Call:
    """Return a call that selects the operator's kernel for `dtype`."""
    case = case_of(op_type)
    definition = ow.current_context().ops.get(op_type)
    base = dtype if dtype in case.dtypes and dtype not in NARROW else _base_of(case, dtype)
    arrays: Arrays = case.make_inputs(base)
    attrs, counts = dict(case.attrs), counts_of(case)
    if op_type != case.op:
        arrays, counts = _gradient_call(op_type, base)
    if base != dtype:
        slots = definition.proto.input_slots
        arrays = {
            slot: [
                converted(a, dtype)
                if a.dtype.name == base and dtype in (slots[slot].dtypes or (dtype,))
                else a
                for a in listed
            ]
            for slot, listed in arrays.items()
        }
        if op_type == "power" and np.dtype(base).kind == "f" and numpy_dtype(dtype).kind in "iu":
            arrays["y"] = [np.abs(y) for y in arrays["y"]]  # integers have no negative powers
        if "value" in attrs and numpy_dtype(dtype).kind in "biu":
            attrs["value"] = 1.0  # every dtype can represent it
    first = definition.proto.inputs[0] if definition.proto.inputs else None
    if first is not None and set(first.dtypes) == {"int32", "int64"} and dtype in first.dtypes:
        arrays[first.name] = [a.astype(dtype) for a in arrays[first.name]]
    is_made = "dtype" in definition.proto.attr_protos and not any(case.inputs.values())
    if is_made:
        attrs["dtype"] = dtype
    if dtype.startswith("uint") and attrs.get("low", 0) < 0:
        attrs["low"] = 0  # every dtype can represent it
    return Call(arrays, attrs, counts)


def plan_calls() -> Iterator[tuple[Sample, Call]]:
    """Yield calls of plan-only operators that the kit draws."""
    context, samplers = ow.current_context(), load_samplers()
    for op_type in sorted(context.kernels.op_types()):
        definition = context.ops.get(op_type)
        entries = context.kernels.entries(op_type)
        ours = [e for e in entries if e.device == "cuda" and e.library in OURS]
        if not definition.plan_only or not ours:
            continue
        dtype, library = ours[0].dtype, ours[0].library
        drawn = draw_samples(definition, dtype, 0, find_sampler(samplers, definition))
        for found in drawn[:MOST_DRAWN]:
            slots = [slot.name for slot in definition.proto.inputs if slot.name in found.inputs]
            arrays = {slot: list(found.inputs[slot]) for slot in slots}
            called = Call(arrays, dict(found.attrs), dict(found.outputs))
            yield Sample(op_type, dtype, library, found.number), called


def _base_of(case: Case, dtype: str) -> str:
    """Return the dtype that the arrays of a case have before conversion."""
    if dtype in NARROW and "float32" in case.dtypes:
        return "float32"
    return case.dtypes[-1]


def counts_of(case: Case) -> dict[str, int]:
    """Return the number of variables in each output slot of a case."""
    outputs = ow.current_context().ops.get(case.op).proto.outputs
    absent = {
        slot.name for slot in outputs if slot.optional and not case.inputs.get(slot.aliases or "")
    }
    return {
        slot.name: case.outputs.get(slot.name, 0 if slot.aliases and slot.name in absent else 1)
        for slot in outputs
    }


@cache
def _gradient_call(op_type: str, dtype: str) -> tuple[Arrays, dict[str, int]]:
    """Return the inputs of a gradient operator, with random gradients, and its output counts."""
    case, derived = case_of(op_type), ow.current_context().ops.get(op_type)
    arrays = case.make_inputs(dtype)
    outputs = run_case(case, arrays, Target("cpu", None))
    rng = np.random.default_rng(0)
    made: Arrays = {}
    for slot in derived.proto.inputs:
        forward = slot.name.removesuffix("_grad")
        if slot.name in arrays:
            made[slot.name] = list(arrays[slot.name])
        elif slot.name in outputs:
            made[slot.name] = outputs[slot.name]
        elif forward in outputs:
            made[slot.name] = [
                np.asarray(rng.standard_normal(a.shape)).astype(a.dtype) for a in outputs[forward]
            ]
    counts = {}
    for slot in derived.proto.outputs:
        listed = made.get(slot.name.removesuffix("_grad"), [])
        counts[slot.name] = len(listed) if all(a.dtype.kind == "f" for a in listed) else 0
    return made, counts


def run_network(sample: Sample, called: Call) -> dict[str, list[Array]]:
    """Run a sample as a network on CUDA; return its outputs by slot."""
    context = ow.current_context()
    definition = context.ops.get(sample.op_type)
    block = ow.Program().global_block()
    feeds: dict[str, Array] = {}
    inputs: dict[str, list[str]] = {}
    for slot, listed in called.arrays.items():
        inputs[slot] = [f"{slot}_{i}" for i in range(len(listed))]
        for name, array in zip(inputs[slot], listed, strict=True):
            block.create_var(name, array.shape, array.dtype.name)
            feeds[name] = array
    aliases = {slot.name: slot.aliases for slot in definition.proto.outputs if slot.aliases}
    written = {
        slot: inputs[aliases[slot]] if slot in aliases else [f"made_{slot}_{i}" for i in range(n)]
        for slot, n in called.counts.items()
    }
    given = {slot: names for slot, names in inputs.items() if names}
    block.append_op(sample.op_type, given, {s: n for s, n in written.items() if n}, called.attrs)
    fetch = [name for names in written.values() for name in names]
    with ow.context_guard(context.with_pins({sample.op_type: sample.library})):
        compiled = ow.Network(block).compile(
            feed=list(feeds), fetch=fetch, device="cuda", scope=ow.Scope()
        )
        results = iter(compiled(**feeds))
    return {slot: [next(results) for _ in names] for slot, names in written.items()}


def expected(sample: Sample, called: Call) -> dict[str, list[Array]]:
    """Return the results of the NumPy kernel, in float32 if NumPy does not have the float type."""
    context = ow.current_context()
    entries = context.kernels.entries(sample.op_type)
    wide = "float32" if sample.dtype in NARROW else sample.dtype
    kernel = next(e for e in entries if e.library == "numpy" and e.dtype in {wide, "*"}).load()
    arrays = {slot: [_wide(array) for array in listed] for slot, listed in called.arrays.items()}
    if sample.op_type == "bit_cast":  # its output has the same bytes as its input
        arrays = called.arrays
    attrs = {
        name: "float32" if name == "dtype" and value in NARROW else value
        for name, value in called.attrs.items()
    }
    with np.errstate(all="ignore"):
        definition = context.ops.get(sample.op_type)
        return call(kernel, definition, arrays, attrs, called.counts)


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.name in NARROW else array


def dispatch_dtype(sample: Sample, called: Call) -> str:
    """Return the dtype by which a call is dispatched."""
    definition = ow.current_context().ops.get(sample.op_type)
    metas = tuple(
        tuple(ow.op.Meta(a.shape, a.dtype.name) for a in called.arrays.get(slot.name, ()))
        for slot in definition.proto.inputs
    )
    return definition.dispatch_dtype(metas, definition.proto.fill_attrs(dict(called.attrs)))


def metas_of(sample: Sample, called: Call) -> Mapping[str, Any]:
    """Return the metadata of all outputs by slot."""
    definition = ow.current_context().ops.get(sample.op_type)
    attrs = definition.proto.fill_attrs(dict(called.attrs))
    made = infer(definition, called.arrays, attrs, called.counts)
    return {slot.name: metas for slot, metas in zip(definition.proto.outputs, made, strict=True)}
