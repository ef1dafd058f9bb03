"""The interface of one operator: its slots and attributes, as immutable plain objects.

The objects are the Python side of ``framework.proto``. Defaults and ranges are data, not functions,
so that validation, docstrings, the command line and generated tests can all use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NoReturn

from opwright.describe.attr_proto import AttrProto, ProtoValue
from opwright.describe.attribute_values import AttrType, AttrValue, describe_type
from opwright.describe.dtypes import FLOAT_DTYPES
from opwright.describe.operands import check_rest
from opwright.describe.proto_rules import check_op_proto
from opwright.errors import AttributeValueError, SlotError
from opwright.messages.names import hint_argument

__all__ = ["AttrProto", "AttrType", "AttrValue", "OpProto", "VarProto", "can_be_float"]

_NO_INPUTS: Mapping[str, object] = {}


class VarProto(ProtoValue):
    """One slot of an operator, which holds input or output variables.

    Attributes
    ----------
    name, comment : str
        The name, and a description of shape and dtype.
    duplicable : bool
        Whether it takes a list of one or more variables.
    optional : bool
        Whether it may be absent.
    intermediate : bool
        Whether the slot is an output that only the gradient needs.
    shape_only : bool
        Whether the kernel reads only the shape of the input, so its buffer may be freed. The dtype
        stays known.
    dtypes : tuple of str
        The allowed dtypes; empty if any dtype is allowed.
    same_as : str or None
        The input slot, or the dtype attribute, that determines its dtype. If a duplicable slot
        names itself, all its variables have the dtype of the first variable.
    aliases : str or None
        For an output, the input slot that must have the same variable.
    """

    name: str
    comment: str
    duplicable: bool
    optional: bool
    intermediate: bool
    shape_only: bool
    dtypes: tuple[str, ...]
    same_as: str | None
    aliases: str | None
    _fields = (
        *("name", "comment", "duplicable", "optional", "intermediate", "shape_only", "dtypes"),
        *("same_as", "aliases"),
    )
    __slots__ = _fields  # a field of a named tuple takes longer to read, and lowering reads many

    def __init__(
        self,
        name: str,
        comment: str,
        duplicable: bool = False,
        optional: bool = False,
        intermediate: bool = False,
        shape_only: bool = False,
        dtypes: tuple[str, ...] = (),
        same_as: str | None = None,
        aliases: str | None = None,
    ) -> None:
        self._set(
            name=name,
            comment=comment,
            duplicable=duplicable,
            optional=optional,
            intermediate=intermediate,
            shape_only=shape_only,
            dtypes=dtypes,
            same_as=same_as,
            aliases=aliases,
        )


class OpProto(ProtoValue):
    """The interface of one operator; kernels get the slots in this order.

    Attributes
    ----------
    type, comment : str
        The operator type, and a paragraph for the documentation, with the formula.
    inputs, outputs : tuple of VarProto
        The slots.
    attrs : tuple of AttrProto
        The attributes, which share one name space with the slots.
    version : int
        Incremented when programs saved with an older version need an upgrade.
    dispatch : str or None
        The input slot or dtype attribute whose dtype selects the kernel; if it is None,
        `dispatch_slot` applies.
    dynamic_output : bool
        Whether the shapes of outputs depend on values, so the kernel resizes them.
    dispatch_slot : str
        `dispatch`, or if that is None, the first required input, or otherwise the first dtype
        attribute; empty if none of these exists.
    input_slots, output_slots : dict of str to VarProto
        The slots by name, in order.
    attr_protos : dict of str to AttrProto
        The attributes by name, in order.
    operands : dict of str to AttrProto
        The attributes in which variables may replace numbers.
    read_slots : dict of str to VarProto
        The input slots, and a slot for each of `operands`, which kernels do not see.
    has_blocks : bool
        Whether an attribute has the type BLOCK.
    """

    type: str
    comment: str
    inputs: tuple[VarProto, ...]
    outputs: tuple[VarProto, ...]
    attrs: tuple[AttrProto, ...]
    version: int
    dispatch: str | None
    dynamic_output: bool
    input_slots: Mapping[str, VarProto]
    output_slots: Mapping[str, VarProto]
    attr_protos: Mapping[str, AttrProto]
    operands: Mapping[str, AttrProto]
    read_slots: Mapping[str, VarProto]
    has_blocks: bool
    dispatch_slot: str
    # The name, the attribute, its default and whether it is required, for `fill_attrs`.
    _filling: tuple[tuple[str, AttrProto, AttrValue | None, bool], ...]
    _fields = (
        *("type", "comment", "inputs", "outputs", "attrs"),
        *("version", "dispatch", "dynamic_output"),
    )
    __slots__ = (
        *_fields,
        *("_filling", "attr_protos", "dispatch_slot", "has_blocks", "input_slots", "operands"),
        *("output_slots", "read_slots"),
    )

    def __init__(
        self,
        type: str,
        comment: str,
        inputs: Iterable[VarProto] = (),
        outputs: Iterable[VarProto] = (),
        attrs: Iterable[AttrProto] = (),
        version: int = 1,
        dispatch: str | None = None,
        dynamic_output: bool = False,
    ) -> None:
        self._set(
            type=type,
            comment=comment,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attrs=tuple(attrs),
            version=version,
            dispatch=dispatch,
            dynamic_output=dynamic_output,
        )
        required = (slot.name for slot in self.inputs if not slot.optional)
        dtypes = (attr.name for attr in self.attrs if attr.is_dtype)
        self._set(
            input_slots={slot.name: slot for slot in self.inputs},
            output_slots={slot.name: slot for slot in self.outputs},
            attr_protos={attr.name: attr for attr in self.attrs},
            operands={attr.name: attr for attr in self.attrs if attr.operand},
            has_blocks=any(attr.type is AttrType.BLOCK for attr in self.attrs),
            dispatch_slot=dispatch or next(chain(required, dtypes), ""),
            _filling=tuple((a.name, a, a.default, a.required) for a in self.attrs),
        )
        more = {
            name: VarProto(name, attr.comment, duplicable=True, optional=True, shape_only=True)
            for name, attr in self.operands.items()
        }
        self._set(read_slots={**self.input_slots, **more})

    def input(self, name: str) -> VarProto:
        """Return an input slot by name; SlotError, with a suggestion, if the name is unknown."""
        return self.get_slot(self.input_slots, name, "input")

    def output(self, name: str) -> VarProto:
        """Return an output slot by name; SlotError, with a suggestion, if the name is unknown."""
        return self.get_slot(self.output_slots, name, "output")

    def get_slot(self, slots: Mapping[str, VarProto], name: str, side: str) -> VarProto:
        """Return a slot by name; SlotError, with a suggestion, if the name is unknown."""
        if name not in slots:
            near = hint_argument(str(name), slots, f"{side}s")
            raise SlotError(f"{self.type}: unknown {side}, got {name!r}{near}")
        return slots[name]

    def attr(self, name: str) -> AttrProto:
        """Return an attribute by name; AttributeValueError, with a suggestion, if it is unknown."""
        self._check_known((name,))
        return self.attr_protos[name]

    def fill_attrs(
        self, attrs: Mapping[str, object], inputs: Mapping[str, object] = _NO_INPUTS
    ) -> dict[str, AttrValue]:
        """Return the complete attributes of one operator, checked, with defaults, and in order.

        Parameters
        ----------
        attrs : mapping
            The given values. None means not given.
        inputs : mapping, optional
            The given slots of the operator; operand slots provide the marked numbers.

        Returns
        -------
        dict
            Plain Python values in the order of the OpProto, without absent attributes.

        Raises
        ------
        AttributeTypeError, AttributeValueError
            For a value of a wrong type or range, an unknown name, or a missing required attribute.
        """
        filled: dict[str, AttrValue] = {}
        n_known = 0
        for name, attr, default, required in self._filling:
            if name in attrs:
                n_known += 1
                value = attrs[name]
                if value is not None:
                    if name in inputs:
                        value = check_rest(self.type, attr, value)
                    else:
                        value = attr.check(self.type, value)
                    filled[name] = value
                    continue
            if default is not None:
                filled[name] = default
            elif required:
                self._fail_required(attr, attrs)
        if n_known != len(attrs):
            self._check_known(attrs)
        return filled

    def _fail_required(self, attr: AttrProto, attrs: Mapping[str, object]) -> NoReturn:
        self._check_known(attrs)  # it may be misspelled
        kind = f"{describe_type(attr.type)} {attr.describe_range()}".rstrip()
        raise AttributeValueError(
            f"{self.type}: the attribute {attr.name!r} is required, got none; "
            f"give {attr.name}=, {kind}"
        )

    def _check_known(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.attr_protos:
                raise AttributeValueError(
                    f"{self.type}: unknown attribute, got {name!r}"
                    f"{hint_argument(str(name), self.attr_protos, 'attributes')}"
                )

    def to_proto(self) -> Any:
        """Return the protobuf message of this operator (`opwright.framework_pb2.OpProto`)."""
        from opwright.describe.wire import op_proto_to_bytes
        from opwright.framework_pb2 import OpProto as Message  # imports protobuf, 11 ms

        return Message.FromString(op_proto_to_bytes(self))

    @staticmethod
    def from_proto(message: Any) -> OpProto:
        """Convert a protobuf message, or its bytes, to an OpProto, and check all rules.

        Raises
        ------
        FormatError
            If the bytes are foreign, or a value does not have the type of its attribute.
        RegistrationError
            If the operator breaks a rule for operators.
        """
        from opwright.describe.wire_reading import read_op_proto

        data = message if isinstance(message, bytes) else message.SerializeToString()
        fields = read_op_proto(data)
        for side in ("inputs", "outputs"):
            fields[side] = [VarProto(**slot) for slot in fields[side]]
        fields["attrs"] = [AttrProto(**attr) for attr in fields["attrs"]]
        proto = OpProto(**fields)
        check_op_proto(proto)
        return proto


def can_be_float(proto: OpProto, slot: VarProto) -> bool:
    """Return whether a slot accepts a float dtype, and therefore can have a gradient."""
    seen = set()
    while slot.same_as is not None and slot.name not in seen and not slot.dtypes:
        seen.add(slot.name)
        attr = proto.attr_protos.get(slot.same_as)
        if attr is not None:
            return any(dtype in FLOAT_DTYPES for dtype in attr.allowed)
        slot = proto.input(slot.same_as)
    return not slot.dtypes or any(dtype in FLOAT_DTYPES for dtype in slot.dtypes)
