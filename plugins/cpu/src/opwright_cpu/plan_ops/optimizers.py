"""Updates of many parameters in one step, for each optimizer: the same slots, but with lists.

One step instead of one for each parameter costs one wake-up of the threads, and small parameters
are dealt out among them whole.
"""

from __future__ import annotations

from opwright.op import InferContext, OpDefinition, OpMaker, format_shape, shapes_match

FLOATS = ("float32", "float64")
MOMENTS = ("moment1", "moment2")
POWERS = ("beta1_power", "beta2_power")


def _lists(op_type: str, what: str, states: tuple[str, ...], powers: tuple[str, ...]) -> OpMaker:
    """Begin an operator with the slots of an optimizer, all but learning_rate with lists."""
    maker = OpMaker(f"cpu.multi_{op_type}").add_comment(
        f"{what} of many parameters in one step, each as by the operator {op_type}."
    )
    maker.add_input("param", "parameters of any shapes, float").as_duplicable().dtypes(*FLOATS)
    maker.same_dtype_as("param")
    maker.add_input("grad", "the gradient of each").as_duplicable().same_dtype_as("param")
    maker.add_input("learning_rate", "[1], size of the step").dtypes(*FLOATS)
    for slot in states:
        comment = "one for each parameter, of its shape"
        maker.add_input(slot, comment).as_duplicable().same_dtype_as("param")
    for slot in powers:
        maker.add_input(slot, "[1], one for each parameter").as_duplicable().dtypes(*FLOATS)
    for slot in ("param", *states, *powers):
        maker.add_output(f"{slot}_out", f"the next {slot}").as_duplicable()
        maker.same_dtype_as(slot).aliases(slot)
    return maker


def _build(maker: OpMaker, states: tuple[str, ...], powers: tuple[str, ...]) -> OpDefinition:
    def infer_shape(ctx: InferContext) -> None:
        ctx.require_shape("learning_rate", (1,))
        params = [meta.shape for meta in ctx.inputs("param")]
        for slot in ("grad", *states, *powers):
            wanted = [(1,)] * len(params) if slot in powers else params
            got = [meta.shape for meta in ctx.inputs(slot)]
            if len(got) != len(wanted) or not all(map(shapes_match, got, wanted)):
                shapes = " and ".join(", ".join(map(format_shape, s)) for s in (wanted, got))
                ctx.fail(f"{slot} must have the shapes {shapes.replace(' and ', ', got ')}")
        for slot in ("param", *states, *powers):
            ctx.set_metas(f"{slot}_out", ctx.inputs(slot))

    return maker.build(infer_shape=infer_shape, plan_only=True)


def _add_adam(maker: OpMaker) -> OpMaker:
    maker.add_attr("beta1", float, "share of the first moment that stays").default(0.9)
    maker.add_attr("beta2", float, "share of the second moment that stays").default(0.999)
    return maker.add_attr("epsilon", float, "added to the root of the second moment").default(1e-8)


MULTI_SGD = _build(
    _lists("sgd", "Gradient descent", (), ())
    .add_attr("weight_decay", float, "factor of the parameter in its own gradient")
    .default(0.0),
    (),
    (),
)

MULTI_MOMENTUM = _build(
    _lists("momentum", "Gradient descent with momentum", ("velocity",), ())
    .add_attr("mu", float, "share of the velocity that stays")
    .required()
    .add_attr("nesterov", bool, "whether the step looks ahead")
    .default(False),
    ("velocity",),
    (),
)

MULTI_ADAM = _build(_add_adam(_lists("adam", "Adam", MOMENTS, POWERS)), MOMENTS, POWERS)

MULTI_ADAMW = _build(
    _add_adam(_lists("adamw", "Adam with decoupled weight decay", MOMENTS, POWERS))
    .add_attr("weight_decay", float, "share of the parameter that a step of size 1 takes away")
    .default(0.01),
    MOMENTS,
    POWERS,
)
