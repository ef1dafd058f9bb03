"""Walks from the targets back through the operators, calls gradient rules and sums the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opwright.backward.branches import differentiate_branch
from opwright.backward.emitting import GradientEmitter
from opwright.backward.loops import differentiate_loop
from opwright.backward.routing import ForwardOp, Key, Route
from opwright.describe.control import Branch, Loop
from opwright.describe.meta import shapes_match
from opwright.describe.rule_context import GradientContext
from opwright.errors import GradientError, OpwrightError
from opwright.foreign import describe_error
from opwright.program.building import infer_outputs
from opwright.vocabulary import ADD_N, ASSIGN, FILL_LIKE, GRAD_SUFFIX, OUT, X

OutputGrads = dict[str, list[str | None]]
Wanted = dict[str, list[bool]]
InputGrads = dict[tuple[str, int], "str | None"]
"""By slot and position."""


class Walk:
    """One walk over the operators of a block, from last to first.

    The names of gradients begin with `prefix` in the body of a control-flow operator.
    """

    def __init__(self, route: Route, prefix: str = "") -> None:
        self.route = route
        self.prefix = prefix
        self.block = route.block
        self.emitter = GradientEmitter(route.block, route.versions)
        self.grads: dict[Key, str] = {}  # gradients of wanted values, each a separate variable
        self.reasons: list[str] = []  # why control flow lacks a wanted gradient
        self.sums: dict[str, str] = {}  # initial gradient sums of captured variables, instead of 0
        self._wanted = frozenset(route.wanted.values())
        self._partials: dict[Key, list[str]] = {}

    def collect(self, inner: Walk, forward: ForwardOp) -> tuple[dict[str, str], set[str]]:
        """Return the gradients of a walk over a body, by name, and the names without a gradient.

        The reasons for missing gradients are added to `reasons`.
        """
        grads, blocked = {}, set()
        self.reasons.extend(inner.reasons)
        for name, key in inner.route.wanted.items():
            if key in inner.grads:
                grads[name] = inner.grads[key]
                continue
            for blocking, stop in inner.route.paths.find_blocks(key):
                blocked.add(name)
                self.reasons.append(f"{name!r} in {forward}: {blocking}: {stop.reason}")
        return grads, blocked

    def seed(self, target: Key, given: str | None = None) -> None:
        """Set the gradient of a target to a given variable, or to ones."""
        self.emitter.prefix = self.prefix + target.name + GRAD_SUFFIX
        type, source, attrs = FILL_LIKE, target.name, {"value": 1.0}
        if given is not None:
            type, source, attrs = ASSIGN, given, {}
        grad = self.emitter.emit(type, {X: [source]}, {OUT: 1}, attrs)
        self.add(target, grad[OUT][0])

    def add(self, key: Key, grad: str) -> None:
        """Add a variable as one term of the gradient of a value."""
        self._partials.setdefault(key, []).append(grad)

    def run(self) -> None:
        """Differentiate the operators of the route and sum all wanted gradients."""
        needed = self.route.needed
        for forward in reversed(self.route.path):
            grads = {
                slot: [self._close(key) for key in keys] for slot, keys in forward.writes.items()
            }
            slots = forward.op.definition.proto.read_slots
            wanted = {
                slot: [key in needed and not slots[slot].shape_only for key in keys]
                for slot, keys in forward.reads.items()
            }
            if any(map(any, grads.values())) and any(map(any, wanted.values())):
                self._differentiate(forward, grads, wanted)
        for key in sorted(self._partials):
            self._close(key)

    def _differentiate(self, forward: ForwardOp, grads: OutputGrads, wanted: Wanted) -> None:
        definition = forward.op.definition
        self.emitter.forward = forward
        self.emitter.prefix = self.prefix + forward.first_output + GRAD_SUFFIX
        input_grads: Mapping[tuple[str, int], str | None]
        if callable(definition.gradient):
            input_grads = self._call_rule(definition.gradient, forward, grads, wanted)
        elif isinstance(definition.control, Branch):
            input_grads = differentiate_branch(self, forward, definition.control, grads, wanted)
        elif isinstance(definition.control, Loop) and definition.control.stacks:
            input_grads = differentiate_loop(self, forward, definition.control, grads, wanted)
        else:
            raise GradientError(_explain_no_rule(forward))
        for (slot, index), name in input_grads.items():
            if name is not None:
                self._accept(forward, slot, index, name)

    def _call_rule(
        self,
        rule: Callable[[GradientContext], None],
        forward: ForwardOp,
        grads: OutputGrads,
        wanted: Wanted,
    ) -> Mapping[tuple[str, int], str | None]:
        proto = forward.op.definition.proto
        context = GradientContext(forward.described(), proto, self.emitter, grads, wanted)
        try:
            rule(context)
            context.check_complete()
        except OpwrightError as error:
            error.add_note(f"in the gradient rule of {forward}")
            raise
        except Exception as error:
            reason = describe_error(error)
            self.check_forward(forward)
            raise GradientError(
                f"{forward}: its gradient rule must not raise, got {reason}"
            ) from error
        return context.input_grads

    def check_forward(self, forward: ForwardOp) -> None:
        """Infer the operator's shapes to detect errors: shapes in program files are unchecked."""
        op, var = forward.op, self.block.var
        inputs = {slot: list(map(var, names)) for slot, names in op.inputs.items()}
        infer_outputs(self.block, op.definition, inputs, op.attrs, op.outputs)

    def _accept(self, forward: ForwardOp, slot: str, index: int, name: str) -> None:
        """Add the gradient of an input, after checking that it fits."""
        key = forward.reads[slot][index]
        self.emitter.check_unchanged(name, "assign")
        variable, grad = self.block.var(key.name), self.block.var(str(name))
        a, b = variable.shape, grad.shape
        if grad.dtype != variable.dtype or not (a is None or b is None or shapes_match(a, b)):
            raise GradientError(
                f"{forward}: the gradient of {slot} must fit {variable!r}, got {grad!r}; fix the "
                "rule: 'sum_like' undoes broadcasting, 'cast' a change of dtype"
            )
        self.add(key, str(name))

    def _close(self, key: Key) -> str | None:
        """Sum and name the gradients that were added for a value; return None if there are none."""
        partials = self._partials.pop(key, None)
        if partials is None:
            return None
        names = [self.emitter.current_name(name) for name in partials]
        final = self.prefix + key.name + GRAD_SUFFIX
        if len(names) == 1:
            grad = self.emitter.rename(names[0], final)
            if grad is None:  # it is also the gradient of another value
                is_wanted = key in self._wanted
                grad = self._emit_last(ASSIGN, names, final) if is_wanted else names[0]
        else:
            for index, name in enumerate(names):
                self.emitter.rename(name, f"{final}/{index}")
            grad = self._emit_last(ADD_N, list(map(self.emitter.current_name, names)), final)
        if key in self._wanted:
            self.grads[key] = grad
        return grad

    def _emit_last(self, type: str, names: list[str], final: str) -> str:
        free = self.block.program.free_name(final)
        self.emitter.emit(type, {X: names}, {OUT: (free,)}, {})
        return free


def _explain_no_rule(forward: ForwardOp) -> str:
    """Return the error message for an operator without a gradient rule."""
    flowing = ", ".join(repr(key.name) for key in forward.data_reads())
    once = forward.op.definition.forward
    if once is None:
        return (
            f"{forward}: has no gradient rule, but a gradient must flow through it to {flowing}; "
            "give it one when it is built, declare no_gradient(reason), or set stop_gradient"
        )
    return (
        f"{forward}: {once!r} can be differentiated once, but a gradient of its gradient must "
        f"flow to {flowing}; write {once!r} with other operators, set stop_gradient on its first "
        "gradient, or ask for parameters that the target does not reach through it"
    )
