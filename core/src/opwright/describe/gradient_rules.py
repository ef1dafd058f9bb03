"""Gradients that are a single operator ``<type>_grad``, derived from its forward operator."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.describe.definition import Body, GradientRule, InferShape, OpDefinition
from opwright.describe.meta import InferContext, Meta, metas_match
from opwright.describe.op_proto import OpProto, VarProto, can_be_float
from opwright.describe.proto_rules import check_op_proto
from opwright.describe.rule_context import GradientContext, grad_name
from opwright.errors import DtypeError, GradientError, OpwrightError, RegistrationError, ShapeError
from opwright.messages.names import hint


class GradOp:
    """A gradient rule that emits one operator of a type that is derived from the forward operator.

    Its attributes are the parameters of `grad_op`.
    """

    def __init__(
        self,
        type: str,
        needs: Sequence[str] = (),
        also: Sequence[str] = (),
        no_grad: Sequence[str] = (),
        gradient: GradientRule | None = None,
        body: Body | None = None,
        unaffected_by: Sequence[str] = (),
    ) -> None:
        self.type = type
        self.unaffected_by = frozenset(unaffected_by)
        self.needs, self.also, self.no_grad = tuple(needs), tuple(also), tuple(no_grad)
        self.gradient = gradient
        self.body = body

    def __call__(self, g: GradientContext) -> None:
        """Emit the gradient operator and set the gradients that it computes."""
        graded = graded_inputs(g.proto, self)
        self._check_nothing_lost(g, graded)
        inputs: dict[str, list[str]] = {slot.name: g.inputs(slot.name) for slot in g.proto.inputs}
        for name in (*self.needs, *self.also):
            if name in g.proto.output_slots:
                inputs[name] = g.outputs(name)
        for slot in graded_outputs(g.proto, self):
            inputs[grad_name(slot.name)] = g.filled_output_grads(slot.name)
        outputs = {
            grad_name(slot.name): len(g.inputs(slot.name))
            for slot in graded
            if g.wants_any(slot.name)
        }
        results = g.emit_multi(self.type, inputs, outputs, g.attrs)
        for slot in graded:
            for index, name in enumerate(results.get(grad_name(slot.name), ())):
                g.set_input_grad(slot.name, name, index)

    def _check_nothing_lost(self, g: GradientContext, graded: list[VarProto]) -> None:
        """Raise GradientError if a requested gradient would silently become zero."""
        flowing = graded_outputs(g.proto, self)
        for slot in g.proto.outputs:
            if slot not in flowing and any(grad is not None for grad in g.output_grads(slot.name)):
                raise GradientError(
                    f"{g.type}: no gradient flows back through output {slot.name!r}, "
                    f"got {g.output_grads(slot.name)}; make the loss independent of it"
                )
        for slot in g.proto.inputs:
            if slot not in graded and g.wants_any(slot.name):
                raise GradientError(
                    f"{g.type}: input {slot.name!r} has no gradient, got a request for the "
                    f"gradient of {g.inputs(slot.name)}; give its variable stop_gradient=True"
                )

    def check(self, forward: OpProto) -> None:
        """Raise RegistrationError if the rule does not fit its forward operator."""
        if self.type != grad_name(forward.type):
            raise RegistrationError(
                f"{forward.type}: its gradient operator must be {grad_name(forward.type)!r}, "
                f"got {self.type!r}"
            )
        known = (*forward.input_slots, *forward.output_slots)
        for word, names, allowed, what in (
            ("needs", self.needs, known, "slots"),
            ("also", self.also, tuple(forward.output_slots), "slots"),
            ("no_grad", self.no_grad, tuple(forward.input_slots), "slots"),
            ("unaffected_by", self.unaffected_by, tuple(forward.attr_protos), "attributes"),
        ):
            for name in names:
                if name not in allowed:
                    raise RegistrationError(
                        f"{forward.type}: grad_op's {word} must name {what}, got {name!r}"
                        f"{hint(name, allowed, what)}"
                    )
        if not graded_inputs(forward, self):
            raise RegistrationError(
                f"{forward.type}: grad_op needs an input that can have a gradient, got none; "
                "declare no_gradient(reason)"
            )


def grad_op(
    type: str,
    needs: Sequence[str] = (),
    also: Sequence[str] = (),
    no_grad: Sequence[str] = (),
    *,
    gradient: GradientRule | None = None,
    body: Body | None = None,
    unaffected_by: Sequence[str] = (),
) -> GradOp:
    """Return the rule that emits a single operator `type` as the gradient.

    The description of that operator is derived from the forward operator and is not registered.
    Kernels are registered for it as for any other operator. Its slots, in order:

    - every forward input: with its data if it is in `needs`, otherwise with its shape only;
    - the forward outputs in `needs` with their data, and those in `also` with their shape only;
    - ``<out>_grad`` for every float output that is neither intermediate nor aliases an input in
      `no_grad`; if there are several, zero gradients are absent;
    - as outputs ``<in>_grad`` for every input that can have a gradient; absent if not requested.

    Its shape rule is derived, too. The rule refuses the inputs that the forward rule refuses, and
    outputs or output gradients whose shapes or dtypes differ from the result of the forward rule.

    The gradient operator has the attributes of the forward operator. A Python kernel may omit
    shape-only slots: ``def swish_grad(x, out_grad, x_grad, *, beta)``.

    Parameters
    ----------
    type : str
        The forward type and ``_grad``.
    needs : sequence of str
        Forward inputs and outputs whose data kernels read. The memory planner frees all other data.
    also : sequence of str
        Forward outputs of which kernels read only the shape.
    no_grad : sequence of str
        Float inputs that never have a gradient, such as state that the operator updates. It is an
        error to request their gradient, or to pass a gradient for an output through which none
        flows, so no gradient silently becomes zero.
    gradient : callable, optional
        The rule that differentiates the gradient operator again, such as `linear_in`.
    body : callable, optional
        Instead of `gradient`, the gradient operator as a composition, as returned by
        `by_derivative` and `by_differentiating`. The composition replaces the operator if a second
        gradient is needed, or a device has no kernel. Without `gradient` and `body`, the operator
        can be differentiated once.
    unaffected_by : sequence of str
        Attributes added later (`OpMaker.as_added`) that do not affect the gradient, so that older
        gradient kernels support every value.
    """
    return GradOp(type, needs, also, no_grad, gradient, body, unaffected_by)


def graded_outputs(forward: OpProto, rule: GradOp) -> list[VarProto]:
    """Return the outputs whose gradients flow back.

    These outputs are float, not intermediate, and do not alias an input without a gradient; such an
    input is state that the operator updates.
    """
    return [
        slot
        for slot in forward.outputs
        if not slot.intermediate
        and slot.aliases not in rule.no_grad
        and can_be_float(forward, slot)
    ]


def graded_inputs(forward: OpProto, rule: GradOp) -> list[VarProto]:
    """Return the inputs that can have a gradient: float inputs not excluded by the rule."""
    return [
        slot
        for slot in forward.inputs
        if slot.name not in rule.no_grad and can_be_float(forward, slot)
    ]


def derive_grad_definition(forward: OpDefinition) -> OpDefinition:
    """Return the definition of ``<type>_grad`` for an operator whose gradient is a `grad_op`.

    Raises RegistrationError if the forward operator has no such rule, or names clash.
    """
    rule = forward.gradient
    if not isinstance(rule, GradOp):
        raise RegistrationError(
            f"{forward.op_type}: its gradient must be a grad_op, got {rule!r}; "
            f"only a grad_op defines an operator {grad_name(forward.op_type)!r}"
        )
    proto = forward.proto
    graded = graded_inputs(proto, rule)
    derived = OpProto(
        type=rule.type,
        comment=f"The gradient of {proto.type}.",
        inputs=(*_forward_slots(proto, rule), *_output_grad_slots(graded_outputs(proto, rule))),
        outputs=tuple(_input_grad_slot(slot) for slot in graded),
        attrs=[
            attr.replace(added=False) if attr.name in rule.unaffected_by else attr
            for attr in proto.attrs
        ],
        version=proto.version,
        dispatch=proto.dispatch_slot or None,
    )
    check_op_proto(derived)
    shape = _gradient_shape(forward, derived)
    names = forward.deprecated
    return OpDefinition(
        derived,
        shape,
        rule.gradient,
        body=rule.body,
        upgrade=forward.upgrade,
        forward=forward.op_type,
        deprecated={**names, **{grad_name(old): grad_name(names[old]) for old in names}},
    )


def _gradient_shape(forward: OpDefinition, derived: OpProto) -> InferShape:
    """Return the shape rule of a derived gradient, which checks that inputs fit a forward call.

    A gradient kernel infers the size of one array from the shape of another array, so the shapes
    must agree. The shape rule of the forward operator checks the forward inputs and returns the
    metas of its outputs. The outputs, and gradients of outputs, that the gradient reads must have
    these metas. The derived OpProto restricts dtypes like the forward OpProto.
    """
    slots = forward.proto.outputs
    indices = {slot.name: index for index, slot in enumerate(derived.inputs)}
    # Inputs with the same meta as a forward output, each with the index of that output.
    reads = tuple(
        (indices[name], output)
        for output, slot in enumerate(slots)
        for name in (slot.name, grad_name(slot.name))
        if name in indices
    )
    is_simple = not any(slot.optional or slot.duplicable for slot in slots)
    ones = (1,) * len(slots) if is_simple else None  # every output is always present, once

    def infer_shape(ctx: InferContext) -> None:
        inputs = ctx.all_inputs
        outputs = _infer_forward(ctx, forward, ones or _count_outputs(ctx, forward, reads))
        for index, output in reads:
            metas, expected = inputs[index], outputs[output] or ()
            # An absent gradient means zeros.
            if metas and metas != expected and not _are_alike(metas, expected):
                ctx.fail(
                    f"{derived.inputs[index].name} must be {', '.join(map(str, expected))}, as "
                    f"{forward.op_type} makes {slots[output].name}, got "
                    f"{', '.join(map(str, metas))}; pass the arrays of one forward call"
                )
        for grad in derived.outputs:
            if ctx.has_output(grad.name):
                ctx.set_metas(grad.name, ctx.inputs(str(grad.same_as)))

    return infer_shape


def _are_alike(metas: Sequence[Meta], others: Sequence[Meta]) -> bool:
    return len(metas) == len(others) and all(map(metas_match, metas, others))


def _infer_forward(
    ctx: InferContext, forward: OpDefinition, counts: tuple[int, ...]
) -> list[tuple[Meta, ...] | None]:
    inner = ctx.for_operator(forward, len(forward.proto.inputs), counts)
    try:
        forward.infer_shape(inner)
    except OpwrightError as error:
        kind = DtypeError if isinstance(error, DtypeError) else ShapeError
        raise kind(f"{ctx.op_type}: its inputs must fit {forward.op_type}, got {error}") from error
    return inner.outputs


def _count_outputs(
    ctx: InferContext, forward: OpDefinition, reads: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """Return the number of variables in each output of the forward operator."""
    counts = [0] * len(forward.proto.outputs)
    for index, output in reads:
        counts[output] = max(counts[output], len(ctx.all_inputs[index]))
    for output, slot in enumerate(forward.proto.outputs):
        if counts[output] or slot.optional:
            continue
        if not slot.duplicable:
            counts[output] = 1
        elif forward.count_outputs is not None:
            counts[output] = forward.count_outputs(ctx)  # inputs and attributes have the same names
    return tuple(counts)


def _forward_slots(proto: OpProto, rule: GradOp) -> list[VarProto]:
    slots = [slot.replace(shape_only=slot.name not in rule.needs) for slot in proto.inputs]
    for slot in proto.outputs:
        if slot.name in rule.needs or slot.name in rule.also:
            needed = slot.name in rule.needs
            slots.append(slot.replace(shape_only=not needed, intermediate=False, aliases=None))
    return slots


def _output_grad_slots(graded: Sequence[VarProto]) -> list[VarProto]:
    """Return the ``<out>_grad`` slots; if there are several, an absent slot means zero."""
    optional = len(graded) > 1  # without any gradient there is nothing to compute
    return [
        VarProto(
            name=grad_name(slot.name),
            comment=f"gradient of {slot.name}" + ("; absent: zero" if optional else ""),
            duplicable=slot.duplicable,
            optional=optional,
            dtypes=slot.dtypes,
            same_as=slot.same_as,
        )
        for slot in graded
    ]


def _input_grad_slot(slot: VarProto) -> VarProto:
    return VarProto(
        name=grad_name(slot.name),
        comment=f"gradient of {slot.name}, its shape and dtype",
        duplicable=slot.duplicable,
        optional=True,
        same_as=slot.name,
    )
