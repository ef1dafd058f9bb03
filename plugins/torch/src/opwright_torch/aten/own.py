"""Converts ``torch.ops.opwright.NAME`` in a traced graph back to the opwright operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import opwright as ow
from opwright.op import Meta
from opwright_torch.ops.calls import read, with_sizes
from opwright_torch.ops.gradients import Piece, make_piece, replay
from opwright_torch.ops.library import VJP, WHOLE, find_type, main_outputs
from opwright_torch.translate import Decline, Rows, Translator

ROWS: Final = Rows()


@ROWS.row("opwright::")
def append_operator(t: Translator, /, **named: Any) -> Any:
    """Append the opwright operator of a node; used for all overloads in opwright namespaces."""
    overload: Any = t.node.target
    proto = ow.op_proto(find_type(overload))
    values = [_as_list(named.get(slot.name)) for slot in proto.inputs]
    given = {s.name: v for s, v in zip(proto.inputs, values, strict=True) if v is not None}
    returned = named.get("returns") if overload._overloadname == "returns" else None
    names = returned or main_outputs(proto, values)
    for slot in proto.outputs:
        if slot.aliases in given:  # PyTorch's state is unchanged, since the new state is returned
            given[slot.aliases] = [t.op("assign", value) for value in given[slot.aliases]]
    asked = [proto.output_slots[name] for name in names]
    fresh = t.program.unique_name
    outputs = {s.name: fresh(s.name) for s in asked if s.optional and not s.aliases}
    attrs = {a.name: named[a.name] for a in proto.attrs if named.get(a.name) is not None}
    written = t.block.append_op(proto.type, given, outputs, attrs)
    t.mark(given.values(), written.output_names())
    results = [t.block.var(name) for slot in names for name in written.output(slot)]
    returns = overload._schema.returns
    is_one = len(returns) == 1 and str(returns[0].type) == "Tensor"
    return results[0] if is_one else tuple(results)


@ROWS.row(VJP)
def append_gradients(
    t: Translator, values: Sequence[ow.Variable], sizes: Sequence[int], call: str
) -> list[Any]:
    """Append the operators of a gradient traced by `torch.func`."""
    what: Any = with_sizes(read(call), sizes)
    piece, names = _append_piece(t, what, values)
    zeros = [values[i] for i in what.wanted]
    return [
        t.full(0.0, t.shape(zero), zero.dtype) if name is None else t.block.var(names[name])
        for name, zero in zip(piece.results, zeros, strict=True)
    ]


@ROWS.row("opwright_torch::straight_through")
def straight_through(t: Translator, value: ow.Variable, source: ow.Variable) -> ow.Variable:
    """Return the new value of a tensor that was changed under ``no_grad``."""
    if t.trains(source):
        raise Decline("no operator passes the gradient of a result to another variable unchanged")
    return value


@ROWS.row(WHOLE)
def append_program(t: Translator, values: Sequence[ow.Variable], program: str) -> list[Any]:
    """Inline the operators of a Program into the plan."""
    piece, names = _append_piece(t, read(program), values)
    return [t.block.var(names[str(name)]) for name in piece.results]


def _append_piece(
    t: Translator, what: Any, values: Sequence[ow.Variable]
) -> tuple[Piece, dict[str, str]]:
    piece = make_piece(what, tuple(Meta(tuple(t.shape(v)), v.dtype) for v in values))
    if len(piece.block.program.blocks) > 1:
        raise Decline("the program has loops or branches, so it cannot be inlined")
    names = replay(piece, t.block, values)
    t.mark([list(values)], [n for n in names.values() if t.block.find_var(n) is not None])
    return piece, names


def _as_list(value: Any) -> list[Any] | None:
    if value is None:
        return None
    return list(value) if isinstance(value, (list, tuple)) else [value]
