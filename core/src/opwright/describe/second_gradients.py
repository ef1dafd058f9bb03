"""Rules and compositions that differentiate gradient operators, for `grad_op`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from opwright.describe.definition import Body, GradientRule, NoGradient, OpDefinition
from opwright.describe.operands import bind_operands, name_operands
from opwright.describe.rule_context import BodyContext, GradientContext, RuleOperator, grad_name
from opwright.errors import GradientError
from opwright.vocabulary import ADD_N, ASSIGN, FILL_LIKE, GRAD_SUFFIX, OUT, X

Forward: TypeAlias = "Callable[[BodyContext], str | Mapping[str, str]]"
"""Emits an operator as simpler operators; returns its float output, or several outputs by slot."""

Derivative: TypeAlias = Callable[[BodyContext], str]
"""Emits the derivative of an element-wise function; returns the variable."""


def linear_in(slot: str, **attrs: Any) -> GradientRule:
    """Return the gradient rule of an operator that is linear in one input.

    The gradient of its gradient is the operator itself, applied to the gradient of ``<slot>_grad``.

    Parameters
    ----------
    slot : str
        The input. No other input may have a gradient, and the operator must have one float output.
    **attrs
        Attributes to change for this, such as ``value=0.0`` for padding.
    """

    def rule(g: GradientContext) -> None:
        type = g.type.removesuffix(GRAD_SUFFIX)
        inputs: dict[str, Any] = {
            name: g.inputs(name)
            for name, var in g.proto.input_slots.items()
            if not var.shape_only and not name.endswith(GRAD_SUFFIX)
        }
        inputs[slot] = g.filled_output_grads(grad_name(slot))
        (grads,) = [name for name in g.proto.input_slots if name.endswith(GRAD_SUFFIX)]
        out = grads.removesuffix(GRAD_SUFFIX)
        results = g.emit_multi(type, inputs, {out: len(g.inputs(grads))}, {**g.attrs, **attrs})
        for index, name in enumerate(results[out]):
            g.set_input_grad(grads, name, index)
        for index in range(len(g.inputs(slot))):
            g.set_input_grad(slot, None, index)

    return rule


def same_again(g: GradientContext) -> None:
    """Differentiate the gradient of a piecewise linear element-wise function.

    The derivative is piecewise constant, so the second gradient with respect to ``out_grad`` is the
    gradient operator again, and zero with respect to all other inputs.
    """
    inputs: dict[str, Any] = {name: g.inputs(name) for name in g.proto.input_slots}
    (grads,) = [name for name in g.proto.input_slots if name.endswith(GRAD_SUFFIX)]
    parts = []
    for slot in g.proto.outputs:
        given = g.output_grad(slot.name)
        if given is not None:
            inputs[grads] = given
            parts.append(g.emit(g.type, inputs, {slot.name: 1}, g.attrs))
    for slot in g.proto.inputs:
        for index in range(len(g.inputs(slot.name))):
            if slot.name != grads:
                g.set_input_grad(slot.name, None, index)
    total = parts[0] if len(parts) == 1 else g.emit(ADD_N, {X: parts})
    g.set_input_grad(grads, total)


class Composition:
    """The body of a gradient operator, which replaces it when it is differentiated.

    Attributes
    ----------
    reads : tuple of str
        Inputs whose data the body reads, although kernels read only their shapes.
    """

    __slots__ = ("_write", "reads")

    def __init__(self, write: Body, reads: Sequence[str] = ()) -> None:
        self._write = write
        self.reads = tuple(reads)

    def __call__(self, b: BodyContext) -> bool | None:
        """Emit the operators."""
        return self._write(b)


def by_derivative(derivative: Derivative, reads: Sequence[str] = ()) -> Composition:
    """Return the composition ``x_grad = out_grad * derivative`` of an element-wise ``x -> out``.

    `reads` is the argument of `by_differentiating`.
    """

    def write(b: BodyContext) -> None:
        factors = {X: b.input("out_grad"), "y": derivative(b)}
        b.emit("multiply", factors, {OUT: b.outputs("x_grad")})

    return Composition(write, reads)


def by_differentiating(forward: Forward, reads: Sequence[str] = ()) -> Composition:
    """Return the composition of a gradient, derived from a composition of the forward operator.

    Parameters
    ----------
    forward : callable
        Emits the forward operator as simpler differentiable operators, from the inputs of the
        gradient operator, which have the same names as in the forward operator. It returns the name
        of the variable for ``out``, or a mapping for several slots.
    reads : sequence of str
        Inputs that it reads in addition to the inputs that gradient kernels need.
    """

    def write(b: BodyContext) -> None:
        tape = _Tape(b)
        outputs = forward(BodyContext(b.op, b.proto, tape))
        results = {OUT: outputs} if isinstance(outputs, str) else dict(outputs)
        grads = {
            name: grad
            for slot, name in results.items()
            if (grad := b.input(grad_name(slot))) is not None
        }
        pairs = _pair_inputs(b)
        input_grads = tape.differentiate(grads, [name for name, _ in pairs])
        for name, output in pairs:
            if name in input_grads:
                b.emit(ASSIGN, {X: input_grads[name]}, {OUT: output})
            else:
                b.emit(FILL_LIKE, {X: name}, {OUT: output}, {"value": 0.0})

    return Composition(write, reads)


def _pair_inputs(b: BodyContext) -> list[tuple[str, str]]:
    """Return pairs of a forward input and the output with its gradient."""
    return [
        pair
        for slot in b.proto.outputs
        for pair in zip(
            b.inputs(slot.name.removesuffix(GRAD_SUFFIX)), b.outputs(slot.name), strict=False
        )
    ]


class _Tape:
    """Forwards the operators that a composition emits to an emitter, and differentiates them."""

    def __init__(self, b: BodyContext) -> None:
        self._emitter: Any = b.emitter
        self._written: list[tuple[OpDefinition, RuleOperator]] = []
        self._is_recording = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._emitter, name)  # block, program, meta, find_definition

    def emit(
        self,
        type: str,
        inputs: dict[str, tuple[str, ...]],
        outputs: dict[str, tuple[str, ...] | int],
        attrs: dict[str, Any],
    ) -> dict[str, list[str]]:
        """Emit one operator; see `opwright.describe.rule_context.Emitter`."""
        names: dict[str, list[str]] = self._emitter.emit(type, inputs, outputs, attrs)
        if self._is_recording:
            definition = self.find_definition(type)
            bound, marked = bind_operands(definition.proto, inputs, attrs, self.meta)
            filled = name_operands(bound, definition.proto.fill_attrs(marked, bound))
            self._written.append((definition, RuleOperator(type, inputs, names, filled)))
        return names

    def differentiate(self, grads: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
        """Emit the gradients of `names` from the gradients of the emitted operators.

        Raises GradientError if an operator on a path has no rule.
        """
        self._is_recording = False
        needed = self._find_needed(names)
        partials: dict[str, list[str]] = {name: [grad] for name, grad in grads.items()}
        for definition, op in reversed(self._written):
            given = {
                slot: [self._close(partials, name) for name in names]
                for slot, names in op.outputs.items()
            }
            slots = definition.proto.read_slots
            flags = {
                slot: [name in needed and not slots[slot].shape_only for name in names]
                for slot, names in op.inputs.items()
            }
            if any(map(any, given.values())) and any(map(any, flags.values())):
                self._apply(definition, op, given, flags, partials)
        closed = {name: self._close(partials, name) for name in names}
        return {name: grad for name, grad in closed.items() if grad is not None}

    def _find_needed(self, names: Sequence[str]) -> set[str]:
        needed = set(names)
        for definition, op in self._written:
            slots = definition.proto.read_slots
            reads = (n for s, names in op.inputs.items() if not slots[s].shape_only for n in names)
            if not isinstance(definition.gradient, NoGradient) and not needed.isdisjoint(reads):
                needed.update(name for names in op.outputs.values() for name in names)
        return needed

    def _apply(
        self,
        definition: OpDefinition,
        op: RuleOperator,
        given: Mapping[str, Sequence[str | None]],
        flags: Mapping[str, Sequence[bool]],
        partials: dict[str, list[str]],
    ) -> None:
        rule = definition.gradient
        if not callable(rule):
            raise GradientError(
                f"{op.type}: an operator in the composition of a gradient must have a gradient "
                "rule, got none; write the composition with other operators"
            )
        context = GradientContext(op, definition.proto, self, given, flags)
        rule(context)
        context.check_complete()
        for (slot, index), name in context.input_grads.items():
            if name is not None:
                partials.setdefault(op.inputs[slot][index], []).append(name)

    def _close(self, partials: dict[str, list[str]], name: str) -> str | None:
        """Return the sum of a variable's gradients, or None if it has no gradient."""
        listed = partials.pop(name, None)
        if listed is None:
            return None
        if len(listed) == 1:
            return listed[0]
        return self.emit(ADD_N, {X: tuple(listed)}, {}, {})[OUT][0]


def composition_reads(definition: OpDefinition) -> Sequence[str]:
    """Return the shape-only inputs whose data the composition of a gradient reads."""
    body = definition.body
    return body.reads if isinstance(body, Composition) else ()
