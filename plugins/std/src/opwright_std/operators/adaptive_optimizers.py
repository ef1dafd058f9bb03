"""Steps scaled per element by past gradients: adagrad, adadelta and rmsprop."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.optimizers import (
    NO_GRADIENT,
    add_bounds,
    add_shares,
    apply_step,
    move_average,
    optimizer,
    update_shape,
)

EPSILON = "added to the root in the denominator"


def adagrad(
    param: Array,
    grad: Array,
    learning_rate: Array,
    squares: Array,
    param_out: Array,
    squares_out: Array,
    *,
    epsilon: float,
) -> None:
    np.add(squares, np.square(grad), out=squares_out)
    work = np.asarray(np.sqrt(squares_out))
    work += epsilon
    np.divide(grad, work, out=work)
    work *= float(learning_rate[0])
    apply_step(param, work, 1, param_out)


ADAGRAD = add_bounds(
    optimizer(
        "adagrad",
        "Steps that shrink with the sum of squared gradients, squares_out = squares + grad**2, "
        "param_out = "
        "param - learning_rate * grad / (sqrt(squares_out) + epsilon). Duchi et al., 2011.",
        "squares",
    ),
    epsilon=(1e-10, EPSILON),
).build(infer_shape=update_shape("squares"), gradient=NO_GRADIENT)


def adadelta(
    param: Array,
    grad: Array,
    learning_rate: Array,
    mean_square: Array,
    mean_update: Array,
    param_out: Array,
    mean_square_out: Array,
    mean_update_out: Array,
    *,
    rho: float,
    epsilon: float,
) -> None:
    rest = 1 - rho
    work = np.asarray(np.square(grad))
    work *= rest
    move_average(mean_square, rho, work, mean_square_out)
    change = np.sqrt(mean_update + epsilon)
    np.sqrt(np.add(mean_square_out, epsilon, out=work), out=work)
    change /= work
    change *= grad
    np.square(change, out=work)
    work *= rest
    move_average(mean_update, rho, work, mean_update_out)
    change *= float(learning_rate[0])
    apply_step(param, change, 1, param_out)


ADADELTA = add_bounds(
    add_shares(
        optimizer(
            "adadelta",
            "Steps scaled to the size of previous updates, mean_square_out = rho * mean_square + "
            "(1 - rho) * "
            "grad**2, update = sqrt(mean_update + epsilon) / sqrt(mean_square_out + epsilon) * "
            "grad, mean_update_out = rho * mean_update + (1 - rho) * update**2, param_out = param "
            "- learning_rate * update. Zeiler, 2012.",
            "mean_square",
            "mean_update",
        ),
        rho=(0.9, "decay rate of both means"),
    ),
    epsilon=(1e-6, "added under both roots"),
).build(infer_shape=update_shape("mean_square", "mean_update"), gradient=NO_GRADIENT)


def rmsprop(
    param: Array,
    grad: Array,
    learning_rate: Array,
    mean_square: Array,
    mean_grad: Array | None,
    velocity: Array | None,
    param_out: Array,
    mean_square_out: Array,
    mean_grad_out: Array | None,
    velocity_out: Array | None,
    *,
    rho: float,
    epsilon: float,
    centered: bool,
    momentum: float,
) -> None:
    rest = 1 - rho
    work = np.asarray(np.square(grad))
    work *= rest
    move_average(mean_square, rho, work, mean_square_out)
    if centered and mean_grad is not None and mean_grad_out is not None:
        move_average(mean_grad, rho, grad * rest, mean_grad_out)
        np.subtract(mean_square_out, np.square(mean_grad_out), out=work)
        np.maximum(work, 0, out=work)  # for equal gradients rounding may make it negative
        np.sqrt(work, out=work)
    else:
        np.sqrt(mean_square_out, out=work)
    work += epsilon
    np.divide(grad, work, out=work)
    if velocity is not None and velocity_out is not None:
        move_average(velocity, momentum, work, velocity_out)
        work[...] = velocity_out
    work *= float(learning_rate[0])
    apply_step(param, work, 1, param_out)


_STATES = ("mean_square", "mean_grad", "velocity")
_states_shape = update_shape(*_STATES)


def _rmsprop_shape(ctx: InferContext) -> None:
    """Outputs have the shapes of their inputs; attributes determine the required states."""
    wanted = {"mean_grad": bool(ctx.attr("centered")), "velocity": ctx.attr("momentum") != 0}
    conditions = {"mean_grad": "centered is true", "velocity": "momentum is not 0"}
    for slot, is_wanted in wanted.items():
        if bool(ctx.inputs(slot)) != is_wanted:
            given = "it" if ctx.inputs(slot) else "none"
            ctx.fail(f"{slot} must be given exactly if {conditions[slot]}, got {given}")
    _states_shape(ctx)


RMSPROP = (
    add_bounds(
        add_shares(
            optimizer(
                "rmsprop",
                "Steps divided by the root of a mean square, mean_square_out = rho * mean_square + "
                "(1 - rho) * grad**2, r = sqrt(mean_square_out) + epsilon, velocity_out = momentum "
                "* velocity + grad / r, param_out = param - learning_rate * velocity_out. With "
                "centered, mean_grad_out = rho * mean_grad + (1 - rho) * grad, r = "
                "sqrt(mean_square_out - mean_grad_out**2) + epsilon. Tieleman and Hinton, 2012; "
                "Graves, 2013.",
                "mean_square",
                optional=("mean_grad", "velocity"),
            ),
            rho=(0.99, "decay rate of both means"),
        ),
        epsilon=(1e-8, EPSILON),
        momentum=(0.0, "decay rate of the velocity; 0: no velocity"),
    )
    .add_attr("centered", bool, "whether to divide by the deviation from the mean gradient")
    .default(False)
    .build(infer_shape=_rmsprop_shape, gradient=NO_GRADIENT)
)
