"""``fuse_conv_pool_grad``: compute convolution gradients from the indices of the next max pooling.

The gradient of max pooling is nonzero only at the pooling indices, so sums over the pixels of the
convolution's output need only these pixels. The pooling's gradient itself is removed as dead code,
unless something else reads it.
"""

from __future__ import annotations

from opwright.rewriting import Graph, LoweredOp, input_of, make_if_served, output_of, writer_of

FUSED = "std.conv2d_pool_grad"
GRADIENTS = ("x_grad", "weight_grad", "bias_grad")
SHARED = ("strides", "paddings", "dilations", "groups", "data_format")


def fuse_conv_pool_grad(graph: Graph) -> None:
    """Fuse the gradients of a pooling and a convolution into ``std.conv2d_pool_grad``."""
    if not graph.is_served(FUSED):
        return
    edit = graph.edit()
    for conv in graph.of_type("conv2d_grad"):
        pool = writer_of(input_of(conv, "out_grad"), "max_pool2d_grad")
        made = None if pool is None else _make(graph, pool, conv)
        if made is not None:
            edit.fuse([conv], [made])
    edit.apply()


def _make(graph: Graph, pool: LoweredOp, conv: LoweredOp) -> LoweredOp | None:
    if pool.attrs["data_format"] != conv.attrs["data_format"]:
        return None
    inputs = {
        "x": input_of(conv, "x"),
        "weight": input_of(conv, "weight"),
        "index": input_of(pool, "index"),
        "grad": input_of(pool, "out_grad"),
    }
    outputs = {slot: output_of(conv, slot) for slot in GRADIENTS}
    if inputs["grad"] is None:
        return None
    attrs = {name: conv.attrs[name] for name in SHARED}
    return make_if_served(graph, FUSED, inputs, outputs, attrs, conv)
