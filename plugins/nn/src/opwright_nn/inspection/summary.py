"""summary: the layers of a network with shapes, parameters, memory and operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import opwright as ow
from opwright.errors import AttributeTypeError, FeedError, ShapeError
from opwright.op import format_shape, item_size
from opwright.plugin import hint
from opwright_nn import arguments, checks
from opwright_nn.model import Model
from opwright_nn.model.inference import input_names
from opwright_nn.model.layer_groups import LayerGroup, find_layer_groups

_TITLE: Final = ("layer", "operators", "output", "parameters", "memory", "FLOPs")
_MAX_TYPES: Final = 3
_UNKNOWN: Final = "?"


@arguments.suggest
@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer.

    Attributes
    ----------
    name : str
        The prefix of its variable names.
    op_types : tuple of str
        Its operators, in order.
    output_shape : tuple of int or None
        The shape of its last output, -1 for an unknown dimension; None if nothing is known.
    parameters : int or None
        Elements of its parameters; a parameter shared with an earlier layer counts only there.
    parameter_bytes : int or None
        Their size.
    output_bytes : int or None
        Size of the outputs of its operators, except outputs that only their gradients read.
    flops : int or None
        Floating-point operations of its products and convolutions; a multiplication and an
        addition are two.
    """

    name: str
    op_types: tuple[str, ...]
    output_shape: tuple[int, ...] | None
    parameters: int | None
    parameter_bytes: int | None
    output_bytes: int | None
    flops: int | None


@arguments.suggest
@dataclass(frozen=True, slots=True)
class Summary:
    """The layers of a network: ``print(nn.summary(model))``.

    A number is None if a shape is unknown; sums skip such numbers, and `is_complete` is False.

    Attributes
    ----------
    layers : tuple of LayerSummary
        In the order of the operators.
    batch_size : int
        Rows for which memory and operations are counted.
    trainable_parameters : int
        Elements of the parameters that training changes.
    """

    layers: tuple[LayerSummary, ...]
    batch_size: int
    trainable_parameters: int

    @property
    def parameters(self) -> int:
        """Elements of all parameters."""
        return sum(layer.parameters or 0 for layer in self.layers)

    @property
    def parameter_bytes(self) -> int:
        """Size of all parameters."""
        return sum(layer.parameter_bytes or 0 for layer in self.layers)

    @property
    def output_bytes(self) -> int:
        """Size of the outputs of all layers; a compiled step needs less, as it shares memory."""
        return sum(layer.output_bytes or 0 for layer in self.layers)

    @property
    def flops(self) -> int:
        """Floating-point operations of all matrix products and convolutions."""
        return sum(layer.flops or 0 for layer in self.layers)

    @property
    def is_complete(self) -> bool:
        """Whether every number is known."""
        return all(
            None not in (layer.parameters, layer.output_bytes, layer.flops) for layer in self.layers
        )

    def __str__(self) -> str:
        from opwright.commands import align  # not needed for training

        rows = [_TITLE, *map(_cells, self.layers)]
        at_least = "" if self.is_complete else "at least "
        parameters = f"{at_least}{self.parameters:,} ({_size_text(self.parameter_bytes)})"
        lines = [
            *align(rows, right={3, 4, 5}, indent=""),
            f"parameters: {parameters}, {self.trainable_parameters:,} trainable",
            f"outputs of a batch of {self.batch_size:,}: {at_least}{_size_text(self.output_bytes)}",
            f"products and convolutions: {at_least}{_count_text(self.flops)} FLOPs",
        ]
        if not self.is_complete:
            lines.append("?: not known before the first batch, or pass shapes={name: shape}")
        return "\n".join(lines)


@arguments.suggest
def summary(
    model: Model | ow.Program,
    batch_size: int = 1,
    shapes: Mapping[str, Iterable[int]] | None = None,
) -> Summary:
    """Return the layers of the forward pass: shapes, parameters, memory and operations.

    Gradients, updates and dropout are omitted. The names of a layer's operators have a common
    prefix, such as ``fc_0``; a layer that consists of other layers is one row.

    Parameters
    ----------
    model : Model or Program
        It is not changed. The first batch may determine the shapes of a Model's parameters:
        before it, numbers that depend on them are unknown.
    batch_size : int, at least 1
        The size of the first axis of inputs if the program does not fix it.
    shapes : mapping of str to sequence of int, optional
        The complete shapes of inputs, needed if other axes are unknown, too.

    Returns
    -------
    Summary
        ``print`` shows a table; attributes hold the numbers.

    Raises
    ------
    AttributeTypeError, AttributeValueError
        `model` is neither a Model nor a Program, or `batch_size` is below 1.
    FeedError, ShapeError
        `shapes` names a variable that is not an input, or does not fit the shape of an input.
    """
    size = checks.check_int("summary", "batch_size", batch_size, at_least=1)
    program = model.program if isinstance(model, Model) else model
    if not isinstance(program, ow.Program):
        raise AttributeTypeError(
            f"summary: model must be a Model or a Program, got {model!r} "
            f"({type(model).__name__}); pass network.block.program of a Network"
        )
    twin = program.clone(for_inference=True)
    _set_inputs(twin, size, {} if shapes is None else shapes)
    twin.infer_shapes()
    seen: set[str] = set()
    groups = find_layer_groups(twin.global_block().ops)
    layers = tuple([_summarize(group, seen) for group in groups])
    used = [parameter for parameter in twin.parameters() if parameter.name in seen]
    trainable = sum(_count(p) or 0 for p in used if p.trainable)
    return Summary(layers, size, trainable)


def _set_inputs(program: ow.Program, batch_size: int, shapes: Mapping[str, Iterable[int]]) -> None:
    block, names = program.global_block(), input_names(program)
    for name in checks.check_mapping("summary", "shapes", shapes, "{'img': [1, 64]}"):
        if name not in names:
            raise FeedError(
                f"summary: shapes must name inputs, got {name!r}{hint(str(name), names)}"
            )
    for name in names:
        variable = block.var(name)
        open_shape = variable.shape
        if name in shapes:
            variable.shape = _fitting(name, open_shape, shapes[name])
        elif open_shape and open_shape[0] < 0:
            variable.shape = (batch_size, *open_shape[1:])


def _fitting(name: str, known: tuple[int, ...] | None, given: Iterable[int]) -> tuple[int, ...]:
    shape = checks.check_shape("summary", given)
    fits = known is None or (
        len(known) == len(shape) and all(k in (-1, s) for k, s in zip(known, shape, strict=True))
    )
    if not fits:
        raise ShapeError(
            f"summary: the shape of {name!r} must fit {format_shape(known or ())}, got "
            f"{format_shape(shape)}"
        )
    return shape


def _summarize(group: LayerGroup, seen: set[str]) -> LayerSummary:
    parameters = []
    for variable in _parameters(group.ops):
        if variable.name not in seen:
            seen.add(variable.name)
            parameters.append(variable)
    outputs = [variable for op in group.ops for variable in _outputs(op)]
    return LayerSummary(
        group.name,
        tuple(op.type for op in group.ops),
        outputs[-1].shape if outputs else None,
        _sum(map(_count, parameters)),
        _sum(map(_size_bytes, parameters)),
        _sum(map(_size_bytes, outputs)),
        _sum(map(ow.current_context().annexes.get("flops", "count").load(), group.ops)),
    )


def _parameters(ops: Iterable[ow.Operator]) -> Iterator[ow.Variable]:
    """Yield the parameters that operators read, including in control-flow bodies."""
    for op in ops:
        if op.block is None:
            continue
        for name in op.input_names():
            variable = op.block.find_var(name)
            if variable is not None and variable.is_parameter:
                yield variable
        for idx in op.block_attrs().values():
            yield from _parameters(op.block.program.block(idx).ops)


def _outputs(op: ow.Operator) -> Iterator[ow.Variable]:
    for slot in op.definition.proto.outputs:
        for name in () if slot.intermediate else op.outputs.get(slot.name, ()):
            variable = None if op.block is None else op.block.find_var(name)
            if variable is not None and not variable.persistable:
                yield variable


def _count(variable: ow.Variable) -> int | None:
    shape = variable.shape
    return None if shape is None or min(shape, default=0) < 0 else math.prod(shape)


def _size_bytes(variable: ow.Variable) -> int | None:
    count = _count(variable)
    return None if count is None else count * item_size(variable.dtype)


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


def _cells(layer: LayerSummary) -> tuple[str, ...]:
    types = list(dict.fromkeys(layer.op_types))
    shown = ", ".join(types[:_MAX_TYPES])
    if len(types) > _MAX_TYPES:
        shown += f", ... ({len(layer.op_types)})"
    return (
        layer.name,
        shown,
        _UNKNOWN if layer.output_shape is None else format_shape(layer.output_shape),
        _UNKNOWN if layer.parameters is None else f"{layer.parameters:,}",
        _UNKNOWN if layer.output_bytes is None else _size_text(layer.output_bytes),
        _UNKNOWN if layer.flops is None else _count_text(layer.flops),
    )


def _size_text(n_bytes: int) -> str:
    units = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    return _scaled(n_bytes, units) or f"{n_bytes} B"


def _count_text(n: int) -> str:
    return _scaled(n, ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))) or str(n)


def _scaled(n: int, units: Iterable[tuple[int, str]]) -> str:
    """Format a number in the first unit that it reaches, or return "" if it does not reach any."""
    return next((f"{n / unit:,.1f} {name}" for unit, name in units if n >= unit), "")
