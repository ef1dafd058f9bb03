"""Pooling of padded sequences over their steps: sum, mean, maximum, first or last step."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op
from opwright_std.compositions.selections import pick_in_shares
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.numerics.lengths import read_lengths
from opwright_std.numerics.sequences import infer_padded, valid_steps
from opwright_std.operators.sequence import LENGTHS

_PICKING = ("first", "last")


def sequence_pool(x: Array, lengths: Array, out: Array, *, kind: str) -> None:
    if kind in _PICKING:
        rows, steps = _picked("sequence_pool", lengths, x.shape[1], kind)
        out[...] = 0
        out[rows] = x[rows, steps]
        return
    valid = _behind(valid_steps("sequence_pool", lengths, x.shape[1]), x.ndim)
    if kind == "max":
        np.max(x, axis=1, initial=-np.inf, where=valid, out=out)
        out[lengths == 0] = 0
        return
    total = np.sum(x, axis=1, where=valid, dtype=np.result_type(x.dtype, np.float32))
    out[...] = total / _divisors(lengths, kind, out.ndim)


def sequence_pool_grad(
    x: Array, lengths: Array, out: Array, out_grad: Array, x_grad: Array, *, kind: str
) -> None:
    if kind in _PICKING:
        rows, steps = _picked("sequence_pool_grad", lengths, x.shape[1], kind)
        x_grad[...] = 0
        x_grad[rows, steps] = out_grad[rows]
        return
    chosen = _behind(valid_steps("sequence_pool_grad", lengths, x.shape[1]), x.ndim)
    if kind == "max":
        best = out[:, None]
        chosen = chosen & ((x == best) | (np.isnan(x) & np.isnan(best)))
        share = out_grad / np.maximum(chosen.sum(axis=1), 1)
    else:
        share = out_grad / _divisors(lengths, kind, out.ndim)
    x_grad[...] = np.where(chosen, share[:, None], 0)


def _picked(op_type: str, lengths: Array, steps: int, kind: str) -> tuple[Array, Array]:
    """Return the nonempty sequences, and the first or last step of each."""
    counts = read_lengths(f"{op_type}: lengths", lengths, steps, len(lengths))
    rows = np.flatnonzero(counts)
    return rows, counts[rows] - 1 if kind == "last" else np.zeros_like(rows)


def _behind(array: Array, rank: int) -> Array:
    """Return the array with trailing axes of length 1, up to `rank`."""
    return array.reshape(array.shape + (1,) * (rank - array.ndim))


def _divisors(lengths: Array, kind: str, rank: int) -> Array:
    """Return the divisor of each sequence's sum."""
    counts = np.maximum(lengths, 1).astype(np.float64)
    divisors = {"sum": np.ones_like(counts), "mean": counts, "sqrt": np.sqrt(counts)}[kind]
    return _behind(divisors, rank)


def _pool_shape(ctx: InferContext) -> None:
    """The output has the shape of x without the axis of steps."""
    n, _, *rest = infer_padded(ctx)
    ctx.set_output("out", (n, *rest))


SEQUENCE_POOL = (
    OpMaker("sequence_pool")
    .add_comment(
        "One row per sequence, out[i] = sum(x[i, :lengths[i]]) for the kind sum, divided by "
        "lengths[i] for mean and by sqrt(lengths[i]) for sqrt; the maximum of each column for "
        "max, NaN if any is NaN; x[i, 0] for first, x[i, lengths[i] - 1] for last. For an empty "
        "sequence it is 0. Equal maxima share the gradient equally."
    )
    .add_input("x", "float [n, t, ...]")
    .dtypes(*FLOATS)
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_output("out", "[n, ...], dtype of x")
    .same_dtype_as("x")
    .add_attr("kind", str, "reduction over the steps")
    .default("sum")
    .one_of("sum", "mean", "sqrt", "max", "first", "last")
    .build(
        infer_shape=_pool_shape,
        gradient=grad_op(
            "sequence_pool_grad", needs=["x", "lengths", "out"], gradient=pick_in_shares
        ),
    )
)
