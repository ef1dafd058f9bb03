"""Builds programs of one operator and a weighted loss, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from opwright import Block, Context, Network, Program, Variable, append_backward, runtime
from opwright.device import HOST_DEVICE
from opwright.errors import GradientError
from opwright.op import GradOp, NoGradient, OpDefinition, can_be_float, grad_name
from opwright_kit.testing.results.scorecard import Skipped
from opwright_kit.testing.results.subjects import OperatorSubject
from opwright_kit.testing.samples.sample import Array, Sample

_NEEDED: Final = ("multiply", "sum", "add_n")
"""Operators of the loss."""


class Training(NamedTuple):
    """A program of one operator and its loss.

    Attributes
    ----------
    block : Block
    feeds : dict of str to ndarray
        The inputs as ``<slot>_<number>``, and the weights.
    targets : list of Variable
        Inputs that may have a gradient.
    weights : dict of str to str
        By output, the feed that weighs it in the loss.
    loss : Variable
    """

    block: Block
    feeds: dict[str, Array]
    targets: list[Variable]
    weights: dict[str, str]
    loss: Variable


def skip_without_gradient(subject: OperatorSubject) -> None:
    """Raise Skipped if an operator has no gradient, or no loss can be computed in float64."""
    definition = subject.definition
    rule = definition.gradient
    if isinstance(rule, NoGradient):
        raise Skipped(f"declared to have none: {rule.reason}")
    if definition.control is not None:
        raise Skipped("its gradient is the gradient of the operators in its blocks")
    if rule is None and definition.body is None:
        raise Skipped("no gradient rule: append_backward refuses it")
    for op_type in _NEEDED:
        if subject.context.ops.find(op_type) is None:
            raise Skipped(f"the loss needs the operator {op_type!r}: pip install opwright-std")
    kernels = subject.context.kernels.candidates(subject.name, HOST_DEVICE, "float64")
    if not kernels and definition.body is None:
        raise Skipped("no kernel of the host computes float64, in which differences are taken")


def pinned(subject: OperatorSubject) -> Context:
    """Return the Context with the package's own kernels pinned, also for the gradient."""
    context = subject.context
    package = context.ops.package_of(subject.name)
    pins: dict[str, str] = {}
    for op_type in (subject.name, grad_name(subject.name)):
        for entry in context.kernels.candidates(op_type, HOST_DEVICE, "float64"):
            if entry.package == package:
                pins.setdefault(op_type, entry.library)
    return context.with_pins(pins)


def build_training(definition: OpDefinition, sample: Sample, seed: int) -> Training | None:
    """Append the operator and its loss to a program; return None if no gradient flows back."""
    block = Program().global_block()
    feeds: dict[str, Array] = {}
    targets: list[Variable] = []
    graded = graded_slots(definition)
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
                targets.append(variable)
    counts = sample.output_counts(definition)
    outputs: dict[str, list[str]] = {}
    for slot, count in zip(definition.proto.outputs, counts, strict=True):
        aliases = inputs.get(slot.aliases or "", [])
        names = (
            [v.name for v in aliases]
            if slot.aliases
            else [f"{slot.name}_{i}" for i in range(count)]
        )
        if names:
            outputs[slot.name] = names
    present = {slot: variables for slot, variables in inputs.items() if variables}
    op = block.append_op(definition.op_type, present, outputs, dict(sample.attrs))
    weights: dict[str, str] = {}
    loss = _append_loss(block, definition, op, feeds, weights, seed)
    return None if loss is None or not targets else Training(block, feeds, targets, weights, loss)


def graded_slots(definition: OpDefinition) -> set[str]:
    """Return the input slots that may have a gradient."""
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
    block: Block,
    definition: OpDefinition,
    op: Any,
    feeds: dict[str, Array],
    weights: dict[str, str],
    seed: int,
) -> Variable | None:
    """Append ``sum(weight * out)`` over all float outputs except state, and feed the weights."""
    rng = np.random.default_rng(seed)
    parts = []
    for slot in definition.proto.outputs:
        if slot.intermediate or slot.aliases:
            continue
        for name in op.outputs.get(slot.name, ()):
            variable = block.var(name)
            shape = variable.shape
            if shape is None or -1 in shape or variable.dtype != "float64":
                continue  # in narrower dtypes, differences over a small step are noise
            weight = weights[name] = f"weight_of_{name}"
            feeds[weight] = np.asarray(rng.standard_normal(shape)).astype(variable.dtype)
            block.create_var(weight, shape, variable.dtype, stop_gradient=True)
            product = _append(block, "multiply", {"x": variable, "y": weight})
            total = _append(block, "sum", {"x": product})
            parts.append(total)
    return _append(block, "add_n", {"x": parts}) if parts else None


def _append(block: Block, op_type: str, inputs: Mapping[str, Any]) -> Variable:
    return block.var(block.append_op(op_type, inputs).output("out")[0])


def differentiate(training: Training) -> Sequence[tuple[Variable, Variable]]:
    """Return the pairs of `append_backward`, without inputs that have no gradient."""
    targets = list(training.targets)
    while targets:
        try:
            return append_backward([training.loss], parameters=targets)
        except GradientError as error:
            refused = [v for v in targets if repr(v.name) in str(error)]
            if not refused:
                slots = {v.name.rpartition("_")[0]: v for v in targets}
                refused = [v for slot, v in slots.items() if repr(slot) in str(error)]
            if not refused:
                return []
            for variable in refused:
                variable.stop_gradient = True
                targets.remove(variable)
    return []


def compile_block(
    block: Block, feeds: Mapping[str, Array], fetch: Sequence[str]
) -> Callable[..., list[Array]]:
    """Compile a block that computes the variables `fetch` from `feeds`."""
    return Network(block).compile(feed=list(feeds), fetch=list(fetch), scope=runtime.Scope())
