"""The contexts with which gradient rules and composite bodies read an operator and emit others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from opwright.describe.meta import Meta
from opwright.describe.op_proto import OpProto
from opwright.describe.operands import name_operands
from opwright.errors import AttributeValueError, GradientError, SlotError
from opwright.messages.names import hint
from opwright.records import NamedTuple
from opwright.vocabulary import ASSIGN, FILL_LIKE, GRAD_SUFFIX, OUT, STEP_SLOT, X

Names: TypeAlias = "str | Sequence[str | None] | None"
"""The variables that a rule assigns to a slot: one name, a list of names, or None for absent."""

Results: TypeAlias = "str | Sequence[str] | int | None"
"""The variables that a rule writes: names, or the number of fresh variables; None for absent."""


class Emitter(Protocol):
    """Emits the operators of a rule; provided by the caller of the rule."""

    @property
    def block(self) -> Any:
        """The block that operators are written to."""

    @property
    def program(self) -> Any:
        """Its program."""

    def emit(
        self,
        type: str,
        inputs: dict[str, tuple[str, ...]],
        outputs: dict[str, tuple[str, ...] | int],
        attrs: dict[str, Any],
    ) -> dict[str, list[str]]:
        """Emit one operator and return the names of its outputs, slot by slot in order.

        An int in `outputs` is a number of fresh variables. Missing arguments are completed by
        `opwright.program.completion.complete_operator`. An empty list for the step of a random
        operator means that the operator has no step.
        """

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable; None if its rank is unknown."""


class RuleOperator(NamedTuple):
    """The operator that a rule reads, with names by slot; absent slots are missing or empty."""

    type: str
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]
    attrs: Mapping[str, Any]  # complete


class RuleContext:
    """The common part of the contexts below: reads one operator and emits other operators."""

    __slots__ = ("attrs", "emitter", "op", "proto", "type")

    def __init__(self, op: RuleOperator, proto: OpProto, emitter: Emitter) -> None:
        self.op = op
        self.proto = proto
        self.type = op.type
        self.attrs = name_operands(op.inputs, op.attrs)
        self.emitter = emitter

    @property
    def block(self) -> Any:
        """The block that operators are written to."""
        return self.emitter.block

    @property
    def program(self) -> Any:
        """The program of that block."""
        return self.emitter.program

    def attr(self, name: str) -> Any:
        """Return an attribute of the operator, or None if it is absent.

        An operand has variable names in place of unknown numbers; `emit` accepts these names, too.
        """
        value = self.attrs.get(name)
        if value is None and name not in self.proto.attr_protos:
            known = hint(name, self.proto.attr_protos, "attributes")
            raise AttributeValueError(f"{self.type}: unknown attribute, got {name!r}{known}")
        return value

    def has_input(self, slot: str) -> bool:
        """Return whether an optional input was given."""
        return bool(self.inputs(slot))

    def input(self, slot: str) -> str | None:
        """Return the variable name of an input slot, or None if it is absent."""
        return next(iter(self.inputs(slot)), None)

    def inputs(self, slot: str) -> list[str]:
        """Return the variable names of an input slot, or an empty list if it is absent."""
        if slot not in self.op.inputs:
            self.proto.input(slot)  # SlotError for an unknown one
        return list(self.op.inputs.get(slot, ()))

    def output(self, slot: str) -> str | None:
        """Return the variable name of an output slot, or None if it is absent."""
        return next(iter(self.outputs(slot)), None)

    def outputs(self, slot: str) -> list[str]:
        """Return the variable names of an output slot, or an empty list if it is absent."""
        if slot not in self.op.outputs:
            self.proto.output(slot)  # SlotError for an unknown one
        return list(self.op.outputs.get(slot, ()))

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable; None if its rank is unknown."""
        return self.emitter.meta(name)

    def emit(
        self,
        type: str,
        inputs: Mapping[str, Names],
        outputs: Mapping[str, Results] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> str:
        """Emit one operator and return the name of its first output.

        Parameters
        ----------
        type : str
            The operator type.
        inputs : mapping
            Slot to a name, a list of names, or None if absent.
        outputs : mapping, optional
            Slot to a name or a list of names, or a number of fresh variables. A required slot that
            is missing gets a fresh variable, or for a list as many variables as ``count_outputs``
            returns; an aliased output is the variable of its input.
        attrs : mapping, optional
            Attributes; defaults are filled in.
        """
        results = self.emit_multi(type, inputs, outputs, attrs)
        return next(names[0] for names in results.values() if names)

    def emit_multi(
        self,
        type: str,
        inputs: Mapping[str, Names],
        outputs: Mapping[str, Results] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> dict[str, list[str]]:
        """Emit one operator and return the names of all its outputs, slot by slot."""
        named = {slot: self._as_names(type, slot, names) for slot, names in inputs.items()}
        present = {slot: names for slot, names in named.items() if names or slot == STEP_SLOT}
        results: dict[str, tuple[str, ...] | int] = {
            slot: result if isinstance(result, int) else self._as_names(type, slot, result)
            for slot, result in (outputs or {}).items()
            if result is not None
        }
        return self.emitter.emit(type, present, results, dict(attrs or {}))

    def _as_names(self, type: str, slot: str, names: object) -> tuple[str, ...]:
        if names is None:
            return ()
        is_list = isinstance(names, Iterable) and not isinstance(names, str)
        listed: tuple[Any, ...] = tuple(names) if is_list else (names,)  # type: ignore[arg-type]
        if None in listed:
            raise GradientError(
                f"{self.type}: its rule must give {slot!r} of {type!r} a list without None, "
                f"got {list(listed)}; write zeros with {FILL_LIKE!r}"
            )
        for name in listed:
            if not isinstance(name, str) or not name:
                raise SlotError(
                    f"{type}: {slot} must be a name, or a list of names, got {name!r} from the "
                    f"rule or body of {self.type}"
                )
        return listed


class GradientContext(RuleContext):
    """The context of a gradient rule: one forward operator, and the gradients of its outputs.

    A rule emits operators with `emit` and sets each gradient with `set_input_grad`. The caller then
    reads `input_grads`.
    """

    __slots__ = ("_asked", "_output_grads", "_wanted", "input_grads")

    def __init__(
        self,
        op: RuleOperator,
        proto: OpProto,
        emitter: Emitter,
        output_grads: Mapping[str, Sequence[str | None]],
        wanted: Mapping[str, Sequence[bool]],
    ) -> None:
        """Make the context of one call of a rule for the forward operator `op`.

        `output_grads` maps output slots to the gradient of each variable, None if it is zero;
        `wanted` maps input slots to whether the gradient of each variable is wanted.
        """
        super().__init__(op, proto, emitter)
        self._output_grads = output_grads
        self._wanted = wanted
        self._asked: set[str] = set()
        self.input_grads: dict[tuple[str, int], str | None] = {}
        """Gradients set so far, by (slot, index); None: declared to be zero."""

    def output_grad(self, slot: str) -> str | None:
        """Return the gradient name of an output, or None if the gradient is zero."""
        return next(iter(self.output_grads(slot)), None)

    def output_grads(self, slot: str) -> list[str | None]:
        """Return the gradients of an output slot's variables, with None for zero gradients."""
        self._asked.add(slot)
        grads = list(self._output_grads.get(slot, ()))
        return grads or [None] * len(self.outputs(slot))

    def wants(self, slot: str, index: int = 0) -> bool:
        """Return whether the gradient of an input is wanted; otherwise it need not be computed."""
        flags = self._wanted.get(slot, ())
        if index >= len(flags):
            self.proto.input(slot)
            return False
        return bool(flags[index])

    def wants_any(self, slot: str) -> bool:
        """Return whether the gradient of any variable of a slot is wanted."""
        return any(self.wants(slot, index) for index in range(len(self.inputs(slot))))

    def set_input_grad(self, slot: str, name: str | None, index: int = 0) -> None:
        """Set the gradient of an input; an unwanted gradient is skipped.

        Parameters
        ----------
        slot : str
            The input slot.
        name : str or None
            The variable with the gradient. None declares that the gradient is zero.
        index : int
            The index of the variable in a duplicable slot.
        """
        count = len(self.inputs(slot))
        if not 0 <= index < count:
            raise SlotError(
                f"{self.type}: its gradient rule sets the gradient of {slot!r}[{index}], "
                f"got {count} variable(s) there"
            )
        if (slot, index) in self.input_grads:
            raise GradientError(
                f"{self.type}: its gradient rule must set the gradient of {slot!r} once, "
                f"got {self.input_grads[slot, index]!r} and {name!r}; add them with 'add_n'"
            )
        if self.wants(slot, index):
            self.input_grads[slot, index] = name

    def check_complete(self) -> None:
        """Raise GradientError if the rule, which has been called, omitted a gradient.

        The rule must have set every wanted gradient, and read every nonzero output gradient;
        otherwise a term of the sum would silently be zero.
        """
        for slot, grads in self._output_grads.items():
            if slot not in self._asked and any(grad is not None for grad in grads):
                raise GradientError(
                    f"{self.type}: its gradient rule must use the gradient of output {slot!r}, "
                    f"got {list(grads)} unused; call g.output_grad or refuse it"
                )
        for slot, flags in self._wanted.items():
            for index, flag in enumerate(flags):
                if flag and (slot, index) not in self.input_grads:
                    which = f"{slot!r}[{index}]" if len(flags) > 1 else f"{slot!r}"
                    raise GradientError(
                        f"{self.type}: its gradient rule must set the gradient of {which}, "
                        "got none; call g.set_input_grad, with None if it is zero"
                    )

    def filled_output_grads(self, slot: str) -> list[str]:
        """Return the gradients of all variables of an output slot, with zeros materialized.

        The list is empty if all of them are zero.
        """
        grads = self.output_grads(slot)
        if all(grad is None for grad in grads):
            return []
        return [
            grad if grad is not None else self.emit(FILL_LIKE, {X: name}, attrs={"value": 0.0})
            for grad, name in zip(grads, self.outputs(slot), strict=True)
        ]


class BodyContext(RuleContext):
    """The context of a composite body; the body replaces an operator by simpler operators.

    Every output that is present must be written, by `set_output` or as an output of `emit`. A body
    reads the inputs and its own variables, and writes the outputs and fresh variables. A body does
    not have a block or program, and cannot emit operators with blocks or dynamic outputs, because
    it may be emitted into a plan, which does not support these.
    """

    __slots__ = ()

    def has_output(self, slot: str) -> bool:
        """Return whether an output is wanted."""
        return bool(self.outputs(slot))

    def set_output(self, slot: str, name: str, index: int = 0) -> None:
        """Copy a variable to the output; an unwanted output is skipped."""
        names = self.outputs(slot)
        if index < len(names):
            self.emit(ASSIGN, {X: name}, {OUT: names[index]})


def grad_name(slot: str) -> str:
    """Return the gradient name of a slot or operator type."""
    return slot + GRAD_SUFFIX
