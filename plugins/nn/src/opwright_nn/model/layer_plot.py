"""plot: the layers of a network as a drawing, which opwright-kit draws."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import opwright as ow
from opwright.errors import ProgramError
from opwright_nn.model.inference import input_names
from opwright_nn.model.layer_groups import LayerGroup, find_layer_groups

if TYPE_CHECKING:
    from opwright_kit.drawing import LayerDrawing

_MAX_TYPES: Final = 2


def plot_program(program: ow.Program) -> LayerDrawing:
    """Return the drawing of a program's forward pass: inputs, layers, and the values between them.

    Raises
    ------
    MissingRequirementError
        opwright-kit is not installed.
    ProgramError
        There is no layer.
    """
    annexes = ow.current_context().annexes
    make_layer = annexes.get("kit", "DrawnLayer").load()
    make_drawing = annexes.get("kit", "LayerDrawing").load()
    twin = program.clone(for_inference=True)
    block = twin.global_block()
    groups = find_layer_groups(block.ops)
    if not groups:
        raise ProgramError("plot: there must be a layer to draw, got an empty program; add layers")
    inputs = [name for name in input_names(twin) if not block.var(name).persistable]
    boxes = [make_layer(name, (block.var(name).type_text,), True) for name in inputs]
    place = {name: number for number, name in enumerate(inputs)}
    edges = []
    seen: set[str] = set()
    for group in groups:
        number = len(boxes)
        reads = {name for op in group.ops for name in _read_names(op)}
        edges += [(place[name], number) for name in reads if name in place]
        boxes.append(make_layer(group.name, _describe(group, seen)))
        place |= {name: number for op in group.ops for name in op.output_names()}
    return make_drawing(boxes, edges)  # type: ignore[no-any-return]


def _describe(group: LayerGroup, seen: set[str]) -> tuple[str, ...]:
    """Return the text lines of a layer: operators, output, and parameters not in earlier layers."""
    types = list(dict.fromkeys(map(_type_text, group.ops)))
    shown = ", ".join(types) if len(types) <= _MAX_TYPES else f"{types[0]}, ..."
    output = _main_output(group.ops[-1])
    variables = [v for op in group.ops for v in _parameters(op) if v.name not in seen]
    seen.update(variable.name for variable in variables)
    shapes = {variable.name: variable.shape for variable in variables}
    if any(shape is None or min(shape, default=0) < 0 for shape in shapes.values()):
        counted = "? parameters"  # their shapes follow from the first batch
    else:
        counted = f"{sum(math.prod(shape or ()) for shape in shapes.values()):,} parameters"
    return shown, output, *([counted] if shapes else [])


def _type_text(op: ow.Operator) -> str:
    activation = op.attrs.get("activation")
    return f"{op.type} + {activation}" if activation else op.type


def _main_output(op: ow.Operator) -> str:
    names = [
        op.outputs[slot.name][0]
        for slot in op.definition.proto.outputs
        if not slot.intermediate and op.outputs.get(slot.name)
    ]
    variable = op.block.find_var(names[0]) if op.block is not None and names else None
    return "" if variable is None else variable.type_text


def _parameters(op: ow.Operator) -> Iterable[ow.Variable]:
    block = op.block
    found = [] if block is None else [block.find_var(name) for name in _read_names(op)]
    return [variable for variable in found if variable is not None and variable.is_parameter]


def _read_names(op: ow.Operator) -> list[str]:
    """Return the inputs of an operator, including those read in its control-flow bodies."""
    names = list(op.input_names())
    if op.block is not None:
        for idx in op.block_attrs().values():
            for inner in op.block.program.block(idx).ops:
                names += _read_names(inner)
    return names
