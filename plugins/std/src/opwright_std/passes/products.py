"""``fold_transposes``: fold transpositions of operands and results into matrix products.

A kernel reads a transposed operand through strides. This saves the transposed copy if only matrix
products read it.
"""

from __future__ import annotations

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    output_of,
    writer_of,
)

FACTORS = {"matmul": ("x", "y"), "fc": ("weight",)}
"""By operator: the inputs with an attribute ``transpose_<slot>``."""


def fold_transposes(graph: Graph) -> None:
    """Fold ``transpose`` into ``matmul`` and ``fc``."""
    edit = graph.edit()
    for product in graph.of_type(*FACTORS):
        made = _read_sources(graph, product)
        if made is not None:
            edit.fuse([product], [made])
    edit.apply()
    edit = graph.edit()
    for product in graph.of_type("matmul"):
        out = output_of(product, "out")
        behind = None if out is None else graph.uses().only_reader(out)
        if behind is None or not _swaps_matrices(behind) or input_of(behind, "x") is not out:
            continue  # nor if it reads a reshaped view of the product
        made = _swap_factors(graph, product, behind)
        if made is not None:
            edit.fuse([product, behind], [made])
    edit.apply()


def _read_sources(graph: Graph, product: LoweredOp) -> LoweredOp | None:
    """Return the product of the operands before their transpositions."""
    inputs = {name: input_of(product, name) for name in product.definition.input_index}
    attrs = dict(product.attrs)
    changed = False
    for slot in FACTORS[product.type]:
        transpose = writer_of(inputs[slot], "transpose")
        if transpose is None or not _swaps_matrices(transpose):
            continue
        if _is_for_products(graph, inputs[slot]):
            inputs[slot] = input_of(transpose, "x")
            attrs[f"transpose_{slot}"] = not attrs[f"transpose_{slot}"]
            changed = True
    if not changed:
        return None
    outputs = {"out": output_of(product, "out")}
    return make_if_served(graph, product.type, inputs, outputs, attrs, product)


def _swaps_matrices(op: LoweredOp) -> bool:
    """Return whether an operator only swaps the last two axes."""
    if op.type != "transpose":
        return False
    rank = len(op.inputs[0][0].meta.shape)
    axes = op.attrs["axes"] or range(rank)[::-1]
    wanted = [*range(rank - 2), rank - 1, rank - 2]
    return rank >= 2 and [axis % rank for axis in axes] == wanted


def _is_for_products(graph: Graph, value: Value | None) -> bool:
    """Return whether only products read a value, each through a slot with a transpose attribute."""
    if value is None or value.source is not None or graph.uses().is_visible(value):
        return False
    return all(
        value in [input_of(reader, slot) for slot in FACTORS.get(reader.type, ())]
        and input_of(reader, "x" if reader.type == "fc" else "") is not value
        for reader in graph.uses().readers(value)
    )


def _swap_factors(graph: Graph, product: LoweredOp, behind: LoweredOp) -> LoweredOp | None:
    """Return ``(x y)^T`` as ``y^T x^T``."""
    x, y = input_of(product, "x"), input_of(product, "y")
    if x is None or y is None or min(len(x.meta.shape), len(y.meta.shape)) < 2:
        return None
    attrs = {
        "transpose_x": not product.attrs["transpose_y"],
        "transpose_y": not product.attrs["transpose_x"],
    }
    outputs = {"out": output_of(behind, "out")}
    return make_if_served(graph, "matmul", {"x": y, "y": x}, outputs, attrs, product)
