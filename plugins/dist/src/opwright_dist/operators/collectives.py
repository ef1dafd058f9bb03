"""Defines all_reduce, broadcast, all_gather, reduce_scatter, all_to_all and barrier."""

from __future__ import annotations

from opwright.errors import GradientError
from opwright.op import (
    GradientContext,
    InferContext,
    OpMaker,
    no_gradient,
    normalize_axis,
)
from opwright_dist.operators.description import (
    DTYPES,
    add_group,
    add_losses,
    add_reduction,
    add_tensors,
    check_divisible,
    find_group,
    same_shape,
)


def _all_reduce_gradient(g: GradientContext) -> None:
    """Emit the sum of the gradients over the processes, since every process uses the result."""
    reduce, group = g.attr("reduce"), g.attr("group")
    if g.attr("losses") == "one" and reduce == "sum":
        g.set_input_grad("x", g.output_grad("out"))
        return
    if g.has_input("rows"):
        raise GradientError(
            "dist.all_reduce: a differentiated mean must not be weighted by rows, got "
            "rows; omit rows"
        )
    attrs = {"reduce": "mean" if reduce == "mean" else "sum", "group": group}
    total = g.emit("dist.all_reduce", {"x": g.output_grad("out")}, attrs=attrs)
    if reduce in {"max", "min"}:  # equal elements share the gradient
        where = g.emit("equal", {"x": g.input("x"), "y": g.output("out")})
        zeros = g.emit("fill_like", {"x": g.output("out")})
        ones = g.emit("fill_like", {"x": g.output("out")}, attrs={"value": 1.0})
        own = g.emit("where", {"condition": where, "x": ones, "y": zeros})
        count = g.emit("dist.all_reduce", {"x": own}, attrs={"group": group})
        share = g.emit("divide", {"x": own, "y": count})
        total = g.emit("multiply", {"x": total, "y": share})
    g.set_input_grad("x", total)


_ALL_REDUCE_MAKER = (
    add_group(
        add_reduction(
            OpMaker("dist.all_reduce")
            .add_comment(
                "Elementwise reduction over all processes to the sum, mean, maximum or minimum. "
                "Bitwise identical on every process and in every run; 16-bit floats "
                "are summed in float32. MPI: A Message-Passing Interface Standard, 5.0, 6.9."
            )
            .add_input("x", "any shape, equal on all processes")
            .dtypes(*DTYPES)
            .add_input("rows", "at least 1-d; its length is the number of examples of a process")
            .as_optional()
            .as_shape_only()
            .add_output("out", "shape and dtype of x")
            .same_dtype_as("x")
        )
    )
    .add_attr("unequal_rows", str, "behavior of a mean for unequal numbers of rows")
    .default("refuse")
    .one_of("refuse", "weight")
)
ALL_REDUCE = add_losses(_ALL_REDUCE_MAKER).build(
    infer_shape=same_shape, gradient=_all_reduce_gradient, effect=True
)


def _check_root(ctx: InferContext) -> None:
    root, size = ctx.attr("root"), find_group(ctx).size
    if root >= size:
        ctx.fail(
            f"root must be in [0, {size}), a process of group {ctx.attr('group')!r}, got {root}"
        )


def _broadcast_shape(ctx: InferContext) -> None:
    """Give the output the shape of x."""
    _check_root(ctx)
    same_shape(ctx)


BROADCAST = add_group(
    OpMaker("dist.broadcast")
    .add_comment("Copies the tensor of one process to all processes.")
    .add_input("x", "any shape and dtype, equal on all processes")
    .add_output("out", "shape and dtype of x; the elements of the process root")
    .same_dtype_as("x")
    .add_attr("root", int, "rank of the source process in the group")
    .default(0)
    .at_least(0)
).build(
    infer_shape=_broadcast_shape,
    gradient=no_gradient("it distributes parameters before the first step"),
    effect=True,
)


def _all_gather_shape(ctx: InferContext) -> None:
    """Multiply the length of the axis by the number of processes."""
    shape = list(ctx.input("x").shape)
    axis, size = normalize_axis(ctx, ctx.attr("axis"), len(shape)), find_group(ctx).size
    if shape[axis] != -1:
        shape[axis] *= size
    ctx.set_output("out", shape)


def _all_gather_gradient(g: GradientContext) -> None:
    attrs = {"axis": g.attr("axis"), "group": g.attr("group")}
    # With a common loss, each process has the complete gradient and takes its own part for x.
    own = "dist.own_part" if g.attr("losses") == "one" else "dist.reduce_scatter"
    g.set_input_grad("x", g.emit(own, {"x": g.output_grad("out")}, attrs=attrs))


ALL_GATHER = add_losses(
    add_group(
        add_tensors(
            OpMaker("dist.all_gather").add_comment(
                "Concatenates the tensors of all processes along an axis, in rank order."
            ),
            "shape of x with the axis times the number of processes",
        )
        .add_attr("axis", int, "axis of the concatenation")
        .default(0)
    )
).build(infer_shape=_all_gather_shape, gradient=_all_gather_gradient, effect=True)


def _reduce_scatter_shape(ctx: InferContext) -> None:
    """Divide the axis length by the number of processes; the division must be exact."""
    shape, axis = check_divisible(ctx)
    if shape[axis] != -1:
        shape[axis] //= find_group(ctx).size
    ctx.set_output("out", shape)


def _reduce_scatter_gradient(g: GradientContext) -> None:
    attrs = {"axis": g.attr("axis"), "group": g.attr("group")}
    if g.attr("reduce") not in {"sum", "mean"}:
        raise GradientError(
            "dist.reduce_scatter: a differentiated reduction must be a sum or mean, got "
            f"reduce={g.attr('reduce')!r}; use dist.all_reduce and slice"
        )
    grad = g.output_grad("out")
    if g.attr("reduce") == "mean":
        grad = g.emit("dist.mean_share", {"x": grad}, attrs={"group": g.attr("group")})
    g.set_input_grad("x", g.emit("dist.all_gather", {"x": grad}, attrs=attrs))


REDUCE_SCATTER = add_group(
    add_reduction(
        add_tensors(
            OpMaker("dist.reduce_scatter").add_comment(
                "Elementwise reduction over all processes; each process receives its part "
                "of the result, in rank order."
            ),
            "shape of x with the axis divided by the number of processes",
        )
    )
    .add_attr("axis", int, "axis that is divided")
    .default(0)
).build(infer_shape=_reduce_scatter_shape, gradient=_reduce_scatter_gradient, effect=True)


def _all_to_all_shape(ctx: InferContext) -> None:
    """Give the output the shape of x; the number of processes must divide the axis."""
    shape, _ = check_divisible(ctx)
    ctx.set_output("out", shape)


def _all_to_all_gradient(g: GradientContext) -> None:
    attrs = {"axis": g.attr("axis"), "group": g.attr("group")}
    g.set_input_grad("x", g.emit("dist.all_to_all", {"x": g.output_grad("out")}, attrs=attrs))


ALL_TO_ALL = add_group(
    add_tensors(
        OpMaker("dist.all_to_all").add_comment(
            "Exchanges parts of x along an axis. Part i is sent to process i, and out "
            "contains the received parts in rank order."
        ),
        "shape of x",
    )
    .add_attr("axis", int, "axis that is divided into parts")
    .default(0)
).build(infer_shape=_all_to_all_shape, gradient=_all_to_all_gradient, effect=True)


def _barrier_gradient(g: GradientContext) -> None:
    g.set_input_grad("x", g.output_grad("out"))


BARRIER = add_group(
    OpMaker("dist.barrier")
    .add_comment("out = x, after every process of the group has arrived.")
    .add_input("x", "any shape and dtype")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
).build(infer_shape=same_shape, gradient=_barrier_gradient, effect=True)
