"""The slots and attributes of an operator, as immutable plain objects.

These are the Python side of ``framework.proto``. Defaults and ranges are data, not functions, so
that validation, docstrings, the command line and generated tests can all use them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from opwright.describe.attribute_values import (
    INT_MAX,
    INT_MIN,
    PYTHON_TYPES,
    AttrType,
    AttrValue,
    convert_value,
    describe_type,
    format_number,
)
from opwright.describe.dtypes import DTYPES, canonical_dtype
from opwright.describe.names import hint, hint_argument
from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError, SlotError

__all__ = ["AttrProto", "AttrType", "AttrValue", "OpProto", "VarProto"]

_DTYPE_NAMES = frozenset(DTYPES)


def _derived() -> Any:
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class AttrProto:
    """One attribute of an operator: its type, default and range.

    Attributes
    ----------
    name, comment : str
        The name, and one sentence for readers of the documentation.
    type : AttrType
        INT has 64 bits, FLOAT is a double; the value of a BLOCK is the index of a block.
    default : AttrValue or None
        The value where none is given; None where there is none.
    min, max : int, float or None
        Bounds of the value, or of each element of a list.
    min_exclusive, max_exclusive : bool
        Whether a bound itself is outside.
    allowed : tuple
        The only values, or elements, that may be given; empty: any.
    required : bool
        Whether a value must be given. An attribute that is not required and has no default may be
        absent; it is None then.
    length : int
        Of a list of numbers or bools: how many elements a single value stands for.
    """

    name: str
    comment: str
    type: AttrType
    default: AttrValue | None = None
    min: int | float | None = None
    max: int | float | None = None
    min_exclusive: bool = False
    max_exclusive: bool = False
    allowed: tuple[Any, ...] = ()
    required: bool = False
    length: int = 1
    # What `check` reads first: the type of a scalar, or of the elements of a list, and whether any
    # value is allowed.
    _exact: object = _derived()
    _element: object = _derived()
    _free: bool = _derived()

    def __post_init__(self) -> None:
        converted = convert_value(self.type, self.default)
        if converted is not None:
            object.__setattr__(self, "default", converted)
        object.__setattr__(self, "allowed", tuple(self.allowed))
        element = PYTHON_TYPES[self.type.element]
        object.__setattr__(self, "_exact", None if self.type.is_list else element)
        object.__setattr__(self, "_element", element if self.type.is_list else None)
        ranged = self.min is not None or self.max is not None or bool(self.allowed)
        object.__setattr__(self, "_free", element is not int and not ranged)

    @property
    def has_default(self) -> bool:
        """Whether a value is filled in where none is given."""
        return self.default is not None

    @property
    def is_dtype(self) -> bool:
        """Whether the values are canonical dtype names."""
        return (
            self.type is AttrType.STRING
            and bool(self.allowed)
            and _DTYPE_NAMES.issuperset(self.allowed)
        )

    @property
    def type_name(self) -> str:
        """The type as Python writes it: ``"int"``, ``"list[float]"``, ``"block"``."""
        return self.type.type_name

    def describe_range(self) -> str:
        """Return ``"(0, inf)"``, ``"one of 'none', 'tanh'"``, or ``""`` where any value will do."""
        if self.allowed:
            return "one of " + ", ".join(repr(value) for value in self.allowed)
        if self.min is None and self.max is None:
            return ""
        low = "-inf" if self.min is None else format_number(self.min)
        high = "inf" if self.max is None else format_number(self.max)
        opened = "(" if self.min is None or self.min_exclusive else "["
        closed = ")" if self.max is None or self.max_exclusive else "]"
        return f"{opened}{low}, {high}{closed}"

    def check(self, op_type: str, value: Any) -> AttrValue:
        """Return `value` as exactly the plain Python type that the attribute declares.

        NumPy numbers are converted, an int is taken for a float, lists become tuples, a number
        alone is taken for a list of it, and a dtype attribute takes what NumPy takes for a dtype.

        Raises
        ------
        AttributeTypeError
            Where the value has another type; a bool is no int, and an int no bool.
        AttributeValueError
            Where the value, or an element of a list, is outside the range or not allowed.
        """
        if type(value) is self._exact and (self._free or self._admits(value)):
            return value  # type: ignore[no-any-return]
        if self._element is not None and type(value) in (list, tuple) and self._admits_all(value):
            return tuple(value)
        return self._check_closely(op_type, value)

    def _admits_all(self, elements: Sequence[Any]) -> bool:
        """Tell whether the elements of a list need no conversion and are in range."""
        if any(kind is not self._element for kind in set(map(type, elements))):
            return False
        if self._element is int and elements and not self.allowed:
            elements = (min(elements), max(elements))
        return self._free or all(map(self._admits, set(elements)))

    def _admits(self, element: Any) -> bool:
        """Tell whether one element is in range; nan is in no range."""
        if self.allowed:
            return element in self.allowed
        low, high = self.min, self.max
        if low is not None and not (element > low if self.min_exclusive else element >= low):
            return False
        if high is not None and not (element < high if self.max_exclusive else element <= high):
            return False
        return type(element) is not int or INT_MIN <= element <= INT_MAX

    def _check_closely(self, op_type: str, value: object) -> AttrValue:
        if self.is_dtype and not isinstance(value, str) and value is not None:
            with contextlib.suppress(DtypeError):  # _fail_type names the attribute
                value = canonical_dtype(value)
        converted = convert_value(self.type, value, self.length)
        if converted is None:
            self._fail_type(op_type, value)
        for element in converted if self.type.is_list else (converted,):
            if not self._admits(element):
                self._fail_range(op_type, element, converted)
        return converted  # type: ignore[no-any-return]

    def _fail_type(self, op_type: str, value: object) -> NoReturn:
        advice = ""
        if self.type is AttrType.BOOL and isinstance(value, int):
            advice = "; write True or False"
        elif self.type.is_list and self.type.element is not AttrType.STRING:
            advice = f"; write a list such as {_EXAMPLES[self.type]}"
        raise AttributeTypeError(
            f"{op_type}: {self.name} must be {describe_type(self.type)}, "
            f"got {self.name}={value!r}{advice}"
        )

    def _fail_range(self, op_type: str, element: object, value: object) -> NoReturn:
        span = self.describe_range() or f"in [{INT_MIN}, {INT_MAX}]"
        if not self.allowed and self.describe_range():
            span = f"in {span}"
        whose = f"every element of {self.name}" if self.type.is_list else self.name
        nearest = hint(element, self.allowed) if isinstance(element, str) else ""
        advice = nearest if nearest.startswith("; did") else ""
        raise AttributeValueError(
            f"{op_type}: {whose} must be {span}, got {self.name}={value!r}{advice}"
        )


_EXAMPLES = {AttrType.INTS: "[1, 2]", AttrType.FLOATS: "[0.5, 1.0]", AttrType.BOOLS: "[True]"}


@dataclass(frozen=True, slots=True)
class VarProto:
    """One slot of an operator: which variables it takes or gives.

    Attributes
    ----------
    name, comment : str
        The name, and what the reader should know of its shape and dtype.
    duplicable : bool
        Whether it takes a list of one or more variables.
    optional : bool
        Whether it may be absent.
    intermediate : bool
        An output that only the gradient needs.
    shape_only : bool
        An input of which the kernel reads the shape, never the data, so that its buffer may be
        freed. Its dtype is known as any other's.
    dtypes : tuple of str
        The dtypes that it may have; empty: any.
    same_as : str or None
        The input slot, or the dtype attribute, whose dtype it has; every variable of a duplicable
        slot that names itself has the dtype of the first.
    aliases : str or None
        Of an output: the input slot that must be given the same variable.
    """

    name: str
    comment: str
    duplicable: bool = False
    optional: bool = False
    intermediate: bool = False
    shape_only: bool = False
    dtypes: tuple[str, ...] = ()
    same_as: str | None = None
    aliases: str | None = None


@dataclass(frozen=True, slots=True)
class OpProto:
    """One operator seen from outside; the order of slots is the order in which kernels get them.

    Attributes
    ----------
    type, comment : str
        The operator type, and a paragraph for the documentation, with the formula.
    inputs, outputs : tuple of VarProto
        The slots.
    attrs : tuple of AttrProto
        The attributes, which share one name space with the slots.
    version : int
        Raised when programs that were saved with an older one need an upgrade.
    dispatch : str or None
        The input slot or dtype attribute whose dtype selects the kernel; None: see `dispatch_slot`.
    dynamic_output : bool
        Whether the shapes of outputs depend on values, so that the kernel resizes them.
    dispatch_slot : str
        `dispatch`, or where that is None the first required input, or else the first dtype
        attribute; empty where there is none of these.
    input_slots, output_slots : dict of str to VarProto
        The slots by name, in order.
    attr_protos : dict of str to AttrProto
        The attributes by name, in order.
    has_blocks : bool
        Whether an attribute is a block.
    """

    type: str
    comment: str
    inputs: tuple[VarProto, ...] = ()
    outputs: tuple[VarProto, ...] = ()
    attrs: tuple[AttrProto, ...] = ()
    version: int = 1
    dispatch: str | None = None
    dynamic_output: bool = False
    input_slots: Mapping[str, VarProto] = _derived()
    output_slots: Mapping[str, VarProto] = _derived()
    attr_protos: Mapping[str, AttrProto] = _derived()
    has_blocks: bool = _derived()
    dispatch_slot: str = _derived()
    # Name, attribute, default and whether it is required, for `fill_attrs`.
    _filling: tuple[tuple[str, AttrProto, AttrValue | None, bool], ...] = _derived()

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs", "attrs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "input_slots", {slot.name: slot for slot in self.inputs})
        object.__setattr__(self, "output_slots", {slot.name: slot for slot in self.outputs})
        object.__setattr__(self, "attr_protos", {attr.name: attr for attr in self.attrs})
        blocks = any(attr.type is AttrType.BLOCK for attr in self.attrs)
        object.__setattr__(self, "has_blocks", blocks)
        object.__setattr__(self, "dispatch_slot", self.dispatch or self._first_dispatch())
        filling = tuple((a.name, a, a.default, a.required) for a in self.attrs)
        object.__setattr__(self, "_filling", filling)

    def _first_dispatch(self) -> str:
        for slot in self.inputs:
            if not slot.optional:
                return slot.name
        return next((attr.name for attr in self.attrs if attr.is_dtype), "")

    def input(self, name: str) -> VarProto:
        """Return an input slot by name; SlotError names the nearest where there is none."""
        return _get(self.input_slots, self.type, name, "input", "inputs")

    def output(self, name: str) -> VarProto:
        """Return an output slot by name; SlotError names the nearest where there is none."""
        return _get(self.output_slots, self.type, name, "output", "outputs")

    def attr(self, name: str) -> AttrProto:
        """Return an attribute by name; AttributeValueError names the nearest."""
        self._check_known((name,))
        return self.attr_protos[name]

    def fill_attrs(self, attrs: Mapping[str, object]) -> dict[str, AttrValue]:
        """Return the complete attributes of one operator: checked, with defaults, in order.

        Parameters
        ----------
        attrs : mapping
            What was given. None stands for not given.

        Returns
        -------
        dict
            Plain Python values in the order of the OpProto; absent attributes are not in it.

        Raises
        ------
        AttributeTypeError, AttributeValueError
            For a value of another type; for an unknown name, a missing required attribute and a
            value out of range.
        """
        filled: dict[str, AttrValue] = {}
        n_known = 0
        for name, attr, default, required in self._filling:
            if name in attrs:
                n_known += 1
                value = attrs[name]
                if value is not None:
                    filled[name] = attr.check(self.type, value)
                    continue
            if default is not None:
                filled[name] = default
            elif required:
                self._fail_required(attr, attrs)
        if n_known != len(attrs):
            self._check_known(attrs)
        return filled

    def _fail_required(self, attr: AttrProto, attrs: Mapping[str, object]) -> NoReturn:
        self._check_known(attrs)  # it may be given by another name
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
        from opwright.describe.wire import op_proto_to_message  # imports protobuf, 11 ms

        return op_proto_to_message(self)

    @staticmethod
    def from_proto(message: Any) -> OpProto:
        """Return the OpProto of a protobuf message, or of its bytes, checked by all rules.

        Raises
        ------
        FormatError
            Where the bytes are foreign, or a value does not have the type of its attribute.
        RegistrationError
            Where the operator breaks a rule for operators.
        """
        from opwright.describe.proto_rules import check_op_proto
        from opwright.describe.wire import read_op_proto

        proto = read_op_proto(message, OpProto, VarProto, AttrProto)
        check_op_proto(proto)
        return proto


_Item = TypeVar("_Item")


def _get(items: Mapping[str, _Item], op_type: str, name: str, what: str, plural: str) -> _Item:
    item = items.get(name)
    if item is None:
        near = hint_argument(str(name), items, plural)
        raise SlotError(f"{op_type}: unknown {what}, got {name!r}{near}")
    return item
