"""Ends a graph where shapes depend on values; the rest is lowered after a run has computed them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from opwright import vocabulary
from opwright.describe.meta import Meta
from opwright.errors import ProgramError
from opwright.lowering.building.folding import read_numbers
from opwright.lowering.graph.values import (
    Continuation,
    External,
    LoweredOp,
    Role,
    Value,
    external_value,
)
from opwright.lowering.request import Given, LowerRequest, result_name
from opwright.program import Operator

if TYPE_CHECKING:
    from opwright.lowering.building.build_graph import GraphBuilder
    from opwright.lowering.building.control import Lower


def cut_before(builder: GraphBuilder, operands: Sequence[str], position: int) -> None:
    """End the graph before an operator; the rest is lowered once its operands are known."""
    as_shape = builder.request.target.context.ops.get(vocabulary.AS_SHAPE)
    inputs, outputs = {"x": tuple(operands)}, {"out": (builder.free_name("numbers"),)}
    op = builder.append(as_shape, inputs, outputs, {}, builder.request.first_index + position)
    if op is not None:  # always true: it has no body
        cut(builder, op, position, tuple((name, builder.env[name].meta) for name in operands))


def cut(
    builder: GraphBuilder,
    dynamic: LoweredOp,
    position: int,
    operands: tuple[tuple[str, Meta], ...] = (),
) -> None:
    """End the graph after ``dynamic``; the rest is lowered when its shapes are known.

    If ``operands`` are given, the shapes of the outputs of ``dynamic`` contain their elements.
    """
    request = builder.request
    if request.fetches.role is None:
        raise ProgramError(
            f"{dynamic.type}: its output shape depends on values, which is not allowed in the "
            "body of a loop; move it out of the body, or into a cond within it"
        )
    values = tuple(value for value in dynamic.writes() if value.buffer.dynamic)
    written = request.given.written
    if len(builder.written_feeds) < len(written):
        raise ProgramError(
            f"{dynamic.type}: its output shape depends on values, and later operators "
            f"write feeds on the host only, got writes={sorted(written)}; fetch them"
        )
    rest = request.ops[position:]
    read = (name for op in rest for name in op.input_names())
    needed = dict.fromkeys((*request.fetches.names, *written, *read))
    crossing = {
        name: builder.env[name]
        for name in needed
        if name in builder.env and name not in builder.persistables
    }
    crossing.update((value.name, value) for value in values)
    if request.fetches.role is Role.CAPTURED:
        crossing.update(_cross_results(builder, dynamic, rest))
    builder.graph.keeps = list(crossing.values())
    kept = {n: b.external.meta for n, b in builder.persistables.items() if b.external}
    pairs, scope = tuple(crossing.items()), {**request.persistables.metas, **kept}
    numbers = builder.known_numbers(rest, crossing.values())
    request = request._replace(
        ops=rest,
        given=request.given._replace(numbers=numbers),
        first_index=request.first_index + position,
        advances_step=builder.advances_step,
    )
    resolve = partial(_lower_rest, request, builder.lower, values, operands, pairs, scope)
    builder.graph.continuation = Continuation(values, crossing, resolve)


def _cross_results(
    builder: GraphBuilder, dynamic: LoweredOp, rest: Sequence[Operator]
) -> dict[str, Value]:
    """Pass on the memory of a branch's results, which the outer plan owns."""
    from opwright.lowering.building.control import infer_metas

    metas = {name: value.meta for name, value in builder.env.items()}
    infer_metas(builder.request.program, rest, metas)
    results = {}
    for position, fetched in enumerate(builder.request.fetches.names):
        meta = metas.get(fetched)
        if meta is None or -1 in meta.shape:
            raise ProgramError(
                f"{dynamic.type}: its output shape depends on values, and so does the shape of "
                f"{fetched!r}, an output of the body; pad it to a known shape within the body, "
                "or move both out of the body"
            )
        name = result_name(position)
        results[name] = external_value(External(Role.CAPTURED, name, meta))
    builder.graph.fetches = list(results.values())
    return results


def _lower_rest(
    request: LowerRequest,
    lower: Lower,
    dynamic: tuple[Value, ...],
    operands: tuple[tuple[str, Meta], ...],
    crossing: tuple[tuple[str, Value], ...],
    scope_metas: dict[str, Meta],
    shapes: tuple[tuple[int, ...], ...],
) -> Any:
    """Return the plan of the operators after a dynamic operator, for its computed shapes."""
    kept = request.persistables
    results = set(map(result_name, range(len(request.fetches.names))))
    given = {name: value.meta for name, value in crossing if name not in results}
    numbers = dict(request.given.numbers)
    for value, shape in zip(dynamic, shapes, strict=True):
        given[value.name] = Meta(tuple(shape), value.meta.dtype)
    stores = [v.name for v in dynamic if kept.keep_all or v.name in kept.lasting]
    if operands:
        numbers.update(read_numbers(operands, shapes[0]))
        stores = []
    kept = kept._replace(metas=scope_metas, stores=stores)
    captured = Given(given, Role.CAPTURED, numbers=numbers, written=request.given.written)
    return lower(request._replace(given=captured, persistables=kept)).plan
