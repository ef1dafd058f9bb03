"""Samplers of valid inputs beyond the constraints of an OpProto, for `opwright check`."""

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
    "pass shrink_activation_grad": "it changes only activations that are rows of a table",
    "pass fuse_conv_pool_grad": "it changes only gradients of pooled convolutions, channels last",
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
"""Operator type to its sampler; each family of operators is a module."""
