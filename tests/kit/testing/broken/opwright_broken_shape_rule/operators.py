"""Shape rules that are always wrong, or only for unknown dimensions, dynamic outputs or no rows."""

import numpy as np

from opwright.op import OpMaker, no_gradient, normalize_axis


def too_long(x, out):
    np.add(x[..., 1:], x[..., :-1], out=out)


def _too_long(ctx):
    shape = ctx.input("x").shape
    normalize_axis(ctx, -1, len(shape))
    ctx.require(shape[-1] != 0, f"x must have elements, got shape {list(shape)}; give it some")
    ctx.set_output("out", shape)  # the kernel writes one element less


def unknown(x, out):
    np.sum(x, axis=-1, out=out)


def _unknown(ctx):
    shape = ctx.input("x").shape
    normalize_axis(ctx, -1, len(shape))
    ctx.set_output("out", shape[1:] if -1 in shape else shape[:-1])


def resized(x, out):
    places = np.argwhere(x > 0)
    out.resize((len(places), x.ndim + 1))[:, 1:] = places


def _resized(ctx):
    ctx.set_output("out", [-1, len(ctx.input("x").shape)], "int64")


def rows_claimed(x, out):
    np.sum(x, axis=1, keepdims=True, out=out)


def _rows_claimed(ctx):
    shape = ctx.input("x").shape
    ctx.require(len(shape) == 2, f"x must be a matrix, got shape {list(shape)}; reshape it")
    ctx.set_output("out", [1 if shape[0] == 0 else shape[0], 1])


def rows_needed(x, out):
    np.copyto(out, x.reshape(x.shape[0], x.size // x.shape[0]))


def _rows_needed(ctx):
    shape = ctx.input("x").shape
    ctx.require(len(shape) == 2, f"x must be a matrix, got shape {list(shape)}; reshape it")
    ctx.set_output("out", shape)


def _make(name, comment, infer_shape, dynamic=False):
    maker = (
        OpMaker(f"broken_shape_rule.{name}")
        .add_comment(comment)
        .add_input("x", "any shape but 0-d, float")
        .dtypes("float32", "float64")
    )
    if dynamic:
        maker.add_output("out", "[n, rank of x], int64").dtypes("int64").dynamic_output()
    else:
        maker.add_output("out", "dtype of x").same_dtype_as("x")
    return maker.build(infer_shape=infer_shape, gradient=no_gradient("only its shape matters here"))


TOO_LONG = _make("too_long", "Sums of neighbors in the last axis.", _too_long)
UNKNOWN = _make("unknown", "Sum over the last axis.", _unknown)
RESIZED = _make("resized", "Where x is above 0, as rows of indices.", _resized, dynamic=True)
ROWS_CLAIMED = _make("rows_claimed", "Sum over rows; of none it claims one.", _rows_claimed)
ROWS_NEEDED = _make("rows_needed", "Copy of a matrix, which divides by the rows.", _rows_needed)
