"""Describes the gradient of an operator: the operators that compute it, and their inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opwright import Context
from opwright.errors import OpwrightError
from opwright.op import (
    Branch,
    Control,
    GradOp,
    NoGradient,
    OpDefinition,
    graded_inputs,
    graded_outputs,
)
from opwright.vocabulary import GRAD_SUFFIX
from opwright_kit.commands.example import Example


def describe_gradient(
    definition: OpDefinition, example: Example | None, context: Context
) -> list[str]:
    """Return lines that tell how the gradient is computed, and which forward values it reads."""
    rule = definition.gradient
    if isinstance(rule, NoGradient):
        return [f"none: {rule.reason}"]
    if isinstance(rule, GradOp):
        return _describe_operator(definition, rule)
    if rule is not None:
        written = [] if example is None else _trace(definition, example, context)
        return written or ["composed of other operators, which depend on the requested gradients"]
    if definition.control is not None:
        return [_describe_control(definition.control)]
    if definition.body is not None:
        return ["through its body: append_backward expands it first"]
    return ["none: it has no rule, and append_backward refuses it"]


def _describe_control(control: Control) -> str:
    if isinstance(control, Branch):
        return "through its blocks: append_backward writes blocks of their gradients"
    if control.stacks:
        return "through its block: append_backward writes a scan over gradients of its iterations"
    return "none: the values of its iterations are not saved, and append_backward refuses it"


def _describe_operator(definition: OpDefinition, rule: GradOp) -> list[str]:
    proto = definition.proto
    flowing = [slot.name + GRAD_SUFFIX for slot in graded_outputs(proto, rule)]
    shapes = [slot.name for slot in proto.inputs if slot.name not in rule.needs] + list(rule.also)
    only = f"; of {_enumerate(shapes)} only the shape" if shapes else ""
    gradients = [slot.name + GRAD_SUFFIX for slot in graded_inputs(proto, rule)]
    return [
        f"{rule.type} reads {', '.join([*rule.needs, *flowing])}{only}",
        f"and gives {', '.join(gradients)}",
    ]


def _enumerate(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _trace(definition: OpDefinition, example: Example, context: Context) -> list[str]:
    """Run the gradient rule for an example, and return the operators that it appends."""
    try:
        written = _append(definition, example, context)
    except OpwrightError:
        return []
    return [
        f"{op.type} reads {', '.join(_reads(op, context)) or 'nothing'}, gives "
        f"{', '.join(op.output_names())}"
        for op in written
        if op.type != "fill_like"  # the gradient of the example's own sum
    ]


def _append(definition: OpDefinition, example: Example, context: Context) -> list[Any]:
    from opwright import Program, append_backward, context_guard, program_guard

    program = Program()
    with context_guard(context), program_guard(program, Program()):
        block = program.global_block()
        inputs = {}
        for slot, metas in zip(
            definition.proto.inputs, example.sample.input_metas(definition), strict=True
        ):
            names = _variable_names(slot.name, len(metas))
            inputs[slot.name] = [
                block.create_var(name, shape=meta.shape, dtype=meta.dtype)
                for name, meta in zip(names, metas, strict=True)
            ]
        outputs = _outputs(definition, example, inputs)
        op = block.append_op(definition.op_type, inputs, outputs, dict(example.sample.attrs))
        results = [block.var(name) for name in op.output_names()]
        floats = [v for vs in inputs.values() for v in vs if v.dtype.startswith(("float", "bf"))]
        n_forward = len(block.ops)
        append_backward([v for v in results if v.dtype.startswith(("float", "bf"))], floats)
        return list(block.ops[n_forward:])


def _outputs(
    definition: OpDefinition, example: Example, inputs: dict[str, list[Any]]
) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for slot, metas in zip(definition.proto.outputs, example.outputs, strict=True):
        if slot.aliases is not None:
            names[slot.name] = [variable.name for variable in inputs[slot.aliases]]
        elif metas:
            names[slot.name] = _variable_names(slot.name, len(metas))
    return names


def _variable_names(slot: str, count: int) -> list[str]:
    return [slot] if count == 1 else [f"{slot}{i}" for i in range(count)]


def _reads(op: Any, context: Context) -> Iterable[str]:
    proto = context.ops.get(op.type).proto
    for slot in proto.inputs:
        for name in op.inputs.get(slot.name, ()):
            yield f"the shape of {name}" if slot.shape_only else name
