"""Infers the outputs of lowered operators, and creates new operators for passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta, numel
from opwright.errors import ShapeError, SlotError
from opwright.lowering.graph.constants import mark_constants
from opwright.lowering.graph.signature import Signature, SlotMetas, attrs_key
from opwright.lowering.graph.values import LoweredOp, Value

if TYPE_CHECKING:
    from opwright.lowering.graph.graph import Graph

Slots = Mapping[str, Value | Sequence[Value]]


def metas_of(slots: Sequence[Sequence[Value]]) -> SlotMetas:
    """Return the metas of values, slot by slot."""
    metas = []
    for slot in slots:  # fast path: nearly every slot has one value
        metas.append((slot[0].meta,) if len(slot) == 1 else tuple([value.meta for value in slot]))
    return tuple(metas)


def signature_of(op: LoweredOp) -> Signature:
    """Return the signature of an operator; created here for operators made by passes."""
    if op.signature is None:
        metas = metas_of(op.inputs), metas_of(op.outputs)
        op.signature = Signature(op.definition, *metas, op.attrs)
    return op.signature


def infer_op(graph: Graph, op: LoweredOp, metas: SlotMetas, counts: tuple[int, ...]) -> Signature:
    """Infer the outputs, once for all equal operators, such as the equal layers of a deep network.

    `metas` are the metas of the inputs.
    """
    attributes = attrs_key(op.attrs) if op.attrs else ()
    key = (op.type, metas, counts, attributes)
    signature = graph.signatures.get(key)
    if signature is None:
        outputs, sizes = graph.target.inferred.get((key, op.definition), (None, None))
        if outputs is None:
            outputs = op.definition.infer(metas, op.attrs, counts)
        signature = Signature(op.definition, metas, outputs, op.attrs, attributes, sizes)
        if not all(map(all, signature.sizes)):
            _check_known(op, outputs)
        graph.signatures[key] = signature
    return signature


def make_op(
    graph: Graph,
    operator: OpDefinition | str,
    inputs: Slots,
    outputs: Slots,
    attrs: Mapping[str, Any],
    like: LoweredOp,
) -> LoweredOp:
    """See `Graph.make`."""
    definition = graph.target.context.ops.get(operator) if isinstance(operator, str) else operator
    proto = definition.proto
    given, written_slots = _list_values(inputs), _list_values(outputs)
    named = _check_aliases(definition, given, written_slots)
    definition.check_slots(given, named)
    read = tuple([given.get(slot, ()) for slot in definition.input_index])
    written = tuple([written_slots.get(slot, ()) for slot in definition.output_index])
    read_metas, counts = metas_of(read), tuple(map(len, written))
    op = LoweredOp(definition, read, attrs, like.index)
    try:  # complete attributes of a checked operator
        signature = graph.signatures.get((op.type, read_metas, counts, attrs_key(attrs)))
    except TypeError:  # a list, which keys never contain
        signature = None
    if signature is None:
        op.attrs = proto.fill_attrs(attrs)
        signature = infer_op(graph, op, read_metas, counts)
    op.signature, op.attrs = signature, signature.attrs
    for slot, values, metas in zip(proto.outputs, written, signature.outputs, strict=True):
        for value, meta in zip(values, metas, strict=True):
            if value.meta != meta:
                raise ShapeError(
                    f"{op.type}: output {slot.name!r} must be {meta}, got {value.meta} "
                    f"in {value.name!r}; give a value with this meta"
                )
            if value.source is not None:
                raise SlotError(
                    f"{op.type}: output {slot.name!r} must not be a view, got a view of "
                    f"{value.name!r}; write the value itself"
                )
    op.outputs = written
    mark_constants(op)
    return op


def view_value(source: Value, meta: Meta) -> Value:
    """Return the data of ``source`` with a different shape."""
    old = source.meta
    if meta.dtype != old.dtype or numel(meta.shape) != numel(old.shape) or -1 in meta.shape:
        raise ShapeError(f"view: dtype and number of elements must stay {old}, got {meta}")
    view = Value(source.name, meta, source.buffer)
    view.source = source.source or source
    view.is_constant = source.is_constant
    return view


def _list_values(slots: Slots) -> dict[str, tuple[Value, ...]]:
    return {
        name: (values,) if isinstance(values, Value) else tuple(values)
        for name, values in slots.items()
    }


def _check_aliases(
    definition: OpDefinition,
    inputs: Mapping[str, tuple[Value, ...]],
    outputs: Mapping[str, tuple[Value, ...]],
) -> Mapping[str, tuple[Value, ...]]:
    """Raise an error if an in-place output does not share the memory of its input.

    Return the outputs; each in-place output is replaced by the input that it overwrites.
    """
    if not definition.alias_slots:  # nearly always
        return outputs
    named = dict(outputs)
    for out_slot, in_slot in definition.alias_slots:
        output = definition.proto.outputs[out_slot].name
        input = definition.proto.inputs[in_slot].name
        written = [value.buffer for value in outputs.get(output, ())]
        if written != [value.buffer for value in inputs.get(input, ())]:
            raise SlotError(
                f"{definition.op_type}: output {output!r} must share the memory of input "
                f"{input!r}, got {list(outputs.get(output, ()))}; take the output of the operator "
                "that is replaced"
            )
        if output in named:
            named[output] = inputs.get(input, ())
    return named


def _check_known(op: LoweredOp, outputs: tuple[tuple[Meta, ...], ...]) -> None:
    """Raise if an output shape is unknown, although the inputs are known and it is not dynamic."""
    if op.definition.proto.dynamic_output:
        return
    for slot, metas in zip(op.definition.proto.outputs, outputs, strict=True):
        for meta in metas:
            if -1 in meta.shape:
                raise ShapeError(
                    f"{op.type}: infer_shape must know {slot.name!r} if all inputs are known, "
                    f"got {meta}; fix it, or declare dynamic_output()"
                )
