"""What the OpProto of an operator cannot say of its inputs; `opwright check` draws them so."""

from __future__ import annotations

from opwright_std.samples import (
    decoding,
    elementwise,
    images,
    linear_algebra,
    losses,
    movement,
    normalization,
    operators,
    optimizers,
    plan_ops,
    recurrent,
    reductions,
    sampling,
    sequences,
    watching,
)

SAMPLES = {
    "pass shrink_activation_grad": "the activations that it changes are rows of a table",
    "pass fuse_conv_pool_grad": "it changes gradients of convolutions, pooled, channels last",
    **decoding.SAMPLES,
    **elementwise.SAMPLES,
    **images.SAMPLES,
    **linear_algebra.SAMPLES,
    **losses.SAMPLES,
    **movement.SAMPLES,
    **normalization.SAMPLES,
    **operators.SAMPLES,
    **optimizers.SAMPLES,
    **plan_ops.SAMPLES,
    **reductions.SAMPLES,
    **recurrent.SAMPLES,
    **sampling.SAMPLES,
    **sequences.SAMPLES,
    **watching.SAMPLES,
}
"""Operator type to the function that draws its inputs; a family of operators is one module."""
