"""The attributes of an operator, as immutable plain objects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NoReturn, Self

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
from opwright.errors import AttributeTypeError, AttributeValueError, DtypeError
from opwright.messages.names import hint


class ProtoValue:
    """An immutable object that is compared, hashed and copied by its `_fields`.

    The fields are in the order of the arguments of ``__init__``. A frozen dataclass with slots
    would be equivalent, but takes half a millisecond to define.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]]

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}: cannot assign to {name!r}; make a new one")

    def _key(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._fields])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProtoValue)
            and type(self) is type(other)
            and self._key() == other._key()
        )

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        fields = zip(self._fields, self._key(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def replace(self, **changes: object) -> Self:
        """Return a copy with different values for some fields."""
        return type(self)(**{**dict(zip(self._fields, self._key(), strict=True)), **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._key()


class AttrProto(ProtoValue):
    """One attribute of an operator: its type, default and range.

    Attributes
    ----------
    name, comment : str
        The name, and a sentence for the documentation.
    type : AttrType
        An INT has 64 bits, a FLOAT is a double, and the value of a BLOCK is the index of a block.
    default : AttrValue or None
        The value that is used if none is given; None if there is no default.
    min, max : int, float or None
        Bounds of the value, or of each element of a list.
    min_exclusive, max_exclusive : bool
        Whether the bound itself is excluded.
    allowed : tuple
        The allowed values, or elements; empty if any value is allowed.
    required : bool
        Whether a value must be given. An attribute that is neither required nor has a default may
        be absent; its value is None then.
    length : int
        For a list of numbers or bools, the number of times that a single value is repeated.
    operand : bool
        Whether variables may replace numbers (`opwright.describe.operands`).
    added : bool
        Whether kernels may predate the attribute, see `OpMaker.as_added`.
    """

    name: str
    comment: str
    type: AttrType
    default: AttrValue | None
    min: int | float | None
    max: int | float | None
    min_exclusive: bool
    max_exclusive: bool
    allowed: tuple[Any, ...]
    required: bool
    length: int
    operand: bool
    added: bool
    # The scalar or element type, and whether any value is allowed, for the fast path of `check`.
    _exact: object
    _element: object
    _free: bool
    _fields = (
        *("name", "comment", "type", "default", "min", "max", "min_exclusive", "max_exclusive"),
        *("allowed", "required", "length", "operand", "added"),
    )
    __slots__ = (*_fields, "_element", "_exact", "_free")

    def __init__(
        self,
        name: str,
        comment: str,
        type: AttrType,
        default: AttrValue | None = None,
        min: int | float | None = None,
        max: int | float | None = None,
        min_exclusive: bool = False,
        max_exclusive: bool = False,
        allowed: Iterable[Any] = (),
        required: bool = False,
        length: int = 1,
        operand: bool = False,
        added: bool = False,
    ) -> None:
        element = PYTHON_TYPES[type.element]
        self._set(
            name=name,
            comment=comment,
            type=type,
            default=_convert(type, default),
            min=_convert(type.element, min),
            max=_convert(type.element, max),
            min_exclusive=min_exclusive,
            max_exclusive=max_exclusive,
            allowed=tuple([_convert(type.element, value) for value in allowed]),
            required=required,
            length=length,
            operand=operand,
            added=added,
            _exact=None if type.is_list else element,
            _element=element if type.is_list else None,
        )
        ranged = min is not None or max is not None or bool(self.allowed)
        self._set(_free=element is not int and not ranged)

    @property
    def has_default(self) -> bool:
        """Whether a default is filled in for a missing value."""
        return self.default is not None

    @property
    def is_dtype(self) -> bool:
        """Whether the values are canonical dtype names."""
        is_limited = self.type is AttrType.STRING and bool(self.allowed)
        return is_limited and all(value in DTYPES for value in self.allowed)

    @property
    def type_name(self) -> str:
        """The type in Python's notation: ``"int"``, ``"list[float]"``, ``"block"``."""
        return self.type.type_name

    def describe_range(self) -> str:
        """Return ``"(0, inf)"``, ``"one of 'none', 'tanh'"``, or ``""`` if any value is allowed."""
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

        NumPy numbers are converted, an int is accepted as a float, lists become tuples, a single
        number becomes a list, and a dtype attribute accepts all that NumPy accepts as a dtype.

        Raises
        ------
        AttributeTypeError
            If the value has a different type; a bool is not an int, and an int is not a bool.
        AttributeValueError
            If the value, or an element of a list, is outside the range or not allowed.
        """
        if type(value) is self._exact and (self._free or self._admits(value)):
            return value  # type: ignore[no-any-return]
        if self._element is not None and type(value) in (list, tuple) and self._admits_all(value):
            return tuple(value)
        return self._check_closely(op_type, value)

    def _admits_all(self, elements: Sequence[Any]) -> bool:
        """Whether all elements of a list are in range and have the exact type."""
        if elements and set(map(type, elements)) != {self._element}:
            return False
        if self._element is int and elements and not self.allowed:
            elements = (min(elements), max(elements))
        return self._free or all(map(self._admits, set(elements)))

    def _admits(self, element: Any) -> bool:
        """Whether one element is in range; nan never is."""
        if self.allowed:
            return element in self.allowed
        low, high = self.min, self.max
        if low is not None and not (element > low if self.min_exclusive else element >= low):
            return False
        if high is not None and not (element < high if self.max_exclusive else element <= high):
            return False
        if type(element) is not int or self.type.element is AttrType.FLOAT:
            return True
        return INT_MIN <= element <= INT_MAX

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
            example = [each for each in self._examples() if self._admits(each)][:2]
            advice = f"; write a list such as {example}" if example else ""
        raise AttributeTypeError(
            f"{op_type}: {self.name} must be {describe_type(self.type)}, "
            f"got {self.name}={value!r}{advice}"
        )

    def _examples(self) -> Iterable[Any]:
        """Return example elements; the rule may not allow all of them."""
        bounds = tuple(bound for bound in (self.min, self.max) if bound is not None)
        return self.allowed or (*_EXAMPLES[self.type], *bounds)

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


def _convert(type: AttrType, value: Any) -> Any:
    """Convert a value to its exact type, or return it unchanged so that rules refuse it."""
    converted = convert_value(type, value)
    return value if converted is None else converted


_EXAMPLES = {AttrType.INTS: (1, 2), AttrType.FLOATS: (0.5, 1.0), AttrType.BOOLS: (True,)}
