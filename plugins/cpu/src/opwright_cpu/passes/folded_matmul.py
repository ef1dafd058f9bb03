"""``fuse_folded_matmul``: multiplies batches of transposed or cast matrices without copies.

Attention that is written as matrix products moves the head axis before the time axis and back.
Float32 products of bfloat16 arrays cast these arrays first. The kernel reads transposed axes
through strides and reads bfloat16 directly, so copies that only such products read are omitted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from opwright.rewriting import Graph, LoweredOp, Value, input_of, make_if_served, output_of
from opwright_cpu.plan_ops.folded_matmul import DTYPES

Axes = tuple[int, ...]

CASTS: Final = ("cast", "cast_like")


class _Factor(NamedTuple):
    """An operand of a product, whose axis i is axis ``axes[i]`` of ``value``."""

    value: Value
    axes: Axes


def fuse_folded_matmul(graph: Graph) -> None:
    """Replace ``matmul`` and the ``transpose`` and ``cast`` around it by ``cpu.folded_matmul``."""
    if not graph.of_type("transpose", *CASTS):
        return
    edit = graph.edit()
    for product in graph.of_type("matmul"):
        x, y, out = input_of(product, "x"), input_of(product, "y"), output_of(product, "out")
        if x is None or y is None or out is None or min(_rank(x), _rank(y)) < 2:
            continue
        behind = _transpose_behind(graph, out)
        factors = _read_factors(graph, product, x, y)
        if _rank(x) != _rank(y) and (behind is not None or any(map(_moves_stack, factors))):
            continue  # rows of a layer form one tall matrix, and must be stored as such
        if behind is None and [factor.value for factor in factors] == [x, y]:
            continue
        made = _make(graph, product, factors, behind)
        ops = [product] if behind is None else [product, behind]
        if made is not None:
            edit.fuse(ops, [made])
    edit.apply()


def _rank(value: Value) -> int:
    return len(value.meta.shape)


def _order(transpose: LoweredOp) -> Axes:
    rank = _rank(transpose.inputs[0][0])
    return tuple(axis % rank for axis in transpose.attrs["axes"] or range(rank)[::-1])


def _transpose_behind(graph: Graph, out: Value) -> LoweredOp | None:
    """Return the only reader of a product if it is a transpose that keeps rows or columns last."""
    reader = graph.uses().only_reader(out)
    if reader is None or reader.type != "transpose" or reader.inputs[0][0] is not out:
        return None  # an operator may read a view of the product in a different shape
    return reader if _order(reader)[-1] >= _rank(out) - 2 else None


def _read_factors(graph: Graph, product: LoweredOp, x: Value, y: Value) -> list[_Factor]:
    """Return the operands of a product, which have equal dtypes: casts widen both or neither."""
    for may_widen in (True, False):
        factors = [
            _read(graph, value, bool(product.attrs[f"transpose_{slot}"]), may_widen)
            for value, slot in ((x, "x"), (y, "y"))
        ]
        if factors[0].value.meta.dtype == factors[1].value.meta.dtype:
            break
    return factors


def _read(graph: Graph, value: Value, transposed: bool, may_widen: bool) -> _Factor:
    """Return a factor, skipping the transposes and casts that only products read."""
    axes = tuple(range(_rank(value)))
    if transposed:
        axes = _swapped(axes)
    best = _Factor(value, axes)
    while value.op is not None and _is_for_products(graph, value):
        if value.op.type == "transpose":
            order = _order(value.op)
            axes = tuple(order[axis] for axis in axes)
        elif not may_widen or not _widens(value.op):
            break
        value = value.op.inputs[0][0]
        if len(axes) - 1 in axes[-2:]:  # kernels need contiguous rows or columns
            best = _Factor(value, axes)
    return best


def _is_for_products(graph: Graph, value: Value) -> bool:
    """Return whether only products, transposes and casts read a value, never through a view."""
    if value.source is not None or graph.uses().is_visible(value):
        return False
    types = ("matmul", "transpose", *CASTS)
    return all(
        reader.type in types and value in [values[0] for values in reader.inputs[:2] if values]
        for reader in graph.uses().readers(value)
    )


def _widens(op: LoweredOp) -> bool:
    if op.type not in CASTS:
        return False
    return (op.inputs[0][0].meta.dtype, op.outputs[0][0].meta.dtype) == ("bfloat16", "float32")


def _moves_stack(factor: _Factor) -> bool:
    return factor.axes[:-2] != tuple(range(len(factor.axes) - 2))


def _swapped(axes: Axes) -> Axes:
    return (*axes[:-2], axes[-1], axes[-2])


def _make(
    graph: Graph, product: LoweredOp, factors: list[_Factor], behind: LoweredOp | None
) -> LoweredOp | None:
    dtype = product.outputs[0][0].meta.dtype
    if dtype not in DTYPES:
        return None
    rank = _rank(product.outputs[0][0])
    order = tuple(range(rank)) if behind is None else _order(behind)
    if order[-1] == rank - 2:  # rows side by side: y^T x^T
        factors = [_Factor(factor.value, _swapped(factor.axes)) for factor in factors[::-1]]
        order = tuple(_swapped(tuple(range(rank)))[axis] for axis in order)
    inputs = {slot: factor.value for slot, factor in zip("xy", factors, strict=True)}
    out = output_of(product if behind is None else behind, "out")
    attrs = {
        "x_axes": list(factors[0].axes),
        "y_axes": list(factors[1].axes),
        "out_axes": list(order),
        "out_dtype": dtype,
    }
    return make_if_served(graph, "cpu.folded_matmul", inputs, {"out": out}, attrs, product)
