"""Builds a one-operator program for a case, and runs it as users do, in a compiled network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import pytest
from case import Array, Case, is_float

import opwright as ow
from opwright.kernel import ANY
from opwright.op import DTYPES, FLOAT_DTYPES, NARROW_DTYPES, GradOp, Meta, NoGradient, OpDefinition


class Target(NamedTuple):
    """Device and library of a case; None leaves kernels unpinned, as for expanded composites."""

    device: str
    library: str | None

    def __str__(self) -> str:
        return f"{self.device}-{self.library or 'any'}"


@dataclass
class OneOperator:
    """A program of one operator.

    Attributes
    ----------
    feeds : dict
        Array by variable.
    inputs, outputs : dict
        Variables by slot.
    """

    block: Any
    definition: OpDefinition
    feeds: dict[str, Array]
    inputs: dict[str, list[Any]]
    outputs: dict[str, list[Any]]


def definition_of(case: Case) -> OpDefinition:
    """Return the operator's definition."""
    return ow.current_context().ops.get(case.op)


@cache
def dispatch_dtype(case: Case, dtype: str) -> str:
    """Return the dtype that selects the kernel of a case."""
    definition, arrays = definition_of(case), case.make_inputs(dtype)
    metas = tuple(
        tuple(Meta(array.shape, array.dtype.name) for array in arrays.get(slot.name, ()))
        for slot in definition.proto.inputs
    )
    return definition.dispatch_dtype(metas, definition.proto.fill_attrs(dict(case.attrs)))


@cache
def targets(case: Case, dtype: str) -> tuple[Target, ...]:
    """Return every device and library with a kernel for a case."""
    wanted = {dispatch_dtype(case, dtype), "*"}
    entries = ow.current_context().kernels.entries(case.op)
    # "cudnn_tf32" is excluded, since its kernels are less accurate where TF32 is allowed.
    found = {
        Target(e.device, e.library)
        for e in entries
        if e.dtype in wanted and e.library != "cudnn_tf32"
    }
    if definition_of(case).body is not None:
        found.add(Target("cpu", None))
    return tuple(sorted(found, key=str))


def skip_without_cudnn() -> None:
    """Skip a test on a machine with a GPU but without cuDNN, which is an optional dependency."""
    from opwright_cuda import cudnn  # a target of library "cudnn" implies this package

    reason = cudnn.find_refusal()
    if reason is not None:
        pytest.skip(reason)


def _dtypes_of(op_type: str, target: Target) -> set[str]:
    """Return the dtypes in which a library has a kernel; "*" means all."""
    entries = ow.current_context().kernels.entries(op_type)
    found = {e.dtype for e in entries if (e.device, e.library) == target}
    return found | (set(DTYPES) - set(NARROW_DTYPES)) if ANY in found else found


@contextlib.contextmanager
def pinned(case: Case, target: Target) -> Iterator[None]:
    """Pin the operator of a case and its gradient operator to the library of a target."""
    if target.library == "cudnn":
        skip_without_cudnn()
    context = ow.current_context()
    pins: dict[str, str] = {}
    if dtypes := _dtypes_of(case.op, target):
        pins[case.op] = str(target.library)
    # The gradient is not pinned if the library supports it in fewer dtypes.
    floats = dtypes & set(FLOAT_DTYPES) & set(case.dtypes)
    if dtypes and floats <= _dtypes_of(f"{case.op}_grad", target) != set():
        pins[f"{case.op}_grad"] = str(target.library)
    with ow.context_guard(context.with_pins(pins)):
        yield


def graded_slots(case: Case, arrays: Mapping[str, Sequence[Array]]) -> list[str]:
    """Return the differentiable inputs of a case: floats that are neither shapes nor state."""
    definition = definition_of(case)
    rule = definition.gradient
    if rule is None or isinstance(rule, NoGradient):
        return []
    excluded = set(rule.no_grad) if isinstance(rule, GradOp) else set()
    excluded.update(slot.aliases for slot in definition.proto.outputs if slot.aliases)
    return [
        slot.name
        for slot in definition.proto.inputs
        if slot.name not in excluded
        and not slot.shape_only
        and any(is_float(array.dtype) for array in arrays.get(slot.name, ()))
    ]


def build(case: Case, arrays: Mapping[str, Sequence[Array]]) -> OneOperator:
    """Return the program of a case, for the inputs from `Case.make_inputs`."""
    block = ow.Program().global_block()
    feeds: dict[str, Array] = {}
    inputs: dict[str, list[Any]] = {}
    graded = graded_slots(case, arrays)
    for slot, listed in arrays.items():
        inputs[slot] = []
        for i, array in enumerate(listed):
            name = f"{slot}_{i}" if case.is_list(slot) else slot
            stop = slot not in graded
            variable = block.create_var(name, array.shape, array.dtype, stop_gradient=stop)
            inputs[slot].append(variable)
            feeds[name] = array
    definition = definition_of(case)
    written = {slot: [f"{slot}_{i}" for i in range(n)] for slot, n in case.outputs.items()}
    given = {slot: variables for slot, variables in inputs.items() if variables}
    op = block.append_op(case.op, given, {**_optional(definition), **written}, case.attrs)
    outputs = {
        slot.name: [block.var(name) for name in op.output(slot.name)]
        for slot in definition.proto.outputs
    }
    return OneOperator(block, definition, feeds, inputs, outputs)


def _optional(definition: OpDefinition) -> dict[str, str]:
    return {s.name: f"{s.name}_0" for s in definition.proto.outputs if s.optional and not s.aliases}


def run(
    block: Any, feeds: Mapping[str, Array], fetch: Sequence[Any], device: str = "cpu"
) -> list[Array]:
    """Return the results of a block."""
    return compiled(block, feeds, fetch, device)(**feeds)


def compiled(
    block: Any,
    feeds: Mapping[str, Array],
    fetch: Sequence[Any],
    device: str = "cpu",
    passes: Sequence[str] | None = None,
) -> Callable[..., list[Array]]:
    """Return a block as a function of its feeds."""
    network = ow.Network(block)
    names = [variable if isinstance(variable, str) else variable.name for variable in fetch]
    feed, scope = list(feeds), ow.Scope()
    return network.compile(feed=feed, fetch=names, device=device, scope=scope, passes=passes)


def run_case(
    case: Case, arrays: Mapping[str, Sequence[Array]], target: Target
) -> dict[str, list[Array]]:
    """Return the outputs of a case, by slot, computed on a target."""
    one = build(case, arrays)
    fetch = [variable for variables in one.outputs.values() for variable in variables]
    with pinned(case, target):
        results = iter(run(one.block, one.feeds, fetch, target.device))
    return {slot: [next(results) for _ in listed] for slot, listed in one.outputs.items()}
