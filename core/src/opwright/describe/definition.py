"""`OpDefinition` contains everything that the core needs of an operator, for fast access."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from opwright.describe.attribute_values import AttrType
from opwright.describe.control import Control
from opwright.describe.dtypes import is_float
from opwright.describe.meta import BlockMetas, InferContext, Meta
from opwright.describe.op_proto import AttrValue, OpProto, VarProto
from opwright.describe.rule_context import BodyContext, GradientContext
from opwright.errors import DtypeError, OpwrightError, ShapeError, SlotError
from opwright.foreign import describe_error
from opwright.records import NamedTuple
from opwright.vocabulary import STEP_SLOT

T = TypeVar("T")

InferShape: TypeAlias = Callable[[InferContext], None]
GradientRule: TypeAlias = "Callable[[GradientContext], None]"
Body: TypeAlias = "Callable[[BodyContext], bool | None]"
Upgrade: TypeAlias = Callable[[dict[str, Any], int], dict[str, Any]]
"""Upgrades ``{"inputs": {slot: names}, "outputs": …, "attrs": …}`` of the given older version."""

CountOutputs: TypeAlias = Callable[[InferContext], int]
"""Returns the number of variables of the only duplicable output for input metas and attributes."""

Unchanged: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Returns whether aliased inputs keep their values with these attributes."""

SlotMetas: TypeAlias = tuple[tuple[Meta, ...], ...]
"""The metas of all variables, slot by slot, in the order of the OpProto; () for absent slots."""

_DtypeSource: TypeAlias = tuple[int, str | None, str | None]
"""The index of an input slot or -1, an attribute name, and a dtype; at most one of them is set."""

MAX_OUTPUTS: Final = 1 << 16
"""Maximum number of variables that an attribute may request for a slot; creating them takes 1 s."""


class NoGradient(NamedTuple):
    """Declares that an operator intentionally has no gradient, with the reason."""

    reason: str


class OpDefinition:
    """An operator with its OpProto, shape inference, gradient rule, and body or control flow.

    Attributes
    ----------
    proto : OpProto
        Its slots and attributes.
    infer_shape, gradient, body, control, random, upgrade, count_outputs, effect, unchanged,
    plan_only
        As given to `OpMaker.build`.
    forward : str or None
        The operator type of which this is the derived gradient, see `grad_op`.
    deprecated : dict of str to str
        Maps former names of slots and attributes to their current names.
    alias_slots : tuple of (int, int)
        Positions of each output slot that works in place, and of the input slot it overwrites.
    any_shape_only : bool
        Whether only the shape of some input is read.
    any_intermediate : bool
        Whether some output exists only for the gradient.
    numbers : tuple of str
        The FLOAT and FLOATS attributes, if a dtype selects the kernel, which computes with them.
    """

    __slots__ = (
        *("_input_rules", "_output_sources", "alias_slots", "any_intermediate", "any_shape_only"),
        *("attr_names", "body", "control", "count_outputs", "deprecated", "effect", "forward"),
        *("gradient", "infer_shape", "input_index", "numbers", "op_type", "output_index"),
        *("plan_only", "proto", "random", "unchanged", "upgrade"),
    )

    def __init__(
        self,
        proto: OpProto,
        infer_shape: InferShape,
        gradient: GradientRule | NoGradient | None = None,
        *,
        body: Body | None = None,
        control: Control | None = None,
        random: bool = False,
        upgrade: Upgrade | None = None,
        count_outputs: CountOutputs | None = None,
        effect: bool = False,
        unchanged: Unchanged | None = None,
        plan_only: bool = False,
        forward: str | None = None,
        deprecated: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.proto = proto
        self.infer_shape = infer_shape
        self.gradient = gradient
        self.body = body
        self.control = control
        self.random = random
        self.upgrade = upgrade
        self.count_outputs = count_outputs
        self.effect = effect
        self.unchanged = unchanged
        self.plan_only = plan_only
        self.forward = forward
        self.deprecated = deprecated
        self.op_type = proto.type
        self.input_index = {slot.name: i for i, slot in enumerate(proto.inputs)}
        self.output_index = {slot.name: i for i, slot in enumerate(proto.outputs)}
        self.any_shape_only = any(slot.shape_only for slot in proto.inputs)
        self.any_intermediate = any(slot.intermediate for slot in proto.outputs)
        self.alias_slots = tuple(
            (i, self.input_index[slot.aliases])
            for i, slot in enumerate(proto.outputs)
            if slot.aliases is not None
        )
        self.attr_names = frozenset(proto.attr_protos)
        self._input_rules = tuple(
            (i, slot, _find_source(slot, self.input_index))
            for i, slot in enumerate(proto.inputs)
            if slot.same_as is not None or slot.dtypes
        )
        # Kernels compute with these attributes in the dtype that selects the kernel.
        self.numbers = tuple(
            attr.name
            for attr in proto.attrs
            if attr.type.element is AttrType.FLOAT and proto.dispatch_slot
        )
        self._output_sources = tuple(_find_source(slot, self.input_index) for slot in proto.outputs)

    def __repr__(self) -> str:
        return f"OpDefinition({self.op_type!r})"

    def rename(self, given: Mapping[str, T], warns: bool = True) -> dict[str, T]:
        """Return the given slots or attributes under their current names.

        Raises SlotError if an argument is given under both names.
        """
        renamed: dict[str, T] = {}
        for name, value in given.items():
            new = self.deprecated.get(name, name)
            if new != name:
                if new in given:
                    raise SlotError(
                        f"{self.op_type}: {new!r} must be given once, got it also under "
                        f"its former name {name!r}; give only {new}="
                    )
                if warns:
                    message = f"{self.op_type}: {name!r} is deprecated; write {new!r}"
                    warnings.warn(message, DeprecationWarning, stacklevel=3)
            renamed[new] = value
        return renamed

    def leaves_inputs(self, attrs: Mapping[str, Any]) -> bool:
        """Whether an operator with these attributes leaves all inputs unchanged."""
        return not self.alias_slots or (self.unchanged is not None and self.unchanged(attrs))

    def output_dtype(self, index: int, inputs: SlotMetas, attrs: Mapping[str, Any]) -> str | None:
        """Return the dtype of an output, or None if the OpProto does not determine it."""
        return _read_source(self._output_sources[index], inputs, attrs)

    def dispatch_dtype(self, inputs: SlotMetas, attrs: Mapping[str, Any]) -> str:
        """Return the dtype that selects the kernel.

        Parameters
        ----------
        inputs : tuple of tuple of Meta
            Slot by slot, in the order of the OpProto.
        attrs : mapping
            Complete attributes.
        """
        name = self.proto.dispatch_slot
        dtype = _read_source((self.input_index.get(name, -1), name, None), inputs, attrs)
        if dtype is None:
            raise DtypeError(
                f"{self.op_type}: {name!r} must be given to select the kernel, got none; pass it"
            )
        return str(dtype)

    def infer(
        self,
        inputs: SlotMetas,
        attrs: Mapping[str, AttrValue],
        outputs_present: tuple[int, ...],
        blocks: BlockMetas | None = None,
    ) -> SlotMetas:
        """Return the metas of all outputs of one operator.

        Parameters
        ----------
        inputs : tuple of tuple of Meta
            Slot by slot in the order of the OpProto, () for an absent slot; every rank is known.
        attrs : mapping
            Complete attributes, as `OpProto.fill_attrs` gives them.
        outputs_present : tuple of int
            The number of variables in each output slot.
        blocks : callable, optional
            Returns the metas of variables of a block, for operators with BLOCK attributes.

        Raises
        ------
        DtypeError
            If inputs break the rules of dtypes.
        AttributeValueError
            For a finite FLOAT attribute that the kernel's float dtype cannot represent.
        ShapeError
            If shapes do not fit, or an output does not get a shape.
        """
        if self._input_rules:
            self._check_dtypes(inputs, attrs)
        ctx = InferContext(self, inputs, attrs, outputs_present, blocks)
        if self.numbers and is_float(dtype := self.dispatch_dtype(inputs, attrs)):
            for name in self.numbers:
                if attrs.get(name) is not None:
                    ctx.require_held(name, dtype)
        if self.random:
            _check_step(ctx)
        try:
            self.infer_shape(ctx)
        except OpwrightError:
            raise
        except Exception as error:
            raise ShapeError(
                f"{self.op_type}: infer_shape must accept the inputs or give a reason, "
                f"got {describe_error(error)}, for "
                + ", ".join(f"{s.name} {m}" for s, ms in zip(self.proto.inputs, inputs) for m in ms)
            ) from error
        outputs = ctx.outputs
        if None in outputs:
            unset = self.proto.outputs[outputs.index(None)].name
            raise ShapeError(
                f"{self.op_type}: infer_shape must set output {unset!r}, got nothing; "
                "call ctx.set_output"
            )
        return tuple(outputs)  # type: ignore[arg-type]  # none of them is None

    def output_counts(self, inputs: SlotMetas, attrs: Mapping[str, AttrValue]) -> tuple[int, ...]:
        """Return the number of variables of each output slot if the caller does not name them.

        A required slot gets one variable, and a duplicable slot as many as `count_outputs` returns.
        An optional slot gets no variable, an aliased output as many variables as its input.

        Raises
        ------
        SlotError
            If the number of variables of a duplicable output is unknown, or exceeds `MAX_OUTPUTS`.
        """
        counts = []
        for slot in self.proto.outputs:
            if slot.optional or not slot.duplicable:
                source = inputs[self.input_index[slot.aliases]] if slot.aliases else ()
                counts.append(len(source) if slot.optional else 1)
                continue
            if self.count_outputs is None:
                raise SlotError(
                    f"{self.op_type}: the number of {slot.name!r} must be given, got no names; "
                    "append the operator with a list of output variables"
                )
            ctx = InferContext(self, inputs, attrs, (0,) * len(self.output_index), None)
            count = self.count_outputs(ctx)
            if not 0 <= count <= MAX_OUTPUTS:
                raise SlotError(
                    f"{self.op_type}: {slot.name} must have at most {MAX_OUTPUTS} variables, got "
                    f"{count}; make fewer, in several steps"
                )
            counts.append(count)
        return tuple(counts)

    def infer_dtypes(
        self, inputs: SlotMetas, attrs: Mapping[str, AttrValue], outputs_present: tuple[int, ...]
    ) -> tuple[str | None, ...]:
        """Return the dtype of each output slot, using only the rules of the OpProto.

        Shapes are not used, so inputs of unknown rank are allowed. The dtype is None if the OpProto
        does not determine it, and for absent outputs.
        """
        self._check_dtypes(inputs, attrs)
        return tuple(
            self.output_dtype(index, inputs, attrs) if count else None
            for index, count in enumerate(outputs_present)
        )

    def _check_dtypes(self, inputs: SlotMetas, attrs: Mapping[str, Any]) -> None:
        for index, slot, source in self._input_rules:
            expected = None if slot.same_as is None else _read_source(source, inputs, attrs)
            for meta in inputs[index]:
                if expected is not None and meta.dtype != expected:
                    raise DtypeError(
                        f"{self.op_type}: {slot.name} must have the dtype of "
                        f"{slot.same_as}, {expected}, got {meta.dtype}; cast one of them"
                    )
                if slot.dtypes and meta.dtype not in slot.dtypes:
                    raise DtypeError(
                        f"{self.op_type}: {slot.name} must be {' or '.join(slot.dtypes)}, "
                        f"got {meta.dtype}"
                    )

    def check_slots(
        self, inputs: Mapping[str, Sequence[Any]], outputs: Mapping[str, Sequence[Any]]
    ) -> None:
        """Check that each slot exists and has a number of variables that its VarProto allows.

        Parameters
        ----------
        inputs, outputs : mapping
            Slot to a list of variables or names; an absent slot is missing or empty.

        Raises
        ------
        SlotError
            For an unknown slot, with a similar name, and for an alias whose variables differ.
        """
        self._check_side("input", self.proto.read_slots, inputs)
        self._check_side("output", self.proto.output_slots, outputs)
        if self.proto.outputs and not any(outputs.values()):
            raise SlotError(f"{self.op_type}: an output must be given, got none; name one")
        for slot in self.proto.outputs if self.alias_slots else ():
            written = list(outputs.get(slot.name, ()))
            if slot.aliases is None or not written:
                continue
            read = list(inputs.get(slot.aliases, ()))
            if written != read:
                raise SlotError(
                    f"{self.op_type}: output {slot.name!r} must be the variable of input "
                    f"{slot.aliases!r}, got {written} and {read}; give both slots the same variable"
                )

    def _check_side(
        self, side: str, slots: Mapping[str, VarProto], given: Mapping[str, Sequence[Any]]
    ) -> None:
        for name in given:
            if name not in slots:
                self.proto.get_slot(slots, name, side)
        for name, slot in slots.items():
            count = len(given.get(name, ()))
            if count == 1 or (count and slot.duplicable) or (not count and slot.optional):
                continue
            if not count:
                raise SlotError(
                    f"{self.op_type}: {side} {name!r} is required, got none; give {name}="
                )
            raise SlotError(
                f"{self.op_type}: {side} {name!r} takes one variable, got {count}; give only one"
            )


def _check_step(ctx: InferContext) -> None:
    for meta in ctx.inputs(STEP_SLOT):
        if any(dim not in (1, -1) for dim in meta.shape):  # kernels read one number
            ctx.fail(f"{STEP_SLOT} must have one element, got {meta}; give the number of the run")


def _find_source(slot: VarProto, places: Mapping[str, int]) -> _DtypeSource:
    """Return the source of a slot's dtype; `places` are the indices of input slots."""
    source = slot.same_as
    if source is None:
        return -1, None, slot.dtypes[0] if len(slot.dtypes) == 1 else None
    return (places[source], None, None) if source in places else (-1, source, None)


def _read_source(source: _DtypeSource, inputs: SlotMetas, attrs: Mapping[str, Any]) -> str | None:
    """Return the dtype that a source determines for these inputs and attributes, or None."""
    index, attr, dtype = source
    if index >= 0:
        return inputs[index][0].dtype if inputs[index] else None
    return dtype if attr is None else attrs.get(attr)
