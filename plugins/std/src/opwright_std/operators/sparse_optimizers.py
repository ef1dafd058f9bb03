"""Updates of looked-up rows of a table: sparse_sgd, _momentum, _adagrad, _adam.

The operators read a sparse gradient of rows and values: the indices given to `embedding` with
sparse=True, and the gradient of its output. Other rows are neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, shapes_match
from opwright_std.numerics.add_slices import add_slices
from opwright_std.numerics.class_ids import flat_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.operators.adam import CORRECTED, MOMENTS, NEXT_POWERS, POWERS, adam, add_betas
from opwright_std.operators.adaptive_optimizers import EPSILON, adagrad
from opwright_std.operators.optimizers import (
    NO_GRADIENT,
    add_bounds,
    add_momentum,
    add_states,
    momentum,
    sgd,
    update_shape,
)

Kernel = Callable[..., None]


def sum_rows(
    who: str, rows: Sequence[Array], values: Sequence[Array], padding: Sequence[int], count: int
) -> tuple[Array, Array]:
    """Return the distinct looked-up rows, and the sum of the values of each.

    Parameters
    ----------
    who : str
        The operator type, for errors.
    rows : sequence of int arrays of any shapes
        The row indices of each lookup, in [0, count).
    values : sequence of arrays
        ``values[i]`` is ``[*rows[i].shape, size]``.
    padding : sequence of int
        For each lookup the row without a gradient, or -1; empty if no lookup has such a row.
    count : int
        The number of rows of the table.

    Returns
    -------
    int64 [n], array [n, size]
        Values of equal rows are added in order, lookup by lookup.
    """
    size = values[0].shape[-1]
    numbers = [flat_ids(f"{who}: rows", index, count) for index in rows]
    lines = [part.reshape(ids.size, size) for ids, part in zip(numbers, values, strict=True)]
    for i, skipped in enumerate(padding):
        kept = numbers[i] != skipped
        numbers[i], lines[i] = numbers[i][kept], lines[i][kept]
    touched, places = np.unique(np.concatenate(numbers), return_inverse=True)
    sums = np.empty((touched.size, size), values[0].dtype)
    add_slices(np.concatenate(lines), places, sums)
    return touched, sums


def _of_rows(op_type: str, dense: Kernel, n_states: int, **fixed: Any) -> Kernel:
    """Return a kernel that updates the looked-up rows as `dense` updates a parameter.

    `n_states` is the number of states with one row per row of the parameter; scalar states follow
    them. `fixed` has additional attributes for `dense`.
    """

    def update(
        param: Array,
        rows: Sequence[Array],
        values: Sequence[Array],
        learning_rate: Array,
        *tensors: Array,
        padding_indices: Sequence[int],
        **attrs: Any,
    ) -> None:
        touched, sums = sum_rows(op_type, rows, values, padding_indices, len(param))
        before, after = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
        table, states, scalars = after[0], after[1 : 1 + n_states], after[1 + n_states :]
        # Outputs share the memory of inputs: other rows keep their values.
        gathered = [array[touched] for array in (table, *states)]
        dense(
            *(gathered[0], sums, learning_rate, *gathered[1:], *before[n_states:]),
            *(*gathered, *scalars),
            **attrs,
            **fixed,
        )
        for array, updated in zip((table, *states), gathered, strict=True):
            array[touched] = updated

    return update


sparse_sgd = _of_rows("sparse_sgd", sgd, 0, weight_decay=0.0)
sparse_momentum = _of_rows("sparse_momentum", momentum, 1)
sparse_adagrad = _of_rows("sparse_adagrad", adagrad, 1)
sparse_adam = _of_rows("sparse_adam", adam, 2)

_OF_ROWS = (
    " Only the rows of param in `rows` are updated, with grad the sum of their `values`; other "
    "rows keep their parameter and states."
)


def _sparse_optimizer(op_type: str, comment: str, *state: str) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("param", "table [ids, size], float").dtypes(*FLOATS)
    maker.add_input("rows", "per lookup:  int32 or int64 of any shape, in [0, ids)")
    maker.dtypes(*INDICES).as_duplicable()
    maker.add_input("values", "per lookup:  shape of its rows, then [size]; dtype of param")
    maker.same_dtype_as("param").as_duplicable()
    add_states(maker, *state)
    maker.add_attr(
        "padding_indices",
        list[int],
        "per lookup:  the row without an update, or -1; empty: none",
    )
    return maker.default([])


def _sparse_shape(*state: str) -> Callable[[InferContext], None]:
    """Return the shape rule of a sparse optimizer with these states."""
    update = update_shape(*state, grad=False)

    def infer_shape(ctx: InferContext) -> None:
        """Rows and values come in pairs; outputs have the shapes of their inputs."""
        table = ctx.input("param").shape
        ctx.require(len(table) == 2, f"param must be [ids, size], got {format_shape(table)}")
        rows, values = ctx.inputs("rows"), ctx.inputs("values")
        ctx.require(
            len(rows) == len(values),
            f"there must be as many values as rows, got {len(values)} values and {len(rows)} rows",
        )
        for i, (index, slices) in enumerate(zip(rows, values, strict=True)):
            wanted = (*index.shape, table[1])
            if not shapes_match(slices.shape, wanted):
                shapes = f"{format_shape(wanted)}, got {format_shape(slices.shape)}"
                ctx.fail(f"values[{i}] must have the shape {shapes}")
        _check_padding(ctx, table[0], len(rows))
        update(ctx)

    return infer_shape


def _check_padding(ctx: InferContext, count: int, n_lookups: int) -> None:
    padding = ctx.attr("padding_indices")
    ctx.require(
        len(padding) in (0, n_lookups),
        f"padding_indices must have one index for each of {n_lookups} lookups, or be empty, got "
        f"{list(padding)}",
    )
    for number in padding:
        ctx.require(
            number >= -1 and (number < count or count == -1),
            f"padding_indices must be in [-1, {count}), got {number}",
        )


SPARSE_SGD = _sparse_optimizer(
    "sparse_sgd",
    f"Gradient descent of rows, param_out = param - learning_rate * grad.{_OF_ROWS}",
).build(infer_shape=_sparse_shape(), gradient=NO_GRADIENT)

SPARSE_MOMENTUM = add_momentum(
    _sparse_optimizer(
        "sparse_momentum",
        "Gradient descent of rows with momentum, velocity_out = mu * velocity + grad, param_out = "
        f"param - learning_rate * velocity_out, or as in momentum with nesterov.{_OF_ROWS}",
        "velocity",
    )
).build(infer_shape=_sparse_shape("velocity"), gradient=NO_GRADIENT)

SPARSE_ADAGRAD = add_bounds(
    _sparse_optimizer(
        "sparse_adagrad",
        "Adagrad of rows, squares_out = squares + grad**2, param_out = param - learning_rate * "
        f"grad / (sqrt(squares_out) + epsilon).{_OF_ROWS}",
        "squares",
    ),
    epsilon=(1e-10, EPSILON),
).build(infer_shape=_sparse_shape("squares"), gradient=NO_GRADIENT)

SPARSE_ADAM = add_betas(
    _sparse_optimizer(
        "sparse_adam",
        f"Adam of rows, {MOMENTS}{CORRECTED}param_out = param - learning_rate * m / (sqrt(v) + "
        f"epsilon){NEXT_POWERS.removesuffix(' ')}{_OF_ROWS} The powers advance once per step.",
        "moment1",
        "moment2",
        *POWERS,
    )
).build(infer_shape=_sparse_shape("moment1", "moment2", *POWERS), gradient=NO_GRADIENT)
