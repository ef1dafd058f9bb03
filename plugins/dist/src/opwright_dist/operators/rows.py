"""`dist.route_rows` and `exchange_rows`, for lookups in a table that is sharded by row.

Shapes are fixed when a plan is built, but the number of transferred rows is not. A process
allocates memory for the maximum number of requests, and only requested rows are sent.
"""

from __future__ import annotations

import math

from opwright.op import GradientContext, InferContext, OpMaker, no_gradient
from opwright_dist.operators.description import DTYPES, add_group, find_group
from opwright_dist.operators.row_bodies import exchange_rows_body, route_rows_body


def _route_shape(ctx: InferContext) -> None:
    """Give rows one element per id, and counts one per process."""
    shape = ctx.input("ids").shape
    n = -1 if -1 in shape else math.prod(shape)
    ctx.set_output("rows", [n])
    ctx.set_output("places", shape)
    ctx.set_output("counts", [find_group(ctx).size])


ROUTE_ROWS = (
    add_group(
        OpMaker("dist.route_rows")
        .add_comment(
            "Sorts distinct ids by the process that owns their row of a table; id i is "
            "row 1 + i // n of process i % n. padding_index does not have a row."
        )
        .add_input("ids", "int32 or int64 of any shape, in [0, size)")
        .dtypes("int32", "int64")
        .add_output(
            "rows",
            "int64 [number of ids]: rows of process 0, then of process 1, ..., padded with 0",
        )
        .dtypes("int64")
        .add_output(
            "places",
            "int64, shape of ids: the index in rows of each id; an id without a row has row 0",
        )
        .dtypes("int64")
        .add_output("counts", "int64 [n]: number of rows per process")
        .dtypes("int64")
    )
    .add_attr("size", int, "number of ids")
    .required()
    .at_least(1)
    .add_attr("padding_index", int, "the id without a row; -1 for none")
    .default(-1)
    .at_least(-1)
    .build(
        infer_shape=_route_shape,
        body=route_rows_body,
        gradient=no_gradient("ids are not continuous"),
    )
)


def _exchange_shape(ctx: InferContext) -> None:
    """Give the output the row count of `like`, or by default the maximum that can be received."""
    shape, n_processes = ctx.input("x").shape, find_group(ctx).size
    ctx.require(len(shape) >= 1, "x must have rows, got a tensor without axes")
    for slot in ("send_counts", "receive_counts"):
        ctx.require_shape(slot, (n_processes,))
    if ctx.has_input("like"):
        n = ctx.input("like").shape[0]
        if n_processes == 1 and -1 not in (n, shape[0]):
            ctx.require(n == shape[0], f"like must have the {shape[0]} rows of x, got {n}")
    else:
        n = shape[0] if shape[0] == -1 else shape[0] * n_processes
    ctx.set_output("out", (n, *shape[1:]))


def _exchange_gradient(g: GradientContext) -> None:
    inputs = {
        "x": g.output_grad("out"),
        "send_counts": g.input("receive_counts"),
        "receive_counts": g.input("send_counts"),
        "like": g.input("x"),
    }
    grad = g.emit("dist.exchange_rows", inputs, attrs={"group": g.attr("group")})
    g.set_input_grad("x", grad)


EXCHANGE_ROWS = add_group(
    OpMaker("dist.exchange_rows")
    .add_comment(
        "Sends the first send_counts[0] rows of x to process 0, the next send_counts[1] "
        "rows to process 1, and so on. Received rows are in rank order, followed by zero "
        "rows. Only counted rows are transferred. All processes must have the same number "
        "of rows in x, counted or not. With one process, out is x."
    )
    .add_input("x", "[n, ...]")
    .dtypes(*DTYPES)
    .add_input("send_counts", "int64 [processes]: rows for each process, at most n in total")
    .dtypes("int64")
    .add_input(
        "receive_counts", "int64 [processes]: the send_counts of each process for this process"
    )
    .dtypes("int64")
    .add_input(
        "like", "its length is the number of rows of out, at least the number of received rows"
    )
    .as_optional()
    .as_shape_only()
    .add_output("out", "[length of like, or n times the number of processes, ...], dtype of x")
    .same_dtype_as("x")
).build(
    infer_shape=_exchange_shape,
    body=exchange_rows_body,
    gradient=_exchange_gradient,
    effect=True,
)
