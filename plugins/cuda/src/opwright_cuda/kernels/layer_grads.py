"""All gradients of a small layer in one launch."""

from __future__ import annotations

from typing import Final

from opwright.kernel import PrepareContext
from opwright_cuda.launch import Kernel, LaunchPlan, refuse_for
from opwright_cuda.products import LayerGrads, add_layer_grads, find_layer_refusal

_DERIVATIVES: Final = {"relu": "ReluGrad", "sigmoid": "SigmoidGrad", "tanh": "TanhGrad"}


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Compute the gradient of the weight and, if requested, of the bias and the input."""
    (x,), (grad,) = ctx.inputs["x"], ctx.inputs["out_grad"]
    rows, inputs = x.shape
    layer = LayerGrads(rows, inputs, grad.shape[1], x.dtype, bool(ctx.outputs["bias_grad"]))
    refuse_for(ctx, find_layer_refusal(layer, plan.gpu.multiprocessors, plan.allows_tf32))
    add_layer_grads(plan, layer, _DERIVATIVES.get(ctx.attrs["activation"]))


LAYER_GRADS: Final = Kernel(_fill_in)
