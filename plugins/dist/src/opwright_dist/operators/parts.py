"""`dist.own_part`, `divided` and `copy_to_group`, for parts of variables and computations.

Processes of a group that share one computation compute one loss. Each process uses replicated
tensors for its part of the computation, and the gradient of these tensors is the sum over the
parts.
"""

from __future__ import annotations

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    format_shape,
)
from opwright_dist.groups.world import current_world
from opwright_dist.names import BLOCKS, TABLE
from opwright_dist.operators.description import (
    add_group,
    add_layout,
    add_losses,
    add_tensors,
    check_divisible,
    find_group,
    same_shape,
)


def _own_part_shape(ctx: InferContext) -> None:
    """Infer the shape of the part: a block of an axis, or a zero row and a share of table rows."""
    if ctx.attr("layout") == BLOCKS:
        shape, axis = check_divisible(ctx)
        if shape[axis] != -1:
            shape[axis] //= find_group(ctx).size
        ctx.set_output("out", shape)
        return
    shape = list(ctx.input("x").shape)
    ctx.require(len(shape) >= 1, "a table must have rows, got a tensor without axes")
    if shape[0] != -1:
        shape[0] = 1 - (-shape[0] // find_group(ctx).size)
    ctx.set_output("out", shape)


def _own_part_body(b: BodyContext) -> None:
    group = current_world().group(b.attr("group"), b.type)
    meta = b.meta(b.input("x") or "")
    shape = () if meta is None else meta.shape
    if b.attr("layout") == TABLE:
        _emit_table(b, shape, group.rank, group.size)
        return
    axis = b.attr("axis") % max(len(shape), 1)
    length = shape[axis] // group.size
    begin = group.rank * length
    attrs = {"axes": [axis], "starts": [begin], "ends": [begin + length]}
    b.emit("slice", {"x": b.input("x")}, {"out": b.output("out")}, attrs)


def _emit_table(b: BodyContext, shape: tuple[int, ...], rank: int, size: int) -> None:
    own = len(range(rank, shape[0], size))
    attrs = {"axes": [0], "starts": [rank], "ends": [shape[0]], "steps": [size]}
    rows = b.emit("slice", {"x": b.input("x")}, attrs=attrs)
    paddings = [1, -(-shape[0] // size) - own, *(0 for _ in shape[1:] for _ in "be")]
    b.emit("pad", {"x": rows}, {"out": b.output("out")}, {"paddings": paddings})


def _own_part_gradient(g: GradientContext) -> None:
    if g.attr("layout") == TABLE:
        raise GradientError(
            "dist.own_part: a differentiated part must have layout='blocks', got 'table', "
            "which is only for the initial values of a table"
        )
    attrs = {"axis": g.attr("axis"), "group": g.attr("group"), "losses": "one"}
    grad = g.emit("dist.all_gather", {"x": g.output_grad("out")}, attrs=attrs)
    g.set_input_grad("x", grad)


OWN_PART = add_layout(
    add_group(
        add_tensors(
            OpMaker("dist.own_part").add_comment(
                "The part of this process of a replicated tensor, without communication. Blocks "
                "are assigned in rank order. A part of a table is a zero row, then every n-th row "
                "for n processes, starting with the row of its rank, padded with zero rows to "
                "equal length. All processes use their parts for one loss, so the "
                "gradient is gathered from all of them."
            ),
            "shape of x, shorter along the axis",
        )
    )
    .add_attr("axis", int, "partitioned axis; the first for a table")
    .default(0)
).build(infer_shape=_own_part_shape, body=_own_part_body, gradient=_own_part_gradient)


def _divided_shape(ctx: InferContext) -> None:
    """Give the output the shape of x; each part must have an axis and a size."""
    axes, sizes, parts = ctx.attr("axes"), ctx.attr("sizes"), ctx.inputs("parts")
    if not len(axes) == len(sizes) == len(parts):
        ctx.fail(
            f"axes and sizes must have one value for each of the {len(parts)} parts, got "
            f"axes={list(axes)} and sizes={list(sizes)}"
        )
    n_parts = find_group(ctx).size
    for part, axis, size in zip(parts, axes, sizes, strict=True):
        ctx.require(
            0 <= axis < len(part.shape),
            f"axes must be axes of the parts, got axis {axis} of {format_shape(part.shape)}",
        )
        length = part.shape[axis]
        if size and length != -1:
            wanted = 1 - (-(size - 1) // n_parts) if ctx.attr("layout") == TABLE else 0
            wanted = wanted or size // n_parts
            ctx.require(
                length == wanted,
                f"axis {axis} of a part must have length {wanted}, for a complete length "
                f"of {size} in a group of {n_parts} processes, got "
                f"{format_shape(part.shape)}; build the program with the number of "
                "processes that run it, and load its values with nn.checkpoint.resume",
            )
    same_shape(ctx)


def _copy_body(b: BodyContext) -> None:
    b.set_output("out", b.input("x") or "")


def _divided_gradient(g: GradientContext) -> None:
    grad = g.output_grad("out")
    if g.attr("losses") == "each":
        grad = g.emit("dist.mean_share", {"x": grad}, attrs={"group": g.attr("group")})
    g.set_input_grad("x", grad)


DIVIDED = add_losses(
    add_layout(
        add_group(
            add_tensors(
                OpMaker("dist.divided").add_comment(
                    "out = x; marks the variables from which x was computed as parts of "
                    "complete variables, which files store independently of the number of "
                    "processes. If each process has its own loss, the gradient is the "
                    "contribution to the mean loss."
                ),
                "shape of x",
            )
        )
        .add_input("parts", "parts of parameters on this process")
        .as_duplicable()
        .as_shape_only()
        .add_attr("axes", list[int], "the partitioned axis of each element of parts, from 0")
        .required()
        .add_attr(
            "sizes",
            list[int],
            "the length of this axis in the complete variable; 0: the sum over all parts",
        )
        .required()
    )
).build(infer_shape=_divided_shape, body=_copy_body, gradient=_divided_gradient)


def _copy_gradient(g: GradientContext) -> None:
    attrs = {"group": g.attr("group"), "losses": "one"}
    g.set_input_grad("x", g.emit("dist.all_reduce", {"x": g.output_grad("out")}, attrs=attrs))


COPY_TO_GROUP = add_group(
    add_tensors(
        OpMaker("dist.copy_to_group").add_comment(
            "out = x, a replicated tensor that each process uses for its part of one "
            "computation, so the gradient is summed over the processes. Shoeybi et al., "
            "Megatron-LM, 2019, section 3."
        ),
        "shape of x",
    )
).build(infer_shape=same_shape, body=_copy_body, gradient=_copy_gradient)
