"""Fused updates of many parameters: the slots of each optimizer as lists.

One step for all parameters costs one launch, or one wake-up of the threads, and small parameters
are not split among threads.
"""

from __future__ import annotations

from opwright.op import InferContext, OpDefinition, OpProto, VarProto, format_shape, shapes_match
from opwright_std.operators.adam import ADAM, ADAMW
from opwright_std.operators.adam_variants import ADAMAX, NADAM, RADAM
from opwright_std.operators.adaptive_optimizers import ADADELTA, ADAGRAD, RMSPROP
from opwright_std.operators.optimizers import LION, MOMENTUM, SCALARS, SGD
from opwright_std.operators.proximal_optimizers import FTRL, PROXIMAL_ADAGRAD, PROXIMAL_GD

SHARED = "learning_rate"
"""The slot with one variable for all parameters."""


def _list_of(slot: VarProto) -> VarProto:
    """Convert a slot of an optimizer to a list over parameters, all of one dtype."""
    if slot.name == SHARED:
        return slot
    return slot.replace(
        comment=f"per parameter: {slot.comment}",
        duplicable=True,
        same_as="param" if slot.name == "param" else slot.same_as,
    )


def _of_many(single: OpDefinition) -> OpDefinition:
    """Return the fused operator that updates many parameters."""
    proto = single.proto
    states = [slot.name for slot in proto.inputs if slot.name not in ("param", "grad", SHARED)]
    optional = [slot.name for slot in proto.inputs if slot.optional]

    def infer_shape(ctx: InferContext) -> None:
        """Lists have equal lengths; gradients and states have the shapes of their parameters."""
        ctx.require_shape(SHARED, (1,))
        params = [meta.shape for meta in ctx.inputs("param")]
        present = [slot for slot in states if slot not in optional or ctx.inputs(slot)]
        for slot in ("grad", *present):
            wanted = [(1,)] * len(params) if slot in SCALARS else params
            got = [meta.shape for meta in ctx.inputs(slot)]
            if len(got) != len(wanted) or not all(map(shapes_match, got, wanted)):
                expected, given = (", ".join(map(format_shape, shapes)) for shapes in (wanted, got))
                ctx.fail(f"{slot} must have the shapes {expected}, got {given}")
        for slot in ("param", *present):
            ctx.set_metas(f"{slot}_out", ctx.inputs(slot))

    listed = OpProto(
        type=f"std.multi_{proto.type}",
        comment=f"Fused updates of many parameters, each by the operator {proto.type}.",
        inputs=tuple(map(_list_of, proto.inputs)),
        outputs=tuple(map(_list_of, proto.outputs)),
        attrs=proto.attrs,
    )
    return OpDefinition(listed, infer_shape, plan_only=True)


MULTI_SGD = _of_many(SGD)
MULTI_MOMENTUM = _of_many(MOMENTUM)
MULTI_LION = _of_many(LION)
MULTI_ADAM = _of_many(ADAM)
MULTI_ADAMW = _of_many(ADAMW)
MULTI_ADAMAX = _of_many(ADAMAX)
MULTI_NADAM = _of_many(NADAM)
MULTI_RADAM = _of_many(RADAM)
MULTI_ADAGRAD = _of_many(ADAGRAD)
MULTI_ADADELTA = _of_many(ADADELTA)
MULTI_RMSPROP = _of_many(RMSPROP)
MULTI_PROXIMAL_GD = _of_many(PROXIMAL_GD)
MULTI_PROXIMAL_ADAGRAD = _of_many(PROXIMAL_ADAGRAD)
MULTI_FTRL = _of_many(FTRL)
