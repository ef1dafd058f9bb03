"""affine_grid: sampling grids of affine maps, for grid_sample."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, dims_match, format_shape
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.dtypes import FLOATS
from opwright_std.operators.reduction import known_meta


def _affine_grid_shape(ctx: InferContext) -> None:
    """The output has 2 or 3 coordinates for each pixel of each image."""
    shape, size = ctx.input("theta").shape, ctx.attr("output_size")
    rank = len(size)
    ctx.require(rank in (2, 3), f"output_size must hold 2 or 3 sizes, got {list(size)}")
    if len(shape) != 3 or not (dims_match(shape[1], rank) and dims_match(shape[2], rank + 1)):
        ctx.fail(
            f"theta must be [n, {rank}, {rank + 1}] for output_size={list(size)}, got "
            f"{format_shape(shape)}"
        )
    ctx.set_output("out", (shape[0], *size, rank))


def _affine_grid_body(b: BodyContext) -> None:
    size, dtype = list(b.attr("output_size")), known_meta(b, "theta").dtype
    rank, wide = len(size), "float64" if dtype == "float64" else "float32"
    columns = []
    for axis in reversed(range(rank)):  # the last axis is x
        n = size[axis]
        end = 1.0 if b.attr("align_corners") else 1.0 - 1.0 / n
        # A single pixel is at the center, 0.
        attrs = {"start": -end if n > 1 else 0.0, "stop": end if n > 1 else 0.0, "num": n}
        line = Expression(b, b.emit("linspace", {}, attrs={**attrs, "dtype": wide}))
        shape = [n if i == axis else 1 for i in range(rank)]
        columns.append(line.then("reshape", shape=shape).then("expand", shape=size))
    attrs = {"shape": size, "value": 1.0, "dtype": wide}
    names = [*(column.name for column in columns), b.emit("fill", {}, attrs=attrs)]
    places = Expression(b, b.emit("stack", {"x": names}, attrs={"axis": rank}))
    rows = places.then("flatten", start_axis=0, stop_axis=rank - 1)
    theta = read(b, "theta").then("cast", dtype=wide)
    moved = rows.with_("matmul", theta, transpose_y=True)
    grid = moved.then("reshape", shape=[-1, *size, rank])
    b.set_output("out", grid.then("cast", dtype=dtype).name)


AFFINE_GRID = (
    OpMaker("affine_grid")
    .add_comment(
        "Sampling grid of affine maps for grid_sample, out[n, i, j] = theta[n] @ (x, y, 1) "
        "with x and y of pixel (i, j) in [-1, 1], and (x, y, z, 1) for volumes; as "
        "torch.nn.functional.affine_grid."
    )
    .add_input("theta", "float [n, 2, 3], or [n, 3, 4] for volumes")
    .dtypes(*FLOATS)
    .add_output("out", "[n, *output_size, 2], or 3 for volumes: x, y, z; dtype of theta")
    .same_dtype_as("theta")
    .add_attr("output_size", list[int], "height and width, preceded by depth for volumes", 2)
    .required()
    .between(1, 2**20)
    .as_shape_operand()
    .add_attr(
        "align_corners",
        bool,
        "whether -1 and 1 are the centers of the outermost pixels, or their edges",
    )
    .default(False)
    .build(infer_shape=_affine_grid_shape, body=_affine_grid_body)
)
