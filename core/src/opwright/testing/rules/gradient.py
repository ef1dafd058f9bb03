"""The gradient that ``append_backward`` writes is the slope of a loss that weighs every output.

The loss is ``sum(weight * out)`` with random weights: a plain sum would hide errors, the gradient
of sum(softmax) is zero. Slopes are central differences in float64, taken with two steps: where they
differ, a kink lies between, and the place is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from opwright import _runtime
from opwright.backward import append_backward
from opwright.context import Context, context_guard
from opwright.definition import NoGradient, OpDefinition, can_be_float
from opwright.errors import GradientError, KernelNotFoundError
from opwright.gradient_rules import GradOp, grad_name
from opwright.network import Network
from opwright.program import Block, Program, Variable
from opwright.registry import HOST_DEVICE
from opwright.testing.context import CheckContext
from opwright.testing.sample import Array, Sample
from opwright.testing.scorecard import Finding, Skipped
from opwright.testing.slopes import Slopes
from opwright.testing.subjects import OperatorSubject

RULE = "gradient"
SUMMARY = "gradients agree with central differences of a random-weighted loss"
SUBJECT = OperatorSubject

_MOST_PLACES: Final = 12
"""Elements of one input whose slopes are taken: each needs four runs. All of a larger input are
moved at once, in a random direction."""

_MOST_ELEMENTS: Final = 2**14
"""Of a sample's inputs; what is larger is not differentiated again."""

_NEEDED: Final = ("multiply", "sum", "add_n")
"""Operators that the loss is made of."""


class _Training(NamedTuple):
    """A program of one operator and its loss.

    Attributes
    ----------
    block : Block
    feeds : dict of str to ndarray
    wanted : list of Variable
        Inputs that may have a gradient.
    loss : Variable
    """

    block: Block
    feeds: dict[str, Array]
    wanted: list[Variable]
    loss: Variable


def concerns(subject: OperatorSubject) -> bool:
    """Tell whether a program may hold the operator: others come when the gradients are written."""
    return not subject.definition.plan_only


def check(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the samples for which a gradient is not the slope."""
    definition = subject.definition
    _skip_without_gradient(subject)
    for op_type in _NEEDED:
        if context.context.ops.find(op_type) is None:
            raise Skipped(f"the loss needs the operator {op_type!r}: pip install opwright-std")
    kernels = subject.context.kernels.candidates(subject.name, HOST_DEVICE, "float64")
    if not kernels and definition.body is None:
        raise Skipped("no kernel of the host computes float64, in which slopes are taken")
    with context_guard(_pinned(subject)):
        yield from _check_samples(subject, context)


def _pinned(subject: OperatorSubject) -> Context:
    """The Context, with the package's own kernels chosen for its operator and the gradient."""
    context = subject.context
    package = context.ops.package_of(subject.name)
    pins: dict[str, str] = {}
    for op_type in (subject.name, grad_name(subject.name)):
        for entry in context.kernels.candidates(op_type, HOST_DEVICE, "float64"):
            if entry.package == package:
                pins.setdefault(op_type, entry.library)
    return context.with_pins(pins)


def _check_samples(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    definition = subject.definition
    n_compared = 0
    for drawn in context.samples(definition, "float64"):
        sample = drawn
        if sum(a.size for arrays in sample.inputs.values() for a in arrays) > _MOST_ELEMENTS:
            continue
        try:
            fault, n_places = _compare(definition, sample, context)
            if fault is None and not n_places:
                sample = _make_positive(sample)
                fault, n_places = _compare(definition, sample, context)
        except KernelNotFoundError as error:
            raise Skipped(f"no kernel on the host: {str(error).splitlines()[0]}") from error
        n_compared += n_places
        if fault is not None:
            message = f"{subject.name}: {fault}"
            yield Finding(
                RULE, subject.name, message, sample.describe(), sample.number, sample.dtype
            )
    if not n_compared:
        raise Skipped("no sample in float64 has an input with a gradient")


def _make_positive(sample: Sample) -> Sample:
    """Return the sample without negative floats, for which many functions give no number."""
    inputs = {
        slot: tuple(np.asarray(np.abs(a) + 0.25) if a.dtype.kind == "f" else a for a in arrays)
        for slot, arrays in sample.inputs.items()
    }
    return replace(sample, inputs=inputs, label=f"{sample.label}, |x| + 0.25 of its floats")


def _skip_without_gradient(subject: OperatorSubject) -> None:
    rule = subject.definition.gradient
    if isinstance(rule, NoGradient):
        raise Skipped(f"declared to have none: {rule.reason}")
    if rule is None and subject.definition.body is None:
        raise Skipped("no gradient rule: append_backward refuses it")


def _compare(
    definition: OpDefinition, sample: Sample, context: CheckContext
) -> tuple[str | None, int]:
    """Return what is wrong, and how many slopes were compared."""
    context.note(f"the gradient of {definition.op_type}", sample)
    training = _build(definition, sample, context.seed)
    if training is None:
        return None, 0
    pairs = _differentiate(training)
    if not pairs:
        return None, 0
    block, feeds = training.block, training.feeds
    loss = _compile(block, feeds, [training.loss])
    with np.errstate(all="ignore"):
        gradients = _compile(block, feeds, [gradient for _, gradient in pairs])(**feeds)
        n_places = 0
        for (variable, _), gradient in zip(pairs, gradients, strict=True):
            slopes = Slopes(loss, feeds, variable.name, context.seed)
            fault, n_compared = slopes.find_fault(gradient, _MOST_PLACES)
            n_places += n_compared
            if fault is not None:
                return fault, n_places
    return None, n_places


def _build(definition: OpDefinition, sample: Sample, seed: int) -> _Training | None:
    """Write the operator and its loss into a program; None where nothing flows back."""
    block = Program().global_block()
    feeds: dict[str, Array] = {}
    wanted: list[Variable] = []
    graded = _graded_slots(definition)
    inputs: dict[str, list[Variable]] = {}
    for given_slot, arrays in sample.inputs.items():
        inputs[given_slot] = []
        for i, array in enumerate(arrays):
            name = f"{given_slot}_{i}"
            is_graded = given_slot in graded and array.dtype.kind == "f"
            variable = block.create_var(name, array.shape, array.dtype, stop_gradient=not is_graded)
            feeds[name] = array
            inputs[given_slot].append(variable)
            if is_graded and array.size:
                wanted.append(variable)
    counts = sample.output_counts(definition)
    outputs: dict[str, list[str]] = {}
    for slot, count in zip(definition.proto.outputs, counts, strict=True):
        listed = inputs.get(slot.aliases or "", [])
        names = (
            [v.name for v in listed] if slot.aliases else [f"{slot.name}_{i}" for i in range(count)]
        )
        if names:
            outputs[slot.name] = names
    given = {slot: variables for slot, variables in inputs.items() if variables}
    op = block.append_op(definition.op_type, given, outputs, dict(sample.attrs))
    loss = _append_loss(block, definition, op, feeds, seed)
    return None if loss is None or not wanted else _Training(block, feeds, wanted, loss)


def _graded_slots(definition: OpDefinition) -> set[str]:
    rule = definition.gradient
    excluded = set(rule.no_grad) if isinstance(rule, GradOp) else set()
    excluded |= {slot.aliases for slot in definition.proto.outputs if slot.aliases}
    return {
        slot.name
        for slot in definition.proto.inputs
        if slot.name not in excluded
        and not slot.shape_only
        and can_be_float(definition.proto, slot)
    }


def _append_loss(
    block: Block, definition: OpDefinition, op: Any, feeds: dict[str, Array], seed: int
) -> Variable | None:
    """Append ``sum(weight * out)`` over all float outputs but state, and feed the weights."""
    rng = np.random.default_rng(seed)
    parts = []
    for slot in definition.proto.outputs:
        if slot.intermediate or slot.aliases:
            continue
        for name in op.outputs.get(slot.name, ()):
            variable = block.var(name)
            shape = variable.shape
            if shape is None or -1 in shape or variable.dtype != "float64":
                continue  # in fewer bits differences of a small step are noise
            weight = f"weight_of_{name}"
            feeds[weight] = np.asarray(rng.standard_normal(shape)).astype(variable.dtype)
            block.create_var(weight, shape, variable.dtype, stop_gradient=True)
            product = _append(block, "multiply", {"x": variable, "y": weight})
            total = _append(block, "sum", {"x": product})
            parts.append(total)
    return _append(block, "add_n", {"x": parts}) if parts else None


def _append(block: Block, op_type: str, inputs: Mapping[str, Any]) -> Variable:
    return block.var(block.append_op(op_type, inputs).output("out")[0])


def _differentiate(training: _Training) -> Sequence[tuple[Variable, Variable]]:
    """Return the pairs of `append_backward`; inputs that have no gradient are left out."""
    wanted = list(training.wanted)
    while wanted:
        try:
            return append_backward([training.loss], parameters=wanted)
        except GradientError as error:
            refused = [v for v in wanted if repr(v.name) in str(error)]
            if not refused:
                slots = {v.name.rpartition("_")[0]: v for v in wanted}
                refused = [v for slot, v in slots.items() if repr(slot) in str(error)]
            if not refused:
                return []
            for variable in refused:
                variable.stop_gradient = True
                wanted.remove(variable)
    return []


def _compile(
    block: Block, feeds: Mapping[str, Array], fetch: Sequence[Variable]
) -> Callable[..., list[Array]]:
    return Network(block).compile(
        feed=list(feeds), fetch=[v.name for v in fetch], scope=_runtime.Scope()
    )
