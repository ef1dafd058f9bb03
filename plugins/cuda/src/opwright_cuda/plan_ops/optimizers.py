"""Updates of many parameters in one launch, for each optimizer: the same slots, but with lists."""

from __future__ import annotations

from typing import Final

from opwright.op import InferContext, OpDefinition, OpMaker, format_shape, shapes_match
from opwright_cuda.dtypes import FLOATS
from opwright_cuda.kernels.optimizers import RULES, Rule

_NUMBERS: Final = ("float32", "float64")
_ATTRIBUTES: Final = {
    "weight_decay": "factor of a parameter in its own gradient",
    "mu": "share of the velocity that stays",
    "nesterov": "whether the step looks ahead",
    "beta1": "share of the first moment that stays",
    "beta2": "share of the second moment that stays",
    "epsilon": "added to the root of the second moment",
}


def _define(op_type: str, rule: Rule) -> OpDefinition:
    maker = OpMaker(f"cuda.multi_{op_type}").add_comment(
        f"Updates of many parameters in one launch, each as by the operator {op_type}."
    )
    maker.add_input("param", "parameters of any shapes, float").as_duplicable().dtypes(*FLOATS)
    maker.same_dtype_as("param")
    maker.add_input("grad", "the gradient of each").as_duplicable().same_dtype_as("param")
    maker.add_input("learning_rate", "[1], size of the step").dtypes(*_NUMBERS)
    for slot in rule.states:
        comment = "one for each parameter, of its shape"
        maker.add_input(slot, comment).as_duplicable().same_dtype_as("param")
    for slot in rule.powers:
        maker.add_input(slot, "[1], one for each parameter").as_duplicable().dtypes(*_NUMBERS)
    for slot in ("param", *rule.states, *rule.powers):
        maker.add_output(f"{slot}_out", f"the next {slot}").as_duplicable()
        maker.same_dtype_as(slot).aliases(slot)
    for name in rule.attributes:
        if name != "weight_decay" or op_type != "adam":
            kind = bool if name == "nesterov" else float
            maker.add_attr(name, kind, _ATTRIBUTES[name]).required()
    return maker.build(infer_shape=lambda ctx: _infer(ctx, rule), plan_only=True)


def _infer(ctx: InferContext, rule: Rule) -> None:
    ctx.require_shape("learning_rate", (1,))
    params = [meta.shape for meta in ctx.inputs("param")]
    for slot in ("grad", *rule.states, *rule.powers):
        wanted = [(1,)] * len(params) if slot in rule.powers else params
        got = [meta.shape for meta in ctx.inputs(slot)]
        if len(got) != len(wanted) or not all(map(shapes_match, got, wanted)):
            expected, found = (", ".join(map(format_shape, shapes)) for shapes in (wanted, got))
            ctx.fail(f"{slot} must have the shapes {expected}, got {found}")
    for slot in ("param", *rule.states, *rule.powers):
        ctx.set_metas(f"{slot}_out", ctx.inputs(slot))


MULTI_SGD: Final = _define("sgd", RULES["sgd"])
MULTI_MOMENTUM: Final = _define("momentum", RULES["momentum"])
MULTI_ADAM: Final = _define("adam", RULES["adam"])
MULTI_ADAMW: Final = _define("adamw", RULES["adamw"])
